"""How long the slice of a queue is.

By priority: a level is a fifth of `slice_sync` or `slice_async`, level 4 has it whole. With `low_latency`
(2.6.33: "slices scaled by the number of queues"), if so many queues of the group would need more than the
group's share of the target latency, each gets less, but not less than two idle slices, which is what makes
reading on a seeking disk worth while.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import cython

if TYPE_CHECKING:
    from blklab.elevator.cfq.cfqq import CfqGroup, CfqQueue
    from blklab.elevator.cfq.data import CfqData
    from blklab.elevator.cfq.groups import Groups

if not cython.compiled:
    from blklab.elevator.cfq.params import (
        BE_WORKLOAD,
        HIST_DIVISOR,
        NORMAL_LEVEL,
        NR_LEVELS,
        RT_WORKLOAD,
        SLICE_SCALE,
    )


class Slices:
    """The slices of one device."""

    def __init__(self, cfqd: CfqData, groups: Groups) -> None:
        self.cfqd = cfqd
        self.groups = groups

    def prio_slice(self, sync: bool, level: int) -> int:
        """cfq_prio_slice: by priority alone."""
        base = self.cfqd.slice_sync_ticks if sync else self.cfqd.slice_async_ticks
        return base + base // SLICE_SCALE * (NORMAL_LEVEL - level)

    def _average_queues(self, cfqg: CfqGroup, rt: bool) -> int:
        # cfq_group_get_avg_queues: up fast, down slowly
        busy = cfqg.busy_queues(RT_WORKLOAD if rt else BE_WORKLOAD)
        before = cfqg.busy_avg_rt if rt else cfqg.busy_avg_be
        average = (
            (HIST_DIVISOR - 1) * max(before, busy) + min(before, busy) + HIST_DIVISOR // 2
        ) // HIST_DIVISOR
        if rt:
            cfqg.busy_avg_rt = average
        else:
            cfqg.busy_avg_be = average
        return average

    def scaled(self, cfqq: CfqQueue) -> int:
        """cfq_scaled_cfqq_slice: by priority, and by the number of queues."""
        cfqd = self.cfqd
        length = self.prio_slice(cfqq.sync, cfqq.ioprio)
        if not (cfqd.low_latency and cfqd.features.cfq_slice_scaled):
            return length
        queues = self._average_queues(cfqq.cfqg, cfqq.is_rt_class())
        expected = cfqd.slice_sync_ticks * queues
        group_slice = self.groups.slice_ticks(cfqq.cfqg)
        if expected > group_slice:
            low = min(length, 2 * cfqd.slice_idle_ticks * length // cfqd.slice_sync_ticks)
            length = max(length * group_slice // expected, low)
        return length

    def begin(self, cfqq: CfqQueue) -> int:
        """cfq_set_prio_slice: its first request has ended, the slice runs from now."""
        length = self.scaled(cfqq)
        now = self.cfqd.now()
        cfqq.slice_start_ticks = now
        cfqq.slice_end_ticks = now + length
        cfqq.allocated_slice_ticks = length
        cfqq.slice_new = False
        if self.cfqd.logging:
            self.cfqd.log_queue(cfqq, f"set_slice={length}")
        return 0

    def used(self, cfqq: CfqQueue) -> bool:
        """cfq_slice_used: its end has come. While no request of it has ended, it has not."""
        return not cfqq.slice_new and self.cfqd.now() >= cfqq.slice_end_ticks

    def used_soon(self, cfqq: CfqQueue) -> bool:
        """cfq_slice_used_soon: the requests that are in the device will use it up, at an idle slice each."""
        if cfqq.slice_new:
            return True
        return self.cfqd.now() + self.cfqd.slice_idle_ticks * cfqq.dispatched > cfqq.slice_end_ticks

    def most_async(self, cfqq: CfqQueue) -> int:
        """cfq_prio_to_maxrq: requests of an asynchronous slice."""
        return 2 * self.cfqd.slice_async_rq * (NR_LEVELS - cfqq.ioprio)
