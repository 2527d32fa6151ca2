"""request_queue: one device as the block layer sees it; what a bio and its request go through, step by step.

What: the queue holds what belongs to a device (limits, tags, hardware and software queues, scheduler,
counters, tracepoints) and the small operations that the submission (`submit.py`), a run of a hardware queue
(`dispatch.py`) and a driver are written with. They stand here in the order in which a request meets them.

Theory of operation
-------------------
A request is counted in `usage` from allocation to the end; freezing the queue (`switch.py`) keeps new bios out and
waits for zero. A completion arrives as a clock event, is taken to the CPU of the interrupt, from there perhaps to the
CPU that submitted it (`rq_affinity`), and ends the request: C, its bios, counters, tags, and a run if one was owed.

Deliberate differences: no polling; timeouts are looked at when the earliest may have passed, not every jiffy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import cython

from blklab.block.bio import BioPool
from blklab.block.dispatch import RunWork
from blklab.block.elv_merge import ElvMerge
from blklab.block.flush import RequeueWork
from blklab.block.hwqueue import HardwareQueue
from blklab.block.iostat import IoStat
from blklab.block.limits import QueueLimits
from blklab.block.merge import Merger
from blklab.block.request import Request, RequestList
from blklab.block.sbitmap import WaitQueue
from blklab.block.swqueue import SoftwareQueue
from blklab.block.tags import TagUser
from blklab.block.timeout import TimeoutTimer

if TYPE_CHECKING:
    from collections.abc import Callable

    from blklab.block.bio import Bio
    from blklab.block.cgroup import QueueGroups
    from blklab.block.driver import Driver
    from blklab.block.elevator import Elevator
    from blklab.block.features import Features
    from blklab.block.legacy import LegacyPath
    from blklab.block.qos import QosChain, Throttle
    from blklab.block.submit import Submitter
    from blklab.block.tags import TagSet
    from blklab.block.trace import Tracer
    from blklab.core.host import Host

if not cython.compiled:
    from blklab.block.consts import (
        F_FUA,
        F_PREFLUSH,
        F_TRACED,
        HOOK_BIO_MERGE,
        HOOK_COMPLETED,
        HOOK_REQUEUE,
        RQ_COMPLETE,
        RQ_DISPATCH,
        RQ_FREE,
        RQ_QUEUED,
        RQ_STARTED,
        RQF_ELV,
        RQF_ELVPRIV,
        RQF_FLUSH_SEQ,
        RQF_IO_STAT,
        RQF_MQ_INFLIGHT,
        RQF_REMOTE,
        STS_DEV_RESOURCE,
        STS_OK,
        STS_RESOURCE,
        TR_C,
        TR_D,
        TR_G,
        TR_I,
        TR_R,
    )
    from blklab.core.charging import charge
    from blklab.core.steps import (
        STEP_COMPLETE,
        STEP_DISPATCH_ONE,
        STEP_INSERT,
        STEP_LOCK_CTX,
        STEP_LOCK_HCTX,
        STEP_QUEUE_RQ,
        STEP_REMOTE_COMPLETE,
        STEP_REQUEUE,
        STEP_SCHED_INSERT,
        STEP_SOFTIRQ,
        STEP_TAG_PUT,
    )

DEFAULT_NR_REQUESTS = 128  # BLKDEV_DEFAULT_RQ: what a queue without requests shows
DEFAULT_IO_TIMEOUT_NS = 30_000_000_000


class RequestQueue:
    """The queue of device `name`, `number` in traces, on `driver` and its `tag_set` (None: a stacked device that takes
    bios). `bios` is the pool of the machine."""

    def __init__(
        self,
        name: str,
        number: int,
        host: Host,
        driver: Driver,
        tag_set: TagSet | None,
        features: Features,
        bios: BioPool | None = None,
    ) -> None:
        self.name = name
        self.number = number
        self.host = host
        self.clock = host.clock
        self.driver = driver
        self.tag_set: TagSet = tag_set  # only what has hardware queues asks
        self.features = features
        self.limits = QueueLimits()
        self.stat = IoStat(host.jiffy_ns)
        self.bios = bios or BioPool()
        self.bio_based = driver.bio_based
        self.whole: RequestQueue | None = None
        self.start_sector = 0
        self.merger = Merger(self)
        self.elv_merge = ElvMerge(self)
        self.size_sectors = 0
        self.elevator: Elevator | None = None
        self.elevator_name = "none"
        self.elevator_hooks = 0
        self.hw_tag = False
        self.sq_sched = False
        self.qos: QosChain | None = None
        self.blkcg: QueueGroups | None = None
        self.throttle: Throttle | None = None
        self.legacy: LegacyPath | None = None
        self.tracer: Tracer | None = None
        self.trace_mask = 0
        self.last_merge: Request | None = None
        self.checks = False
        self.nomerges = 0
        self.rq_affinity = 1
        self.iostats = True
        self.rotational = False
        self.write_cache = False
        self.fua = False
        self.io_timeout_ns = DEFAULT_IO_TIMEOUT_NS
        self.nr_requests = tag_set.queue_depth if tag_set is not None else DEFAULT_NR_REQUESTS
        self.nr_hw_queues = tag_set.nr_hw_queues if tag_set is not None else 0
        self.usage = 0
        self.freeze_depth = 0
        self.quiesced = False
        self.stopped = False
        self.halted = False
        self.frozen_waiters = WaitQueue()
        self.when_drained: list[Callable[[], object]] = []
        self.one = RequestList()
        self.free_rqs: Request | None = None  # last in, first out: those in use lie in few cache lines
        self.timer = TimeoutTimer(self)
        self.requeues = RequeueWork(self)
        self.ctxs = [SoftwareQueue(cpu) for cpu in range(host.nr_cpus)]
        self.hctxs: list[HardwareQueue] = []
        self.map: list[HardwareQueue] = []
        if tag_set is not None:
            shared_user = TagUser()
            for i, tags in enumerate(tag_set.tags):
                hctx = HardwareQueue(self, i, tags, shared_user if tag_set.hctx_shared else TagUser())
                hctx.work = RunWork(hctx)
                self.hctxs.append(hctx)
            self.map = [self.hctxs[i] for i in driver.map_queues(self.nr_hw_queues, host.nr_cpus)]
            for ctx in self.ctxs:
                self.map[ctx.cpu].add_ctx(ctx)
            tag_set.add_queue(self)
        driver.attach(self)
        self.hw_write_cache = self.write_cache  # what the driver has, whatever the user says

    def set_trace(self, tracer: Tracer | None, mask: int) -> None:
        """Record the tracepoints of `mask` in `tracer`; None: nothing."""
        self.tracer = tracer
        self.trace_mask = mask if tracer is not None else 0

    def set_tag_queue_shared(self, shared: bool) -> None:
        """Whether other devices use the same driver tags."""
        for hctx in self.hctxs:
            hctx.tag_queue_shared = shared

    def hctx_of(self, cpu: int) -> HardwareQueue:
        """The hardware queue that a CPU submits to."""
        hctx: HardwareQueue = self.map[cpu]
        return hctx

    # -- a bio comes ---------------------------------------------------------------

    def start_flush(self, bio: Bio) -> bool:
        """A bio with preflush or FUA. Without a write cache both mean nothing, and an empty one ends here:
        False."""
        if not self.write_cache:
            bio.flags &= ~(F_PREFLUSH | F_FUA)
            if bio.nr_sectors == 0:
                self.end_bio(bio, STS_OK)
                return False
        return True

    def wait_unfrozen(self, submitter: Submitter) -> None:
        """Keep a submitter until the queue is unfrozen."""
        self.frozen_waiters.append(submitter)

    def sched_bio_merge(self, bio: Bio, segments: int, submitter: Submitter) -> bool:
        """blk_mq_sched_bio_merge: with what the scheduler holds, else with this CPU's software queue."""
        elevator = self.elevator
        if elevator is not None and self.elevator_hooks & HOOK_BIO_MERGE:
            return elevator.bio_merge(bio, segments, submitter)
        ctx: SoftwareQueue = self.ctxs[submitter.cpu]
        if self.features.merge_only_if_queued and ctx.rq_list.count == 0:
            return False
        self.host.lock(ctx.lock, STEP_LOCK_CTX)
        merged = self.merger.list_merge(ctx.rq_list, bio, segments)
        self.host.unlock(ctx.lock)
        return merged

    # -- a request takes it --------------------------------------------------------------

    def start_bio(self, rq: Request, bio: Bio, segments: int) -> int:
        """The request takes the bio: G, counters."""
        if self.trace_mask & TR_G:
            self.tracer.add(TR_G, self.number, bio.op, bio.flags, bio.sector, bio.nr_sectors, 0)
        rq.op = bio.op
        rq.flags = bio.flags
        rq.ioprio = bio.ioprio
        rq.bio = bio
        rq.biotail = bio
        rq.sector = bio.sector
        rq.nr_sectors = bio.nr_sectors
        rq.nr_segments = segments
        if self.qos is not None:
            self.qos.track(rq, bio)
        if rq.rq_flags & RQF_IO_STAT:
            self.stat.started(rq.op, self.clock.now_ns)
            rq.part = bio.part
            if bio.part is not None:
                bio.part.started(rq.op, self.clock.now_ns)
        return 0

    # -- it is inserted ------------------------------------------------------------------

    def trace_insert(self, rq: Request) -> int:
        """I: for schedulers, when they queue a request."""
        if self.trace_mask & TR_I:
            self.tracer.add(TR_I, self.number, rq.op, rq.flags, rq.sector, rq.nr_sectors, 0)
        rq.move(RQ_QUEUED)
        return 0

    def insert_request(self, rq: Request, at_head: bool) -> int:
        """Into the scheduler, or this request's software queue."""
        hctx = rq.hctx
        hctx.queued_count += 1
        if self.elevator is not None:
            charge(self.host, STEP_SCHED_INSERT)
            self.one.append(rq)
            self.elevator.insert_requests(hctx, self.one, at_head)
            return 0
        ctx = rq.ctx
        self.host.lock(ctx.lock, STEP_LOCK_CTX)
        charge(self.host, STEP_INSERT)
        self.trace_insert(rq)
        if at_head:
            ctx.rq_list.push(rq)
        else:
            ctx.rq_list.append(rq)
        hctx.mark_pending(ctx)
        self.host.unlock(ctx.lock)
        return 0

    def insert_list(self, hctx: HardwareQueue, ctx: SoftwareQueue, rqs: RequestList) -> int:
        """The requests of one unplugged batch: into the scheduler, or spliced onto their software queue."""
        host = self.host
        hctx.queued_count += rqs.count
        if self.elevator is not None:
            charge(host, STEP_SCHED_INSERT)
            self.elevator.insert_requests(hctx, rqs, False)
            return 0
        if self.features.list_splice_insert:
            # I is traced, and the requests touched, before the lock is taken
            for rq in rqs:
                charge(host, STEP_INSERT)
                self.trace_insert(rq)
            host.lock(ctx.lock, STEP_LOCK_CTX)
            ctx.rq_list.splice_tail(rqs)
        else:
            host.lock(ctx.lock, STEP_LOCK_CTX)
            while rqs.count:
                rq = rqs.popleft()
                charge(host, STEP_INSERT)
                self.trace_insert(rq)
                ctx.rq_list.append(rq)
        hctx.mark_pending(ctx)
        host.unlock(ctx.lock)
        return 0

    def bypass_insert(self, rq: Request) -> int:
        """On the dispatch list (blk_mq_request_bypass_insert): what the driver would not take. No I."""
        hctx = rq.hctx
        rq.move(RQ_DISPATCH)
        self.host.lock(hctx.lock, STEP_LOCK_HCTX)
        charge(self.host, STEP_INSERT)
        hctx.dispatch_list.append(rq)
        self.host.unlock(hctx.lock)
        return 0

    # -- the hardware queue is run ---------------------------------------------------------

    def run_here(self, hctx: HardwareQueue, submitter: Submitter) -> int:
        """Run it in the task, if there is something to do and the task's CPU is one of the queue's."""
        if self.halted or not hctx.has_pending():
            return 0
        if self.map[submitter.cpu] is hctx and not self.driver.blocking:
            return submitter.run.start(hctx)
        return self.host.queue_work(hctx.work, hctx.next_work_cpu(), 0)

    def run_async(self, hctx: HardwareQueue) -> int:
        """Have a worker run it, if there is something to do."""
        if self.halted or not hctx.has_pending():
            return 0
        return self.host.queue_work(hctx.work, hctx.next_work_cpu(), 0)

    def dispatches_from_worker(self, rq: Request) -> bool:
        """Whether a request inserted without a plug is dispatched by a worker, or by its task."""
        how = self.features.async_dispatch_from_worker
        return how == 1 or (how == 2 and not (rq.is_sync() and self.nr_hw_queues > 1))

    def set_quiesced(self, quiesced: bool) -> None:
        """Whether nothing may be dispatched for the moment."""
        self.quiesced = quiesced
        self.halted = quiesced or self.stopped

    def stop_hw_queues(self) -> None:
        """blk_mq_stop_hw_queues: nothing is dispatched until the driver, which is full, starts it again."""
        self.stopped = True
        self.halted = True

    def start_stopped(self) -> int:
        """blk_mq_start_stopped_hw_queues: dispatch again, by workers."""
        if not self.stopped:
            return 0
        self.stopped = False
        self.halted = self.quiesced
        return self.run_all()

    def run_delayed(self, hctx: HardwareQueue, delay_ns: int) -> int:
        """Have a worker run it after `delay_ns`, in whole jiffies as the kernel's timers."""
        jiffy_ns = self.host.jiffy_ns
        jiffies = (delay_ns + jiffy_ns - 1) // jiffy_ns
        now = self.clock.now_ns
        due = (now // jiffy_ns + jiffies + 1) * jiffy_ns if jiffies else now
        return self.host.queue_work(hctx.work, hctx.next_work_cpu(), due - now)

    def run_all(self) -> int:
        """blk_mq_run_hw_queues(async): every hardware queue that has something to do; with a scheduler of the
        whole device that of this CPU, which serves all, and those with a dispatch list."""
        mine = self.map[self.host.cpu] if self.sq_sched else None
        for hctx in self.hctxs:
            if mine is None or hctx is mine or hctx.dispatch_list.count:
                self.run_async(hctx)
        return 0

    def run_all_delayed(self, delay_ns: int) -> int:
        """The same after a delay. A run that waits already is left alone, else two hardware queues could put
        off each other's for ever."""
        mine = self.map[self.host.cpu] if self.sq_sched else None
        for hctx in self.hctxs:
            if not hctx.work.pending and (mine is None or hctx is mine or hctx.dispatch_list.count):
                self.run_delayed(hctx, delay_ns)
        return 0

    # -- it goes to the driver ---------------------------------------------------------------

    def get_budget(self) -> int:
        """A budget token from the driver; 0 where drivers have no budget; -1: none to be had."""
        if self.driver.has_budget:
            return self.driver.get_budget(self)
        return 0

    def put_budget(self, token: int) -> int:
        """Give a token back."""
        if self.driver.has_budget and token >= 0:
            return self.driver.put_budget(self, token)
        return 0

    def put_rq_budget(self, rq: Request) -> int:
        """Give back the token of a request that will not be issued now."""
        if rq.budget_token >= 0:
            token = rq.budget_token
            rq.budget_token = -1
            return self.put_budget(token)
        return 0

    def prepare_direct(self, rq: Request) -> bool:
        """Budget and driver tag for a request that is to be issued directly."""
        token = self.get_budget()
        if token < 0:
            return False
        if not rq.hctx.get_driver_tag(rq):
            self.put_budget(token)
            return False
        rq.budget_token = token
        return True

    def issue_prepared(self, rq: Request, last: bool) -> int:
        """__blk_mq_issue_directly: to the driver, whose answer counts for dispatch_busy."""
        hctx = rq.hctx
        charge(self.host, STEP_QUEUE_RQ)
        status = self.driver.queue_rq(hctx, rq, last)
        if status == STS_RESOURCE or status == STS_DEV_RESOURCE:
            hctx.update_busy(True)
            self.requeued(rq)
        else:
            hctx.update_busy(False)
            hctx.dispatched_count += 1
        return status

    def issue_directly(self, rq: Request, last: bool) -> int:
        """blk_mq_request_issue_directly: STS_RESOURCE also when there is no budget or no tag."""
        if self.halted:
            self.insert_request(rq, False)
            return STS_OK
        charge(self.host, STEP_DISPATCH_ONE)
        if not self.prepare_direct(rq):
            return STS_RESOURCE
        return self.issue_prepared(rq, last)

    def start_request(self, rq: Request) -> int:
        """blk_mq_start_request, called by drivers: D, the time of issue, the timeout."""
        now = self.clock.now_ns
        if self.trace_mask & TR_D and self.legacy is None:
            self.tracer.add(TR_D, self.number, rq.op, rq.flags, rq.sector, rq.nr_sectors, 0)
        rq.io_start_ns = now
        rq.cpu = self.host.cpu
        if self.checks:
            rq.move(RQ_STARTED)
        else:
            rq.state = RQ_STARTED
        if self.qos is not None:
            self.qos.issue(rq)
        rq.deadline_ns = now + self.io_timeout_ns
        if not self.timer.armed:
            self.timer.arm(rq.deadline_ns)
        return 0

    def requeued(self, rq: Request) -> int:
        """__blk_mq_requeue_request: R; the driver gave it back, its tag may serve another."""
        rq.hctx.put_driver_tag(rq)
        charge(self.host, STEP_REQUEUE)
        if self.trace_mask & TR_R:
            self.tracer.add(TR_R, self.number, rq.op, rq.flags, rq.sector, rq.nr_sectors, 0)
        if self.qos is not None:
            self.qos.requeue(rq)
        rq.move(RQ_DISPATCH)
        self.put_rq_budget(rq)
        return 0

    def requeue(self, rq: Request) -> int:
        """blk_mq_requeue_request: a started request comes back; it is inserted again, a worker runs the queue."""
        if self.legacy is not None:
            return self.legacy.requeue(rq)
        self.requeued(rq)
        if rq.rq_flags & RQF_ELVPRIV and self.elevator_hooks & HOOK_REQUEUE:
            self.elevator.requeue_request(rq)
        hctx = rq.hctx
        if rq.rq_flags & RQF_FLUSH_SEQ:
            return self.requeues.add(rq, True)
        self.insert_request(rq, True)
        return self.run_async(hctx)

    def fail_request(self, rq: Request, status: int) -> int:
        """The driver refused it for good."""
        rq.status = status
        self.put_rq_budget(rq)
        return self.end_request(rq, status)

    # -- it completes --------------------------------------------------------------------------

    def complete(self, rq: Request, status: int) -> int:
        """blk_mq_complete_request, called by drivers at its time: an interrupt on the device's CPU."""
        if rq.state != RQ_STARTED:
            return 0
        rq.status = status
        if self.checks:
            rq.move(RQ_COMPLETE)
        else:
            rq.state = RQ_COMPLETE
        return self.host.interrupt(self.driver.irq_cpu(rq), rq, False)

    def completed_here(self, rq: Request) -> int:
        """In the interrupt: end it here, or on the CPU that submitted it (rq_affinity)."""
        host = self.host
        cpu = rq.ctx.cpu
        if rq.rq_flags & RQF_REMOTE:
            rq.rq_flags &= ~RQF_REMOTE
        elif rq.hctx.nr_ctx > 1 and not self.driver.ends_in_irq:
            # blk_mq_complete_request_remote; with one CPU a hardware queue there is nowhere else to go
            if (
                self.rq_affinity
                and host.cpu != cpu
                and (self.rq_affinity == 2 or not host.share_cache(host.cpu, cpu))
            ):
                rq.rq_flags |= RQF_REMOTE
                charge(host, STEP_REMOTE_COMPLETE)
                return host.interrupt(cpu, rq, True)
            if self.nr_hw_queues == 1:
                charge(host, STEP_SOFTIRQ)
        charge(host, STEP_COMPLETE)
        if self.legacy is not None:
            return self.legacy.request_fn.end(rq)
        return self.driver.end(rq)

    def end_request(self, rq: Request, status: int) -> int:
        """blk_mq_end_request: C, the bios' end, counters, scheduler, tags; or one step of a flush sequence."""
        if rq.rq_flags & RQF_FLUSH_SEQ:
            return rq.hctx.fq.ended(rq, status)
        self.end_bios(rq, status)
        return self.free_request(rq)

    def end_flushed(self, rq: Request, status: int) -> int:
        """The end of a flush sequence, which has been traced."""
        self._bios_ended(rq, status)
        return self.free_request(rq)

    def end_bios(self, rq: Request, status: int) -> int:
        """The part of it that its submitters see: C, their bios, counters, the scheduler."""
        if self.trace_mask & TR_C:
            self.tracer.add(TR_C, self.number, rq.op, rq.flags, rq.sector, rq.nr_sectors, status)
        return self._bios_ended(rq, status)

    def _bios_ended(self, rq: Request, status: int) -> int:
        now = self.clock.now_ns
        bio = rq.bio
        rq.bio = None
        rq.biotail = None
        while bio is not None:
            following = bio.next
            bio.next = None
            bio.flags &= ~F_TRACED  # its C is the request's
            bio.endio(status)
            bio = following
        if rq.rq_flags & RQF_IO_STAT:
            self.stat.done(rq.op, rq.nr_sectors, rq.start_ns, now)
            if rq.part is not None:
                rq.part.done(rq.op, rq.nr_sectors, rq.start_ns, now)
        if rq.rq_flags & RQF_ELV and self.elevator_hooks & HOOK_COMPLETED:
            self.elevator.completed_request(rq, now)
        return 0

    def end_bio(self, bio: Bio, status: int) -> int:
        """bio_endio (bio.py), of whichever device."""
        return bio.endio(status)

    def free_request(self, rq: Request) -> int:
        """blk_mq_free_request: give back its tags, and run the hardware queue if that is owed."""
        if self.legacy is not None:
            return self.legacy.free_request(rq)
        hctx = rq.hctx
        if rq.rq_flags & RQF_ELVPRIV:
            self.elevator.finish_request(rq)
        if rq.rq_flags & RQF_MQ_INFLIGHT:
            hctx.user.nr_active -= 1
        if self.qos is not None:
            self.qos.done(rq)
        if self.checks:
            rq.move(RQ_FREE)
        else:
            rq.state = RQ_FREE
        rq.rq_flags = 0
        rq.elv0 = None
        rq.elv1 = None
        cpu = rq.ctx.cpu
        if rq.tag >= 0:
            hctx.tags.put(rq.tag, cpu)
            charge(self.host, STEP_TAG_PUT)
            rq.tag = -1
        if rq.internal_tag >= 0:
            hctx.sched_tags.put(rq.internal_tag, cpu)
            charge(self.host, STEP_TAG_PUT)
            rq.internal_tag = -1
        rq.next = self.free_rqs
        self.free_rqs = rq
        if hctx.restart:
            hctx.restart = False
            self.run_async(hctx)
        self.usage -= 1
        if self.freeze_depth and self.usage == 0:
            self.drained()
        return 0

    def drained(self) -> int:
        """Nothing is in flight: who froze the queue is told."""
        waiting, self.when_drained = self.when_drained, []
        for call in waiting:
            call()
        return 0
