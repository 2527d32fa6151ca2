"""A group of queues as the policy sees it: the queues its processes share, and where its queues' next requests lie.

`BfqGroup` is a `Group` of the tree with its asynchronous queues (one for each priority, shared by all processes of
the group) and the positions at which merging looks for cooperators. With control groups there is one for each of them;
`cgroup.py` makes them.

Deliberate differences: the kernel keeps positions in a red-black tree and looks at the node where the search ended and
one beside it; here they are two sorted lists, and of both neighbours the one before is looked at first. They are as
many as processes that read at once.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

import cython

from blklab.elevator.bfq.entity import DEFAULT_GROUP_WEIGHT, Group

if TYPE_CHECKING:
    from blklab.block.rwstat import RwStat
    from blklab.elevator.bfq.bfqq import BfqQueue

if not cython.compiled:
    from blklab.elevator.bfq.params import CLASS_IDLE, CLASS_RT, CLOSE_THR_SECTORS, NR_LEVELS


class BfqGroup(Group):
    """One group; `parent` None: the root. `online`: queues may come. `bytes` and `ios`: of requests inserted, with
    control groups of version 1 only."""

    def __init__(self, parent: BfqGroup | None = None, weight: int = DEFAULT_GROUP_WEIGHT) -> None:
        Group.__init__(self, parent, weight)
        # Real-time levels, best-effort levels, and the one of the idle class
        self.async_bfqqs: list[BfqQueue | None] = [None] * (2 * NR_LEVELS + 1)
        self.last_bfqq_created: BfqQueue | None = None
        self.online = True
        self.bytes: RwStat | None = None
        self.ios: RwStat | None = None
        self.pos_sectors: list[int] = []
        self.pos_bfqqs: list[BfqQueue] = []

    def async_index(self, ioprio_class: int, ioprio: int) -> int:
        """Where in `async_bfqqs` the queue of a priority is."""
        if ioprio_class == CLASS_RT:
            return ioprio
        if ioprio_class == CLASS_IDLE:
            return 2 * NR_LEVELS
        return NR_LEVELS + ioprio

    # -- where next requests lie ---------------------------------------------------

    def pos_remove(self, bfqq: BfqQueue) -> None:
        """The queue is no candidate for cooperation now."""
        if bfqq.in_pos_tree:
            at = bisect_left(self.pos_sectors, bfqq.pos_sector)
            del self.pos_sectors[at]
            del self.pos_bfqqs[at]
            bfqq.in_pos_tree = False

    def pos_add(self, bfqq: BfqQueue) -> None:
        """Its next request is a place to look; of two queues at one sector the first one stands for both."""
        sector = bfqq.next_rq.sector
        at = bisect_left(self.pos_sectors, sector)
        if at < len(self.pos_sectors) and self.pos_sectors[at] == sector:
            return
        self.pos_sectors.insert(at, sector)
        self.pos_bfqqs.insert(at, bfqq)
        bfqq.pos_sector = sector
        bfqq.in_pos_tree = True

    def find_close(self, sector: int) -> BfqQueue | None:
        """A queue whose next request is at `sector`, or beside it and not far."""
        at = bisect_left(self.pos_sectors, sector)
        if at < len(self.pos_sectors) and self.pos_sectors[at] == sector:
            return self.pos_bfqqs[at]
        if at > 0 and sector - self.pos_sectors[at - 1] <= CLOSE_THR_SECTORS:
            return self.pos_bfqqs[at - 1]
        if at < len(self.pos_sectors) and self.pos_sectors[at] - sector <= CLOSE_THR_SECTORS:
            return self.pos_bfqqs[at]
        return None
