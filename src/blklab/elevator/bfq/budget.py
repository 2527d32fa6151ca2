"""Budgets: how many sectors a queue may be served in one turn, what it is charged, and how fast the device is.

Theory of operation
-------------------
A turn ends when the budget is used up or the time (`timeout_sync`) is over. Each queue's own `max_budget` adapts to
what it needs: it grows when budget or time ran out, and becomes what was used when there were no more requests. It
never exceeds `bfqd.max_budget`: what the device could transfer in one `timeout_sync` at its peak rate.

The peak rate is measured: over at least a second of dispatches it is sectors by time; a slower measurement counts
only if most of it was sequential, and the more sequential and the longer it was, the more it weighs. Until enough
budgets have been given out a default stands in for it.

A queue that is slow (its turn took long and used little) is charged for the time, so that seeks do not cost others more
than their share.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import cython

if TYPE_CHECKING:
    from blklab.block.request import Request
    from blklab.elevator.bfq.bfqq import BfqQueue
    from blklab.elevator.bfq.data import BfqData

if not cython.compiled:
    from blklab.elevator.bfq.params import (
        ASYNC_CHARGE_FACTOR,
        BUDGET_EXHAUSTED,
        BUDGET_TIMEOUT,
        DEFAULT_MAX_BUDGET,
        MIN_TT_NS,
        MSEC_NS,
        NO_MORE_REQUESTS,
        RATE_MIN_INTERVAL_NS,
        RATE_MIN_SAMPLES,
        RATE_REF_INTERVAL_NS,
        RATE_SHIFT,
        REF_RATE_NONROT,
        REF_RATE_ROT,
        SLICE_IDLE_MS,
        STATS_MIN_BUDGETS,
        TOO_IDLE,
    )


class Budgets:
    """The budgets of one device's queues, and its measured `peak_rate` (sectors a microsecond, times 2**16)."""

    def __init__(self, bfqd: BfqData) -> None:
        self.bfqd = bfqd
        self.budgets_assigned = 0
        self.peak_rate = (REF_RATE_ROT if bfqd.queue.rotational else REF_RATE_NONROT) * 2 // 3
        self.peak_rate_samples = 0
        self.sequential_samples = 0
        self.tot_sectors_dispatched = 0
        self.last_rq_max_size = 0
        self.delta_from_first_ns = 0
        self.first_dispatch_ns = 0
        self.turn_ms = 0
        self.last_dispatch_ns = 0

    # -- a request is charged ------------------------------------------------------

    def serv_to_charge(self, rq: Request, bfqq: BfqQueue) -> int:
        """Sectors that serving `rq` costs its queue."""
        if bfqq.sync or bfqq.wr_coeff > 1 or self.bfqd.is_asymmetric(bfqq):
            return rq.nr_sectors
        return rq.nr_sectors * ASYNC_CHARGE_FACTOR

    def affords_next(self, bfqq: BfqQueue) -> bool:
        """Whether its budget covers its next request."""
        return self.serv_to_charge(bfqq.next_rq, bfqq) <= bfqq.budget_left()

    def updated_next_req(self, bfqq: BfqQueue) -> int:
        """Another request is the next one of a queue: its budget must cover it, and its place may change by that."""
        bfqd = self.bfqd
        if bfqq.next_rq is None or bfqq is bfqd.in_service_queue:
            return 0
        budget = max(bfqq.max_budget, self.serv_to_charge(bfqq.next_rq, bfqq), bfqq.service)
        if bfqq.budget != budget:
            bfqq.budget = budget
            if bfqd.logging:
                bfqd.log_queue(bfqq, f"updated next rq: new budget {budget}")
            bfqd.requeue_bfqq(bfqq, False)
        return 0

    # -- a queue becomes busy --------------------------------------------------------

    def initial_max_budget(self) -> int:
        """What a new queue begins with."""
        return 2 * self._largest() // 3

    def _largest(self) -> int:
        return DEFAULT_MAX_BUDGET if self.budgets_assigned < STATS_MIN_BUDGETS else self.bfqd.max_budget

    def smallest(self) -> int:
        """The smallest budget that a queue is given."""
        return self._largest() // 32

    def update_for_activation(self, bfqq: BfqQueue, arrived_in_time: bool) -> bool:
        """The budget of a queue that becomes busy. True: it may go on where it was interrupted, before others."""
        if bfqq.non_blocking_wait_rq and arrived_in_time and bfqq.budget_left() > 0:
            # Nothing but the device's being shared kept it from going on: it has the rest of its budget
            bfqq.budget = min(bfqq.budget_left(), bfqq.max_budget)
            bfqq.service = 0
            return True
        bfqq.service = 0
        bfqq.budget = max(bfqq.max_budget, self.serv_to_charge(bfqq.next_rq, bfqq))
        bfqq.non_blocking_wait_rq = False
        return False

    # -- its turn begins and ends ------------------------------------------------------

    def begin_turn(self, bfqq: BfqQueue) -> None:
        """A queue is in service from now on: its time runs."""
        bfqd = self.bfqd
        self.budgets_assigned = (self.budgets_assigned * 7 + 256) // 8
        bfqd.last_budget_start_ns = bfqd.clock.now_ns

    def timed_out(self, bfqq: BfqQueue) -> bool:
        """Whether its time is over."""
        return bfqq.budget_timeout_ns <= self.bfqd.jiffy_now_ns()

    def may_expire_for_timeout(self, bfqq: BfqQueue) -> bool:
        """Whether its time is over, and it is not just being waited for with little budget left."""
        bfqd = self.bfqd
        plenty = bfqq.budget_left() >= bfqq.budget // 3
        if bfqd.logging:
            bfqd.log_queue(
                bfqq,
                f"may_budget_timeout: wait_request {int(bfqq.wait_request)} left {int(plenty)} "
                f"timeout {int(self.timed_out(bfqq))}",
            )
        return (not bfqq.wait_request or plenty) and self.timed_out(bfqq)

    def is_slow(self, bfqq: BfqQueue, compensate: bool) -> bool:
        """Whether it used little of the device in the time it had it; `turn_ms` tells how long that was.

        `compensate`: its last part was idle, and does not count.
        """
        bfqd = self.bfqd
        self.turn_ms = 0
        if not bfqq.sync:
            return False
        slow = bfqq.is_seeky()
        end_ns = bfqd.last_idling_start_ns if compensate else bfqd.clock.now_ns
        turn_us = (end_ns - bfqd.last_budget_start_ns) // 1000
        if turn_us < 1000:
            # Too short to tell anything
            self.turn_ms = SLICE_IDLE_MS if bfqd.queue.rotational else MIN_TT_NS // MSEC_NS
            return slow
        self.turn_ms = turn_us // 1000
        if turn_us > 20000:
            slow = bfqq.service < bfqd.max_budget // 2
        if bfqd.logging:
            bfqd.log_queue(bfqq, f"bfq_bfqq_is_slow: slow {int(slow)}")
        return slow

    def recalc(self, bfqq: BfqQueue, reason: int) -> int:
        """A turn ended for `reason`: the budget for the next one."""
        bfqd = self.bfqd
        smallest = self.smallest()
        budget = bfqq.max_budget if bfqq.wr_coeff == 1 else 2 * smallest
        if bfqd.logging:
            bfqd.log_queue(bfqq, f"recalc_budg: last budg {bfqq.budget}, budg left {bfqq.budget_left()}")
            bfqd.log_queue(bfqq, f"recalc_budg: last max_budg {budget}, min budg {smallest}")
            bfqd.log_queue(bfqq, f"recalc_budg: sync {int(bfqq.sync)}, seeky {int(bfqq.is_seeky())}")
        if not bfqq.sync:
            # It has no process that waits: the larger, the better for throughput
            budget = bfqd.max_budget
        elif bfqq.wr_coeff == 1:
            if reason == TOO_IDLE:
                if bfqq.dispatched > 0:
                    # It waits for the device, not the device for it
                    budget = min(budget * 2, bfqd.max_budget)
                elif budget > 5 * smallest:
                    budget -= 4 * smallest
                else:
                    budget = smallest
            elif reason == BUDGET_TIMEOUT:
                budget = min(budget * 2, bfqd.max_budget)
            elif reason == BUDGET_EXHAUSTED:
                budget = min(budget * 4, bfqd.max_budget)
            elif reason == NO_MORE_REQUESTS:
                budget = max(bfqq.service, smallest)
            else:
                return 0
        bfqq.max_budget = budget
        if self.budgets_assigned >= STATS_MIN_BUDGETS and not bfqd.user_max_budget:
            bfqq.max_budget = min(bfqq.max_budget, bfqd.max_budget)
        next_rq = bfqq.next_rq
        if next_rq is not None:
            bfqq.budget = max(bfqq.max_budget, self.serv_to_charge(next_rq, bfqq))
        if bfqd.logging:
            head = next_rq.nr_sectors if next_rq is not None else 0
            bfqd.log_queue(bfqq, f"head sect: {head}, new budget {bfqq.budget}")
        return 0

    # -- how fast the device is ----------------------------------------------------------

    def calc_max_budget(self) -> int:
        """What the device transfers in one timeout at its peak rate."""
        return (self.peak_rate * 1000 * (self.bfqd.timeout_ns // MSEC_NS)) >> RATE_SHIFT

    def dispatched(self, rq: Request) -> int:
        """One more request goes to the device: a sample."""
        bfqd = self.bfqd
        now_ns = bfqd.clock.now_ns
        if self.peak_rate_samples == 0:
            if bfqd.logging:
                bfqd.log(f"update_peak_rate: goto reset, samples {self.peak_rate_samples}")
            self._reset(rq)
        elif now_ns - self.last_dispatch_ns > 100 * MSEC_NS and bfqd.rq_in_driver == 0:
            # The device was idle for long: what was measured until then
            self._update_and_reset(rq)
        else:
            self.peak_rate_samples += 1
            if (bfqd.rq_in_driver > 0 or now_ns - bfqd.last_completion_ns < MIN_TT_NS) and not bfqd.is_seek(
                bfqd.last_position, rq
            ):
                self.sequential_samples += 1
            self.tot_sectors_dispatched += rq.nr_sectors
            if self.peak_rate_samples % 32:
                self.last_rq_max_size = max(rq.nr_sectors, self.last_rq_max_size)
            else:
                self.last_rq_max_size = rq.nr_sectors
            self.delta_from_first_ns = now_ns - self.first_dispatch_ns
            if self.delta_from_first_ns >= RATE_REF_INTERVAL_NS:
                self._update_and_reset(rq)
        bfqd.last_position = rq.sector + rq.nr_sectors
        if rq.elv1 is bfqd.in_service_queue:
            bfqd.in_serv_last_pos = bfqd.last_position
        self.last_dispatch_ns = now_ns
        return 0

    def completed(self, now_ns: int) -> int:
        """A request was completed: a device that did almost nothing meanwhile says nothing about its rate."""
        bfqd = self.bfqd
        delta_us = (now_ns - bfqd.last_completion_ns) // 1000
        if delta_us > MIN_TT_NS // 1000 and (self.last_rq_max_size << RATE_SHIFT) // delta_us < 1 << (
            RATE_SHIFT - 10
        ):
            self._update_and_reset(None)
        bfqd.last_completion_ns = now_ns
        return 0

    def _update_and_reset(self, rq: Request | None) -> int:
        if self.peak_rate_samples >= RATE_MIN_SAMPLES and self.delta_from_first_ns >= RATE_MIN_INTERVAL_NS:
            self._update()
        return self._reset(rq)

    def _update(self) -> int:
        bfqd = self.bfqd
        # To the last completion: the device may have been busy longer than dispatches came
        self.delta_from_first_ns = max(
            self.delta_from_first_ns, bfqd.last_completion_ns - self.first_dispatch_ns
        )
        rate = (self.tot_sectors_dispatched << RATE_SHIFT) // (self.delta_from_first_ns // 1000)
        sequential = self.sequential_samples >= (3 * self.peak_rate_samples) >> 2
        if (not sequential and rate <= self.peak_rate) or rate > 20 << RATE_SHIFT:
            return 0
        weight = 9 * self.sequential_samples // self.peak_rate_samples
        weight = min(8, weight * self.delta_from_first_ns // RATE_REF_INTERVAL_NS)
        divisor = 10 - weight
        self.peak_rate = max(1, self.peak_rate * (divisor - 1) // divisor + rate // divisor)
        if bfqd.user_max_budget == 0:
            bfqd.max_budget = self.calc_max_budget()
            if bfqd.logging:
                bfqd.log(f"new max_budget = {bfqd.max_budget}")
        return 0

    def _reset(self, rq: Request | None) -> int:
        bfqd = self.bfqd
        if rq is None:
            self.peak_rate_samples = 0
        else:
            self.first_dispatch_ns = bfqd.clock.now_ns
            self.last_dispatch_ns = self.first_dispatch_ns
            self.peak_rate_samples = 1
            self.sequential_samples = 0
            self.last_rq_max_size = rq.nr_sectors
            self.tot_sectors_dispatched = rq.nr_sectors
        if bfqd.logging:
            bfqd.log(
                f"reset_rate_computation at end, sample {self.peak_rate_samples}/{self.sequential_samples} "
                f"tot_sects {self.tot_sectors_dispatched}"
            )
        return 0
