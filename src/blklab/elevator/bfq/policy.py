"""bfq: each process its share of the device, in sectors and not in time; and what a user waits for comes first.

What: the policy of the kernel's block/bfq-iosched.c. Who is served next is decided by B-WF2Q+ (`wf2q.py`); this decides
what a queue is, when its turn ends, when the device idles, and which of its requests comes next. The file reads in the
order in which a request meets the hooks.

Theory of operation
-------------------
- A process has a queue for its synchronous requests (reads, and writes somebody waits for); asynchronous ones go into a
  queue of the group for their priority (`processes.py`). Within a queue requests are sorted by sector; next is the one
  nearest to the head, a way back counting twice, or the oldest if it has waited for too long (`order.py`).
- One queue is in service at a time, for a turn (`turns.py`): until its budget (`budget.py`) or its time is used up, it
  has no more requests and is not worth waiting for (`idling.py`), or another one may preempt it.
- While it is in service and empty, and the device idles for it, others may be injected (`injection.py`).
- Queues of interactive and soft real-time processes have their weight raised (`raising.py`), unless they are of a large
  burst (`bursts.py`).
- Queues whose processes read one file together are merged, and split when they no longer do (`merging.py`).
- Asynchronous requests and writes may use only a part of the scheduler tags, less while raised queues are busy; and a
  process that has more requests than its share of them must wait, so that it cannot take the tags from the others
  (`depths.py`).
- With control groups, queues are in groups with weights of their own (`cgroup.py`), and go where their process goes
  (`moving.py`).

The numbers are in `params.py`, each with its reason, the tunables in `tunables.py`. A request's `elv0` is its process'
`IoContext`, `elv1` its queue, `elv_ns` the time at which it expires, IN_DRIVER once it has been dispatched.

Deliberate differences: one actuator; no queue for when memory is short; requests without a process (flushes) are
counted in no queue, as in the kernel.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import cython

from blklab.block.elevator import Elevator
from blklab.block.elv_timer import IdleSliceTimer
from blklab.block.request import RequestList
from blklab.core.host import Lock
from blklab.elevator.bfq.budget import Budgets
from blklab.elevator.bfq.bursts import Bursts
from blklab.elevator.bfq.cgroup import BfqGroupPolicy
from blklab.elevator.bfq.data import BfqData
from blklab.elevator.bfq.depths import Depths
from blklab.elevator.bfq.idling import Idling
from blklab.elevator.bfq.injection import Injection
from blklab.elevator.bfq.merging import Cooperators
from blklab.elevator.bfq.moving import Moves
from blklab.elevator.bfq.order import Order
from blklab.elevator.bfq.processes import Processes
from blklab.elevator.bfq.raising import Raising
from blklab.elevator.bfq.tunables import TUNABLES
from blklab.elevator.bfq.turns import Turns

if TYPE_CHECKING:
    from blklab.block.bio import Bio
    from blklab.block.hwqueue import HardwareQueue
    from blklab.block.queue import RequestQueue
    from blklab.block.request import Request
    from blklab.block.submit import Submitter
    from blklab.elevator.bfq.bfqq import BfqQueue, IoContext

if not cython.compiled:
    from blklab.block.consts import MERGE_FRONT, OP_READ
    from blklab.core.charging import charge
    from blklab.core.steps import STEP_BFQ, STEP_LOCK_SCHED
    from blklab.elevator.bfq.params import (
        BUDGET_EXHAUSTED,
        BUDGET_TIMEOUT,
        IN_DRIVER,
        NO_MORE_REQUESTS,
        PREEMPTED,
        TOO_IDLE,
        WR_DEFAULT_WEIGHT,
    )


class IdlingEnds(IdleSliceTimer):
    """The timer of one scheduler."""

    def __init__(self, policy: Bfq) -> None:
        IdleSliceTimer.__init__(self, policy.queue)
        self.policy = policy

    def expired(self) -> int:
        """The queue in service has been waited for long enough."""
        return self.policy.idle_slice_timer()


class Bfq(Elevator):
    """Budget Fair Queueing: each process its share of the throughput, by weight, and low latency for who waits."""

    tunables = TUNABLES
    sq_sched = True

    def __init__(self, queue: RequestQueue) -> None:
        super().__init__(queue)
        self.timer = IdlingEnds(self)
        self.bfqd = BfqData(queue, self.timer)
        self.budgets = Budgets(self.bfqd)
        self.raising = Raising(self.bfqd, self.budgets)
        self.bursts = Bursts(self.bfqd)
        self.idling = Idling(self.bfqd, self.raising)
        self.injection = Injection(self.bfqd, self.budgets, self.idling)
        self.cooperators = Cooperators(self.bfqd, self.raising, self.bursts, self.idling, self.injection)
        self.turns = Turns(
            self.bfqd, self.budgets, self.raising, self.idling, self.injection, self.cooperators
        )
        self.moves = Moves(self.bfqd, self.cooperators, self.turns)
        self.processes = Processes(
            self.bfqd, self.budgets, self.bursts, self.injection, self.cooperators, self.moves
        )
        self.depths = Depths(self.bfqd)
        self.order = Order(self.bfqd)
        self.host = queue.host
        self.lock = Lock("bfq")
        self.dispatch = RequestList()  # before all queues: inserted at the head, or without a process
        self.bio_bic: IoContext | None = None
        self.bio_bfqq: BfqQueue | None = None
        # With control groups: what gives each of them its group here, and whether it counts requests
        self.group_policy: BfqGroupPolicy | None = None
        self.group_stats = False
        if queue.blkcg is not None:
            self.group_stats = queue.blkcg.tree.version == 1
            self.group_policy = BfqGroupPolicy(self.moves, self.group_stats)
            queue.blkcg.activate(self.group_policy)

    def init_hctx(self, hctx: HardwareQueue) -> None:
        """The same as when nr_requests has changed."""
        self.depth_updated(hctx)

    def depth_updated(self, hctx: HardwareQueue) -> None:
        """What each kind of request may use of the tags."""
        if hctx.sched_tags is not None:
            self.depths.updated(hctx.sched_tags.bitmap)

    def exit(self) -> None:
        """Nothing is in flight: forget the queues that wait in idle trees."""
        self.timer.cancel()
        bfqd = self.bfqd
        while bfqd.idle_list.head is not None:
            bfqd.deactivate_bfqq(bfqd.idle_list.head, False, False)
        if self.group_policy is not None:
            self.queue.blkcg.deactivate(self.group_policy)

    def exit_icq(self, submitter: Submitter) -> None:
        """A process has ended: its queues have one less."""
        bic = self.processes.contexts.pop(submitter, None)
        if bic is None:
            return
        self._lock()
        if bic.stable_merge_bfqq is not None:
            self.cooperators.put_stable(bic)
        for sync in (True, False):
            bfqq = bic.bfqq_of(sync)
            if bfqq is not None:
                self.cooperators.attach(bic, None, sync)
                if bfqq is self.bfqd.in_service_queue:
                    self.turns.leave_service(bfqq, BUDGET_TIMEOUT)
                    self.bfqd.schedule_dispatch()
                self.cooperators.put_decided(bfqq)
                self.cooperators.release(bfqq)
        self._unlock()

    def end_raising(self) -> int:
        """low_latency has been switched off."""
        self._lock()
        self.raising.end_all()
        return self._unlock()

    def _lock(self) -> int:
        self.host.lock(self.lock, STEP_LOCK_SCHED)
        self.bfqd.look_for_tracer()
        return 0

    def _unlock(self) -> int:
        self.host.unlock(self.lock)
        return 0

    # -- a bio comes -----------------------------------------------------------------------

    def limit_depth(self, bio: Bio) -> int:
        """See `depths.py`."""
        bfqd = self.bfqd
        sync = bio.is_sync()
        limit = self.queue.nr_requests
        depth = 0
        if bio.op != OP_READ:
            depth = self.depths.of_kind(sync)
            limit = (limit * depth) >> self.depths.shift
        bic = self.processes.find(bio.submitter)
        if bic is not None:
            bfqq = bic.bfqq_of(sync)
            if bfqq is not None:
                self._lock()
                if self.depths.is_over(bfqq, limit):
                    depth = 1
                self._unlock()
        bfqd.look_for_tracer()
        if bfqd.logging:
            bfqd.log(f"[bfq_limit_depth] wr_busy {bfqd.wr_busy_queues} sync {int(sync)} depth {depth}")
        return depth

    def bio_merge(self, bio: Bio, segments: int, submitter: Submitter) -> bool:
        """With what its process' queue holds; that may be merged with another queue on the way."""
        queue = self.queue
        self._lock()
        self.bio_bic = self.processes.find(submitter)
        if bio.blkg is not None and self.bio_bic is not None:
            self.moves.update_cgroup(self.bio_bic, bio)
        self.bio_bfqq = None if self.bio_bic is None else self.bio_bic.bfqq_of(bio.is_sync())
        merged = queue.elv_merge.try_merge(bio, segments)
        emptied = queue.elv_merge.freed
        self._unlock()
        if emptied is not None:
            queue.free_request(emptied)
        return merged

    def allow_merge(self, rq: Request, bio: Bio) -> bool:
        """Only within one queue, so that nobody's bio is served in another's turn."""
        bfqq = self.bio_bfqq
        if bfqq is None or (bio.is_sync() and not rq.is_sync()):
            return False
        target = self.cooperators.setup(bfqq, bio.sector, self.bio_bic)
        if target is not None:
            self.cooperators.merge(self.bio_bic, bfqq, target)
            self.bio_bfqq = target
        return self.bio_bfqq is rq.elv1

    def request_merge(self, bio: Bio) -> Request | None:
        """A request of its queue that begins where `bio` ends."""
        bfqq = self.bio_bfqq
        return None if bfqq is None else bfqq.sort_list.find(bio.sector + bio.nr_sectors)

    def latter_request(self, rq: Request) -> Request | None:
        """The one behind it in its queue."""
        bfqq: BfqQueue = rq.elv1
        return bfqq.sort_list.after(rq)

    def former_request(self, rq: Request) -> Request | None:
        """The one before it in its queue."""
        bfqq: BfqQueue = rq.elv1
        return bfqq.sort_list.before(rq)

    def request_merged(self, rq: Request, kind: int) -> None:
        """A front merge may move it before another one, and make it the next."""
        if kind != MERGE_FRONT:
            return
        bfqq: BfqQueue = rq.elv1
        before = bfqq.sort_list.before(rq)
        if before is None or rq.sector >= before.sector:
            return
        bfqq.sort_list.remove(rq)
        bfqq.sort_list.add(rq)
        previous = bfqq.next_rq
        bfqq.next_rq = self.order.choose(previous, rq, self.bfqd.last_position)
        if bfqq.next_rq is not previous:
            self.budgets.updated_next_req(bfqq)
            if not self.bfqd.nonrot_with_queueing:
                self.cooperators.pos_add_move(bfqq)

    def requests_merged(self, rq: Request, following: Request) -> None:
        """`rq` takes the earlier expiry of the two, and with it the place in the FIFO."""
        bfqq: BfqQueue = rq.elv1
        if bfqq is not None:
            if (
                bfqq is following.elv1
                and rq.list is not None
                and following.list is not None
                and following.elv_ns < rq.elv_ns
            ):
                bfqq.fifo.remove(rq)
                bfqq.fifo.insert_behind(rq, following)
                rq.elv_ns = following.elv_ns
            if bfqq.next_rq is following:
                bfqq.next_rq = rq
        if following.list is not None:
            self._remove_request(following)

    # -- a request is inserted ----------------------------------------------------------------

    def prepare_request(self, rq: Request) -> None:
        """It is of its task's context, which begins to exist with this; of no queue yet."""
        rq.elv0 = self.processes.get(rq.submitter)
        rq.elv1 = None
        rq.elv_ns = 0

    def insert_requests(self, hctx: HardwareQueue, rqs: RequestList, at_head: bool) -> None:
        """One after another, each under the lock."""
        while rqs.count:
            self._insert(rqs.popleft(), at_head)

    def _insert(self, rq: Request, at_head: bool) -> int:
        queue = self.queue
        if self.group_stats and rq.bio is not None:
            self._count(rq)
        self._lock()
        bfqq = self.processes.queue_for(rq)
        emptied = queue.elv_merge.insert_merge(rq)
        if emptied:
            self._unlock()
            for one in emptied:
                queue.free_request(one)
            return 0
        queue.trace_insert(rq)
        if at_head:
            self.dispatch.push(rq)
        elif bfqq is None:
            self.dispatch.append(rq)
        else:
            self._insert_into_queue(rq, bfqq)
            if queue.merger.rq_mergeable(rq):
                queue.elv_merge.add(rq)
        return self._unlock()

    def _count(self, rq: Request) -> int:
        # Before it may be merged with another one: in which group does not depend on the queue (legacy_io)
        group = self.moves.group_of_bio(rq.bio)
        group.bytes.add(rq.op, rq.is_sync(), rq.nr_sectors << 9)
        group.ios.add(rq.op, rq.is_sync(), 1)
        return 0

    def _insert_into_queue(self, rq: Request, bfqq: BfqQueue) -> int:
        bfqd = self.bfqd
        bic: IoContext = rq.elv0
        target = self.cooperators.setup(bfqq, rq.sector, bic)
        if target is not None:
            # The request goes to the queue that this one is merged into, and its process if it is still here
            self.processes.count_allocated(target, 1)
            self.processes.count_allocated(bfqq, -1)
            target.ref += 1
            if bic.sync_bfqq is bfqq:
                self.cooperators.merge(bic, bfqq, target)
            bfqq.just_created = False
            bfqd.put_queue(bfqq)
            rq.elv1 = target
            bfqq = target
        self.idling.update_thinktime(bfqq)
        self._update_short_ttime(bfqq, bic)
        self.idling.update_seeks(bfqq, rq)
        self._add_request(rq, bfqq, bic)
        sync = rq.is_sync()
        rq.elv_ns = bfqd.clock.now_ns + (bfqd.fifo_expire_sync_ns if sync else bfqd.fifo_expire_async_ns)
        bfqq.fifo.append(rq)
        bfqq.last_request_pos = rq.sector + rq.nr_sectors
        if bfqq is bfqd.in_service_queue and bfqq.wait_request:
            self._wait_is_over(rq, bfqq, sync)
        return 0

    def _update_short_ttime(self, bfqq: BfqQueue, bic: IoContext) -> int:
        bfqd = self.bfqd
        if not bfqq.sync or bfqq.is_idle_class() or bfqd.slice_idle_ns == 0:
            return 0
        if bfqq.split_time_ns + self.raising.min_idle_ns >= bfqd.jiffy_now_ns():
            # What is known of it comes from before the split
            return 0
        short = self.idling.has_short_ttime(bfqq, self.processes.find(bic.submitter) is not None)
        if short != bfqq.has_short_ttime:
            bfqq.has_short_ttime = short
            self.injection.short_ttime_changed(bfqq)
        return 0

    def _add_request(self, rq: Request, bfqq: BfqQueue, bic: IoContext) -> int:
        bfqd = self.bfqd
        old_wr_coeff = bfqq.wr_coeff
        sync = rq.is_sync()
        interactive = False
        if bfqd.logging:
            bfqd.log_queue(bfqq, f"add_request {int(sync)}")
        if sync:
            bfqq.queued_sync += 1
        else:
            bfqq.queued_async += 1
        bfqd.queued += 1
        if bfqq.sync:
            if bic.requests <= 1:
                self.injection.on_request(bfqq)
            self.idling.update_io_intensity(bfqq)
        bfqq.sort_list.add(rq)
        previous = bfqq.next_rq
        bfqq.next_rq = self.order.choose(previous, rq, bfqd.last_position)
        changed = bfqq.next_rq is not previous
        if changed and not bfqd.nonrot_with_queueing:
            self.cooperators.pos_add_move(bfqq)
        if not bfqq.busy:
            interactive = self._become_busy(bfqq, bic, old_wr_coeff)
        else:
            if bfqd.low_latency and not sync:
                self.raising.on_async_request(bfqq, old_wr_coeff)
            if changed:
                self.budgets.updated_next_req(bfqq)
        if bfqd.low_latency and (old_wr_coeff == 1 or bfqq.wr_coeff == 1 or interactive):
            bfqq.last_wr_start_finish_ns = bfqd.jiffy_now_ns()
        return 0

    def _become_busy(self, bfqq: BfqQueue, bic: IoContext, old_wr_coeff: int) -> bool:
        # A queue that had nothing to do has a request. Whether it is interactive.
        bfqd = self.bfqd
        raising = self.raising
        long_idle = raising.idle_for_long(bfqq)
        in_time = bfqd.clock.now_ns <= bfqq.last_end_request_ns + 3 * bfqd.slice_idle_ns
        in_burst = bfqq.in_large_burst
        soft_rt = raising.deserves_soft_rt(bfqq)
        interactive = long_idle and not in_burst and bfqq.new_weight == WR_DEFAULT_WEIGHT
        deserves = bfqd.low_latency and (
            bfqq.wr_coeff > 1
            or (bfqq.sync and (bfqq.bic is not None or bic.stably_merged) and (interactive or soft_rt))
        )
        wants_to_preempt = self.budgets.update_for_activation(bfqq, in_time)
        if long_idle:
            self.bursts.on_idle_activation(bfqq)
        bfqq.just_created = False
        if bfqd.low_latency and bfqq.split_time_ns + raising.min_idle_ns < bfqd.jiffy_now_ns():
            raising.on_activation(bfqq, old_wr_coeff, deserves, interactive, in_burst, soft_rt)
        bfqq.last_idle_bklogged_ns = bfqd.jiffy_now_ns()
        bfqq.service_from_backlogged = 0
        bfqq.softrt_update = False
        bfqd.add_bfqq_busy(bfqq)
        served = bfqd.in_service_queue
        if (
            served is not None
            and (
                (wants_to_preempt and bfqq.wr_coeff >= served.wr_coeff)
                or self._outranks(bfqq, served)
                or not self.idling.better_to_idle(served)
            )
            and bfqd.next_queue_may_preempt()
        ):
            self.turns.expire(served, False, PREEMPTED)
        return interactive

    def _outranks(self, bfqq: BfqQueue, served: BfqQueue) -> bool:
        # Of a higher class, or (its group, if they are of different ones) of a higher weight
        if bfqq.ioprio_class < served.ioprio_class:
            return True
        mine = bfqq
        other = served
        if served.parent is not bfqq.parent:
            mine = bfqq if bfqq.parent is None else bfqq.parent
            other = served if served.parent is None else served.parent
        return mine.weight > other.weight

    def _wait_is_over(self, rq: Request, bfqq: BfqQueue, sync: bool) -> int:
        # The queue in service has the request that it was waited for
        timed_out = self.budgets.timed_out(bfqq)
        queued = bfqq.queued_sync if sync else bfqq.queued_async
        if queued == 1 and rq.nr_sectors < 32 and not timed_out and self.idling.boosts_throughput(bfqq):
            # A small one of a sequential reader: more will come, and merge with it
            return 0
        bfqq.wait_request = False
        self.timer.cancel()
        if timed_out:
            self.turns.expire(bfqq, False, BUDGET_TIMEOUT)
        return 0

    def _remove_request(self, rq: Request) -> int:
        # It is dispatched, or merged away
        bfqd = self.bfqd
        bfqq: BfqQueue = rq.elv1
        if bfqq.next_rq is rq:
            bfqq.next_rq = self.order.next_after(bfqq, rq)
            self.budgets.updated_next_req(bfqq)
        bfqq.fifo.remove(rq)
        if rq.is_sync():
            bfqq.queued_sync -= 1
        else:
            bfqq.queued_async -= 1
        bfqd.queued -= 1
        bfqq.sort_list.remove(rq)
        self.queue.elv_merge.remove(rq)
        if bfqq.sort_list.count == 0:
            bfqq.next_rq = None
            if bfqq.busy and bfqq is not bfqd.in_service_queue:
                bfqd.del_bfqq_busy(bfqq, False)
                bfqq.budget = 0
                bfqq.service = 0
            self.cooperators.pos_remove(bfqq)
        elif not bfqd.nonrot_with_queueing:
            self.cooperators.pos_add_move(bfqq)
        return 0

    # -- a request is dispatched ----------------------------------------------------------------------

    def has_work(self, hctx: HardwareQueue) -> bool:
        """Whatever is held, also when the device idles."""
        return self.dispatch.count + self.bfqd.queued > 0

    def dispatch_request(self, hctx: HardwareQueue) -> Request | None:
        """The next one of the queue in service, after those that go before all queues; None while the device idles."""
        bfqd = self.bfqd
        self._lock()
        rq = None
        if self.dispatch.count:
            rq = self.dispatch.popleft()
            if rq.elv1 is not None:
                bfqq: BfqQueue = rq.elv1
                bfqq.dispatched += 1
                bfqd.rq_in_driver += 1
                rq.elv_ns = IN_DRIVER
        else:
            if bfqd.logging:
                bfqd.log(f"dispatch requests: {bfqd.tot_busy_queues} busy queues")
            if bfqd.tot_busy_queues and not (bfqd.strict_guarantees and bfqd.rq_in_driver):
                bfqq = self.turns.select_queue()
                if bfqq is not None:
                    rq = self._dispatch_from(bfqq)
        if rq is not None:
            charge(self.host, STEP_BFQ)
        self._unlock()
        return rq

    def _dispatch_from(self, bfqq: BfqQueue) -> Request:
        bfqd = self.bfqd
        rq = bfqq.next_rq
        bfqd.bfqq_served(bfqq, self.budgets.serv_to_charge(rq, bfqq))
        self.injection.dispatched(bfqq, rq)
        bfqq.dispatched += 1
        self.budgets.dispatched(rq)
        self._remove_request(rq)
        rq.elv_ns = IN_DRIVER
        if bfqq is bfqd.in_service_queue:
            self.raising.update(bfqq)
            if bfqd.tot_busy_queues > 1 and bfqq.is_idle_class():
                # One at a time of the idle class, while others want to be served
                self.turns.expire(bfqq, False, BUDGET_EXHAUSTED)
        bfqd.rq_in_driver += 1
        return rq

    def idle_slice_timer(self) -> int:
        """The queue in service has been waited for long enough."""
        bfqd = self.bfqd
        if bfqd.in_service_queue is None:
            return 0
        self._lock()
        bfqq: BfqQueue = bfqd.in_service_queue
        bfqq.wait_request = False
        if self.budgets.timed_out(bfqq):
            self.turns.expire(bfqq, True, BUDGET_TIMEOUT)
        elif bfqq.queued_sync == 0 and bfqq.queued_async == 0:
            self.turns.expire(bfqq, True, TOO_IDLE)
        self.bfqd.schedule_dispatch()
        return self._unlock()

    # -- a request has been served ----------------------------------------------------------------------------

    def requeue_request(self, rq: Request) -> None:
        """It comes back: as if it had been served, and were a new one."""
        self.finish_request(rq)

    def finish_request(self, rq: Request) -> None:
        """Served, or merged into another one."""
        if rq.elv1 is None:
            return
        bfqd = self.bfqd
        bfqq: BfqQueue = rq.elv1
        bic: IoContext = rq.elv0
        self._lock()
        if rq.elv_ns == IN_DRIVER:
            if rq is bfqd.waited_rq:
                self.injection.served(bfqq)
            self._completed(bfqq)
        self.processes.count_allocated(bfqq, -1)
        bfqd.put_queue(bfqq)
        bic.requests -= 1
        self._unlock()
        rq.elv1 = None
        rq.elv_ns = 0

    def _completed(self, bfqq: BfqQueue) -> int:
        bfqd = self.bfqd
        self.idling.update_hw_tag()
        bfqd.rq_in_driver -= 1
        bfqq.dispatched -= 1
        if bfqq.dispatched == 0 and not bfqq.busy:
            # From now on it is idle
            bfqq.budget_timeout_ns = bfqd.jiffy_now_ns()
            bfqd.pending_reqs_done(bfqq)
        now_ns = bfqd.clock.now_ns
        bfqq.last_end_request_ns = now_ns
        self.budgets.completed(now_ns)
        bfqd.last_completed_rq_bfqq = None if bfqq.coop else bfqq
        self.raising.on_completion(bfqq)
        if bfqq is bfqd.in_service_queue:
            if self.idling.must_idle(bfqq):
                if bfqq.dispatched == 0:
                    self.timer.arm(now_ns + self.idling.begin(bfqq))
                return 0
            if self.budgets.may_expire_for_timeout(bfqq):
                self.turns.expire(bfqq, False, BUDGET_TIMEOUT)
            elif bfqq.sort_list.count == 0 and (bfqq.dispatched == 0 or not self.idling.better_to_idle(bfqq)):
                self.turns.expire(bfqq, False, NO_MORE_REQUESTS)
        if bfqd.rq_in_driver == 0:
            self.bfqd.schedule_dispatch()
        return 0
