"""The trip of a bio down to the driver, or to where it must wait: blk_mq_submit_bio, in stages.

What: `Submitter` is what the kernel's `current` is to the block layer: the plug, the list of bios still to be
submitted, and where in its submission the present bio is. `advance` takes it as far as it goes. Why stages: a
submission may sleep (no tag, frozen queue, held back by a policy) or must let another CPU go first; it is
then continued from the state kept here, never from a Python stack.

Theory of operation (as in 6.1)
-------------------------------
    ENTER     a partition's bio goes to its disk (A); Q is traced
    SPLIT     a frozen queue makes the task sleep. A stacked device takes the bio whole and sends on what it makes
              of it. Else a bio that exceeds the limits is cut (X): the front goes on, the rest is submitted after it
    MERGE     into the plug's last request, then into the scheduler's requests or this CPU's software queue: M, F
    QOS       the rq-qos chain may hold it back
    TAG       a tag: cached in the plug, or from the bitmap. When there is none: run the hardware queue, try
              again, then sleep in a wait queue; sleeping flushes the plug (UT)
    REQUEST   G; the request is set up
    PLUG      into the plug, which is flushed first if it is full
    ISSUE     or: insert (I) and have the queue run; or straight to the driver (D)

`advance` returns DONE (nothing more to submit), WAIT (the waker makes the submitter runnable, then call
again) or YIELD (call again at this CPU's next turn).

What a bio's submission sends on (`submit_noacct`: a stacked device's bios, the rest of a cut one) does not
recurse: it is kept in `fresh` until the bio is through, then sorted before what waits in `bios` (the task's
bio_list): first what goes to other devices, which are lower, then what stays on the same one. So each bio reaches the
bottom before the next one of its level starts. What the task itself wants to submit next waits behind all of that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import cython

from blklab.block.bio import BioList
from blklab.block.dispatch import HctxRun
from blklab.block.plug import Plug
from blklab.block.request import RequestList
from blklab.block.sbitmap import Waiter

if TYPE_CHECKING:
    from collections.abc import Iterable

    from blklab.block.bio import Bio
    from blklab.block.cgroup import Cgroup
    from blklab.block.legacy_requests import IoContext
    from blklab.block.queue import RequestQueue
    from blklab.block.request import Request
    from blklab.block.tags import Tags

if not cython.compiled:
    from blklab.block.consts import (
        DONE,
        F_FUA,
        F_NOMERGE,
        F_NOWAIT,
        F_PREFLUSH,
        F_RELEASED,
        F_TRACED,
        RQ_PLUGGED,
        RQF_ELV,
        STS_AGAIN,
        STS_DEV_RESOURCE,
        STS_OK,
        STS_RESOURCE,
        TR_P,
        TR_Q,
        TR_U,
        TR_UT,
        TR_X,
        WAIT,
        YIELD,
    )
    from blklab.block.submit_stages import (
        STAGE_ENTER,
        STAGE_ISSUE,
        STAGE_LEGACY,
        STAGE_MERGE,
        STAGE_PLUG,
        STAGE_PLUG_FLUSHED,
        STAGE_QOS,
        STAGE_REQUEST,
        STAGE_SPLIT,
        STAGE_TAG,
        STAGE_TAG_AGAIN,
        STAGE_TAG_WOKEN,
    )
    from blklab.core.charging import charge
    from blklab.core.steps import STEP_PLUG_ADD, STEP_SPLIT, STEP_SPLIT_COPY, STEP_SUBMIT_BIO


class Submitter(Waiter):
    """A task as the block layer sees it. Subclasses define `wake` (make it runnable) and `bio_done`."""

    def __init__(self) -> None:
        super().__init__()
        self.cpu = 0
        self.pid = 0
        self.plug = Plug()
        self.run = HctxRun()
        self.bio: Bio | None = None
        self.rq: Request | None = None
        self.stage = STAGE_ENTER
        self.tags: Tags | None = None
        self.segments = 0
        self.wait_index = 0
        self.depth = 0
        self.in_use = False
        self.qos_next = 0
        self.cgroup: Cgroup | None = None
        self.ioc: IoContext | None = None
        self.level: RequestQueue | None = None
        self.fresh = BioList()
        self.bios = BioList()
        self.later = BioList()
        self.lower = BioList()
        self.same = BioList()
        self.batch = RequestList()

    def bio_done(self, bio: Bio) -> int:
        """A bio that this task submitted has ended, with `bio.status`. In interrupt context of the completing
        CPU."""
        raise NotImplementedError

    def exit_io_context(self, queues: Iterable[RequestQueue]) -> None:
        """The task ends: the schedulers of the devices it may have used forget it."""
        for queue in queues:
            if queue.elevator is not None:
                queue.elevator.exit_icq(self)

    # -- bios to be submitted ----------------------------------------------------

    def submit(self, bio: Bio) -> int:
        """Submit one bio (`bio.queue` says where to). DONE, WAIT or YIELD as `advance`."""
        self.begin(bio)
        return self.advance()

    def begin(self, bio: Bio) -> None:
        """The next bio to submit: at once if no other is under way, else after those that are."""
        if self.bio is None and self.bios.head is None and self.fresh.head is None:
            self.bio = bio
            self.stage = STAGE_ENTER
        else:
            self.later.append(bio)

    def submit_noacct(self, bio: Bio) -> int:
        """submit_bio_noacct, while the submission of another bio is under way, which this one comes from."""
        if self._enter(bio):
            self.fresh.append(bio)
        return 0

    def _enter(self, bio: Bio) -> bool:
        # submit_bio_noacct's own part; False: the bio has ended, or blk-throttle keeps it
        queue = bio.queue
        if queue.whole is not None:
            bio.remap_partition()
            queue = bio.queue
        if bio.flags & (F_PREFLUSH | F_FUA) and not queue.start_flush(bio):
            return False
        if queue.blkcg is not None:
            queue.blkcg.associate(bio)
            if bio.flags & F_RELEASED:
                bio.flags &= ~F_RELEASED
            elif queue.throttle is not None and queue.throttle.hold(bio, self):
                return False
            bio.blkg.stat.account(bio)
        if not bio.flags & F_TRACED:
            bio.flags |= F_TRACED
            if queue.trace_mask & TR_Q:
                queue.tracer.add(TR_Q, queue.number, bio.op, bio.flags, bio.sector, bio.nr_sectors, 0)
        return True

    def _take(self) -> int:
        # __submit_bio_noacct: what the last bio sent on, those for lower devices first, before what was there
        if self.fresh.head is not None:
            lower = self.lower
            same = self.same
            bio = self.fresh.popleft()
            while bio is not None:
                if bio.queue is self.level:
                    same.append(bio)
                else:
                    lower.append(bio)
                bio = self.fresh.popleft()
            self.bios.push_list(same)
            self.bios.push_list(lower)
        self.stage = STAGE_SPLIT
        self.bio = self.bios.popleft()
        if self.bio is None:
            self.stage = STAGE_ENTER
            self.bio = self.later.popleft()
        else:
            charge(self.bio.queue.host, STEP_SUBMIT_BIO)
        return 0

    def advance(self) -> int:
        """Go on with what is to be submitted."""
        while True:
            if self.run.active and self.run.step() == YIELD:
                return YIELD
            if self.plug.flushing and self._flush_step() == YIELD:
                return YIELD
            if self.bio is None:
                if self.fresh.head is None and self.bios.head is None and self.later.head is None:
                    return DONE
                self._take()
                if self.bio.queue.host.yield_due():  # type: ignore[attr-defined]
                    return YIELD
            result = self._stages(self.bio)
            if result != DONE:
                return result

    # -- stages --------------------------------------------------------------------

    def _stages(self, bio: Bio) -> int:
        # DONE: nothing stands in the way of going on, with this bio or with the next
        queue = bio.queue
        stage = self.stage
        if stage == STAGE_ENTER:
            charge(queue.host, STEP_SUBMIT_BIO)
            if not self._enter(bio):
                self.bio = None
                return DONE
            queue = bio.queue
            stage = STAGE_SPLIT
        if stage == STAGE_SPLIT:
            if queue.freeze_depth:
                self.stage = STAGE_SPLIT
                if self.wait_queue is None:
                    queue.wait_unfrozen(self)
                return self._sleep()
            if queue.bio_based:
                return self._send_down(queue, bio)
            bio = self.split_to_limits(bio)
            stage = STAGE_MERGE if queue.legacy is None else STAGE_LEGACY
        if stage == STAGE_LEGACY:
            self.stage = STAGE_LEGACY
            result = queue.legacy.submit(self, bio)
            if result == DONE:
                self.bio = None
            return self._sleep() if result == WAIT else result
        if stage == STAGE_MERGE:
            if queue.nomerges < 2 and queue.merger.bio_mergeable(bio) and self._merge(bio):
                self.bio = None
                return DONE
            stage = STAGE_QOS
        if stage == STAGE_QOS:
            if queue.qos is not None and queue.qos.throttle(bio, self) == WAIT:
                self.stage = STAGE_QOS
                return self._sleep()
            stage = STAGE_TAG
        if stage < STAGE_REQUEST:
            if not self._tag(bio, stage):
                # Out of tags: run the queue and try again, or sleep; or the bio ended (NOWAIT)
                if self.bio is None:
                    return DONE
                if self.stage == STAGE_TAG_AGAIN:
                    # A completion that came while this section ran frees its tag before the second try
                    return YIELD if queue.host.yield_due() else DONE
                return self._sleep()
            queue.start_bio(self.rq, bio, self.segments)
            if bio.flags & (F_PREFLUSH | F_FUA) and self.rq.hctx.insert_flush(self.rq, self):
                self.rq = None
                self.bio = None
                return DONE
            if self.plug.active:
                stage = STAGE_PLUG
            else:
                stage = STAGE_ISSUE
        if stage == STAGE_PLUG or stage == STAGE_PLUG_FLUSHED:
            return self._add_to_plug(stage)
        rq = self.rq
        self.rq = None
        self.bio = None
        if rq.rq_flags & RQF_ELV or (rq.hctx.dispatch_busy and (queue.nr_hw_queues == 1 or not rq.is_sync())):
            return self._insert_and_run(rq, queue.dispatches_from_worker(rq))
        if not queue.features.direct_issue_if_idle and queue.nr_hw_queues == 1:
            return self._insert_and_run(rq, True)
        return self._issue_or_insert(rq)

    def _send_down(self, queue: RequestQueue, bio: Bio) -> int:
        # A stacked device makes of it what it wants
        if queue.host.cond_resched():
            # It allocates a bio first, which might sleep
            self.stage = STAGE_SPLIT
            return YIELD
        self.level = queue
        if queue.driver.submit_bio(self, bio) == WAIT:
            self.stage = STAGE_SPLIT
            return self._sleep()
        self.bio = None
        return DONE

    def _sleep(self) -> int:
        # The task goes to sleep: its plug is flushed, by inserting and having workers dispatch
        plug = self.plug
        if plug.callbacks is not None:
            plug.run_callbacks(True)
        if plug.count:
            plug.count = 0
            plug.from_schedule = True
            while plug.requests.count:
                self._unplug_group()
        while plug.single.count:
            plug.single.head.queue.legacy.unplug(self, True)
        if plug.cached.count:
            self._free_cached()
        return WAIT

    def split_to_limits(self, bio: Bio) -> Bio:
        """bio_split_to_limits: the front part of `bio` that its queue takes, which is submitted now, or `bio` itself;
        the rest is submitted after it. For the driver of a stacked device as for a queue with requests."""
        queue = bio.queue
        fits = queue.limits.fit(bio)
        self.segments = queue.limits.segments
        if fits == bio.nr_sectors or (not queue.features.late_bio_split and queue.limits.takes_whole(bio)):
            return bio
        charge(queue.host, STEP_SPLIT)
        if not queue.features.fast_bio_split:
            queue.host.charge_n(STEP_SPLIT_COPY, (bio.nr_sectors + 7) >> 3)
        self.level = queue
        part = queue.bios.get()
        part.parent = bio
        part.submitter = bio.submitter
        part.queue = queue
        part.op = bio.op
        part.flags = bio.flags | F_NOMERGE
        part.ioprio = bio.ioprio
        part.blkg = bio.blkg
        part.part = bio.part
        part.sector = bio.sector
        part.nr_sectors = fits
        part.buffer_offset_bytes = bio.buffer_offset_bytes
        part.run_bytes = bio.run_bytes
        bio.remaining += 1
        bio.sector += fits
        bio.nr_sectors -= fits
        bio.buffer_offset_bytes += fits << 9
        if queue.trace_mask & TR_X:
            queue.tracer.add(TR_X, queue.number, part.op, part.flags, part.sector, fits, bio.sector)
        self.submit_noacct(bio)
        self.bio = part
        return part

    def _merge(self, bio: Bio) -> bool:
        queue = bio.queue
        plug = self.plug
        if plug.active and plug.requests.count and queue.merger.plug_merge(plug, bio, self.segments):
            return True
        return queue.sched_bio_merge(bio, self.segments, self)

    def _tag(self, bio: Bio, stage: int) -> bool:
        # A request for the bio in self.rq: True. False: self.stage says whether to come back or to sleep.
        queue = bio.queue
        plug = self.plug
        if stage == STAGE_TAG:
            if plug.cached.count and plug.cached.head.queue is queue and not bio.flags & (F_PREFLUSH | F_FUA):
                self.rq = plug.cached.popleft()
                self.rq.flags = bio.flags
                return True
            if plug.active and plug.nr_ios > 1 and not bio.flags & (F_PREFLUSH | F_FUA):
                wanted = plug.nr_ios
                plug.nr_ios = 1
                if queue.features.io_uring_batched_tags and queue.hctx_of(self.cpu).get_request_batch(
                    bio, self.cpu, wanted, plug.cached
                ):
                    self.rq = plug.cached.popleft()
                    return True
        if stage == STAGE_TAG:
            self.depth = queue.hctx_of(self.cpu).limit_depth(bio)
        if stage != STAGE_TAG_WOKEN:
            self.rq = queue.hctx_of(self.cpu).get_request(bio, self.cpu, self.depth)
            if self.rq is not None:
                if self.in_use:
                    self.in_use = False
                    queue.usage -= 1
                return True
            if bio.flags & F_NOWAIT:
                self.bio = None
                queue.end_bio(bio, STS_AGAIN)
                return False
        hctx = queue.hctx_of(self.cpu)
        if stage == STAGE_TAG_AGAIN:
            if not self.in_use:
                # It has entered the queue, which cannot be frozen, nor its tags be changed, before it has one
                self.in_use = True
                queue.usage += 1
            self.tags = hctx.wait_for_tag(self)
            self.stage = STAGE_TAG_WOKEN
            return False
        # blk_mq_get_tag, before it sleeps and each time it was woken: run the queue, which may free tags
        if self.wait_queue is not None:
            self.tags.bitmap.stop_waiting(self)  # woken by something else
        self.wait_index = hctx.next_wait_index()
        self.stage = STAGE_TAG_AGAIN
        queue.run_here(hctx, self)
        return False

    def _add_to_plug(self, stage: int) -> int:
        # blk_add_rq_to_plug
        rq = self.rq
        plug = self.plug
        queue = rq.queue
        features = queue.features
        last = plug.requests.tail
        if stage == STAGE_PLUG_FLUSHED:
            last = None
        elif plug.count:
            most = features.plug_max_several_queues if plug.multiple_queues else features.plug_max
            if plug.count >= most or (
                queue.nomerges < 2 and last is not None and last.nr_sectors << 9 >= features.plug_flush_bytes
            ):
                self.stage = STAGE_PLUG_FLUSHED
                self.flush_plug()
                return DONE
        if plug.count == 0 and queue.trace_mask & TR_P:
            queue.tracer.add(TR_P, queue.number, 0, 0, 0, 0, 0)
        if last is not None and last.queue is not queue:
            plug.multiple_queues = True
        if rq.rq_flags & RQF_ELV:
            plug.has_elevator = True
        charge(queue.host, STEP_PLUG_ADD)
        rq.move(RQ_PLUGGED)
        plug.requests.append(rq)
        plug.count += 1
        self.rq = None
        self.bio = None
        limited = features.plug_limited_multiqueue
        if limited and queue.nr_hw_queues > 1 and (limited == 2 or not queue.driver.has_commit_rqs):
            return self._keep_one(rq)
        return DONE

    def _keep_one(self, rq: Request) -> int:
        # Before 5.16 a multi-queue device kept one request in the plug, to merge with the next bio
        before = rq.prev
        while before is not None and before.queue is not rq.queue:
            before = before.prev
        if before is None:
            return DONE
        self.plug.requests.remove(before)
        self.plug.count -= 1
        return self._issue_or_insert(before)

    # -- from the plug to the scheduler or the driver ----------------------------------

    def flush_plug(self) -> None:
        """Begin to flush the plug; `advance` does it."""
        plug = self.plug
        if plug.count:
            plug.count = 0
            plug.flushing = True
            plug.from_schedule = False
            plug.direct = not plug.multiple_queues and not plug.has_elevator
            if plug.direct and not plug.requests.tail.queue.features.plug_issue_direct:
                plug.direct = False
            plug.queued = 0
        elif plug.single.count:
            plug.flushing = True

    def finish_plug(self) -> int:
        """blk_finish_plug: flush it and be without one. DONE or YIELD; after YIELD call `advance`, then
        again."""
        if self.plug.callbacks is not None:
            self.plug.run_callbacks(False)
        self.flush_plug()
        result = self.advance()
        if result == DONE:
            self.plug.active = False
            if self.plug.cached.count:
                self._free_cached()
        return result

    def _flush_step(self) -> int:
        # blk_mq_flush_plug_list, until somebody else is due
        plug = self.plug
        while plug.requests.count:
            if plug.direct:
                self._issue_plugged()
            else:
                self._unplug_group()
            if self.run.active and self.run.step() == YIELD:
                return YIELD
            if plug.requests.count and plug.requests.tail.queue.host.yield_due():
                return YIELD
        while plug.single.count:
            plug.single.head.queue.legacy.unplug(self, False)
            if self.run.active and self.run.step() == YIELD:
                return YIELD
        plug.flushing = False
        return DONE

    def _issue_plugged(self) -> int:
        # blk_mq_plug_issue_direct, one request
        plug = self.plug
        features = plug.requests.tail.queue.features
        if features.plug_unplug_traced_without_elevator and plug.queued == 0:
            queue = plug.requests.tail.queue
            if queue.trace_mask & TR_U:
                queue.tracer.add(TR_U, queue.number, 0, 0, 0, 0, plug.requests.count)
        rq = plug.requests.pop() if features.plug_lifo else plug.requests.popleft()
        plug.queued += 1
        queue = rq.queue
        status = queue.issue_directly(rq, plug.requests.count == 0)
        if status == STS_RESOURCE or status == STS_DEV_RESOURCE:
            queue.bypass_insert(rq)
            queue.run_here(rq.hctx, self)
            plug.direct = False
        elif status != STS_OK:
            queue.fail_request(rq, status)
        return 0

    def _unplug_group(self) -> int:
        # blk_mq_dispatch_plug_list: the requests of one software and hardware queue, in order of submission
        plug = self.plug
        last = plug.requests.tail
        queue = last.queue
        hctx = last.hctx
        ctx = last.ctx
        batch = self.batch
        rq = plug.requests.head
        while rq is not None:
            following = rq.next
            if rq.hctx is hctx and rq.ctx is ctx:
                plug.requests.remove(rq)
                batch.append(rq)
            rq = following
        action = TR_UT if plug.from_schedule else TR_U
        if queue.trace_mask & action:
            queue.tracer.add(action, queue.number, 0, 0, 0, 0, batch.count)
        if queue.elevator is None and not plug.from_schedule and not hctx.dispatch_busy:
            if queue.features.direct_issue_if_idle:
                # blk_mq_try_issue_list_directly
                while batch.count:
                    rq = batch.popleft()
                    status = queue.issue_directly(rq, batch.count == 0)
                    if status == STS_RESOURCE or status == STS_DEV_RESOURCE:
                        queue.bypass_insert(rq)
                        if batch.count == 0:
                            return queue.run_here(hctx, self)
                        break
                    if status != STS_OK:
                        queue.fail_request(rq, status)
                if batch.count == 0:
                    return 0
        queue.insert_list(hctx, ctx, batch)
        if plug.from_schedule:
            return queue.run_async(hctx)
        return queue.run_here(hctx, self)

    def _free_cached(self) -> int:
        plug = self.plug
        while plug.cached.count:
            rq = plug.cached.popleft()
            rq.queue.free_request(rq)
        return 0

    def _insert_and_run(self, rq: Request, from_worker: bool) -> int:
        # blk_mq_sched_insert_request
        queue = rq.queue
        hctx = rq.hctx
        queue.insert_request(rq, False)
        if from_worker:
            queue.run_async(hctx)
        else:
            queue.run_here(hctx, self)
        return DONE

    def _issue_or_insert(self, rq: Request) -> int:
        # blk_mq_try_issue_directly: what finds no budget or no tag is inserted; what the driver does not take
        # is kept
        queue = rq.queue
        hctx = rq.hctx
        if queue.halted:
            queue.insert_request(rq, False)
            return DONE
        if rq.rq_flags & RQF_ELV or not queue.prepare_direct(rq):
            return self._insert_and_run(rq, False)
        status = queue.issue_prepared(rq, True)
        if status == STS_RESOURCE or status == STS_DEV_RESOURCE:
            queue.bypass_insert(rq)
            queue.run_here(hctx, self)
        elif status != STS_OK:
            queue.fail_request(rq, status)
        return DONE
