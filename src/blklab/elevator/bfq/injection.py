"""Injection: serving others while the device idles for the queue in service, as long as that does not harm it.

Theory of operation
-------------------
A queue in service that has no request at the moment need not keep the device idle. Up to `inject_limit` requests of
others are given to the device meanwhile. The limit is learned: now and then (10 ms after it was last lowered) the time
from the moment a request finds its queue empty until it is served is measured, without injection for a reference
(`last_serv_time_ns`) and with it; if that takes more than half longer, the limit is lowered, else raised.

First choice for injection are those that the queue in service waits for: its process' own asynchronous requests, its
*waker* (the queue whose completions were followed by a request of this queue, three times soon one after another), and
the one that it wakes itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import cython

if TYPE_CHECKING:
    from blklab.block.request import Request
    from blklab.elevator.bfq.bfqq import BfqQueue
    from blklab.elevator.bfq.budget import Budgets
    from blklab.elevator.bfq.data import BfqData
    from blklab.elevator.bfq.idling import Idling

if not cython.compiled:
    from blklab.elevator.bfq.params import (
        SECT_THR_NONROT,
        WAKER_DETECTIONS,
        WAKER_PERIODS,
        WAKER_WINDOW_NS,
    )


class Injection:
    """Injection on one device."""

    def __init__(self, bfqd: BfqData, budgets: Budgets, idling: Idling) -> None:
        self.bfqd = bfqd
        self.budgets = budgets
        self.idling = idling
        self.relearn_ns = bfqd.jiffies_ns(1000)
        self.short_change_ns = bfqd.jiffies_ns(100)
        self.measure_ns = bfqd.jiffies_ns(10)

    # -- what may be injected ----------------------------------------------------------

    def choose(self, bfqq: BfqQueue) -> BfqQueue | None:
        """The queue in service is empty and worth waiting for: whom to serve meanwhile, or None."""
        bfqd = self.bfqd
        bic = bfqq.bic
        if bic is not None:
            other = bic.async_bfqq
            if self._can_serve(other) and other.next_rq.elv0 is bic and self.budgets.affords_next(other):
                return other
        other = bfqq.waker_bfqq
        if self._can_serve(other) and self.budgets.affords_next(other):
            return other
        if bfqq.woken:
            other = bfqq.woken[0]
            if self._can_serve(other) and self.budgets.affords_next(other):
                return other
        if not self.idling.boosts_throughput(bfqq) and (
            bfqq.wr_coeff == 1 or bfqd.wr_busy_queues > 1 or not bfqq.has_short_ttime
        ):
            return self._choose_any(bfqq)
        return None

    def _can_serve(self, bfqq: BfqQueue | None) -> bool:
        return bfqq is not None and bfqq.busy and bfqq.next_rq is not None

    def _choose_any(self, in_service: BfqQueue) -> BfqQueue | None:
        bfqd = self.bfqd
        limit = in_service.inject_limit
        always = in_service.wr_coeff == 1 or not in_service.has_short_ttime
        if (
            limit == 0
            and in_service.last_serv_time_ns == 0
            and in_service.wait_request
            # kernel: slice_idle, which is nanoseconds, is added to jiffies: this is true only with slice_idle=0
            and bfqd.last_idling_start_jiffy_ns + bfqd.slice_idle_ns * bfqd.jiffy_ns <= bfqd.jiffy_now_ns()
        ):
            limit = 1
        if bfqd.rq_in_driver >= limit:
            return None
        bfqq: BfqQueue | None = bfqd.active_list.head
        while bfqq is not None:
            if bfqq.sort_list.count and (always or bfqq.wr_coeff > 1) and self.budgets.affords_next(bfqq):
                if not bfqd.queue.rotational and bfqq.next_rq.nr_sectors >= SECT_THR_NONROT:
                    # A big one keeps a fast device busy for long
                    limit = min(1, limit)
                else:
                    limit = in_service.inject_limit
                if bfqd.rq_in_driver < limit:
                    bfqd.rqs_injected = True
                    return bfqq
            bfqq = bfqq.list_after
        return None

    # -- how much is learned --------------------------------------------------------------

    def on_request(self, bfqq: BfqQueue) -> int:
        """A process that had no request sends one to its synchronous queue."""
        bfqd = self.bfqd
        now = bfqd.jiffy_now_ns()
        if bfqd.last_completed_rq_bfqq is not None:
            self._check_waker(bfqq)
        if bfqq.decrease_time_ns + self.relearn_ns <= now:
            self.reset(bfqq)
        if (
            bfqq is bfqd.in_service_queue
            and (bfqd.rq_in_driver == 0 or (bfqq.last_serv_time_ns > 0 and bfqd.rqs_injected))
            and bfqq.decrease_time_ns + self.measure_ns <= now
        ):
            # From here on its service time is measured
            bfqd.last_empty_occupied_ns = bfqd.clock.now_ns
            bfqd.wait_dispatch = True
            if bfqd.rq_in_driver == 0:
                bfqd.rqs_injected = False
        return 0

    def reset(self, bfqq: BfqQueue) -> int:
        """Forget what was learned: begin with one, or none for a queue that comes back soon."""
        bfqq.last_serv_time_ns = 0
        self.bfqd.waited_rq = None
        bfqq.inject_limit = 0 if bfqq.has_short_ttime else 1
        bfqq.decrease_time_ns = self.bfqd.jiffy_now_ns()
        return 0

    def short_ttime_changed(self, bfqq: BfqQueue) -> int:
        """Whether it is worth waiting for `bfqq` has changed: what it could bear may have, too."""
        if bfqq.last_serv_time_ns == 0 and (
            not bfqq.has_short_ttime
            or bfqq.decrease_time_ns + self.short_change_ns <= self.bfqd.jiffy_now_ns()
        ):
            self.reset(bfqq)
        return 0

    def dispatched(self, bfqq: BfqQueue, rq: Request) -> int:
        """A request leaves for the device: is it the one whose service is measured?"""
        bfqd = self.bfqd
        if bfqd.wait_dispatch and bfqq is bfqd.in_service_queue:
            bfqd.wait_dispatch = False
            bfqd.waited_rq = rq
        return 0

    def served(self, bfqq: BfqQueue) -> int:
        """The request whose service was measured has been served."""
        bfqd = self.bfqd
        total_ns = bfqd.clock.now_ns - bfqd.last_empty_occupied_ns
        old_limit = bfqq.inject_limit
        if bfqq.last_serv_time_ns > 0 and bfqd.rqs_injected:
            threshold_ns = (bfqq.last_serv_time_ns * 3) >> 1
            if total_ns >= threshold_ns and old_limit > 0:
                bfqq.inject_limit -= 1
                bfqq.decrease_time_ns = bfqd.jiffy_now_ns()
            elif total_ns < threshold_ns and old_limit <= bfqd.max_rq_in_driver:
                bfqq.inject_limit += 1
        if (bfqq.last_serv_time_ns == 0 and bfqd.rq_in_driver == 1) or total_ns < bfqq.last_serv_time_ns:
            if bfqq.last_serv_time_ns == 0:
                # A first reference: now there is something to compare one injected request with
                bfqq.inject_limit = max(1, old_limit)
            bfqq.last_serv_time_ns = total_ns
        elif not bfqd.rqs_injected and bfqd.rq_in_driver == 1:
            bfqq.last_serv_time_ns = total_ns
        bfqd.waited_rq = None
        bfqd.rqs_injected = False
        return 0

    # -- who wakes whom ---------------------------------------------------------------------

    def _check_waker(self, bfqq: BfqQueue) -> int:
        bfqd = self.bfqd
        now_ns = bfqd.clock.now_ns
        last = bfqd.last_completed_rq_bfqq
        if last is bfqq or bfqq.has_short_ttime or now_ns - bfqd.last_completion_ns >= WAKER_WINDOW_NS:
            return 0
        if (
            last is not bfqq.tentative_waker_bfqq
            or now_ns > bfqq.waker_detection_started_ns + WAKER_PERIODS * bfqd.slice_idle_ns
        ):
            bfqq.tentative_waker_bfqq = last
            bfqq.num_waker_detections = 1
            bfqq.waker_detection_started_ns = now_ns
            if bfqd.logging:
                bfqd.log_queue(bfqq, f"set tentative waker {last.name()}")
        else:
            bfqq.num_waker_detections += 1
        if bfqq.num_waker_detections == WAKER_DETECTIONS:
            if bfqd.logging:
                bfqd.log_queue(bfqq, f"set waker {last.name()}")
            bfqq.tentative_waker_bfqq = None
            self.set_waker(bfqq, last)
        return 0

    def set_waker(self, bfqq: BfqQueue, waker: BfqQueue | None) -> int:
        """`waker` (None: nobody) is the queue whose completions `bfqq` waits for."""
        self.bfqd.forget_waker(bfqq)
        bfqq.waker_bfqq = waker
        if waker is not None:
            waker.woken.insert(0, bfqq)
        return 0
