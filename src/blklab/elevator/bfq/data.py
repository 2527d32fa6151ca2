"""What BFQ knows of one device: the tunables, what is in service, what is in the device, and the tree above it all.

What: `BfqData` is the B-WF2Q+ engine (`wf2q.py`) with what a policy must add to it: references to queues, the
count of weights, messages. All parts of the policy share it. What only one part needs is in that part.

Theory of operation
-------------------
Times in jiffies are held in nanoseconds, at the beginning of a jiffy (`jiffy_now_ns`), so that "N jiffies ago" is a
subtraction as anywhere else; intervals are rounded up to jiffies (`jiffies_ns`).

`weights` counts the busy queues of each weight whose weight is not raised: if they are of several weights, the scenario
is asymmetric, and only idling gives each its share.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import cython

from blklab.block.consts import TR_MSG
from blklab.elevator.bfq.entity import LONG_AGO_NS
from blklab.elevator.bfq.group import BfqGroup
from blklab.elevator.bfq.wf2q import Wf2q

if TYPE_CHECKING:
    from blklab.block.elv_timer import IdleSliceTimer
    from blklab.block.queue import RequestQueue
    from blklab.block.request import Request
    from blklab.elevator.bfq.bfqq import BfqQueue
    from blklab.elevator.bfq.entity import Entity

if not cython.compiled:
    from blklab.elevator.bfq.params import (
        BACK_SEEK_MAX_KB,
        BACK_SEEK_PENALTY,
        FIFO_EXPIRE_ASYNC_MS,
        FIFO_EXPIRE_SYNC_MS,
        MSEC_NS,
        SECT_THR_NONROT,
        SEEK_THR_SECTORS,
        SLICE_IDLE_MS,
    )


class BfqData(Wf2q):
    """The state of BFQ on one queue. Sectors, nanoseconds; `jiffy` in a comment: held at the beginning of a jiffy."""

    def __init__(self, queue: RequestQueue, timer: IdleSliceTimer) -> None:
        Wf2q.__init__(self, queue.clock, queue.host.jiffy_ns)
        self.queue = queue
        self.timer = timer
        self.root_group: BfqGroup = BfqGroup()
        # Tunables
        self.fifo_expire_async_ns = FIFO_EXPIRE_ASYNC_MS * MSEC_NS
        self.fifo_expire_sync_ns = FIFO_EXPIRE_SYNC_MS * MSEC_NS
        self.back_seek_max_kb = BACK_SEEK_MAX_KB
        self.back_seek_penalty = BACK_SEEK_PENALTY
        self.slice_idle_ns = SLICE_IDLE_MS * MSEC_NS
        self.user_max_budget = 0
        self.timeout_ns = self.timeout_ms * MSEC_NS  # whole jiffies
        self.strict_guarantees = False
        self.low_latency = True
        # The device
        self.queued = 0
        self.rq_in_driver = 0
        self.hw_tag = -1  # whether it queues requests itself; -1: not known yet
        self.nonrot_with_queueing = not queue.rotational
        self.max_rq_in_driver = 0
        self.last_position = 0
        self.in_serv_last_pos = 0
        self.last_completion_ns = LONG_AGO_NS
        self.last_completed_rq_bfqq: BfqQueue | None = None
        # The queue in service
        self.last_budget_start_ns = 0
        self.last_idling_start_ns = 0
        self.last_idling_start_jiffy_ns = 0
        self.last_empty_occupied_ns = 0
        self.wait_dispatch = False
        self.waited_rq: Request | None = None
        self.rqs_injected = False
        # Queues by weight, and those that became busy at one time
        self.weights: dict[int, int] = {}
        self.burst_list: list[BfqQueue] = []
        self.burst_size = 0

    # -- time -----------------------------------------------------------------------

    def jiffies_ns(self, milliseconds: int) -> int:
        """An interval in whole jiffies, rounded up (msecs_to_jiffies)."""
        jiffy_ns = self.jiffy_ns
        return (milliseconds * MSEC_NS + jiffy_ns - 1) // jiffy_ns * jiffy_ns

    # -- messages -------------------------------------------------------------------

    def look_for_tracer(self) -> None:
        """Whether messages are wanted; asked where a hook begins."""
        self.logging = (self.queue.trace_mask & TR_MSG) != 0

    def log(self, text: str) -> None:
        """A message about the device. Test `logging` first."""
        self.queue.tracer.message(self.queue.number, "bfq " + text)

    def log_queue(self, queue: Entity, text: str) -> int:
        """A message about a queue. Test `logging` first."""
        self.queue.tracer.message(self.queue.number, f"{queue.name()} {text}")  # type: ignore[attr-defined]
        return 0

    # -- dispatching ----------------------------------------------------------------

    def schedule_dispatch(self) -> int:
        """Something else may be dispatched now."""
        if self.queued:
            if self.logging:
                self.log("schedule dispatch")
            self.queue.run_all()
        return 0

    # -- references -----------------------------------------------------------------

    def group_of(self, bfqq: BfqQueue) -> BfqGroup:
        """The group a queue is in."""
        return self.root_group if bfqq.parent is None else bfqq.parent

    def put_queue(self, queue: Entity) -> int:
        """One reference less; with the last one the queue is forgotten by all who merely know it."""
        bfqq: BfqQueue = queue
        bfqq.ref -= 1
        if bfqq.ref > 0:
            return 0
        if bfqq.in_burst_list:
            self.burst_list.remove(bfqq)
            bfqq.in_burst_list = False
            # kernel: only the end of its process makes the burst smaller, not the end of a merged queue
            if bfqq.bic is not None and self.burst_size > 0:
                self.burst_size -= 1
        self.forget_waker(bfqq)
        for woken in bfqq.woken:
            woken.waker_bfqq = None
        bfqq.woken.clear()
        if self.last_completed_rq_bfqq is bfqq:
            self.last_completed_rq_bfqq = None
        return 0

    def cancel_idle_slice_timer(self) -> int:
        """A turn ended: nobody is waited for any more."""
        return self.timer.cancel()

    def forget_waker(self, bfqq: BfqQueue) -> None:
        """It is no longer on the list of the queue that wakes it."""
        waker = bfqq.waker_bfqq
        if waker is not None and bfqq in waker.woken:
            waker.woken.remove(bfqq)

    def became_busy(self, queue: Entity) -> int:
        """Of the queues that one wakes, the one that got busy last comes first."""
        bfqq: BfqQueue = queue
        waker = bfqq.waker_bfqq
        if waker is not None and waker.woken and waker.woken[0] is not bfqq and bfqq in waker.woken:
            waker.woken.remove(bfqq)
            waker.woken.insert(0, bfqq)
        return 0

    # -- weights --------------------------------------------------------------------

    def weights_tree_add(self, queue: Entity) -> int:
        """Count a busy queue by its weight."""
        bfqq: BfqQueue = queue
        if bfqq.weight_counted:
            return 0
        weight = bfqq.weight
        self.weights[weight] = self.weights.get(weight, 0) + 1
        bfqq.weight_counted = weight
        bfqq.ref += 1
        return 0

    def weights_tree_remove(self, queue: Entity) -> int:
        """Count it no more."""
        bfqq: BfqQueue = queue
        weight = bfqq.weight_counted
        if not weight:
            return 0
        left = self.weights[weight] - 1
        if left:
            self.weights[weight] = left
        else:
            del self.weights[weight]
        bfqq.weight_counted = 0
        return self.put_queue(bfqq)

    def is_asymmetric(self, bfqq: BfqQueue | None) -> bool:
        """Whether queues are to be served differently (weights, classes, groups), so that only idling for `bfqq` can
        give it what it is due; a queue of the smallest weight needs no help against heavier ones."""
        if self.num_groups_with_pending_reqs:
            return True
        busy = self.busy_queues
        if self.tot_busy_queues != busy[1] and (busy[1] != 0) + (busy[0] != 0) + (busy[2] != 0) > 1:
            return True
        if len(self.weights) < 2:
            return False
        return bfqq is None or not bfqq.weight_counted or bfqq.weight_counted != min(self.weights)

    # -- requests -------------------------------------------------------------------

    def is_seek(self, last_position: int, rq: Request) -> bool:
        """Whether `rq` lies far from there. On flash a big one never does: its seek is lost in its transfer."""
        if last_position == 0:
            return False
        distance = rq.sector - last_position
        if -SEEK_THR_SECTORS <= distance <= SEEK_THR_SECTORS:
            return False
        return self.queue.rotational or rq.nr_sectors < SECT_THR_NONROT
