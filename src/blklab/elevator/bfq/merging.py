"""Merging of queues: processes that do one job between them are served from one queue; and splitting again.

Theory of operation
-------------------
Two synchronous queues that are not seeky and whose next requests lie within 4 MiB *cooperate*: interleaved readers of
one file. From one queue their requests are served in order, as one sequential stream, and can merge. Candidates are the
queue in service (near its last request) and the one whose next request is nearest (`BfqGroup.find_close`). They must
begin together: a queue that was served for 100 ms is on its own from then on.

A *stable merge* is of queues that were born soon one after another (180 ms) with the same priority: likely one
application. On flash that queues commands it happens at once; on others it is noted, and done 600 ms later unless
idling for the queue raises throughput.

A merge is decided first (`new_bfqq` of the old queue; all its processes will follow), and takes place for each process
at its next bio or request. When a merged queue turns out seeky, each process gets a queue of its own again at its next
request, in the state that its old one had (`IoContext.saved_`); but not after a stable merge.

Where the device is flash that queues commands (`nonrot_with_queueing`), order does not matter: no cooperators there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import cython

if TYPE_CHECKING:
    from blklab.elevator.bfq.bfqq import BfqQueue, IoContext
    from blklab.elevator.bfq.bursts import Bursts
    from blklab.elevator.bfq.data import BfqData
    from blklab.elevator.bfq.idling import Idling
    from blklab.elevator.bfq.injection import Injection
    from blklab.elevator.bfq.raising import Raising

if not cython.compiled:
    from blklab.elevator.bfq.params import (
        ACTIVATION_STABLE_MERGING_MS,
        CLOSE_THR_SECTORS,
        LATE_STABLE_MERGING_MS,
        MERGE_TIME_LIMIT_MS,
        SHARED_PID,
    )


class Cooperators:
    """Merging and splitting on one device."""

    def __init__(
        self, bfqd: BfqData, raising: Raising, bursts: Bursts, idling: Idling, injection: Injection
    ) -> None:
        self.bfqd = bfqd
        self.raising = raising
        self.bursts = bursts
        self.idling = idling
        self.injection = injection
        self.merge_limit_ns = MERGE_TIME_LIMIT_MS * 1000000 // bfqd.jiffy_ns * bfqd.jiffy_ns
        self.late_ns = bfqd.jiffies_ns(LATE_STABLE_MERGING_MS)
        self.activation_ns = bfqd.jiffies_ns(ACTIVATION_STABLE_MERGING_MS)

    # -- where next requests lie -------------------------------------------------------

    def pos_add_move(self, bfqq: BfqQueue) -> int:
        """The next request of a queue is another one."""
        group = self.bfqd.group_of(bfqq)
        group.pos_remove(bfqq)
        if bfqq.next_rq is not None and not bfqq.is_idle_class() and not self.too_late(bfqq):
            group.pos_add(bfqq)
        return 0

    def pos_remove(self, bfqq: BfqQueue) -> int:
        """It has none."""
        if bfqq.in_pos_tree:
            self.bfqd.group_of(bfqq).pos_remove(bfqq)
        return 0

    def too_late(self, bfqq: BfqQueue) -> bool:
        """Whether a queue was on its own for too long to be merged."""
        return (
            bfqq.service_from_backlogged > 0
            and bfqq.first_io_ns + self.merge_limit_ns < self.bfqd.jiffy_now_ns()
        )

    # -- whether to merge -----------------------------------------------------------------

    def setup(self, bfqq: BfqQueue, sector: int, bic: IoContext) -> BfqQueue | None:
        """The queue that `bfqq` is to be merged into, or None; a bio or request of `bic` comes at `sector`."""
        bfqd = self.bfqd
        new_bfqq = bfqq.new_bfqq
        if new_bfqq is not None:
            while new_bfqq.new_bfqq is not None:
                new_bfqq = new_bfqq.new_bfqq
            return new_bfqq
        if bfqd.nonrot_with_queueing:
            return None
        if bic.stable_merge_bfqq is not None and self._may_merge_stably(bfqq):
            return self._setup_stable(bfqq, bic)
        if bfqd.tot_busy_queues == 1 or self.too_late(bfqq):
            return None
        other = bfqd.in_service_queue
        if (
            other is not None
            and other is not bfqq
            and -CLOSE_THR_SECTORS <= sector - bfqd.in_serv_last_pos <= CLOSE_THR_SECTORS
            and bfqq.parent is other.parent
            and self._may_cooperate(bfqq, other)
        ):
            new_bfqq = self.decide(bfqq, other)
            if new_bfqq is not None:
                return new_bfqq
        other = bfqd.group_of(bfqq).find_close(sector)
        if other is not None and other is not bfqq and self._may_cooperate(bfqq, other):
            return self.decide(bfqq, other)
        return None

    def _may_merge_stably(self, bfqq: BfqQueue) -> bool:
        # After some time, in which it may have shown that it is better served alone
        now = self.bfqd.jiffy_now_ns()
        return (
            bfqq.sync
            and not bfqq.just_created
            and bfqq.split_time_ns + self.late_ns < now
            and bfqq.creation_time_ns + self.late_ns < now
        )

    def _setup_stable(self, bfqq: BfqQueue, bic: IoContext) -> BfqQueue | None:
        other = bic.stable_merge_bfqq
        refs = min(bfqq.process_refs(), other.process_refs())
        self.put_stable(bic)
        if refs <= 0 or self.idling.boosts_throughput(bfqq):
            return None
        new_bfqq = self.decide(bfqq, other)
        if new_bfqq is not None:
            bic.stably_merged = True
            if new_bfqq.bic is not None:
                new_bfqq.bic.stably_merged = True
        return new_bfqq

    def put_stable(self, bic: IoContext) -> int:
        """A process no longer means to merge its queue with a certain other one."""
        other = bic.stable_merge_bfqq
        bic.stable_merge_bfqq = None
        other.stable_ref -= 1
        return self.bfqd.put_queue(other)

    def _may_cooperate(self, bfqq: BfqQueue, other: BfqQueue) -> bool:
        return (
            bfqq.sync
            and other.sync
            and bfqq.ioprio_class == other.ioprio_class
            and not bfqq.is_idle_class()
            and not bfqq.is_seeky()
            and not other.is_seeky()
            and not self.too_late(other)
        )

    def decide(self, bfqq: BfqQueue, other: BfqQueue) -> BfqQueue | None:
        """All processes of `bfqq` are to follow into `other`, or where that is to go itself. None: it cannot be."""
        bfqd = self.bfqd
        if other.process_refs() == 0:
            return None
        while other.new_bfqq is not None:
            other = other.new_bfqq
            if other is bfqq:
                return None
        refs = bfqq.process_refs()
        # A queue without a process may be gone at any time
        if refs == 0 or other.process_refs() == 0 or other.parent is not bfqq.parent:
            return None
        if bfqd.logging:
            bfqd.log_queue(bfqq, f"scheduling merge with queue {other.pid}")
        bfqq.new_bfqq = other
        other.ref += refs
        return other

    # -- merging ------------------------------------------------------------------------------

    def merge(self, bic: IoContext, bfqq: BfqQueue, target: BfqQueue) -> int:
        """`bic` goes from `bfqq` to `target`, to which `bfqq.new_bfqq` leads, step by step."""
        while bfqq is not target:
            bfqq = self._merge_one(bic, bfqq)
        return 0

    def _merge_one(self, bic: IoContext, bfqq: BfqQueue) -> BfqQueue:
        bfqd = self.bfqd
        new_bfqq = bfqq.new_bfqq
        if bfqd.logging:
            bfqd.log_queue(bfqq, f"merging with queue {new_bfqq.pid}")
        self._save(bfqq)
        self._save(new_bfqq)
        if bfqq.io_bound:
            new_bfqq.io_bound = True
        bfqq.io_bound = False
        waker = bfqq.waker_bfqq
        if waker is not None and new_bfqq.waker_bfqq is None and waker is not new_bfqq:
            new_bfqq.tentative_waker_bfqq = None
            self.injection.set_waker(new_bfqq, waker)
        self.raising.hand_over(bfqq, new_bfqq)
        if bfqd.logging:
            bfqd.log_queue(new_bfqq, f"merge_bfqqs: wr_busy {bfqd.wr_busy_queues}")
        self.attach(bic, new_bfqq, True)
        new_bfqq.coop = True
        # It belongs to no one process from now on
        new_bfqq.bic = None
        new_bfqq.pid = SHARED_PID
        bfqq.bic = None
        self._reassign_last_created(bfqq, new_bfqq)
        self.release(bfqq)
        return new_bfqq

    def _save(self, bfqq: BfqQueue) -> int:
        bic = bfqq.bic
        if bic is None:
            return 0
        bic.saved_last_serv_time_ns = bfqq.last_serv_time_ns
        bic.saved_inject_limit = bfqq.inject_limit
        bic.saved_decrease_time_ns = bfqq.decrease_time_ns
        bic.saved_weight = bfqq.orig_weight
        bic.saved_last_end_request_ns = bfqq.last_end_request_ns
        bic.saved_ttime_samples = bfqq.ttime_samples
        bic.saved_ttime_total = bfqq.ttime_total
        bic.saved_ttime_mean_ns = bfqq.ttime_mean_ns
        bic.saved_has_short_ttime = bfqq.has_short_ttime
        bic.saved_io_bound = bfqq.io_bound
        bic.saved_io_start_ns = bfqq.io_start_ns
        bic.saved_tot_idle_ns = bfqq.tot_idle_ns
        bic.saved_in_large_burst = bfqq.in_large_burst
        bic.was_in_burst_list = bfqq.in_burst_list
        return self.raising.save(bfqq, bic)

    def attach(self, bic: IoContext, bfqq: BfqQueue | None, sync: bool) -> int:
        """`bfqq` is the queue of `bic` from now on."""
        bic.set_bfqq(bfqq, sync)
        if bfqq is not None and bic.stable_merge_bfqq is bfqq:
            self.put_stable(bic)
        return 0

    def _reassign_last_created(self, bfqq: BfqQueue, new_bfqq: BfqQueue | None) -> int:
        group = self.bfqd.group_of(bfqq)
        if group.last_bfqq_created is bfqq:
            group.last_bfqq_created = new_bfqq
        return 0

    def release(self, bfqq: BfqQueue) -> int:
        """One process less has this queue."""
        bfqd = self.bfqd
        if bfqq.busy and bfqq.sort_list.count == 0 and bfqq is not bfqd.in_service_queue:
            bfqd.del_bfqq_busy(bfqq, False)
        self._reassign_last_created(bfqq, None)
        return bfqd.put_queue(bfqq)

    def put_decided(self, bfqq: BfqQueue) -> int:
        """A process leaves a queue before it followed the merges that were decided."""
        other = bfqq.new_bfqq
        while other is not None and other is not bfqq:
            following = other.new_bfqq
            self.bfqd.put_queue(other)
            other = following
        return 0

    def on_new(self, bfqq: BfqQueue, bic: IoContext) -> BfqQueue:
        """A synchronous queue was created: perhaps it is of the same application as the one created before it.

        Returns the queue to use: itself, or the one it was merged with.
        """
        bfqd = self.bfqd
        group = bfqd.group_of(bfqq)
        last = group.last_bfqq_created
        if (
            last is None
            or last.creation_time_ns + self.activation_ns < bfqq.creation_time_ns
            or bfqq.parent is not last.parent
            or bfqq.ioprio != last.ioprio
            or bfqq.ioprio_class != last.ioprio_class
        ):
            group.last_bfqq_created = bfqq
        elif last.creation_time_ns + self.bursts.interval_ns >= bfqq.creation_time_ns:
            if bfqd.nonrot_with_queueing:
                return self._merge_new(bfqq, bic, last)
            last.ref += 1
            last.stable_ref += 1
            bic.stable_merge_bfqq = last
        return bfqq

    def _merge_new(self, bfqq: BfqQueue, bic: IoContext, last: BfqQueue) -> BfqQueue:
        new_bfqq = self.decide(bfqq, last)
        if new_bfqq is None:
            return bfqq
        if new_bfqq.bic is not None:
            new_bfqq.bic.stably_merged = True
        bic.stably_merged = True
        # Its state must be saved, though it has not been given to its process yet
        bfqq.bic = bic
        return self._merge_one(bic, bfqq)

    # -- splitting -------------------------------------------------------------------------------

    def wants_split(self, bfqq: BfqQueue, bic: IoContext) -> bool:
        """Whether `bic`, which shares the queue, is to get its own again."""
        return bfqq.coop and bfqq.split_coop and not bic.stably_merged

    def split(self, bfqq: BfqQueue, bic: IoContext) -> bool:
        """Take `bic` out of a shared queue. True: it was the last one there, and keeps it."""
        bfqd = self.bfqd
        if bfqd.logging:
            bfqd.log_queue(bfqq, "splitting queue")
        if bfqq.in_large_burst:
            bic.saved_in_large_burst = True
        if bfqq.process_refs() == 1 and bfqq.new_bfqq is None:
            bfqq.pid = bic.submitter.pid
            bfqq.coop = False
            bfqq.split_coop = False
            return True
        self.attach(bic, None, True)
        self.put_decided(bfqq)
        self.release(bfqq)
        return False

    def waker_after_split(self, bfqq: BfqQueue) -> BfqQueue | None:
        """The waker that the new queue of a process should have."""
        waker = bfqq.waker_bfqq
        if waker is None:
            return None
        following = bfqq.new_bfqq
        while following is not None:
            if following is waker:
                # It is about to lose the processes that were to come
                return None if waker.process_refs() == 1 else waker
            following = following.new_bfqq
        return waker if waker.process_refs() else None

    def resume(self, bfqq: BfqQueue, bic: IoContext, kept: bool) -> int:
        """After a split: the queue is as the process' own one was. `kept`: it is the one that was shared."""
        bfqq.has_short_ttime = bic.saved_has_short_ttime
        bfqq.io_bound = bic.saved_io_bound
        bfqq.last_serv_time_ns = bic.saved_last_serv_time_ns
        bfqq.inject_limit = bic.saved_inject_limit
        bfqq.decrease_time_ns = bic.saved_decrease_time_ns
        bfqq.new_weight = bic.saved_weight
        bfqq.last_end_request_ns = bic.saved_last_end_request_ns
        bfqq.ttime_samples = bic.saved_ttime_samples
        bfqq.ttime_total = bic.saved_ttime_total
        bfqq.ttime_mean_ns = bic.saved_ttime_mean_ns
        bfqq.io_start_ns = bic.saved_io_start_ns
        bfqq.tot_idle_ns = bic.saved_tot_idle_ns
        return self.raising.resume(bfqq, bic, kept and bfqq.busy)
