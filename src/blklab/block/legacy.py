"""The single queue of kernels before 5.0 (legacy_request_fn): one list, one lock, one scheduler for a whole
device.

What: `LegacyPath` is what `RequestQueue` does with a bio on such a device (`queue.legacy`): __make_request or
blk_queue_bio. Its parts: who may have a request is in `legacy_requests.py`, what goes to the driver and comes
back in `legacy_run.py`, the plug of kernels before 2.6.39 in `legacy_plug.py`. docs/legacy.md tells the whole
trip.

Theory of operation
-------------------
Everything is under `lock`, and every CPU takes it several times for each I/O: to submit, for each request that goes
to the driver, and when one has ended. A bio

    merge     tries the requests in the task's plug (since 2.6.39, without the lock), then those of the scheduler
    request   takes a request if there is room, or sleeps until one has ended (S)
    add       joins the plug of its task (since 2.6.39), or goes to the scheduler (I)

and the queue is run: by the task that flushes its plug, by the driver's completion, or by a worker
(`run_one`, one request at a time, with the lock given back while the driver has it).

A scheduler takes requests by `add_request` and moves some to the dispatch list when asked
(`dispatch_requests`), where they may be sorted by sector once more (`dispatch_sort`): the list goes round as
a disk's head does, up from `end_sector` and then from the start again, and nothing is put before what the
driver has seen already.

To switch schedulers the old one gives out all that it has, and takes no more: requests allocated from then on
bypass it, to the end of the dispatch list. When the last of the old ones has ended, the new one is put in
place.

Deliberate differences: the scheduler is switched when the last request has ended, not at the next look 10 ms
later; a run that yields to another CPU does so between two requests; a barrier before 2.6.37 is served by the
flush machine of later kernels and does not drain the queue; bios merge into requests of the same priority
only, as today.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import cython

from blklab.block.legacy_plug import QueuePlug
from blklab.block.legacy_requests import IoContext, RequestRoom
from blklab.block.legacy_run import RequestFn
from blklab.block.legacy_unplug import UnplugAtFinish
from blklab.block.request import Request
from blklab.core.host import Lock

if TYPE_CHECKING:
    from collections.abc import Callable

    from blklab.block.bio import Bio
    from blklab.block.queue import RequestQueue
    from blklab.block.submit import Submitter

if not cython.compiled:
    from blklab.block.consts import (
        DONE,
        F_FUA,
        F_NOWAIT,
        F_PREFLUSH,
        MERGE_OK,
        NO_QUEUE,
        OP_DISCARD,
        RQ_DISPATCH,
        RQ_GOT,
        RQ_PLUGGED,
        RQF_DELIVERED,
        RQF_ELVPRIV,
        RQF_IO_STAT,
        RQF_SOFTBARRIER,
        RQF_SORTED,
        STS_AGAIN,
        STS_OK,
        TR_MSG,
        TR_P,
        TR_S,
        TR_U,
        TR_UT,
        WAIT,
        YIELD,
    )
    from blklab.core.charging import charge
    from blklab.core.steps import (
        STEP_LOCK,
        STEP_PLUG_ADD,
        STEP_RQ_INIT,
        STEP_SCHED_INSERT,
    )

# Where a task's bio stands (IoContext.stage)
BIO_NEW = 0
BIO_WAITS = 1  # for a request
BIO_HAS_REQUEST = 2
BIO_FLUSHED = 3  # has one, and the plug has been flushed to make room for it


class LegacyPath:
    """The single queue of one device; makes itself `queue.legacy`.

    For schedulers: `dispatch_sort`, `dispatch_add_tail`, `run_queue`, `kick`; `nr_sorted` requests are with
    the scheduler, `in_driver` with the driver; `end_sector` is where the last one ended that went from the
    dispatch list.
    """

    def __init__(self, queue: RequestQueue) -> None:
        self.queue = queue
        self.hctx = queue.hctxs[0]
        self.dispatch_list = self.hctx.dispatch_list
        self.lock = Lock(f"queue_lock {queue.name}")
        self.inside = False
        self.run_wanted = False
        self.plugs_queue = bool(queue.features.queue_plug)
        self.room = RequestRoom(queue.host.jiffy_ns, not self.plugs_queue)
        self.request_fn = RequestFn(self)
        self.queue_plug = QueuePlug(self)
        self.nr_requests = self.room.nr_requests
        self.nr_sorted = 0
        self.in_driver = 0
        self.end_sector = 0
        self.boundary_rq: Request | None = None
        self.bypass = False
        self.elvpriv = 0
        self.switches: list[Callable[[], object]] = []
        queue.nr_requests = self.nr_requests
        queue.legacy = self

    def take(self) -> None:
        """The queue lock."""
        self.queue.host.lock(self.lock, STEP_LOCK)
        self.inside = True

    def give(self) -> None:
        """Give it back."""
        self.inside = False
        self.queue.host.unlock(self.lock)

    def is_empty(self) -> bool:
        """elv_queue_empty: neither scheduler nor dispatch list holds anything."""
        return self.nr_sorted == 0 and self.dispatch_list.count == 0

    # -- a bio comes -----------------------------------------------------------------------

    def submit(self, submitter: Submitter, bio: Bio) -> int:
        """__make_request: DONE (it was taken or has ended), WAIT or YIELD (call again with the same bio)."""
        ioc = submitter.ioc
        if ioc is None:
            ioc = IoContext()
            submitter.ioc = ioc
        if ioc.stage == BIO_NEW:
            if self.plugs_queue:
                if submitter.plug.active and submitter.plug.callback_of(self) is None:
                    submitter.plug.add_callback(UnplugAtFinish(self, submitter))
            elif submitter.plug.single.count and self._plug_merge(submitter, bio):
                return DONE
            self.take()
            if not self.is_empty() and self._merge(bio, submitter.segments):
                self.give()
                return self._run_if_wanted(submitter)
        elif ioc.stage == BIO_WAITS:
            if submitter.wait_queue is not None:
                return WAIT
            # Who slept may take a batch
            ioc.set_batching(self.queue.clock.now_ns, self.queue.host.jiffy_ns)
            self.take()
        if ioc.stage < BIO_HAS_REQUEST:
            if not self._get_request(submitter, ioc, bio):
                if ioc.stage == BIO_NEW:
                    return DONE  # it did not want to wait
                return YIELD if submitter.run.active else WAIT
            if bio.flags & (F_PREFLUSH | F_FUA) and self.hctx.insert_flush(ioc.rq, submitter):
                ioc.stage = BIO_NEW
                ioc.rq = None
                return DONE
        if submitter.plug.active and not self.plugs_queue:
            return self._add_to_plug(submitter, ioc)
        rq = ioc.rq
        ioc.rq = None
        ioc.stage = BIO_NEW
        self.take()
        if self.plugs_queue:
            self._add_plugged(rq, submitter)
        else:
            self._insert(rq, False)
            self.run_wanted = True
        self.give()
        return self._run_if_wanted(submitter)

    def _run_if_wanted(self, submitter: Submitter) -> int:
        if self.run_wanted:
            self.run_wanted = False
            submitter.run.start(self.hctx)
        return DONE

    # -- merge ------------------------------------------------------------------------------

    def _plug_merge(self, submitter: Submitter, bio: Bio) -> bool:
        # blk_attempt_plug_merge of the time: all requests of the plug, latest first; the scheduler is not
        # asked
        queue = self.queue
        merger = queue.merger
        if queue.nomerges >= 2 or not merger.bio_mergeable(bio):
            return False
        rq = submitter.plug.single.tail
        while rq is not None:
            if rq.queue is queue and merger.attempt_bio_merge(rq, bio, submitter.segments, False) == MERGE_OK:
                return True
            rq = rq.prev
        return False

    def _merge(self, bio: Bio, segments: int) -> bool:
        # elv_merge, bio_attempt_back_merge or front_merge, attempt_back_merge or front_merge,
        # elv_merged_request
        queue = self.queue
        merge = queue.elv_merge
        if not merge.try_merge(bio, segments):
            return False
        emptied = merge.freed
        if queue.elevator is not None:
            queue.elevator.bio_merged(merge.found if emptied is not merge.found else queue.last_merge, bio)
        if emptied is not None:
            self.nr_sorted -= 1
            self.put(emptied)
        return True

    # -- request ----------------------------------------------------------------------------

    def _get_request(self, submitter: Submitter, ioc: IoContext, bio: Bio) -> bool:
        # get_request_wait, with the lock held, which it gives back. False: the task is to sleep, or the bio
        # has ended
        queue = self.queue
        elevator = queue.elevator
        sync = bio.is_sync()
        taken = False
        may_queue = 0
        if elevator is not None:
            may_queue = elevator.may_queue(submitter, bio.op, bio.flags)
        if may_queue == NO_QUEUE:
            self.room.refused(sync)
        else:
            taken = self.room.take(ioc, sync, may_queue, queue.clock.now_ns)
        if not taken:
            if bio.flags & F_NOWAIT:
                self.give()
                queue.end_bio(bio, STS_AGAIN)
                return False
            ioc.stage = BIO_WAITS
            self.room.sleep(submitter, sync)
            if queue.trace_mask & TR_S:
                queue.tracer.add(TR_S, queue.number, bio.op, bio.flags, bio.sector, bio.nr_sectors, 0)
            if self.plugs_queue:
                self.queue_plug.unplug()
            self.give()
            self._run_if_wanted(submitter)
            return False
        scheduled = elevator is not None and not self.bypass and not bio.flags & (F_PREFLUSH | F_FUA)
        if scheduled:
            self.elvpriv += 1
        self.give()
        rq = self._init_request(bio, submitter)
        ioc.rq = rq
        ioc.stage = BIO_HAS_REQUEST
        if scheduled:
            rq.rq_flags |= RQF_ELVPRIV
            elevator.set_request(rq, bio)
        queue.start_bio(rq, bio, submitter.segments)
        return True

    def _init_request(self, bio: Bio, submitter: Submitter) -> Request:
        # blk_alloc_request
        queue = self.queue
        rq = queue.free_rqs
        if rq is None:
            rq = Request(queue)
        else:
            queue.free_rqs = rq.next
            rq.next = None
        rq.tag = -1
        rq.internal_tag = -1
        rq.budget_token = -1
        rq.hctx = self.hctx
        rq.ctx = queue.ctxs[submitter.cpu]
        rq.submitter = bio.submitter
        rq.op = bio.op
        rq.flags = bio.flags
        rq.ioprio = bio.ioprio
        rq.sector = bio.sector
        rq.nr_sectors = bio.nr_sectors
        rq.bio = bio
        rq.biotail = bio
        rq.status = STS_OK
        rq.start_ns = queue.clock.now_ns
        rq.io_start_ns = 0
        rq.rq_flags = RQF_IO_STAT if queue.iostats else 0
        rq.move(RQ_GOT)
        queue.usage += 1
        charge(queue.host, STEP_RQ_INIT)
        return rq

    # -- add --------------------------------------------------------------------------------

    def _add_to_plug(self, submitter: Submitter, ioc: IoContext) -> int:
        # The plug of the task. Only requests of this device count: who has several devices may hold more
        queue = self.queue
        plug = submitter.plug
        rq = ioc.rq
        own = 0
        other = plug.single.head
        while other is not None:
            if other.queue is queue:
                own += 1
            other = other.next
        if own and ioc.stage != BIO_FLUSHED:
            last = plug.single.tail
            features = queue.features
            if own >= features.plug_max or last.nr_sectors << 9 >= features.plug_flush_bytes:
                ioc.stage = BIO_FLUSHED
                submitter.flush_plug()
                return YIELD
        if own == 0 and queue.trace_mask & TR_P:
            queue.tracer.add(TR_P, queue.number, 0, 0, 0, 0, 0)
        charge(queue.host, STEP_PLUG_ADD)
        rq.move(RQ_PLUGGED)
        plug.single.append(rq)
        ioc.rq = None
        ioc.stage = BIO_NEW
        return DONE

    def unplug(self, submitter: Submitter, from_schedule: bool) -> int:
        """blk_flush_plug_list, for one device of those that have requests in the plug: the one with the
        lowest number. They are inserted in order of sectors (single_plug_sorted), and the queue is run: here,
        or by a worker if the task is to sleep."""
        plug = submitter.plug
        rq = plug.single.head
        first = rq.queue
        while rq is not None:
            if rq.queue.number < first.number:
                first = rq.queue
            rq = rq.next
        return first.legacy.flush_list(submitter, from_schedule)

    def flush_list(self, submitter: Submitter, from_schedule: bool) -> int:
        """`unplug` of this device's requests."""
        queue = self.queue
        plug = submitter.plug
        rqs = []
        rq = plug.single.head
        while rq is not None:
            following = rq.next
            if rq.queue is queue:
                plug.single.remove(rq)
                rqs.append(rq)
            rq = following
        if queue.features.single_plug_sorted:
            rqs.sort(key=_sector)
        self.take()
        for rq in rqs:
            self._insert(rq, True)
        action = TR_UT if from_schedule else TR_U
        if queue.trace_mask & action:
            queue.tracer.add(action, queue.number, 0, 0, 0, 0, len(rqs))
        self.run_wanted = False
        self.give()
        if from_schedule:
            return queue.run_async(self.hctx)
        return submitter.run.start(self.hctx)

    def _add_plugged(self, rq: Request, submitter: Submitter) -> int:
        # Before 2.6.39: the queue itself is plugged while it is empty, and opened when there is enough in it
        plug = self.queue_plug
        if self.is_empty():
            plug.plug()
        self._insert(rq, False)
        if plug.plugged and self.room.total() - self.in_driver >= plug.threshold:
            plug.unplug()
        if not submitter.plug.active:
            # Nobody will wait for it in a way that opens the plug (BIO_RW_UNPLUG)
            plug.unplug()
        return 0

    def _insert(self, rq: Request, may_merge: bool) -> int:
        # __elv_add_request, with the lock held: to the scheduler, or past it if it was not allocated for it
        queue = self.queue
        queue.trace_insert(rq)
        self.hctx.queued_count += 1
        elevator = queue.elevator
        if not rq.rq_flags & RQF_ELVPRIV:
            rq.rq_flags |= RQF_SOFTBARRIER
            self._drain()
            rq.move(RQ_DISPATCH)
            self.dispatch_list.append(rq)
            self.run_wanted = True
            return 0
        charge(queue.host, STEP_SCHED_INSERT)
        if may_merge:
            emptied = queue.elv_merge.insert_merge(rq)
            for one in emptied:
                if one.rq_flags & RQF_SORTED:
                    self.nr_sorted -= 1
                self.put(one)
            if emptied:
                return 0
        rq.rq_flags |= RQF_SORTED
        self.nr_sorted += 1
        queue.elv_merge.add(rq)
        elevator.add_request(rq)
        if self.bypass:
            self._drain()
        return 0

    # -- the dispatch list --------------------------------------------------------------------

    def dispatch_sort(self, rq: Request) -> None:
        """elv_dispatch_sort: the scheduler gives `rq` out; on the dispatch list it is sorted in by sector."""
        self._leaves(rq)
        boundary = self.end_sector
        at = self.dispatch_list.tail
        while at is not None:
            if (rq.op == OP_DISCARD) != (at.op == OP_DISCARD) or (rq.op & 1) != (at.op & 1):
                break
            if at.rq_flags & (RQF_SOFTBARRIER | RQF_DELIVERED):
                break
            if rq.sector >= boundary:
                if at.sector < boundary:
                    at = at.prev
                    continue
            elif at.sector >= boundary:
                break
            if rq.sector >= at.sector:
                break
            at = at.prev
        if at is None:
            self.dispatch_list.push(rq)
        else:
            self.dispatch_list.insert_behind(rq, at)

    def dispatch_add_tail(self, rq: Request) -> None:
        """elv_dispatch_add_tail: the scheduler gives `rq` out, as the last one of the dispatch list."""
        self._leaves(rq)
        self.end_sector = rq.sector + rq.nr_sectors
        self.boundary_rq = rq
        self.dispatch_list.append(rq)

    def _leaves(self, rq: Request) -> int:
        self.queue.elv_merge.remove(rq)
        self.nr_sorted -= 1
        rq.move(RQ_DISPATCH)
        return 0

    def run_queue(self) -> int:
        """blk_run_queue, for schedulers: within one of their hooks, as soon as the path has done with it;
        else by a worker."""
        if self.inside:
            self.run_wanted = True
            return 0
        return self.kick()

    def kick(self) -> int:
        """Have a worker run the queue (kblockd_schedule_work), if there is something to run."""
        if self.queue.halted or self.is_empty():
            return 0
        return self.queue.host.queue_work(self.hctx.work, -1, 0)

    # -- a request ends ------------------------------------------------------------------------

    def requeue(self, rq: Request) -> int:
        """The driver gives back a request that it had started; a worker tries again."""
        self.request_fn.requeue(rq)
        return self.kick()

    def free_request(self, rq: Request) -> int:
        """blk_put_request: it has ended, and makes room for another."""
        self.take()
        self.put(rq)
        self.give()
        if self.run_wanted and not self.request_fn.completing:
            self.run_wanted = False
            self.kick()
        return 0

    def put(self, rq: Request) -> int:
        """__blk_put_request, with the lock held."""
        queue = self.queue
        self.request_fn.left_driver(rq)
        scheduled = rq.rq_flags & RQF_ELVPRIV
        if scheduled:
            queue.elevator.finish_request(rq)
        sync = rq.is_sync()
        rq.move(0)
        rq.rq_flags = 0
        rq.elv0 = None
        rq.elv1 = None
        rq.next = queue.free_rqs
        queue.free_rqs = rq
        self.room.give(sync)
        queue.usage -= 1
        if queue.freeze_depth and queue.usage == 0:
            queue.drained()
        if scheduled:
            self.elvpriv -= 1
            if self.bypass and self.elvpriv == 0:
                self._switch()
        return 0

    # -- another scheduler, another nr_requests --------------------------------------------------

    def switch_elevator(self, install: Callable[[], object], message: str) -> None:
        """elevator_switch: `install` the new one when the requests of the old one have ended, perhaps at
        once. Switches are made in the order they were asked for."""

        def now() -> None:
            install()
            queue = self.queue
            if queue.trace_mask & TR_MSG and queue.tracer is not None:
                queue.tracer.message(queue.number, message)

        self.switches.append(now)
        if not self.bypass:
            self.bypass = True
            self.inside = True
            self._drain()
            self.inside = False
            if self.elvpriv == 0:
                self._switch()
        self.kick()

    def _switch(self) -> None:
        for install in self.switches:
            install()
        self.switches = []
        self.bypass = False

    def _drain(self) -> int:
        # elv_drain_elevator
        elevator = self.queue.elevator
        if elevator is not None:
            while self.nr_sorted and elevator.dispatch_requests(True):
                pass
        return 0

    def set_nr_requests(self, nr: int) -> None:
        """Write nr_requests, of each side."""
        self.nr_requests = nr
        self.queue.nr_requests = nr
        self.room.resize(nr)


def _sector(rq: Request) -> int:
    return rq.sector
