"""Bursts: queues that become busy for the first time at about the same time.

Eight or more within 180 ms of one another (a boot, a build, a server that forks) want throughput, and nobody sits
waiting for one of them: none of them is raised or favoured. `burst_list` holds those of the present burst as long as it
is small; once it is large its queues are marked, and so is every one that joins.

A queue that was idle for ten seconds is no longer of a burst.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import cython

from blklab.elevator.bfq.entity import LONG_AGO_NS

if TYPE_CHECKING:
    from blklab.elevator.bfq.bfqq import BfqQueue, IoContext
    from blklab.elevator.bfq.data import BfqData
    from blklab.elevator.bfq.entity import Entity

if not cython.compiled:
    from blklab.elevator.bfq.params import BURST_INTERVAL_MS, FORGET_BURST_MS, LARGE_BURST_THRESH


class Bursts:
    """The bursts of one device."""

    def __init__(self, bfqd: BfqData) -> None:
        self.bfqd = bfqd
        self.interval_ns = bfqd.jiffies_ns(BURST_INTERVAL_MS)
        self.split_guard_ns = bfqd.jiffies_ns(10)
        self.forget_ns = bfqd.jiffies_ns(FORGET_BURST_MS)
        self.large = False
        self.last_ns = LONG_AGO_NS
        self.parent: Entity | None = None

    def on_new(self, bfqq: BfqQueue) -> int:
        """A queue that was just created gets a request."""
        bfqd = self.bfqd
        now = bfqd.jiffy_now_ns()
        if bfqq.in_burst_list or bfqq.in_large_burst or bfqq.split_time_ns + self.split_guard_ns >= now:
            return 0
        if self.last_ns + self.interval_ns < now or bfqq.parent is not self.parent:
            # Too late, or of another group: a burst of its own may begin
            self.large = False
            self._restart(bfqq)
        elif self.large:
            bfqq.in_large_burst = True
        else:
            self._add(bfqq)
        self.last_ns = now
        return 0

    def _restart(self, bfqq: BfqQueue) -> int:
        bfqd = self.bfqd
        self._clear()
        if bfqd.tot_busy_queues == 0:
            bfqd.burst_list.append(bfqq)
            bfqq.in_burst_list = True
            bfqd.burst_size = 1
        else:
            # It begins beside others that are at work: unlikely to be the first of a burst
            bfqd.burst_size = 0
        self.parent = bfqq.parent
        return 0

    def _add(self, bfqq: BfqQueue) -> int:
        bfqd = self.bfqd
        bfqd.burst_size += 1
        if bfqd.burst_size == LARGE_BURST_THRESH:
            self.large = True
            for listed in bfqd.burst_list:
                listed.in_large_burst = True
            bfqq.in_large_burst = True
            self._clear()
        else:
            bfqd.burst_list.append(bfqq)
            bfqq.in_burst_list = True
        return 0

    def _clear(self) -> int:
        for listed in self.bfqd.burst_list:
            listed.in_burst_list = False
        self.bfqd.burst_list.clear()
        return 0

    def on_idle_activation(self, bfqq: BfqQueue) -> int:
        """A queue that has been idle for long becomes busy: after ten seconds its burst is forgotten."""
        if not bfqq.just_created and bfqq.budget_timeout_ns + self.forget_ns < self.bfqd.jiffy_now_ns():
            if bfqq.in_burst_list:
                self.bfqd.burst_list.remove(bfqq)
                bfqq.in_burst_list = False
            bfqq.in_large_burst = False
        return 0

    def on_split(self, bfqq: BfqQueue, bic: IoContext) -> int:
        """A new queue takes the place of a merged one: it is of the burst that the process' queue was of before."""
        if (bic.was_in_burst_list and self.large) or bic.saved_in_large_burst:
            bfqq.in_large_burst = True
        else:
            bfqq.in_large_burst = False
            if bic.was_in_burst_list:
                self.bfqd.burst_list.append(bfqq)
                bfqq.in_burst_list = True
        return 0
