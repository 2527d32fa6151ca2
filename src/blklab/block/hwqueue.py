"""blk_mq_hw_ctx: a hardware queue, its dispatch list, its tags, and how busy its driver has been.

What is here is state and small decisions; running a hardware queue is `dispatch.py`, read from top to bottom.

Theory of operation
-------------------
`dispatch_busy` is a moving average in integer arithmetic, weight 8 and factor 16: always busy from 0 gives
2,3,4,5,6,7,8,9,9,... and eight dispatches without BUSY clear it from there. It decides three things: issue directly or
insert; take requests from software queues one by one or all at once; how many a scheduler may give out at once.

`ctx_pending` has a bit for each software queue that holds something, so that a run looks only at those.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

import cython

from blklab.block.flush import FlushQueue
from blklab.block.request import Request, RequestList
from blklab.block.sbitmap import Waiter
from blklab.block.tags import TagUser
from blklab.core.host import Lock

if TYPE_CHECKING:
    from blklab.block.bio import Bio
    from blklab.block.dispatch import RunWork
    from blklab.block.queue import RequestQueue
    from blklab.block.submit import Submitter
    from blklab.block.swqueue import SoftwareQueue
    from blklab.block.tags import Tags

if not cython.compiled:
    from blklab.block.consts import (
        BUSY_FACTOR,
        BUSY_WEIGHT,
        F_FUA,
        F_PREFLUSH,
        HOOK_FINISH,
        HOOK_LIMIT_DEPTH,
        HOOK_PREPARE,
        RQ_GOT,
        RQF_ELV,
        RQF_ELVPRIV,
        RQF_HW_TAG,
        RQF_IO_STAT,
        RQF_MQ_INFLIGHT,
        STS_OK,
        WORK_BATCH,
    )
    from blklab.block.tags import may_queue
    from blklab.core.bits import bit64, ffs64, not64
    from blklab.core.charging import charge
    from blklab.core.steps import STEP_RQ_INIT, STEP_SCHED_TAG_GET, STEP_TAG_GET


class DispatchWait(Waiter):
    """A hardware queue that waits for a driver tag of a shared set; being woken runs the queue."""

    def __init__(self, hctx: HardwareQueue) -> None:
        super().__init__()
        self.hctx = hctx
        self.exclusive = False

    def wake(self) -> int:
        """A tag came back."""
        self.hctx.queue.run_async(self.hctx)
        return 0


class HardwareQueue:
    """Hardware queue `index` of `queue`. `driver_data` and `sched_data` belong to the driver and the scheduler."""

    def __init__(self, queue: RequestQueue, index: int, tags: Tags, user: TagUser) -> None:
        self.queue = queue
        self.index = index
        self.tags = tags
        self.sched_tags: Tags | None = None
        self.user = user
        self.driver_rqs: list[Request | None] = [None] * tags.nr_tags
        self.sched_rqs: list[Request | None] = []
        self.cpus: list[int] = []
        self.ctxs: list[SoftwareQueue] = []
        self.nr_ctx = 0
        self.ctx_pending = array("Q", [0])
        self.nr_pending = 0
        self.dispatch_list = RequestList()
        self.dispatch_from = 0
        self.dispatch_busy = 0
        self.dispatch_wait = DispatchWait(self)
        self.restart = False
        self.tag_queue_shared = False
        self.wait_index = 0
        self.next_cpu = 0
        self.next_cpu_batch = WORK_BATCH
        self.run_count = 0
        self.queued_count = 0
        self.dispatched_count = 0
        self.lock = Lock(f"hctx{index}")
        self.driver_data: object = None
        self.sched_data: object = None
        self.work: RunWork | None = None
        self.fq: FlushQueue | None = None

    def add_ctx(self, ctx: SoftwareQueue) -> None:
        """Map a CPU's software queue here."""
        ctx.index_hw = self.nr_ctx
        self.cpus.append(ctx.cpu)
        self.ctxs.append(ctx)
        self.nr_ctx = len(self.ctxs)
        self.ctx_pending = array("Q", [0] * ((self.nr_ctx + 63) // 64))
        self.next_cpu = self.cpus[0]

    # -- software queues ---------------------------------------------------

    def mark_pending(self, ctx: SoftwareQueue) -> None:
        """The software queue holds something."""
        index = ctx.index_hw
        bit = bit64(index & 63)
        if not self.ctx_pending[index >> 6] & bit:
            self.ctx_pending[index >> 6] |= bit
            self.nr_pending += 1

    def clear_pending(self, ctx: SoftwareQueue) -> None:
        """The software queue holds nothing any more."""
        index = ctx.index_hw
        bit = bit64(index & 63)
        if self.ctx_pending[index >> 6] & bit:
            self.ctx_pending[index >> 6] &= not64(bit)
            self.nr_pending -= 1

    def next_pending(self, start: int) -> int:
        """The first software queue at or behind position `start`, around the end, that holds something; -1: none."""
        if self.nr_pending == 0:
            return -1
        words = (self.nr_ctx + 63) >> 6
        index = start >> 6
        word = self.ctx_pending[index] & not64(bit64(start & 63) - 1)
        for _ in range(words + 1):
            if word:
                return (index << 6) + ffs64(word)
            index += 1
            if index == words:
                index = 0
            word = self.ctx_pending[index]
        return -1

    def has_pending(self) -> bool:
        """Whether running the queue could find something (blk_mq_hctx_has_pending)."""
        if self.queue.legacy is not None:
            # What ends now runs the queue itself
            return not self.queue.legacy.is_empty() and not self.queue.legacy.request_fn.completing
        if self.dispatch_list.count or self.nr_pending:
            return True
        elevator = self.queue.elevator
        return elevator is not None and elevator.has_work(self)

    # -- how busy the driver is --------------------------------------------

    def update_busy(self, busy: bool) -> None:
        """One more dispatch: did it meet BUSY?"""
        queue = self.queue
        if not queue.features.dispatch_busy:
            return
        if queue.elevator is not None and not queue.features.dispatch_busy_with_elevator:
            return
        average = self.dispatch_busy
        if average or busy:
            average *= BUSY_WEIGHT - 1
            if busy:
                average += BUSY_FACTOR
            self.dispatch_busy = average // BUSY_WEIGHT

    # -- requests -----------------------------------------------------------

    def limit_depth(self, bio: Bio) -> int:
        """How many bits of each word of the scheduler tags a request for `bio` may use; 0: all. Asked once, also if the
        task then has to wait."""
        queue = self.queue
        if (
            queue.elevator_hooks & HOOK_LIMIT_DEPTH
            and not queue.hw_tag
            and (not bio.flags & (F_PREFLUSH | F_FUA) or queue.features.flush_data_scheduled)
        ):
            return queue.elevator.limit_depth(bio)
        return 0

    def get_request(self, bio: Bio, cpu: int, depth: int) -> Request | None:
        """One with a scheduler tag, or a driver tag where there is no scheduler or it uses those. None: no tag.
        `depth`: what `limit_depth` said."""
        queue = self.queue
        if queue.elevator is not None and not queue.hw_tag:
            tags = self.sched_tags
            tag = tags.bitmap.get_shallow(cpu, depth) if depth else tags.bitmap.get(cpu)
            if tag < 0:
                return None
            charge(queue.host, STEP_SCHED_TAG_GET)
            return self._init_request(bio, cpu, -1, tag + tags.nr_reserved)
        tags = self.tags
        if self.tag_queue_shared:
            self.tag_busy()
            if not may_queue(self.user, tags):
                return None
        tag = tags.bitmap.get(cpu)
        if tag < 0:
            return None
        charge(queue.host, STEP_TAG_GET)
        return self._init_request(bio, cpu, tag + tags.nr_reserved, -1)

    def get_request_batch(self, bio: Bio, cpu: int, wanted: int, cached: RequestList) -> bool:
        """io_uring: up to `wanted` requests at once into a plug's cache, if their tags are free now and not limited."""
        if self.tag_queue_shared or self.limit_depth(bio):
            return False
        while wanted > 0:
            rq = self.get_request(bio, cpu, 0)
            if rq is None:
                break
            cached.append(rq)
            wanted -= 1
        return cached.count > 0

    def _init_request(self, bio: Bio, cpu: int, tag: int, internal_tag: int) -> Request:
        # blk_mq_rq_ctx_init
        queue = self.queue
        rq = queue.free_rqs
        if rq is None:
            rq = Request(queue)
        else:
            queue.free_rqs = rq.next
            rq.next = None
        if internal_tag < 0:
            self.driver_rqs[tag] = rq
        else:
            self.sched_rqs[internal_tag] = rq
        rq.tag = tag
        rq.internal_tag = internal_tag
        rq.hctx = self
        rq.ctx = queue.ctxs[cpu]
        rq.submitter = bio.submitter
        rq.op = bio.op
        rq.flags = bio.flags
        rq.budget_token = -1
        rq.status = STS_OK
        rq.start_ns = queue.clock.now_ns
        rq.io_start_ns = 0
        rq.rq_flags = RQF_IO_STAT if queue.iostats else 0
        if queue.checks:
            rq.move(RQ_GOT)
        else:
            rq.state = RQ_GOT
        queue.usage += 1
        charge(queue.host, STEP_RQ_INIT)
        if queue.elevator is not None:
            rq.rq_flags |= RQF_ELV
            if queue.hw_tag:
                rq.rq_flags |= RQF_HW_TAG
            if queue.elevator_hooks & (HOOK_PREPARE | HOOK_FINISH) and (
                not bio.flags & (F_PREFLUSH | F_FUA) or queue.features.flush_data_scheduled
            ):
                queue.elevator.prepare_request(rq)
                rq.rq_flags |= RQF_ELVPRIV
        return rq

    def wait_for_tag(self, submitter: Submitter) -> Tags:
        """Queue a task for a tag of the kind it needs; returns what it waits for."""
        queue = self.queue
        tags = self.tags if queue.elevator is None or queue.hw_tag else self.sched_tags
        tags.bitmap.wait(submitter, submitter.wait_index)
        return tags

    # -- driver tags -------------------------------------------------------

    def tag_busy(self) -> None:
        """This queue asks for driver tags of a shared set: it counts as active from now on."""
        if self.tag_queue_shared and not self.user.active:
            self.user.active = True
            self.tags.activate()

    def tag_idle(self) -> int:
        """Nothing is in flight: leave the share to others."""
        if self.user.active:
            self.user.active = False
            return self.tags.deactivate()
        return 0

    def get_driver_tag(self, rq: Request) -> bool:
        """blk_mq_get_driver_tag: whether `rq` has one now."""
        if rq.tag < 0:
            self.tag_busy()
            if self.tag_queue_shared and not may_queue(self.user, self.tags):
                return False
            tag = self.tags.bitmap.get(self.queue.host.cpu)
            if tag < 0:
                return False
            charge(self.queue.host, STEP_TAG_GET)
            rq.tag = tag + self.tags.nr_reserved
        if self.tag_queue_shared and not rq.rq_flags & RQF_MQ_INFLIGHT:
            rq.rq_flags |= RQF_MQ_INFLIGHT
            self.user.nr_active += 1
        return True

    def put_driver_tag(self, rq: Request) -> int:
        """Give the driver tag back before completion; only a request with a scheduler tag can do without one."""
        if rq.tag < 0 or rq.internal_tag < 0:
            return 0
        tag = rq.tag
        rq.tag = -1
        if rq.rq_flags & RQF_MQ_INFLIGHT:
            rq.rq_flags &= ~RQF_MQ_INFLIGHT
            self.user.nr_active -= 1
        return self.tags.put(tag, rq.ctx.cpu)

    def insert_flush(self, rq: Request, submitter: Submitter) -> int:
        """A request made for a bio with PREFLUSH or FUA goes to the flush machine of this queue. 0: it goes on."""
        if self.fq is None:
            self.fq = FlushQueue(self)
        return self.fq.insert(rq, submitter)

    def next_wait_index(self) -> int:
        """The wait queue for the next waiter: all eight in turn (bt_wait_ptr)."""
        index = self.wait_index
        self.wait_index = (index + 1) & 7
        return index

    def next_work_cpu(self) -> int:
        """The CPU whose worker runs this queue next; -1: the present one (blk_mq_hctx_next_cpu)."""
        if self.queue.nr_hw_queues == 1:
            return -1
        self.next_cpu_batch -= 1
        if self.next_cpu_batch <= 0:
            at = self.cpus.index(self.next_cpu) + 1
            self.next_cpu = self.cpus[at if at < len(self.cpus) else 0]
            self.next_cpu_batch = WORK_BATCH
        return self.next_cpu
