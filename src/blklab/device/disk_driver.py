"""What a disk behind a SCSI host is to the block layer: a budget of its queue depth, and queues that are run
when one of it comes back. `hdd` and `array` are such drivers.

Theory of operation
-------------------
As device/scsi.py: a request needs one of `queue_depth` budgets before
the scheduler is asked for it; who got none is counted in `restarts`, and the next completion runs the queue.
libata and SAS hosts alike are SCSI hosts to Linux.

Deliberate differences: the host has as many tags as its one disk, so nothing is shared with other disks;
there are no targets, and nothing but the depth makes the disk BUSY.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import cython

from blklab.block.attributes import Attribute, number
from blklab.block.driver import Driver

if TYPE_CHECKING:
    from typing import Any

    from blklab.block.models import Settings
    from blklab.block.queue import RequestQueue
    from blklab.block.request import Request
    from blklab.core.host import Host

if not cython.compiled:
    from blklab.block.consts import STS_OK
    from blklab.core.charging import charge
    from blklab.core.steps import STEP_SCSI_DONE

QUEUE_DELAY_NS = 3_000_000  # SCSI_QUEUE_DELAY


class DiskDriver(Driver):
    """Base of drivers with `settings["queue_depth"]`. `busy`: requests that have a budget."""

    def __init__(self, settings: Settings, host: Host) -> None:
        Driver.__init__(self)
        self.has_budget = True
        self.settings = settings
        self.host = host
        self.clock = host.clock
        self.queue_depth = settings["queue_depth"]
        self.busy = 0
        self.restarts = 0

    def disk_done(self, cmd: Any) -> int:
        """A disk has done this command (`disk_unit.DiskCommand`)."""
        raise NotImplementedError

    def get_budget(self, queue: RequestQueue) -> int:
        """scsi_mq_get_budget."""
        if self.busy < self.queue_depth:
            self.busy += 1
            return 0
        self.restarts += 1
        if self.busy == 0:
            queue.run_all_delayed(QUEUE_DELAY_NS)
        return -1

    def put_budget(self, queue: RequestQueue, token: int) -> int:
        """scsi_mq_put_budget."""
        self.busy -= 1
        return 0

    def end(self, rq: Request) -> int:
        """scsi_end_request: the budget is given back first, and the queue is run for it last."""
        queue = rq.queue
        charge(self.host, STEP_SCSI_DONE)
        rq.budget_token = -1
        self.busy -= 1
        queue.end_request(rq, rq.status)
        if self.restarts:
            self.restarts = 0
            queue.run_all()
        return 0

    def timeout(self, rq: Request) -> int:
        """The command is still being served: give it more time."""
        return STS_OK

    def attributes(self, queue: RequestQueue) -> list[Attribute]:
        """What stands in the disk's device folder."""
        return [
            Attribute(
                "device/queue_depth",
                "commands of the disk in flight, its budget",
                lambda disk: int(disk.queue_depth),
                lambda disk, text: disk.set_queue_depth(text),
            )
        ]

    def set_queue_depth(self, text: str) -> None:
        """sdev_store_queue_depth. Raises AttributeRefused below 1 or above what the host takes."""
        self.queue_depth = number(text, 1, self.settings["queue_depth"])
