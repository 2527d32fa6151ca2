"""How many scheduler tags a bio's request may use: those who wait for nobody leave room for those who do.

Reads may use all tags, synchronous writes three quarters, asynchronous requests half; less while raised queues are
busy, so that these find tags, and the device is not full of others' writes. And a process that has as many requests as
its share of what it may use (by weight, on each level of groups) gets one bit of each word of the bitmap: it cannot
take the tags that the others need to be served as they are due.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import cython

if TYPE_CHECKING:
    from blklab.block.sbitmap import SbitmapQueue
    from blklab.elevator.bfq.bfqq import BfqQueue
    from blklab.elevator.bfq.data import BfqData

if not cython.compiled:
    from blklab.elevator.bfq.params import NR_LEVELS


class Depths:
    """The shares of one device's tags, as bits of each word of their bitmap."""

    def __init__(self, bfqd: BfqData) -> None:
        self.bfqd = bfqd
        self.shift = 0
        self.asynchronous = 1
        self.sync_write = 1
        self.asynchronous_raised = 1
        self.sync_write_raised = 1

    def updated(self, bitmap: SbitmapQueue) -> None:
        """The bitmap is another one, or of another size."""
        depth = 1 << bitmap.shift
        self.shift = bitmap.shift
        self.asynchronous = max(depth >> 1, 1)
        self.sync_write = max((depth * 3) >> 2, 1)
        self.asynchronous_raised = max((depth * 3) >> 4, 1)
        self.sync_write_raised = max((depth * 6) >> 4, 1)
        bitmap.set_min_shallow_depth(1)

    def of_kind(self, sync: bool) -> int:
        """Bits of a word for all but reads."""
        if self.bfqd.wr_busy_queues:
            return self.sync_write_raised if sync else self.asynchronous_raised
        return self.sync_write if sync else self.asynchronous

    def is_over(self, bfqq: BfqQueue, limit: int) -> bool:
        """Whether a queue, or a group it is in, has its share of `limit` requests: from the root down to the queue."""
        if not bfqq.on_st_or_in_serv:
            return False
        path = []
        entity = bfqq.parent
        while entity is not None:
            if not entity.on_st_or_in_serv:
                return False
            path.append(entity)
            entity = entity.parent
        for level in range(len(path), 0, -1):
            entity = path[level - 1]
            wsum = self.bfqd.entity_service_tree(entity).wsum
            if wsum:
                limit = (limit * entity.weight + wsum // 2) // wsum
                if entity.allocated >= limit:
                    return self._over(bfqq, entity.allocated, limit, level)
        wsum = self._wsum(bfqq)
        if wsum == 0:
            return False
        limit = (limit * bfqq.weight + wsum // 2) // wsum
        return bfqq.allocated >= limit and self._over(bfqq, bfqq.allocated, limit, 0)

    def _wsum(self, bfqq: BfqQueue) -> int:
        # The weight of a class above its own counts eight times
        sched_data = bfqq.sched_data
        wsum = 0
        for class_idx in range(bfqq.ioprio_class):
            wsum = wsum * NR_LEVELS + sched_data.tree_of_class(class_idx).wsum
        return wsum

    def _over(self, bfqq: BfqQueue, allocated: int, limit: int, level: int) -> bool:
        if self.bfqd.logging:
            self.bfqd.log_queue(bfqq, f"too many requests: allocated {allocated} limit {limit} level {level}")
        return True
