"""Processes that read one file together: their queues are found by position, merged, and split again.

Theory of operation
-------------------
`positions` has, for each level of priority, the queues by the sector
of their next request; of two at one sector only the first is there. When the queue in service has nothing
left, a queue whose next request is near to the head takes over at once, and the two are to be merged: into
the one that more processes use, when the next request of each process of the other one is allocated. A merged
queue (`coop`) that has become seeky is split the same way: each process gets a queue of its own again.

What is seeky is `Seeks`' business (`idling.py`): by mean distance before 2.6.34, where a merged queue is
split after having been seeky for a second, and "near" is the mean distance of the queue in service, within
bounds.

Deliberate differences: of the two neighbours of a position the nearer one is looked at first; in the kernel
it depends on the shape of the tree.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

import cython

if TYPE_CHECKING:
    from blklab.elevator.cfq.cfqq import CfqContext, CfqQueue
    from blklab.elevator.cfq.data import CfqData
    from blklab.elevator.cfq.seeks import Seeks

if not cython.compiled:
    from blklab.elevator.cfq.params import NR_LEVELS


class Cooperators:
    """The queues of one device by position."""

    def __init__(self, cfqd: CfqData, seeks: Seeks) -> None:
        self.cfqd = cfqd
        self.seeks = seeks
        # By level: sectors in ascending order, and the queue at each
        self.positions: list[list[int]] = [[] for _ in range(NR_LEVELS)]
        self.queues: list[list[CfqQueue]] = [[] for _ in range(NR_LEVELS)]

    # -- by position -----------------------------------------------------------------

    def remove(self, cfqq: CfqQueue) -> int:
        """It has no next request, or is not to be found."""
        level = cfqq.prio_level
        if level < 0:
            return 0
        positions: list[int] = self.positions[level]
        queues: list[CfqQueue] = self.queues[level]
        at = bisect_left(positions, cfqq.prio_sector)
        del positions[at]
        del queues[at]
        cfqq.prio_level = -1
        return 0

    def move(self, cfqq: CfqQueue) -> int:
        """cfq_prio_tree_add: it has a new next request."""
        self.remove(cfqq)
        if cfqq.is_idle_class() or cfqq.next_rq is None:
            return 0
        level = cfqq.org_ioprio
        sector = cfqq.next_rq.sector
        positions: list[int] = self.positions[level]
        at = bisect_left(positions, sector)
        if at < len(positions) and positions[at] == sector:
            return 0
        positions.insert(at, sector)
        queues: list[CfqQueue] = self.queues[level]
        queues.insert(at, cfqq)
        cfqq.prio_level = level
        cfqq.prio_sector = sector
        return 0

    def _near(self, cfqq: CfqQueue) -> CfqQueue | None:
        # cfqq_close: one whose next request is where the head is, else near to it
        positions: list[int] = self.positions[cfqq.org_ioprio]
        count = len(positions)
        if count == 0:
            return None
        queues: list[CfqQueue] = self.queues[cfqq.org_ioprio]
        head = self.cfqd.last_position
        at = bisect_left(positions, head)
        found = at
        if at == count or (at > 0 and head - positions[at - 1] < positions[at] - head):
            found = at - 1
        candidate: CfqQueue = queues[found]
        if self.seeks.is_close(cfqq, candidate.next_rq, False):
            return candidate
        return None

    def close(self, cfqq: CfqQueue) -> CfqQueue | None:
        """cfq_close_cooperator: a queue that could go on where `cfqq`, which has nothing left, has
        stopped."""
        if not cfqq.sync or cfqq.is_idle_class() or self.seeks.is_seeky(cfqq) or cfqq.cfqg.nr_cfqq == 1:
            return None
        found = self._near(cfqq)
        if found is None or found is cfqq or found.cfqg is not cfqq.cfqg:
            return None
        if not found.sync or self.seeks.is_seeky(found) or found.is_rt_class() != cfqq.is_rt_class():
            return None
        return found

    # -- merging and splitting ---------------------------------------------------------------

    def plan_merge(self, cfqq: CfqQueue, other: CfqQueue) -> int:
        """cfq_setup_merge: the processes of one of them will use the other one."""
        if other.process_refs() == 0:
            return 0
        target = other
        while target.new_cfqq is not None:
            if target.new_cfqq is cfqq:
                return 0
            target = target.new_cfqq
        mine = cfqq.process_refs()
        theirs = target.process_refs()
        if mine == 0 or theirs == 0:
            return 0
        if theirs >= mine:
            cfqq.new_cfqq = target
            target.ref += mine
        else:
            target.new_cfqq = cfqq
            cfqq.ref += theirs
        return 0

    def merged_into(self, cfqq: CfqQueue, cic: CfqContext) -> CfqQueue:
        """cfq_merge_cfqqs: the process moves to the queue that was decided. The old one has lost a reference
        of it, which the caller puts."""
        target = cfqq.new_cfqq
        if self.cfqd.logging:
            self.cfqd.log_queue(cfqq, f"merging with queue {target.pid}")
        cic.set_cfqq(target, True)
        target.coop = True
        return target
