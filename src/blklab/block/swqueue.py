"""blk_mq_ctx: the requests that one CPU has staged without a scheduler, for each hardware queue it submits to.

A request is appended here when it cannot be issued at once; it leaves in order, all at once or one by one, when its
hardware queue is run. New bios of the same CPU may merge with the last eight requests.
"""

from __future__ import annotations

from blklab.block.request import RequestList
from blklab.core.host import Lock


class SoftwareQueue:
    """The software queue of `cpu`. `index_hw`: its position among the software queues of its hardware queue."""

    def __init__(self, cpu: int) -> None:
        self.cpu = cpu
        self.index_hw = 0
        self.rq_list = RequestList()
        self.lock = Lock(f"ctx{cpu}")
