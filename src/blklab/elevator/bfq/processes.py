"""From a process to its queue: contexts, new queues, priorities, and what a request counts for its queue.

A process' first synchronous request makes its queue; asynchronous ones go to the queue of its group and priority. A
change of the process' priority takes effect when its queue is activated next; for asynchronous requests at once, with
another queue. What a change of its control group does is in `moving.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import cython

from blklab.elevator.bfq.bfqq import BfqQueue, IoContext

if TYPE_CHECKING:
    from blklab.block.request import Request
    from blklab.block.submit import Submitter
    from blklab.elevator.bfq.budget import Budgets
    from blklab.elevator.bfq.bursts import Bursts
    from blklab.elevator.bfq.data import BfqData
    from blklab.elevator.bfq.injection import Injection
    from blklab.elevator.bfq.merging import Cooperators
    from blklab.elevator.bfq.moving import Moves

if not cython.compiled:
    from blklab.elevator.bfq.params import CLASS_BE, CLASS_IDLE, CLASS_RT, CLASS_SHIFT, NR_LEVELS
    from blklab.elevator.bfq.weights import WEIGHT_PER_LEVEL


class Processes:
    """The processes that use one device."""

    def __init__(
        self,
        bfqd: BfqData,
        budgets: Budgets,
        bursts: Bursts,
        injection: Injection,
        cooperators: Cooperators,
        moves: Moves,
    ) -> None:
        self.bfqd = bfqd
        self.budgets = budgets
        self.bursts = bursts
        self.injection = injection
        self.cooperators = cooperators
        self.moves = moves
        self.contexts: dict[Submitter, IoContext] = {}

    def find(self, submitter: Submitter) -> IoContext | None:
        """The context of a process, if it has sent requests here."""
        return self.contexts.get(submitter)

    def get(self, submitter: Submitter) -> IoContext:
        """The same; it begins to exist with this."""
        bic = self.contexts.get(submitter)
        if bic is None:
            bic = IoContext(submitter)
            self.contexts[submitter] = bic
        return bic

    # -- a request gets its queue ------------------------------------------------------

    def queue_for(self, rq: Request) -> BfqQueue | None:
        """The queue of a request that is to be inserted (`elv1` from then on); None: it is of no process."""
        bic: IoContext = rq.elv0
        bfqq: BfqQueue | None = rq.elv1
        if bic is None or bfqq is not None:
            return bfqq
        bfqd = self.bfqd
        sync = rq.is_sync()
        if bic.ioprio != rq.ioprio:
            self._ioprio_changed(bic, rq)
        if rq.bio.blkg is not None:
            self.moves.update_cgroup(bic, rq.bio)
        bfqq = bic.bfqq_of(sync)
        split = False
        kept = False
        if bfqq is None:
            bfqq = self._new_queue_of(bic, rq, sync, False)
        elif self.cooperators.wants_split(bfqq, bic):
            split = True
            waker = self.cooperators.waker_after_split(bfqq)
            kept = self.cooperators.split(bfqq, bic)
            if not kept:
                bfqq = self._new_queue_of(bic, rq, sync, True)
                bfqq.tentative_waker_bfqq = None
                self.injection.set_waker(bfqq, waker)
        self.count_allocated(bfqq, 1)
        bfqq.ref += 1
        bic.requests += 1
        rq.elv1 = bfqq
        if bfqd.logging:
            bfqd.log_queue(bfqq, f"get_request {rq.sector}: {bfqq.ref}")
        if bfqq.new_bfqq is None and bfqq.process_refs() == 1:
            bfqq.bic = bic
            if split:
                self.cooperators.resume(bfqq, bic, kept)
        if bfqq.just_created and (bfqd.burst_size > 0 or bfqd.tot_busy_queues == 0):
            self.bursts.on_new(bfqq)
        return bfqq

    def _new_queue_of(self, bic: IoContext, rq: Request, sync: bool, split: bool) -> BfqQueue:
        bfqq = self._get_queue(bic, rq, sync, split)
        self.cooperators.attach(bic, bfqq, sync)
        if split and sync:
            self.bursts.on_split(bfqq, bic)
            bfqq.split_time_ns = self.bfqd.jiffy_now_ns()
        return bfqq

    def _get_queue(self, bic: IoContext, rq: Request, sync: bool, respawn: bool) -> BfqQueue:
        # A new synchronous queue, or the asynchronous one of its priority; `respawn`: it replaces one that bic had
        bfqd = self.bfqd
        group = bfqd.root_group if rq.bio.blkg is None else self.moves.group_of_bio(rq.bio)
        at = 0
        if not sync:
            ioprio_class = bic.ioprio >> CLASS_SHIFT
            at = group.async_index(ioprio_class, bic.ioprio & 7 if ioprio_class else NR_LEVELS // 2)
            bfqq = group.async_bfqqs[at]
            if bfqq is not None:
                bfqq.ref += 1
                return bfqq
        bfqq = BfqQueue(bic.submitter.pid, sync, bfqd.clock.now_ns, bfqd.jiffy_now_ns())
        self._set_next_ioprio(bfqq, bic)
        bfqq.max_budget = self.budgets.initial_max_budget()
        group.init_entity(bfqq)
        if bfqd.logging:
            bfqd.log_queue(bfqq, "allocated")
        bfqq.ref += 1
        if not sync:
            # The group has it, too
            bfqq.ref += 1
            group.async_bfqqs[at] = bfqq
            return bfqq
        bfqq.has_short_ttime = True
        bfqq.just_created = True
        return bfqq if respawn else self.cooperators.on_new(bfqq, bic)

    def count_allocated(self, bfqq: BfqQueue, count: int) -> int:
        """So many more requests of a queue and of its groups are allocated: what `Depths` compares."""
        entity = bfqq
        while entity is not None:
            entity.allocated += count
            entity = entity.parent
        return 0

    # -- priorities ----------------------------------------------------------------------

    def _set_next_ioprio(self, bfqq: BfqQueue, bic: IoContext) -> int:
        # The priority of its process, to take effect when the queue is activated next
        ioprio_class = bic.ioprio >> CLASS_SHIFT
        level = bic.ioprio & 7
        if ioprio_class == CLASS_IDLE:
            level = NR_LEVELS - 1
        elif ioprio_class != CLASS_RT and ioprio_class != CLASS_BE:
            # None was set: what follows from a nice of 0
            ioprio_class = CLASS_BE
            level = NR_LEVELS // 2
        bfqq.new_ioprio_class = ioprio_class
        bfqq.new_ioprio = level
        bfqq.new_weight = (NR_LEVELS - level) * WEIGHT_PER_LEVEL
        bfqq.prio_changed = True
        if self.bfqd.logging:
            self.bfqd.log_queue(bfqq, f"new_ioprio {level} new_weight {bfqq.new_weight}")
        return 0

    def _ioprio_changed(self, bic: IoContext, rq: Request) -> int:
        bic.ioprio = rq.ioprio
        bfqq = bic.async_bfqq
        if bfqq is not None:
            self.cooperators.attach(bic, self._get_queue(bic, rq, False, True), False)
            self.cooperators.release(bfqq)
        bfqq = bic.sync_bfqq
        if bfqq is not None:
            self._set_next_ioprio(bfqq, bic)
        return 0
