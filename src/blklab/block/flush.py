"""The flush machine: what becomes of a bio with PREFLUSH or FUA on a device that has a write cache.

What: such a bio is at most three things in a row: a flush before its data, the data, a flush after it. `FlushQueue`
takes the request of each through them, one of it for every hardware queue. Why a machine: flushes are slow and many
tasks ask for one at the same time, so one flush serves all that wait for one.

Theory of operation (blk-flush.c of 6.1)
----------------------------------------
Which steps a request needs (`insert`):

    cache   FUA     PREFLUSH bio        FUA bio
    no      -       neither: both flags are dropped before Q (RequestQueue.start_flush), an empty bio ends there
    yes     no      flush, data         data, flush
    yes     yes     flush, data         data, written with FUA: goes to the dispatch list at once

A request that waits for a flush is in `pending`. When no flush is under way and no data of such requests is, or a
request has waited for five seconds, one flush is issued for all of them (`_kick`): they are `running` then, and what
comes meanwhile waits for the next one. Flush and data pass no scheduler: they go to the head of the dispatch list, from
a worker (`RequeueWork`), since steps end in interrupt context. Since 6.5 (`flush_data_scheduled`) only the flush
does: data with nothing before it goes on through plug and scheduler, and that of a PREFLUSH is inserted by the worker.

The flush is a request of its own that borrows the tag of the first one that waits for it: its driver tag, or with a
scheduler its scheduler tag, in which case it gets a driver tag as others do. It has no bio, and is traced as FN with
neither I nor G. C is traced for the data and, with no sectors, for the end of the whole; of data that was never issued,
since the flush before it failed, C is of all its sectors.

Deliberate differences: a flush or its data that is late is given more time, unless the device lost it, since its tag
is another one's; `flush_data_in_flight` is a number, nothing asks which they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import cython

from blklab.block.dispatch import HctxRun
from blklab.block.request import Request, RequestList
from blklab.core.host import Lock, Work

if TYPE_CHECKING:
    from blklab.block.hwqueue import HardwareQueue
    from blklab.block.queue import RequestQueue
    from blklab.block.submit import Submitter

if not cython.compiled:
    from blklab.block.consts import (
        DONE,
        F_FUA,
        F_PREFLUSH,
        F_SYNC,
        HOOK_COMPLETED,
        OP_FLUSH,
        RQ_DISPATCH,
        RQ_FREE,
        RQ_GOT,
        RQF_ELV,
        RQF_FLUSH_SEQ,
        RQF_MQ_INFLIGHT,
        STS_OK,
        TR_C,
        YIELD,
    )
    from blklab.core.charging import charge
    from blklab.core.steps import STEP_FLUSH, STEP_INSERT, STEP_LOCK, STEP_LOCK_HCTX

# Steps of a sequence, as bits of Request.flush_seq: those that are done or not needed
FSEQ_PREFLUSH = 1
FSEQ_DATA = 2
FSEQ_POSTFLUSH = 4
FSEQ_DONE = 8
FLUSH_PENDING_TIMEOUT_NS = 5_000_000_000


class FlushQueue:
    """The flushes of one hardware queue (blk_flush_queue)."""

    def __init__(self, hctx: HardwareQueue) -> None:
        self.hctx = hctx
        self.queue = hctx.queue
        self.lock = Lock("mq_flush_lock")
        self.flush_rq = Request(hctx.queue)
        self.pending = RequestList()
        self.running = RequestList()
        self.served = RequestList()
        self.in_flight = False
        self.data_in_flight = 0
        self.pending_since_ns = 0
        self.nr_flushes = 0

    def insert(self, rq: Request, submitter: Submitter) -> int:
        """blk_insert_flush: a request that was just made for a bio with PREFLUSH or FUA. 0: it goes on as others do."""
        queue = self.queue
        needs = FSEQ_DATA if rq.nr_sectors else 0
        if queue.write_cache:
            if rq.flags & F_PREFLUSH:
                needs |= FSEQ_PREFLUSH
            if rq.flags & F_FUA and not queue.fua:
                needs |= FSEQ_POSTFLUSH
        rq.flags = (rq.flags & ~F_PREFLUSH) | F_SYNC
        if not queue.fua:
            rq.flags &= ~F_FUA
        if needs == 0:
            queue.end_request(rq, STS_OK)
            return 1
        if needs == FSEQ_DATA:
            if queue.features.flush_data_scheduled:
                return 0
            queue.bypass_insert(rq)
            queue.run_here(rq.hctx, submitter)
            return 1
        rq.rq_flags |= RQF_FLUSH_SEQ
        if needs == FSEQ_DATA | FSEQ_POSTFLUSH and queue.features.flush_data_scheduled:
            rq.flush_seq = FSEQ_PREFLUSH
            self.data_in_flight += 1
            return 0
        rq.flush_seq = 0
        self._step_done(rq, (FSEQ_PREFLUSH | FSEQ_DATA | FSEQ_POSTFLUSH) & ~needs, STS_OK)
        return 1

    def ended(self, rq: Request, status: int) -> int:
        """A request of the machine has been answered: the flush (flush_end_io), or the data of a sequence
        (mq_flush_data_end_io)."""
        queue = self.queue
        if queue.legacy is not None:
            queue.legacy.request_fn.left_driver(rq)
        if queue.trace_mask & TR_C:
            queue.tracer.add(TR_C, queue.number, rq.op, rq.flags, rq.sector, rq.nr_sectors, status)
        if rq is self.flush_rq:
            return self._flush_ended(status)
        if rq.rq_flags & RQF_ELV and queue.elevator_hooks & HOOK_COMPLETED:
            queue.elevator.completed_request(rq, queue.clock.now_ns)
        hctx = rq.hctx
        hctx.put_driver_tag(rq)
        self.data_in_flight -= 1
        self._step_done(rq, FSEQ_DATA, status)
        if hctx.restart:
            hctx.restart = False
            queue.run_async(hctx)
        return 0

    def _flush_ended(self, status: int) -> int:
        rq = self.flush_rq
        queue = self.queue
        queue.stat.flush_done(rq.start_ns, queue.clock.now_ns)
        if rq.internal_tag >= 0:
            rq.hctx.put_driver_tag(rq)
            rq.internal_tag = -1
        rq.tag = -1
        rq.move(RQ_FREE)
        self.in_flight = False
        # The first of these that goes on may start the next flush: what that one serves must not be mixed with them
        served = self.served
        served.splice_tail(self.running)
        while served.count:
            rq = served.popleft()
            self._step_done(rq, _next_step(rq.flush_seq), status)
        return 0

    def _step_done(self, rq: Request, step: int, status: int) -> int:
        # blk_flush_complete_seq: on to the next step, or out
        queue = self.queue
        host = queue.host
        host.lock(self.lock, STEP_LOCK)
        charge(host, STEP_FLUSH)
        rq.flush_seq |= step
        step = FSEQ_DONE if status else _next_step(rq.flush_seq)
        if step == FSEQ_DATA:
            self.data_in_flight += 1
            queue.requeues.add(rq, True)
        elif step == FSEQ_DONE:
            rq.rq_flags &= ~RQF_FLUSH_SEQ
            if queue.trace_mask & TR_C:
                # Data that was written, or failed, has been traced already; what a failed flush kept back has not
                nr_sectors = 0 if rq.flush_seq & FSEQ_DATA else rq.nr_sectors
                queue.tracer.add(TR_C, queue.number, rq.op, rq.flags, rq.sector, nr_sectors, status)
            queue.end_flushed(rq, status)
        else:
            if self.pending.count == 0:
                self.pending_since_ns = queue.clock.now_ns
            self.pending.append(rq)
        self._kick()
        host.unlock(self.lock)
        return 0

    def _kick(self) -> int:
        # blk_kick_flush: one flush for all that wait
        if self.in_flight or self.pending.count == 0:
            return 0
        queue = self.queue
        now = queue.clock.now_ns
        if self.data_in_flight and now < self.pending_since_ns + FLUSH_PENDING_TIMEOUT_NS:
            return 0
        self.in_flight = True
        self.nr_flushes += 1
        self.running.splice_tail(self.pending)
        first = self.running.head
        rq = self.flush_rq
        rq.hctx = first.hctx
        rq.ctx = first.ctx
        rq.submitter = first.submitter
        rq.rq_flags = RQF_FLUSH_SEQ
        if queue.elevator is None or queue.hw_tag:
            rq.tag = first.tag
            rq.internal_tag = -1
            rq.rq_flags |= RQF_MQ_INFLIGHT  # the tag is counted already
        else:
            rq.tag = -1
            rq.internal_tag = first.internal_tag
        rq.op = OP_FLUSH
        rq.flags = F_PREFLUSH
        rq.budget_token = -1
        rq.status = STS_OK
        rq.start_ns = now
        rq.move(RQ_GOT)
        return queue.requeues.add(rq, False)


class RequeueWork(Work):
    """blk_mq_requeue_work: inserts requests that could not be inserted where they came from, and runs the queue."""

    def __init__(self, queue: RequestQueue) -> None:
        Work.__init__(self)
        self.queue = queue
        self.rqs = RequestList()
        self.run = HctxRun()
        self.index = 0

    def add(self, rq: Request, at_head: bool) -> int:
        """blk_mq_add_to_requeue_list, and have the worker run."""
        if at_head:
            self.rqs.push(rq)
        else:
            self.rqs.append(rq)
        return self.queue.host.queue_work(self, -1, 0)

    def step(self) -> int:
        """Insert what is there, then run each hardware queue: here, if this CPU is one of its, or by its own worker."""
        queue = self.queue
        if self.run.active:
            if self.run.step() == YIELD:
                return YIELD
        else:
            self.index = 0
            while self.rqs.count:
                self._insert(self.rqs.popleft())
        mine = queue.map[queue.host.cpu] if queue.sq_sched else None
        while self.index < len(queue.hctxs):
            hctx = queue.hctxs[self.index]
            self.index += 1
            if queue.halted or not hctx.has_pending():
                continue
            if mine is not None and hctx is not mine and hctx.dispatch_list.count == 0:
                continue
            if queue.map[queue.host.cpu] is not hctx or queue.driver.blocking:
                queue.run_async(hctx)
                continue
            self.run.start(hctx)
            if self.run.step() == YIELD:
                return YIELD
        return DONE

    def _insert(self, rq: Request) -> int:
        # blk_mq_sched_bypass_insert: flushes and their data go to the head of the dispatch list
        queue = self.queue
        if rq.op != OP_FLUSH and queue.features.flush_data_scheduled:
            return queue.insert_request(rq, True)
        hctx = rq.hctx
        host = queue.host
        rq.move(RQ_DISPATCH)
        host.lock(hctx.lock, STEP_LOCK_HCTX)
        charge(host, STEP_INSERT)
        hctx.dispatch_list.push(rq)
        host.unlock(hctx.lock)
        return 0


def _next_step(done: int) -> int:
    # blk_flush_cur_seq
    if not done & FSEQ_PREFLUSH:
        return FSEQ_PREFLUSH
    if not done & FSEQ_DATA:
        return FSEQ_DATA
    if not done & FSEQ_POSTFLUSH:
        return FSEQ_POSTFLUSH
    return FSEQ_DONE
