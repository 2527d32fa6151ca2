"""Weight raising: queues that serve a waiting user get a higher weight for a while.

Theory of operation
-------------------
A queue that was idle for two seconds and begins again is *interactive*: probably an application that is being started.
Its weight is raised 30 times, for as long as loading an application takes on this device: that of a reference device,
scaled by the peak rates, 3 to 25 s; or until it has read more than an application does.

A queue that asks for little and then pauses, again and again, is *soft real-time*: a player. `soft_rt_next_start_ns`
is the earliest time at which a queue that keeps below the rate of a player may send its next batch; one that sends
it later is raised 3000 times for 300 ms. If it was interactive before, it becomes so again afterwards.

Asynchronous queues are raised, as interactive ones, when they begin after half a second without.

All of it is only for queues of default priority, and not for those of a large burst (`bursts.py`).

Deliberate differences: when low_latency is switched off under load, 6.1 counts down the raised busy queues for those
that were not raised too, and takes the device for one with raised queues from then on; here the count stays right.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import cython

from blklab.block.cgroup import POLICY_BFQ
from blklab.elevator.bfq.entity import LONG_AGO_NS

if TYPE_CHECKING:
    from blklab.elevator.bfq.bfqq import BfqQueue, IoContext
    from blklab.elevator.bfq.budget import Budgets
    from blklab.elevator.bfq.data import BfqData
    from blklab.elevator.bfq.group import BfqGroup

if not cython.compiled:
    from blklab.elevator.bfq.params import (
        MAX_SERVICE_FROM_WR,
        MAX_WR_MS,
        MIN_WR_MS,
        REF_RATE_NONROT,
        REF_RATE_ROT,
        REF_WR_DURATION_NONROT_MS,
        REF_WR_DURATION_ROT_MS,
        SOFTRT_WEIGHT_FACTOR,
        WR_COEFF,
        WR_DEFAULT_WEIGHT,
        WR_MAX_SOFTRT_RATE,
        WR_MIN_IDLE_MS,
        WR_MIN_INTER_ARR_ASYNC_MS,
        WR_RT_MAX_MS,
    )


class Raising:
    """Weight raising on one device."""

    def __init__(self, bfqd: BfqData, budgets: Budgets) -> None:
        self.bfqd = bfqd
        self.budgets = budgets
        self.rt_max_ns = bfqd.jiffies_ns(WR_RT_MAX_MS)
        self.min_idle_ns = bfqd.jiffies_ns(WR_MIN_IDLE_MS)
        self.min_inter_arr_async_ns = bfqd.jiffies_ns(WR_MIN_INTER_ARR_ASYNC_MS)
        self.min_wr_ns = bfqd.jiffies_ns(MIN_WR_MS)
        self.max_wr_ns = bfqd.jiffies_ns(MAX_WR_MS)
        if bfqd.queue.rotational:
            self.rate_dur_prod = REF_RATE_ROT * (bfqd.jiffies_ns(REF_WR_DURATION_ROT_MS) // bfqd.jiffy_ns)
        else:
            self.rate_dur_prod = REF_RATE_NONROT * (
                bfqd.jiffies_ns(REF_WR_DURATION_NONROT_MS) // bfqd.jiffy_ns
            )

    def duration_ns(self) -> int:
        """How long an interactive queue is raised: the faster the device, the shorter."""
        duration_ns = self.rate_dur_prod // self.budgets.peak_rate * self.bfqd.jiffy_ns
        return min(max(duration_ns, self.min_wr_ns), self.max_wr_ns)

    # -- it begins -----------------------------------------------------------------

    def idle_for_long(self, bfqq: BfqQueue) -> bool:
        """Whether a queue that becomes busy now did nothing for two seconds."""
        return bfqq.dispatched == 0 and bfqq.budget_timeout_ns + self.min_idle_ns < self.bfqd.jiffy_now_ns()

    def deserves_soft_rt(self, bfqq: BfqQueue) -> bool:
        """Whether a queue that becomes busy now asked for so little that it may be a player."""
        return (
            not bfqq.in_large_burst
            and not bfqq.is_totally_seeky()
            and bfqq.soft_rt_next_start_ns < self.bfqd.jiffy_now_ns()
            and bfqq.dispatched == 0
            and bfqq.new_weight == WR_DEFAULT_WEIGHT
        )

    def on_activation(
        self,
        bfqq: BfqQueue,
        old_wr_coeff: int,
        deserves: bool,
        interactive: bool,
        in_burst: bool,
        soft_rt: bool,
    ) -> int:
        """A queue becomes busy, and its last split from another one is long ago: raise it, or change how it is."""
        bfqd = self.bfqd
        if old_wr_coeff == 1:
            if not deserves:
                return 0
            if interactive:
                bfqq.service_from_wr = 0
                bfqq.wr_coeff = WR_COEFF
                bfqq.wr_cur_max_time_ns = self.duration_ns()
            else:
                # It was not interactive before: nothing to go back to
                bfqq.wr_start_at_switch_to_srt_ns = LONG_AGO_NS
                bfqq.wr_coeff = WR_COEFF * SOFTRT_WEIGHT_FACTOR
                bfqq.wr_cur_max_time_ns = self.rt_max_ns
            # A short turn, so that one that does not deserve it does little harm
            bfqq.budget = min(bfqq.budget, 2 * self.budgets.smallest())
        elif interactive:
            bfqq.wr_coeff = WR_COEFF
            bfqq.wr_cur_max_time_ns = self.duration_ns()
        elif in_burst:
            bfqq.wr_coeff = 1
        elif soft_rt:
            if bfqq.wr_cur_max_time_ns != self.rt_max_ns:
                bfqq.wr_start_at_switch_to_srt_ns = bfqq.last_wr_start_finish_ns
                bfqq.wr_cur_max_time_ns = self.rt_max_ns
                bfqq.wr_coeff = WR_COEFF * SOFTRT_WEIGHT_FACTOR
            bfqq.last_wr_start_finish_ns = bfqd.jiffy_now_ns()
        if bfqq.wr_coeff != old_wr_coeff:
            bfqq.prio_changed = True
        return 0

    def on_async_request(self, bfqq: BfqQueue, old_wr_coeff: int) -> int:
        """An asynchronous request for a busy queue that has not been raised for half a second."""
        bfqd = self.bfqd
        if (
            old_wr_coeff == 1
            and bfqq.last_wr_start_finish_ns + self.min_inter_arr_async_ns < bfqd.jiffy_now_ns()
        ):
            bfqq.wr_coeff = WR_COEFF
            bfqq.wr_cur_max_time_ns = self.duration_ns()
            bfqd.wr_busy_queues += 1
            bfqq.prio_changed = True
        return 0

    # -- it goes on ------------------------------------------------------------------

    def begin_turn(self, bfqq: BfqQueue) -> int:
        """A queue is in service: one raised as soft real-time does not lose the time it waited for that."""
        now = self.bfqd.jiffy_now_ns()
        if (
            bfqq.wr_coeff > 1
            and bfqq.wr_cur_max_time_ns == self.rt_max_ns
            and bfqq.last_wr_start_finish_ns < now
            and bfqq.budget_timeout_ns < now
        ):
            if bfqq.budget_timeout_ns > bfqq.last_wr_start_finish_ns:
                bfqq.last_wr_start_finish_ns += now - bfqq.budget_timeout_ns
            else:
                bfqq.last_wr_start_finish_ns = now
        return 0

    def timeout_coeff(self, bfqq: BfqQueue) -> int:
        """How many times the normal timeout a turn of this queue may last."""
        if bfqq.wr_cur_max_time_ns == self.rt_max_ns:
            return 1
        return bfqq.weight // bfqq.orig_weight

    def update(self, bfqq: BfqQueue) -> int:
        """A request of the queue in service is dispatched: end its raising if that is over."""
        bfqd = self.bfqd
        if bfqq.wr_coeff > 1:
            now = bfqd.jiffy_now_ns()
            if bfqd.logging:
                bfqd.log_queue(
                    bfqq,
                    f"raising period dur {(now - bfqq.last_wr_start_finish_ns) // 1000000}"
                    f"/{bfqq.wr_cur_max_time_ns // 1000000} msec, old coeff {bfqq.wr_coeff}, "
                    f"w {bfqq.weight}({bfqq.orig_weight})",
                )
                if bfqq.prio_changed:
                    bfqd.log_queue(bfqq, "WARN: pending prio change")
            if bfqq.in_large_burst:
                self.end(bfqq)
            elif bfqq.last_wr_start_finish_ns + bfqq.wr_cur_max_time_ns < now:
                self.end_or_back_to_interactive(bfqq, bfqq.wr_cur_max_time_ns == self.rt_max_ns)
            if (
                bfqq.wr_coeff > 1
                and bfqq.wr_cur_max_time_ns != self.rt_max_ns
                and bfqq.service_from_wr > MAX_SERVICE_FROM_WR
            ):
                self.end(bfqq)
        if (bfqq.weight > bfqq.orig_weight) != (bfqq.wr_coeff > 1):
            bfqd.update_weight_prio(bfqd.entity_service_tree(bfqq), bfqq, False)
        return 0

    def end_or_back_to_interactive(self, bfqq: BfqQueue, was_soft_rt: bool) -> int:
        """Soft real-time raising is over: if it was interactive before, and that would not be over, it is so again."""
        if was_soft_rt and self.back_in_time(bfqq):
            self.back_to_interactive(bfqq)
            bfqq.prio_changed = True
        else:
            self.end(bfqq)
        return 0

    def back_in_time(self, bfqq: BfqQueue) -> bool:
        """Whether the interactive raising that soft real-time took the place of would still go on."""
        return bfqq.wr_start_at_switch_to_srt_ns + self.duration_ns() >= self.bfqd.jiffy_now_ns()

    def back_to_interactive(self, bfqq: BfqQueue) -> None:
        """Raised as it was before it became soft real-time."""
        bfqq.wr_coeff = WR_COEFF
        bfqq.wr_cur_max_time_ns = self.duration_ns()
        bfqq.last_wr_start_finish_ns = bfqq.wr_start_at_switch_to_srt_ns

    # -- it ends -----------------------------------------------------------------------

    def end(self, bfqq: BfqQueue) -> int:
        """Its weight is as before."""
        bfqd = self.bfqd
        now = bfqd.jiffy_now_ns()
        if bfqq.wr_cur_max_time_ns != self.rt_max_ns:
            # It may become soft real-time from now on
            bfqq.soft_rt_next_start_ns = now
        if bfqq.busy and bfqq.wr_coeff > 1:
            bfqd.wr_busy_queues -= 1
        bfqq.wr_coeff = 1
        bfqq.wr_cur_max_time_ns = 0
        bfqq.last_wr_start_finish_ns = now
        bfqq.prio_changed = True
        return 0

    def end_all(self) -> int:
        """low_latency has been switched off."""
        bfqd = self.bfqd
        for listed in (bfqd.active_list, bfqd.idle_list):
            bfqq = listed.head
            while bfqq is not None:
                self.end(bfqq)
                bfqq = bfqq.list_after
        # kernel: the queue in service is on neither list, and stays raised until its time is over
        if bfqd.queue.blkcg is None:
            return self.end_async(bfqd.root_group)
        for blkg in bfqd.queue.blkcg.root.walk():
            self.end_async(blkg.pd[POLICY_BFQ])
        return 0

    def end_async(self, group: BfqGroup) -> int:
        """The same for the asynchronous queues of a group."""
        for bfqq in group.async_bfqqs:
            if bfqq is not None:
                self.end(bfqq)
        return 0

    # -- when the next may begin ---------------------------------------------------------

    def softrt_next_start_ns(self, bfqq: BfqQueue) -> int:
        """A queue that is idle now is soft real-time if it comes back at this time or later: it kept below the rate of
        a player, and made a pause that a greedy process does not make."""
        bfqd = self.bfqd
        second = 1_000_000_000 // bfqd.jiffy_ns
        served_ns = second * bfqq.service_from_backlogged // WR_MAX_SOFTRT_RATE * bfqd.jiffy_ns
        pause_ns = (bfqd.slice_idle_ns // bfqd.jiffy_ns + 4) * bfqd.jiffy_ns
        return max(
            bfqq.soft_rt_next_start_ns,
            bfqq.last_idle_bklogged_ns + served_ns,
            bfqd.jiffy_now_ns() + pause_ns,
        )

    def on_expire(self, bfqq: BfqQueue) -> int:
        """Its turn ends."""
        bfqd = self.bfqd
        if bfqd.low_latency:
            if bfqq.wr_coeff == 1:
                bfqq.last_wr_start_finish_ns = bfqd.jiffy_now_ns()
            if bfqq.sort_list.count == 0:
                if bfqq.dispatched == 0:
                    bfqq.soft_rt_next_start_ns = self.softrt_next_start_ns(bfqq)
                else:
                    # Known when its last request has been served
                    bfqq.softrt_update = True
        return 0

    def on_completion(self, bfqq: BfqQueue) -> int:
        """A request was served."""
        if (
            bfqq.softrt_update
            and bfqq.dispatched == 0
            and bfqq.sort_list.count == 0
            and bfqq.wr_coeff != WR_COEFF
        ):
            bfqq.soft_rt_next_start_ns = self.softrt_next_start_ns(bfqq)
        return 0

    def on_seek(self, bfqq: BfqQueue) -> int:
        """A request came: one that does nothing but seek is no player."""
        if bfqq.wr_coeff > 1 and bfqq.wr_cur_max_time_ns == self.rt_max_ns and bfqq.is_totally_seeky():
            self.end_or_back_to_interactive(bfqq, True)
        return 0

    # -- merges and splits ---------------------------------------------------------------

    def resume(self, bfqq: BfqQueue, bic: IoContext, busy: bool) -> int:
        """A process has a queue of its own again: as raised as the one it had before the merge would be."""
        bfqd = self.bfqd
        old_wr_coeff = 1
        if bfqd.low_latency:
            old_wr_coeff = bfqq.wr_coeff
            bfqq.wr_coeff = bic.saved_wr_coeff
        bfqq.service_from_wr = bic.saved_service_from_wr
        bfqq.wr_start_at_switch_to_srt_ns = bic.saved_wr_start_at_switch_to_srt_ns
        bfqq.last_wr_start_finish_ns = bic.saved_last_wr_start_finish_ns
        bfqq.wr_cur_max_time_ns = bic.saved_wr_cur_max_time_ns
        if bfqq.wr_coeff > 1 and (
            bfqq.in_large_burst
            or bfqq.last_wr_start_finish_ns + bfqq.wr_cur_max_time_ns < bfqd.jiffy_now_ns()
        ):
            if (
                bfqq.wr_cur_max_time_ns == self.rt_max_ns
                and not bfqq.in_large_burst
                and self.back_in_time(bfqq)
            ):
                self.back_to_interactive(bfqq)
            else:
                bfqq.wr_coeff = 1
                if bfqd.logging:
                    bfqd.log_queue(bfqq, "resume state: switching off wr")
        bfqq.prio_changed = True
        if busy:
            if old_wr_coeff == 1 and bfqq.wr_coeff > 1:
                bfqd.wr_busy_queues += 1
            elif old_wr_coeff > 1 and bfqq.wr_coeff == 1:
                bfqd.wr_busy_queues -= 1
        return 0

    def save(self, bfqq: BfqQueue, bic: IoContext) -> int:
        """A queue is about to be merged: what `resume` will want to know."""
        if bfqq.just_created and not bfqq.in_large_burst and self.bfqd.low_latency:
            # It had no time to be raised, which it would have been
            bic.saved_wr_coeff = WR_COEFF
            bic.saved_wr_start_at_switch_to_srt_ns = LONG_AGO_NS
            bic.saved_wr_cur_max_time_ns = self.duration_ns()
            bic.saved_last_wr_start_finish_ns = self.bfqd.jiffy_now_ns()
        else:
            bic.saved_wr_coeff = bfqq.wr_coeff
            bic.saved_wr_start_at_switch_to_srt_ns = bfqq.wr_start_at_switch_to_srt_ns
            bic.saved_service_from_wr = bfqq.service_from_wr
            bic.saved_last_wr_start_finish_ns = bfqq.last_wr_start_finish_ns
            bic.saved_wr_cur_max_time_ns = bfqq.wr_cur_max_time_ns
        return 0

    def hand_over(self, bfqq: BfqQueue, new_bfqq: BfqQueue) -> int:
        """A queue is merged into `new_bfqq`: its raising goes with it."""
        bfqd = self.bfqd
        if bfqq.wr_coeff == 1:
            return 0
        if new_bfqq.wr_coeff == 1:
            new_bfqq.wr_coeff = bfqq.wr_coeff
            new_bfqq.wr_cur_max_time_ns = bfqq.wr_cur_max_time_ns
            new_bfqq.last_wr_start_finish_ns = bfqq.last_wr_start_finish_ns
            new_bfqq.wr_start_at_switch_to_srt_ns = bfqq.wr_start_at_switch_to_srt_ns
            if new_bfqq.busy:
                bfqd.wr_busy_queues += 1
            new_bfqq.prio_changed = True
        bfqq.wr_coeff = 1
        bfqq.prio_changed = True
        if bfqq.busy:
            bfqd.wr_busy_queues -= 1
        return 0
