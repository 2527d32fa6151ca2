"""Running a hardware queue: from the dispatch list, the scheduler or the software queues to the driver.

What: `HctxRun` is one run of `blk_mq_sched_dispatch_requests`, by a task that flushed its plug or by a worker. Why an
object: a run may stop between two requests so that another CPU can go first, and continue later, so what a stack frame
holds in the kernel is kept here.

Theory of operation
-------------------
`step` goes on until the run is DONE or someone else is due (YIELD). Phases:

    TRY     what is left on the dispatch list goes first (and marks the queue for a restart);
            else a scheduler is asked (SCHED), else software queues: one by one while the driver is busy (CTX), or all
            at once (LIST)
    SCHED   take requests from the scheduler, each with a budget, until it has none, there is no driver tag for
            the next, or as many as one round may take: one while the driver is busy
    CTX     take one request from the next software queue in turn, with a budget
    SINGLE  a single queue (legacy.py): its request function takes one request to the driver
    LIST    give the requests of `rqs` to the driver one after another; what it does not take goes on the
            dispatch list, with a restart, a wait for a tag, or a retry after 3 ms

`after` says where a LIST came from, and so what follows it.

Deliberate differences: no need_resched check (a CPU's tasks share it by `sim`'s rules); zone locks come later.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import cython

from blklab.block.request import RequestList
from blklab.core.host import Work

if TYPE_CHECKING:
    from blklab.block.hwqueue import HardwareQueue
    from blklab.block.request import Request

if not cython.compiled:
    from blklab.block.consts import (
        BUDGET_DELAY_NS,
        DONE,
        RESOURCE_DELAY_NS,
        ROUND_NS,
        RQ_DISPATCH,
        STS_DEV_RESOURCE,
        STS_OK,
        STS_RESOURCE,
        YIELD,
    )
    from blklab.block.dispatch_phases import (
        AFTER_CTX,
        AFTER_FLUSH,
        AFTER_RESIDUAL,
        AFTER_SCHED,
        PHASE_CTX,
        PHASE_LIST,
        PHASE_SCHED,
        PHASE_SINGLE,
        PHASE_TRY,
        PREP_NO_BUDGET,
        PREP_NO_TAG,
        PREP_OK,
        RESULT_AGAIN,
        RESULT_NOTHING,
        RESULT_SOME,
    )
    from blklab.core.charging import charge
    from blklab.core.steps import (
        STEP_DISPATCH_ONE,
        STEP_LOCK_CTX,
        STEP_LOCK_HCTX,
        STEP_QUEUE_RQ,
        STEP_RUN_QUEUE,
        STEP_SCHED_DISPATCH,
    )


class HctxRun:
    """One run of a hardware queue; each task and each worker has one, used again."""

    def __init__(self) -> None:
        self.active = False
        self.fresh = False
        self.hctx: HardwareQueue | None = None
        self.list_hctx: HardwareQueue | None = None
        self.rqs = RequestList()
        self.taken = RequestList()
        self.phase = PHASE_TRY
        self.after = AFTER_FLUSH
        self.attempt = 0
        self.prep = PREP_OK
        self.status = STS_OK
        self.nr_budgets = 0
        self.queued = 0
        self.errors = 0
        self.needs_resource = False
        self.dispatched = False
        self.saw_dispatch_list = False
        self.kick = False
        self.ctx_index = 0
        self.until_ns = 0

    def start(self, hctx: HardwareQueue) -> int:
        """Begin a run; nothing happens if the queue is quiesced or stopped."""
        if hctx.queue.halted:
            return 0
        hctx.run_count += 1
        charge(hctx.queue.host, STEP_RUN_QUEUE)
        self.active = True
        self.fresh = True
        self.hctx = hctx
        self.list_hctx = hctx
        self.attempt = 0
        self.phase = PHASE_TRY
        if hctx.queue.legacy is not None:
            self.phase = PHASE_SINGLE
            hctx.queue.legacy.request_fn.start_run()
        return 0

    def step(self) -> int:
        """Go on. DONE or YIELD."""
        if self.fresh:
            # What led here, a whole submission, took time: who has been due since then sees the queue first
            self.fresh = False
            if self.active and self.hctx.queue.host.yield_due():
                return YIELD
        while self.active:
            phase = self.phase
            if phase == PHASE_LIST:
                self._list_one()
            elif phase == PHASE_CTX:
                self._ctx_one()
            elif phase == PHASE_SCHED:
                self._sched()
            elif phase == PHASE_SINGLE:
                self.active = self.hctx.queue.legacy.request_fn.run_one()
            else:
                self._try()
            if self.active and self.hctx.queue.host.yield_due():
                return YIELD
        return DONE

    # -- TRY -----------------------------------------------------------------

    def _try(self) -> int:
        hctx = self.hctx
        queue = hctx.queue
        if hctx.dispatch_list.count:
            queue.host.lock(hctx.lock, STEP_LOCK_HCTX)
            self.rqs.splice_tail(hctx.dispatch_list)
            queue.host.unlock(hctx.lock)
            hctx.restart = True
            return self._begin_list(0, AFTER_RESIDUAL)
        if queue.elevator is not None:
            return self._begin_sched()
        busy = hctx.dispatch_busy > 0 if queue.features.dispatch_busy else self._one_by_one()
        if busy:
            return self._begin_ctx()
        self._flush_ctxs()
        return self._begin_list(0, AFTER_FLUSH)

    def _one_by_one(self) -> bool:
        # Before dispatch_busy (4.15 to 4.18): whenever the driver has a budget
        queue = self.hctx.queue
        return queue.features.dequeue_one_by_one_with_budget and queue.driver.has_budget

    def _flush_ctxs(self) -> int:
        # blk_mq_flush_busy_ctxs: everything that the software queues hold
        hctx = self.hctx
        host = hctx.queue.host
        index = hctx.next_pending(0)
        while index >= 0:
            ctx = hctx.ctxs[index]
            host.lock(ctx.lock, STEP_LOCK_CTX)
            rq = ctx.rq_list.popleft()
            while rq is not None:
                rq.move(RQ_DISPATCH)
                self.rqs.append(rq)
                rq = ctx.rq_list.popleft()
            hctx.clear_pending(ctx)
            host.unlock(ctx.lock)
            index = hctx.next_pending(index)
        return 0

    # -- CTX -----------------------------------------------------------------

    def _begin_ctx(self) -> int:
        self.ctx_index = self.hctx.dispatch_from
        self.phase = PHASE_CTX
        return 0

    def _ctx_one(self) -> int:
        # blk_mq_do_dispatch_ctx, one turn
        hctx = self.hctx
        queue = hctx.queue
        host = queue.host
        if hctx.dispatch_list.count:
            return self._end_ctx(RESULT_AGAIN)
        if hctx.nr_pending == 0:
            return self._end_ctx(RESULT_NOTHING)
        token = queue.get_budget()
        if token < 0:
            return self._end_ctx(RESULT_NOTHING)
        index = hctx.next_pending(self.ctx_index)
        ctx = hctx.ctxs[index]
        host.lock(ctx.lock, STEP_LOCK_CTX)
        rq = ctx.rq_list.popleft()
        if ctx.rq_list.count == 0:
            hctx.clear_pending(ctx)
        host.unlock(ctx.lock)
        rq.budget_token = token
        rq.move(RQ_DISPATCH)
        self.rqs.append(rq)
        index = ctx.index_hw + 1
        self.ctx_index = 0 if index == hctx.nr_ctx else index
        return self._begin_list(1, AFTER_CTX)

    def _end_ctx(self, result: int) -> int:
        self.hctx.dispatch_from = self.ctx_index
        return self._end(result)

    # -- SCHED ---------------------------------------------------------------

    def _begin_sched(self) -> int:
        self.until_ns = self.hctx.queue.clock.now_ns + ROUND_NS
        self.phase = PHASE_SCHED
        return 0

    def _sched(self) -> int:
        # __blk_mq_do_dispatch_sched: one round
        hctx = self.hctx
        queue = hctx.queue
        elevator = queue.elevator
        most = queue.nr_requests
        if hctx.dispatch_busy or not queue.features.dispatch_busy_with_elevator:
            most = 1
        count = 0
        several = False
        self.saw_dispatch_list = False
        self.kick = False
        self.dispatched = False
        while count < most:
            if elevator is None or not elevator.has_work(hctx):
                break
            if hctx.dispatch_list.count:
                self.saw_dispatch_list = True
                break
            token = queue.get_budget()
            if token < 0:
                break
            charge(queue.host, STEP_SCHED_DISPATCH)
            rq = elevator.dispatch_request(hctx)
            if rq is None:
                queue.put_budget(token)
                self.kick = True
                break
            rq.budget_token = token
            rq.move(RQ_DISPATCH)
            self.taken.append(rq)
            count += 1
            if rq.hctx is not hctx:
                several = True
            if not rq.hctx.get_driver_tag(rq):
                break
        if count == 0:
            if self.kick:
                queue.run_all_delayed(BUDGET_DELAY_NS)
            return self._end(RESULT_AGAIN if self.saw_dispatch_list else RESULT_NOTHING)
        if several:
            self._sort_taken()
        return self._next_group()

    def _sort_taken(self) -> int:
        # Requests of several hardware queues: those of one go to the driver together (list_sort is stable)
        rqs = sorted(self.taken, key=_hctx_index)
        while self.taken.count:
            self.taken.popleft()
        for rq in rqs:
            self.taken.append(rq)
        return 0

    def _next_group(self) -> int:
        group = self.taken.head.hctx
        count = 0
        while self.taken.count and self.taken.head.hctx is group:
            self.rqs.append(self.taken.popleft())
            count += 1
        self.list_hctx = group
        return self._begin_list(count, AFTER_SCHED)

    # -- LIST ----------------------------------------------------------------

    def _begin_list(self, nr_budgets: int, after: int) -> int:
        self.nr_budgets = nr_budgets
        self.after = after
        self.queued = 0
        self.errors = 0
        self.prep = PREP_OK
        self.status = STS_OK
        self.needs_resource = False
        self.phase = PHASE_LIST
        if self.rqs.count == 0:
            return self._follow(False)
        return 0

    def _list_one(self) -> int:
        # blk_mq_dispatch_rq_list, one request
        hctx = self.list_hctx
        queue = hctx.queue
        rq = self.rqs.head
        charge(queue.host, STEP_DISPATCH_ONE)
        self.prep = self._prepare(rq)
        if self.prep != PREP_OK:
            return self._end_list()
        self.rqs.popleft()
        last = True
        if self.rqs.count:
            last = not hctx.get_driver_tag(self.rqs.head)
        if self.nr_budgets:
            self.nr_budgets -= 1
        charge(queue.host, STEP_QUEUE_RQ)
        status = queue.driver.queue_rq(hctx, rq, last)
        self.status = status
        if status == STS_OK:
            self.queued += 1
        elif status == STS_RESOURCE or status == STS_DEV_RESOURCE:
            self.needs_resource = status == STS_RESOURCE
            # The next one's driver tag, if it has a scheduler tag too, is of no use now
            if self.rqs.count:
                hctx.put_driver_tag(self.rqs.head)
            self.rqs.push(rq)
            queue.requeued(rq)
            return self._end_list()
        else:
            self.errors += 1
            queue.fail_request(rq, status)
        if self.rqs.count == 0:
            return self._end_list()
        return 0

    def _prepare(self, rq: Request) -> int:
        # blk_mq_prep_dispatch_rq: a budget, if none came with the request, and a driver tag
        hctx = rq.hctx
        queue = hctx.queue
        need_budget = self.nr_budgets == 0
        if need_budget:
            token = queue.get_budget()
            if token < 0:
                hctx.put_driver_tag(rq)
                return PREP_NO_BUDGET
            rq.budget_token = token
        if not hctx.get_driver_tag(rq) and not self._mark_tag_wait(hctx, rq):
            if need_budget:
                queue.put_budget(rq.budget_token)
                rq.budget_token = -1
            return PREP_NO_TAG
        return PREP_OK

    def _mark_tag_wait(self, hctx: HardwareQueue, rq: Request) -> bool:
        # blk_mq_mark_tag_wait: not shared: the next completion restarts the queue. Shared: wait among the others.
        if not hctx.tag_queue_shared and not hctx.queue.tag_set.hctx_shared:
            hctx.restart = True
            return hctx.get_driver_tag(rq)
        if hctx.dispatch_wait.wait_queue is None:
            hctx.tags.bitmap.wait(hctx.dispatch_wait, hctx.next_wait_index())
            if hctx.get_driver_tag(rq):
                hctx.tags.bitmap.stop_waiting(hctx.dispatch_wait)
                return True
        return False

    def _end_list(self) -> int:
        hctx = self.list_hctx
        queue = hctx.queue
        left = self.rqs.count > 0
        if (left or self.errors or self.needs_resource or self.status == STS_DEV_RESOURCE) and self.queued:
            queue.driver.commit_rqs(hctx)
        hctx.dispatched_count += self.queued
        if not left:
            hctx.update_busy(False)
            return self._follow(self.queued + self.errors != 0)
        no_tag = self.prep == PREP_NO_TAG and (hctx.tag_queue_shared or queue.tag_set.hctx_shared)
        if self.nr_budgets:
            for rq in self.rqs:
                queue.put_rq_budget(rq)
        host = queue.host
        host.lock(hctx.lock, STEP_LOCK_HCTX)
        hctx.dispatch_list.splice_tail(self.rqs)
        host.unlock(hctx.lock)
        if self.prep == PREP_NO_BUDGET:
            self.needs_resource = True
        if not hctx.restart or (no_tag and hctx.dispatch_wait.wait_queue is None):
            queue.run_async(hctx)
        elif self.needs_resource:
            queue.run_delayed(hctx, RESOURCE_DELAY_NS)
        hctx.update_busy(True)
        return self._follow(False)

    def _follow(self, more: bool) -> int:
        # What comes after a list, which went to the driver whole (`more`: and was not empty) or not
        after = self.after
        hctx = self.hctx
        if after == AFTER_RESIDUAL:
            if not more:
                return self._end(RESULT_NOTHING)
            return self._begin_sched() if hctx.queue.elevator is not None else self._begin_ctx()
        if after == AFTER_CTX:
            if more:
                self.phase = PHASE_CTX
                return 0
            return self._end_ctx(RESULT_NOTHING)
        if after == AFTER_SCHED:
            if more:
                self.dispatched = True
            if self.taken.count:
                return self._next_group()
            self.list_hctx = hctx
            if self.saw_dispatch_list:
                return self._end(RESULT_AGAIN)
            if not self.dispatched:
                return self._end(RESULT_NOTHING)
            if hctx.queue.clock.now_ns > self.until_ns:
                hctx.queue.run_async(hctx)
                return self._end(RESULT_SOME)
            self.phase = PHASE_SCHED
            return 0
        return self._end(RESULT_NOTHING)

    def _end(self, result: int) -> int:
        # AGAIN: the dispatch list filled meanwhile, and must not starve
        hctx = self.hctx
        if result == RESULT_AGAIN:
            self.attempt += 1
            if self.attempt < 2:
                self.phase = PHASE_TRY
                return 0
            hctx.queue.run_async(hctx)
        self.active = False
        return 0


def _hctx_index(rq: Request) -> int:
    return rq.hctx.index


class RunWork(Work):
    """The work item that runs one hardware queue in a worker."""

    def __init__(self, hctx: HardwareQueue) -> None:
        super().__init__()
        self.hctx = hctx
        self.run = HctxRun()

    def step(self) -> int:
        """One section of a run."""
        if not self.run.active:
            self.run.start(self.hctx)
        return self.run.step()
