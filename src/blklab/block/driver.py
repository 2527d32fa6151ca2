"""What a driver is to the block layer (struct blk_mq_ops): takes requests, answers later.

A device model subclasses `Driver`. It is sans-I/O: it keeps time with the queue's clock and gives an answer by
`rq.queue.complete(rq, status)`, usually from `rq_done`, which the clock calls because a request is an event:

    class Instant(Driver):
        def queue_rq(self, hctx, rq, last):
            hctx.queue.start_request(rq)
            hctx.queue.clock.at(hctx.queue.clock.now_ns + 1000, rq)
            return STS_OK

Theory of operation
-------------------
`queue_rq` returns STS_OK (taken: the driver completes it exactly once), STS_RESOURCE or STS_DEV_RESOURCE (BUSY: the
block layer keeps it; after DEV_RESOURCE the driver promises that one of its own requests, or `run_queues`, will run
the queue again; after RESOURCE the block layer retries by itself after 3 ms), or an error, which fails the request.

A driver with a limit over all hardware queues sets `has_budget`, and gives a budget before a request is even taken
from the scheduler. `max_active` requests of one queue is the plain form of it; see device/scsi.py.

A stacked device (`stack/`) has no hardware queues: it sets `bio_based` and defines `submit_bio`, which is given every
bio of the device whole (the kernel's block_device_operations.submit_bio) and sends it, or bios it makes of it, on to
other devices with `submitter.submit_noacct`. They are submitted after it has returned, lower devices first.

A driver whose `queue_rq` may sleep sets `blocking` (BLK_MQ_F_BLOCKING): only workers run its hardware queues.

A driver that ends requests in its own interrupt, where others have the block layer take them to the right CPU
(`rq_affinity`) and softirq, sets `ends_in_irq`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import cython

if TYPE_CHECKING:
    from blklab.block.attributes import Attribute
    from blklab.block.bio import Bio
    from blklab.block.hwqueue import HardwareQueue
    from blklab.block.queue import RequestQueue
    from blklab.block.request import Request
    from blklab.block.submit import Submitter

if not cython.compiled:
    from blklab.block.consts import STS_TIMEOUT, UNLIMITED


class Driver:
    """Base of device models. Subclasses define `queue_rq`; everything else has the default of most drivers."""

    def __init__(self) -> None:
        self.has_budget = False
        self.has_commit_rqs = False
        self.ends_in_irq = False
        self.bio_based = False
        self.blocking = False
        self.queues: list[RequestQueue] = []

    def attach(self, queue: RequestQueue) -> None:
        """A queue has been made on this driver: set its limits, keep what you need of it."""
        self.queues.append(queue)

    def submit_bio(self, submitter: Submitter, bio: Bio) -> int:
        """For stacked devices: take `bio`, of which Q has been traced. DONE; or WAIT if the submitter must sleep (it is
        in a wait queue of yours, or your timer wakes it): then the same bio is given again."""
        raise NotImplementedError

    def merge_bvec(self, queue: RequestQueue, sector: int) -> int:
        """How many sectors a bio that begins at `sector` may have, as a device answers to who builds the bio before
        late_bio_split (merge_bvec_fn): a stacked device says where its chunk ends, and asks the member there (a
        merge_bvec step for each device that is asked is charged by who asks it)."""
        return UNLIMITED

    def queue_rq(self, hctx: HardwareQueue, rq: Request, last: bool) -> int:
        """Take `rq`: call `hctx.queue.start_request(rq)` (D) and serve it, or say BUSY before or after that, as drivers
        do. `last`: no other follows at once. Returns a status."""
        raise NotImplementedError

    def commit_rqs(self, hctx: HardwareQueue) -> int:
        """The `last` that was announced will not come."""
        return 0

    def rq_done(self, rq: Request) -> int:
        """The clock reached the time that `queue_rq` asked for."""
        rq.queue.complete(rq, rq.status)
        return 0

    def end(self, rq: Request) -> int:
        """In interrupt or softirq context on the completing CPU: end the request (mq_ops->complete)."""
        rq.queue.end_request(rq, rq.status)
        return 0

    def get_budget(self, queue: RequestQueue) -> int:
        """A token >= 0 for one request of `queue`, or -1."""
        return 0

    def put_budget(self, queue: RequestQueue, token: int) -> int:
        """The token is not needed after all, or its request has completed."""
        return 0

    def timeout(self, rq: Request) -> int:
        """`rq` took longer than io_timeout. Return a status to fail it with (the driver must not complete it any more),
        or STS_OK to give it the same time again."""
        return STS_TIMEOUT

    def irq_cpu(self, rq: Request) -> int:
        """The CPU that the device's interrupt for `rq` arrives at: here the one that issued it."""
        return rq.cpu

    def map_queues(self, nr_hw_queues: int, nr_cpus: int) -> list[int]:
        """The hardware queue of each CPU: in turn (blk_mq_map_queues on CPUs without threads)."""
        return [cpu % nr_hw_queues for cpu in range(nr_cpus)]

    def attributes(self, queue: RequestQueue) -> list[Attribute]:
        """Attributes of the device itself (device/queue_depth, ...)."""
        return []
