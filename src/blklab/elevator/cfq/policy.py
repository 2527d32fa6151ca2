"""cfq: each process its slice of the device's time, in turn; and what somebody waits for comes first.

What: the policy of the kernel's block/cfq-iosched.c, 2.6.33 to 4.20, the scheduler of the single queue for
disks, and with its group controller what blkio.weight meant. This file decides when each part is asked; it
reads in the order in which a request meets the hooks.

Theory of operation
-------------------
- A process has a queue for its synchronous requests (reads, and writes somebody waits for); asynchronous ones
  go into a queue for their priority (`processes.py`). Within a queue requests are sorted by sector; next is the one
  nearest to the head, or the oldest if it has waited for too long (`order.py`).
- Queues stand on service trees by class of priority and type: those that the device idles for, those that it
  does not idle for, asynchronous ones (`service.py`). Trees are of a group, groups stand on a tree by virtual
  disk time (`groups.py`).
- One queue is in service at a time, for a slice of time by priority and number of queues (`slices.py`); its
  turn ends when that is used up, or it has nothing left and is not worth waiting for (`turns.py`,
  `idling.py`), or another preempts it.
- Whether a queue seeks (`seeks.py`) decides about idling. Queues whose processes read in one place are
  merged, and split
  when they no longer do (`cooperators.py`).

CFQ gives shares of time, not of throughput: who seeks gets as much time as who reads on, and moves less. The
only fair measure of a service that overlaps is a number of requests: IOPS mode (`CfqData.iops_mode`).

The numbers are in `params.py`, tunables in `tunables.py`; what changed between kernels is a feature cfq_NAME
(block/features.py), and docs/cfq.md says which version has what. A request's `elv1` is its queue, `elv0` the
group of the queue at that time, `elv_ns` the tick at which it expires.

Deliberate differences: those of the parts; F_META stands for both of the kernel's flags for metadata (META
until 3.0, PRIO since); nobody holds a file system lock (has_fs_excl).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import cython

from blklab.block.elevator import Elevator
from blklab.block.elv_timer import IdleSliceTimer
from blklab.elevator.cfq.cfqq import CfqGroup
from blklab.elevator.cfq.cooperators import Cooperators
from blklab.elevator.cfq.data import CfqData
from blklab.elevator.cfq.files import CfqGroupPolicy, new_group
from blklab.elevator.cfq.groups import Groups
from blklab.elevator.cfq.idling import Idling
from blklab.elevator.cfq.order import Order
from blklab.elevator.cfq.processes import Processes
from blklab.elevator.cfq.seeks import Seeks
from blklab.elevator.cfq.service import Service
from blklab.elevator.cfq.slices import Slices
from blklab.elevator.cfq.tunables import tunables_of
from blklab.elevator.cfq.turns import Turns

if TYPE_CHECKING:
    from blklab.block.attributes import Attribute
    from blklab.block.bio import Bio
    from blklab.block.queue import RequestQueue
    from blklab.block.request import Request
    from blklab.block.submit import Submitter
    from blklab.elevator.cfq.cfqq import CfqContext, CfqQueue

if not cython.compiled:
    from blklab.block.consts import (
        F_FUA,
        F_META,
        F_PREFLUSH,
        F_SYNC,
        MAY_QUEUE,
        MERGE_FRONT,
        MUST_QUEUE,
        OP_READ,
    )
    from blklab.elevator.cfq.params import PAGE_SECTORS


class IdlingEnds(IdleSliceTimer):
    """The timer of one scheduler."""

    def __init__(self, policy: Cfq) -> None:
        IdleSliceTimer.__init__(self, policy.queue)
        self.policy = policy

    def expired(self) -> int:
        """The queue in service has been waited for long enough."""
        return self.policy.idle_slice_timer()


class Cfq(Elevator):
    """Completely Fair Queueing: each process its slice of the device's time, synchronous requests first."""

    feature = "sched_cfq"
    single_queue = True

    def __init__(self, queue: RequestQueue) -> None:
        super().__init__(queue)
        self.timer = IdlingEnds(self)
        self.cfqd = CfqData(queue, self.timer)
        self.groups = Groups(self.cfqd)
        self.slices = Slices(self.cfqd, self.groups)
        self.seeks = Seeks(self.cfqd)
        self.order = Order(self.cfqd)
        self.cooperators = Cooperators(self.cfqd, self.seeks)
        self.service = Service(self.cfqd, self.groups, self.slices, self.cooperators)
        self.idling = Idling(self.cfqd, self.slices, self.seeks, self.cooperators)
        self.turns = Turns(
            self.cfqd, self.groups, self.slices, self.seeks, self.cooperators, self.service, self.idling
        )
        self.processes = Processes(self.cfqd, self.seeks, self.cooperators, self.turns)
        self.group_policy: CfqGroupPolicy | None = None
        if queue.blkcg is None:
            self.cfqd.root_group = new_group(queue, self.cfqd.now(), None, None)
        else:
            self.group_policy = CfqGroupPolicy(self.cfqd)
            queue.blkcg.activate(self.group_policy)
            self.cfqd.root_group = self.processes.group_of_blkg(queue.blkcg.root)

    def exit(self) -> None:
        """cfq_exit_queue: nothing is in flight."""
        self.timer.cancel()
        self.turns.expire_active(False)
        if self.group_policy is not None:
            self.queue.blkcg.deactivate(self.group_policy)

    def exit_icq(self, submitter: Submitter) -> None:
        """A process has ended: its queues have one less."""
        legacy = self.queue.legacy
        legacy.take()
        self.cfqd.look_for_tracer()
        self.processes.exit(submitter)
        legacy.give()

    def attributes(self) -> list[Attribute]:
        """The tunables that this kernel has."""
        return tunables_of(self.queue.features)

    # -- a bio comes -----------------------------------------------------------------------

    def _queue_of(self, bio: Bio) -> CfqQueue | None:
        # The queue to which a request for it would go
        cic = self.processes.find(bio.submitter)
        return None if cic is None else cic.cfqq_of(bio.is_sync())

    def allow_merge(self, rq: Request, bio: Bio) -> bool:
        """cfq_allow_bio_merge: only within one queue, so that nobody's bio is served in another's slice."""
        if bio.is_sync() and not rq.is_sync():
            return False
        cfqq = self._queue_of(bio)
        return cfqq is not None and cfqq is rq.elv1

    def request_merge(self, bio: Bio) -> Request | None:
        """cfq_find_rq_fmerge: a request of its queue that begins where `bio` ends."""
        cfqq = self._queue_of(bio)
        return None if cfqq is None else cfqq.sort_list.find(bio.sector + bio.nr_sectors)

    def latter_request(self, rq: Request) -> Request | None:
        """The one behind it in its queue."""
        cfqq: CfqQueue = rq.elv1
        return None if cfqq is None else cfqq.sort_list.after(rq)

    def former_request(self, rq: Request) -> Request | None:
        """The one before it in its queue."""
        cfqq: CfqQueue = rq.elv1
        return None if cfqq is None else cfqq.sort_list.before(rq)

    def bio_merged(self, rq: Request, bio: Bio) -> None:
        """cfq_bio_merged: statistics."""
        if rq.elv0 is not None:
            cfqg: CfqGroup = rq.elv0
            cfqg.stats.merged.add(bio.op, bio.is_sync(), 1)

    def request_merged(self, rq: Request, kind: int) -> None:
        """cfq_merged_request: a front merge changes its place."""
        if kind == MERGE_FRONT:
            cfqq: CfqQueue = rq.elv1
            cfqq.sort_list.remove(rq)
            self._sort_in(rq, cfqq)

    def requests_merged(self, rq: Request, following: Request) -> None:
        """cfq_merged_requests: `rq` takes the earlier expiry of the two, and with it the place in the
        FIFO."""
        cfqq: CfqQueue = rq.elv1
        other: CfqQueue = following.elv1
        self.cfqd.look_for_tracer()
        if following.list is not None:
            if cfqq is other and rq.list is not None and following.elv_ns < rq.elv_ns:
                cfqq.fifo.remove(rq)
                cfqq.fifo.insert_behind(rq, following)
                rq.elv_ns = following.elv_ns
            if other.next_rq is following:
                other.next_rq = rq if cfqq is other else self.order.next_after(other, following)
            self._remove(following, other)
        if following.elv0 is not None:
            cfqg: CfqGroup = following.elv0
            cfqg.stats.merged.add(following.op, following.is_sync(), 1)
        if other.on_rr and other.sort_list.count == 0 and other is not self.cfqd.active_queue:
            self.service.remove(other)

    # -- a request is allocated ----------------------------------------------------------------

    def may_queue(self, submitter: Submitter, op: int, flags: int) -> int:
        """cfq_may_queue: a queue that the device idles for must have its next request, once a slice."""
        cic = self.processes.find(submitter)
        if cic is None:
            return MAY_QUEUE
        cfqq = cic.cfqq_of(op == OP_READ or (flags & (F_SYNC | F_FUA | F_PREFLUSH)) != 0)
        if cfqq is None:
            return MAY_QUEUE
        self.processes.init_prio(cfqq, cic)
        self.processes.boost(cfqq, flags)
        if cfqq.wait_request and not cfqq.must_alloc_slice:
            cfqq.must_alloc_slice = True
            return MUST_QUEUE
        return MAY_QUEUE

    def set_request(self, rq: Request, bio: Bio) -> None:
        """cfq_set_request: it belongs to a queue from now."""
        legacy = self.queue.legacy
        legacy.take()
        self.cfqd.look_for_tracer()
        cfqq = self.processes.queue_for(rq, bio)
        rq.elv1 = cfqq
        rq.elv0 = cfqq.cfqg
        rq.elv_ns = 0
        legacy.give()

    def finish_request(self, rq: Request) -> None:
        """cfq_put_request: ended, or merged into another one."""
        if rq.elv1 is None:
            return
        cfqq: CfqQueue = rq.elv1
        self.cfqd.look_for_tracer()
        cfqq.allocated -= 1
        rq.elv0 = None
        rq.elv1 = None
        self.processes.put_queue(cfqq)

    # -- a request is inserted ------------------------------------------------------------------

    def add_request(self, rq: Request) -> None:
        """cfq_insert_request."""
        cfqd = self.cfqd
        cfqd.look_for_tracer()
        cfqq: CfqQueue = rq.elv1
        cic = self.processes.find(rq.submitter)
        if cfqd.logging:
            cfqd.log_queue(cfqq, "insert_request")
        self.processes.init_prio(cfqq, cic)
        rq.elv_ns = cfqd.now() + (
            cfqd.fifo_expire_sync_ticks if rq.is_sync() else cfqd.fifo_expire_async_ticks
        )
        cfqq.fifo.append(rq)
        if rq.is_sync():
            cfqq.queued_sync += 1
        else:
            cfqq.queued_async += 1
        self._sort_in(rq, cfqq)
        if rq.elv0 is not None:
            cfqg: CfqGroup = rq.elv0
            cfqg.stats.io_add(rq.op, rq.is_sync(), cfqg is cfqd.serving_group, cfqd.clock.now_ns)
        self._enqueued(rq, cfqq, cic)

    def _sort_in(self, rq: Request, cfqq: CfqQueue) -> int:
        # cfq_add_rq_rb: it may be the next one
        cfqq.sort_list.add(rq)
        if not cfqq.on_rr:
            self.service.add(cfqq)
        before = cfqq.next_rq
        cfqq.next_rq = self.order.choose(before, rq, self.cfqd.last_position)
        if before is not cfqq.next_rq:
            self.cooperators.move(cfqq)
        return 0

    def _enqueued(self, rq: Request, cfqq: CfqQueue, cic: CfqContext | None) -> int:
        # cfq_rq_enqueued: what follows from it
        cfqd = self.cfqd
        cfqd.rq_queued += 1
        if rq.flags & F_META:
            cfqq.meta_pending += 1
        self.idling.update_thinktime(cfqq, cic)
        self.seeks.update(cfqq, rq)
        self.idling.update_window(cfqq, cic)
        cfqq.last_request_pos = rq.sector + rq.nr_sectors
        if cfqq is cfqd.active_queue:
            if cfqq.wait_request:
                if rq.nr_sectors > PAGE_SECTORS or cfqd.busy_queues > 1:
                    self.idling.cancel(cfqq)
                    cfqq.wait_request = False
                    self.queue.legacy.run_queue()
                else:
                    # A small one: more may come, and merge, before the plug is opened or idling ends
                    cfqq.cfqg.stats.idle_ends(cfqd.clock.now_ns)
                    cfqq.must_dispatch = True
        elif self.turns.should_preempt(cfqq, rq):
            self.turns.preempt(cfqq)
            self.queue.legacy.run_queue()
        return 0

    def _remove(self, rq: Request, cfqq: CfqQueue) -> int:
        # cfq_remove_request; that it is the next one no more is the caller's business
        cfqd = self.cfqd
        cfqq.fifo.remove(rq)
        cfqq.sort_list.remove(rq)
        if rq.is_sync():
            cfqq.queued_sync -= 1
        else:
            cfqq.queued_async -= 1
        if cfqq.on_rr and cfqq.sort_list.count == 0:
            self.cooperators.remove(cfqq)
        cfqd.rq_queued -= 1
        if rq.elv0 is not None:
            cfqg: CfqGroup = rq.elv0
            cfqg.stats.queued.add(rq.op, rq.is_sync(), -1)
        if rq.flags & F_META:
            cfqq.meta_pending -= 1
        return 0

    # -- a request is dispatched ----------------------------------------------------------------------

    def dispatch_requests(self, force: bool) -> int:
        """cfq_dispatch_requests: one request of the queue in service, if it may have one more in the
        device."""
        cfqd = self.cfqd
        cfqd.look_for_tracer()
        if cfqd.busy_queues == 0:
            return 0
        if force:
            return self._dispatch_all()
        cfqq = self.turns.select()
        if cfqq is None or not self._dispatch_from(cfqq):
            return 0
        cfqq.slice_dispatch += 1
        cfqq.must_dispatch = False
        if cfqd.busy_queues > 1 and (
            cfqq.is_idle_class() or (not cfqq.sync and cfqq.slice_dispatch >= self.slices.most_async(cfqq))
        ):
            # An asynchronous slice is also a number of requests; the idle class has one
            cfqq.slice_end_ticks = cfqd.now() + 1
            self.turns.expire_active(False)
        if cfqd.logging:
            cfqd.log_queue(cfqq, "dispatched a request")
        return 1

    def _dispatch_from(self, cfqq: CfqQueue) -> bool:
        # cfq_dispatch_request
        cfqd = self.cfqd
        rq = None
        if cfqd.features.cfq_fifo_first:
            rq = self.order.expired(cfqq)
            if rq is not None:
                cfqq.must_dispatch = True
        if not self.turns.may_dispatch(cfqq):
            return False
        if not cfqd.features.cfq_fifo_first:
            rq = self.order.expired(cfqq)
        if rq is None:
            rq = cfqq.next_rq
        elif cfqd.logging:
            cfqd.log_queue(cfqq, f"fifo={rq.sector}")
        self._dispatch(rq, cfqq)
        if cfqd.active_cic is None:
            cfqd.active_cic = self.processes.find(rq.submitter)
        return True

    def _dispatch(self, rq: Request, cfqq: CfqQueue) -> int:
        # cfq_dispatch_insert
        cfqd = self.cfqd
        if cfqd.logging:
            cfqd.log_queue(cfqq, "dispatch_insert")
        cfqq.next_rq = self.order.next_after(cfqq, rq)
        self._remove(rq, cfqq)
        cfqq.dispatched += 1
        if rq.elv0 is not None:
            cfqg: CfqGroup = rq.elv0
            cfqg.dispatched += 1
            cfqg.stats.dispatched(rq.op, rq.is_sync(), rq.nr_sectors)
        self.queue.legacy.dispatch_sort(rq)
        if cfqq.sync:
            cfqd.in_flight_sync += 1
        else:
            cfqd.in_flight_async += 1
        cfqq.nr_sectors += rq.nr_sectors
        return 0

    def _dispatch_all(self) -> int:
        # cfq_forced_dispatch: for a switch
        cfqd = self.cfqd
        dispatched = 0
        self.turns.expire_active(False)
        while cfqd.rq_queued:
            cfqq = self.groups.next().first_queue()
            self.turns.begin(cfqq)
            while cfqq.next_rq is not None:
                self._dispatch(cfqq.next_rq, cfqq)
                dispatched += 1
            self.turns.expire(cfqq, False)
        if cfqd.logging:
            cfqd.log(f"forced_dispatch={dispatched}")
        return dispatched

    def activate_request(self, rq: Request) -> None:
        """cfq_activate_request: it goes to the driver, and the head to its end."""
        cfqd = self.cfqd
        cfqd.rq_in_driver += 1
        cfqd.look_for_tracer()
        if cfqd.logging:
            cfqd.log_queue(rq.elv1, f"activate rq, drv={cfqd.rq_in_driver}")
        cfqd.last_position = rq.sector + rq.nr_sectors

    def deactivate_request(self, rq: Request) -> None:
        """cfq_deactivate_request: the driver gave it back."""
        cfqd = self.cfqd
        cfqd.rq_in_driver -= 1
        cfqd.look_for_tracer()
        if cfqd.logging:
            cfqd.log_queue(rq.elv1, f"deactivate rq, drv={cfqd.rq_in_driver}")

    # -- a request has been served
    # ----------------------------------------------------------------------------

    def completed_request(self, rq: Request, now_ns: int) -> None:
        """cfq_completed_request: the slice of its queue may begin or end with it, or the device idle."""
        cfqd = self.cfqd
        cfqd.look_for_tracer()
        cfqq: CfqQueue = rq.elv1
        sync = rq.is_sync()
        now = cfqd.now()
        if cfqd.logging:
            cfqd.log_queue(cfqq, f"complete rqnoidle {int(self.idling.nobody_follows(rq))}")
        self.idling.update_hw_tag()
        cfqd.rq_in_driver -= 1
        cfqq.dispatched -= 1
        if rq.elv0 is not None:
            cfqg: CfqGroup = rq.elv0
            cfqg.dispatched -= 1
            cfqg.stats.completed(rq.op, sync, rq.start_ns, rq.io_start_ns, now_ns)
        if cfqq.sync:
            cfqd.in_flight_sync -= 1
        else:
            cfqd.in_flight_async -= 1
        if sync:
            self._sync_completed(rq, cfqq, now)
        cfqq.cfqg.ttime.last_end_ticks = now
        if cfqq is cfqd.active_queue:
            if cfqq.slice_new:
                self.slices.begin(cfqq)
            if self.idling.should_wait_busy(cfqq):
                cfqq.slice_end_ticks = now + (cfqd.slice_idle_ticks or cfqd.group_idle_ticks)
                cfqq.wait_busy = True
                if cfqd.logging:
                    cfqd.log_queue(cfqq, "will busy wait")
            if self.slices.used(cfqq) or cfqq.is_idle_class():
                self.turns.expire_active(True)
            elif sync and cfqq.sort_list.count == 0:
                self.idling.queue_completed(cfqq, rq)
        if cfqd.rq_in_driver == 0:
            cfqd.schedule_dispatch()

    def _sync_completed(self, rq: Request, cfqq: CfqQueue, now: int) -> int:
        # Its process thinks from now; and asynchronous requests have to wait if it was late
        cfqd = self.cfqd
        cic = self.processes.find(rq.submitter)
        if cic is not None:
            cic.ttime.last_end_ticks = now
        tree = cfqq.service_tree
        if tree is None:
            tree = cfqq.cfqg.tree_for(cfqq.wl_class(), cfqq.wl_type())
        tree.ttime.last_end_ticks = now
        jiffy_ns = self.queue.host.jiffy_ns
        expire_jiffies = cfqd.fifo_expire_sync_ticks // cfqd.jiffy_ticks
        if rq.start_ns // jiffy_ns + expire_jiffies <= cfqd.clock.now_ns // jiffy_ns:
            cfqd.last_delayed_sync_ticks = now
        return 0

    def idle_slice_timer(self) -> int:
        """cfq_idle_slice_timer: the queue in service has been waited for long enough."""
        cfqd = self.cfqd
        legacy = self.queue.legacy
        legacy.take()
        cfqd.look_for_tracer()
        if cfqd.logging:
            cfqd.log("idle timer fired")
        self._idle_slice_ended()
        legacy.give()
        return 0

    def _idle_slice_ended(self) -> int:
        cfqd = self.cfqd
        cfqq = cfqd.active_queue
        if cfqq is not None and not cfqq.must_dispatch:
            if not self.slices.used(cfqq):
                if cfqd.busy_queues == 0:
                    return 0
                if cfqq.sort_list.count:
                    return cfqd.schedule_dispatch()
                cfqq.deep = False
            self.turns.expire(cfqq, False)
        return cfqd.schedule_dispatch()
