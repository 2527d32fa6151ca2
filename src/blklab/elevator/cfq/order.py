"""Which request of a queue comes next: the one nearest to where the device is.

Synchronous before asynchronous, metadata before data, then by distance: a way back counts `back_seek_penalty`
times, and what lies farther back than `back_seek_max` comes last, the lowest sector first: a sweep upwards,
then again from the beginning.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import cython

if TYPE_CHECKING:
    from blklab.block.request import Request
    from blklab.elevator.cfq.cfqq import CfqQueue
    from blklab.elevator.cfq.data import CfqData

if not cython.compiled:
    from blklab.block.consts import F_META


class Order:
    """The order within the queues of one device."""

    def __init__(self, cfqd: CfqData) -> None:
        self.cfqd = cfqd

    def choose(self, rq1: Request | None, rq2: Request | None, last: int) -> Request | None:
        """cfq_choose_req: which of two comes first, if the device is at sector `last`."""
        if rq1 is None or rq1 is rq2:
            return rq2
        if rq2 is None:
            return rq1
        sync1 = rq1.is_sync()
        if sync1 != rq2.is_sync():
            return rq1 if sync1 else rq2
        if (rq1.flags ^ rq2.flags) & F_META:
            return rq1 if rq1.flags & F_META else rq2
        sector1 = rq1.sector
        sector2 = rq2.sector
        distance1 = self._distance(sector1, last)
        distance2 = self._distance(sector2, last)
        if distance1 < 0 or distance2 < 0:
            if distance1 >= 0:
                return rq1
            if distance2 >= 0:
                return rq2
            return rq1 if sector1 <= sector2 else rq2
        if distance1 != distance2:
            return rq1 if distance1 < distance2 else rq2
        return rq1 if sector1 >= sector2 else rq2

    def _distance(self, sector: int, last: int) -> int:
        # -1: too far behind to go back to
        if sector >= last:
            return sector - last
        if sector + 2 * self.cfqd.back_seek_max_kb >= last:
            return (last - sector) * self.cfqd.back_seek_penalty
        return -1

    def next_after(self, cfqq: CfqQueue, last: Request) -> Request | None:
        """cfq_find_next_rq: the next one of a queue when `last`, which is still sorted in, is gone."""
        before = cfqq.sort_list.before(last)
        after = cfqq.sort_list.after(last)
        if after is None:
            after = cfqq.sort_list.first()
            if after is last:
                after = None
        return self.choose(after, before, last.sector)

    def expired(self, cfqq: CfqQueue) -> Request | None:
        """cfq_check_fifo: once a slice, its oldest request if it has waited for too long."""
        if cfqq.fifo_checked:
            return None
        cfqq.fifo_checked = True
        oldest = cfqq.fifo.head
        if oldest is None or self.cfqd.now() < oldest.elv_ns:
            return None
        return oldest
