"""Turns: which queue is in service, and until when.

Theory of operation
-------------------
B-WF2Q+ says whose turn comes next. A turn ends (`expire`) when the queue's budget does not cover its next request, when
its time is over and it is not to be idled for, when it has no request and is not worth waiting for, when it has been
waited for in vain, or when a queue that must not wait preempts it. What the queue used decides about its next budget
(`budget.py`); if it was interrupted before it had used that, it may go on with the rest.

While the queue in service is empty and worth waiting for, others may be served in its turn (`injection.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import cython

if TYPE_CHECKING:
    from blklab.elevator.bfq.bfqq import BfqQueue
    from blklab.elevator.bfq.budget import Budgets
    from blklab.elevator.bfq.data import BfqData
    from blklab.elevator.bfq.idling import Idling
    from blklab.elevator.bfq.injection import Injection
    from blklab.elevator.bfq.merging import Cooperators
    from blklab.elevator.bfq.raising import Raising

if not cython.compiled:
    from blklab.elevator.bfq.params import (
        BUDGET_EXHAUSTED,
        BUDGET_TIMEOUT,
        NO_MORE_REQUESTS,
        PREEMPTED,
    )


class Turns:
    """The turns of one device's queues."""

    def __init__(
        self,
        bfqd: BfqData,
        budgets: Budgets,
        raising: Raising,
        idling: Idling,
        injection: Injection,
        cooperators: Cooperators,
    ) -> None:
        self.bfqd = bfqd
        self.budgets = budgets
        self.raising = raising
        self.idling = idling
        self.injection = injection
        self.cooperators = cooperators

    def select_queue(self) -> BfqQueue | None:
        """Whom to serve: the queue in service as long as its turn lasts, or one that is injected; or the next. None:
        the device idles."""
        bfqd = self.bfqd
        bfqq: BfqQueue | None = bfqd.in_service_queue
        if bfqq is None:
            bfqq = self._set_in_service()
        elif self.budgets.may_expire_for_timeout(bfqq) and not self.idling.must_idle(bfqq):
            self.expire(bfqq, False, BUDGET_TIMEOUT)
            bfqq = self._set_in_service()
        while bfqq is not None:
            if bfqq.next_rq is not None:
                if self.budgets.affords_next(bfqq):
                    if bfqq.wait_request:
                        # It has what it was waited for, though that was too little to end the wait
                        bfqq.wait_request = False
                        self.bfqd.timer.cancel()
                    break
                reason = BUDGET_EXHAUSTED
            elif bfqq.wait_request or (bfqq.dispatched and self.idling.better_to_idle(bfqq)):
                bfqq = self.injection.choose(bfqq)
                break
            else:
                reason = NO_MORE_REQUESTS
            self.expire(bfqq, False, reason)
            bfqq = self._set_in_service()
        if bfqd.logging:
            if bfqq is None:
                bfqd.log("select_queue: no queue returned")
            else:
                bfqd.log_queue(bfqq, "select_queue: returned this queue")
        return bfqq

    def _set_in_service(self) -> BfqQueue | None:
        bfqd = self.bfqd
        bfqq: BfqQueue | None = bfqd.get_next_queue()
        bfqd.in_service_queue = bfqq
        bfqd.in_serv_last_pos = 0
        if bfqq is not None:
            bfqq.fifo_checked = False
            self.raising.begin_turn(bfqq)
            self.budgets.begin_turn(bfqq)
            bfqq.budget_timeout_ns = bfqd.jiffy_now_ns() + bfqd.timeout_ns * self.raising.timeout_coeff(bfqq)
            if bfqd.logging:
                bfqd.log_queue(bfqq, f"set_in_service_queue, cur-budget = {bfqq.budget}")
        return bfqq

    def expire(self, bfqq: BfqQueue, compensate: bool, reason: int) -> int:
        """The turn of the queue in service is over. `compensate`: it has been idled for, which is not its service."""
        bfqd = self.bfqd
        slow = self.budgets.is_slow(bfqq, compensate)
        # A slow queue pays for the time; one that hardly used its budget in the time, too
        if bfqq.wr_coeff == 1 and (
            slow or (reason == BUDGET_TIMEOUT and bfqq.budget_left() >= bfqq.budget // 3)
        ):
            bfqd.bfqq_charge_time(bfqq, self.budgets.turn_ms)
        self.raising.on_expire(bfqq)
        if bfqd.logging:
            bfqd.log_queue(
                bfqq,
                f"expire ({reason}, slow {int(slow)}, num_disp {bfqq.dispatched}, "
                f"short_ttime {int(bfqq.has_short_ttime)})",
            )
        bfqd.rqs_injected = False
        bfqd.wait_dispatch = False
        bfqd.waited_rq = None
        self.budgets.recalc(bfqq, reason)
        if self.leave_service(bfqq, reason):
            return 0
        if not bfqq.busy and reason != BUDGET_TIMEOUT and reason != BUDGET_EXHAUSTED:
            # It did not use what it was due: it may go on with the rest
            bfqq.non_blocking_wait_rq = True
            return bfqd.reset_service(bfqq, False)
        return bfqd.reset_service(bfqq, True)

    def leave_service(self, bfqq: BfqQueue, reason: int) -> bool:
        """Back into its tree, or out of it. Whether the queue is gone for good."""
        bfqd = self.bfqd
        if bfqq.coop and bfqq.is_seeky():
            bfqq.split_coop = True
        if bfqq.sort_list.count == 0 and not (
            reason == PREEMPTED and self.idling.needed_for_guarantees(bfqq)
        ):
            if bfqq.dispatched == 0:
                bfqq.budget_timeout_ns = bfqd.jiffy_now_ns()
            bfqd.del_bfqq_busy(bfqq, True)
        else:
            bfqd.requeue_bfqq(bfqq, True)
            if bfqq.sort_list.count and not bfqd.nonrot_with_queueing:
                self.cooperators.pos_add_move(bfqq)
        return bfqd.reset_in_service()
