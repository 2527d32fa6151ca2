"""Idling: whether to keep the device waiting for the next request of the queue in service.

Theory of operation
-------------------
A process that reads sequentially sends its next request a moment after the last one was served. If another queue is
served in that moment, a disk loses the place, and the process loses its share of the device, which it cannot ask for
while it has no request. So the device idles, up to `slice_idle`, where this pays:

- for throughput: on a disk that does not queue commands always, on one that does, or on flash that does not, for
  sequential queues that do much I/O and think little; never while raised queues are busy, which it would delay;
- for service guarantees: for a raised queue beside ones that are not, where queues of several weights, classes or
  groups are busy, and for a queue that is alone;
- always with `strict_guarantees`; never with slice_idle=0, for asynchronous queues and for the idle class.

What is known for that: whether the device queues commands (`hw_tag`), and each queue's think time, seeks and how much
of its time it has I/O outstanding (`io_bound`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import cython

if TYPE_CHECKING:
    from blklab.block.request import Request
    from blklab.elevator.bfq.bfqq import BfqQueue
    from blklab.elevator.bfq.data import BfqData
    from blklab.elevator.bfq.raising import Raising

if not cython.compiled:
    from blklab.elevator.bfq.params import (
        HW_QUEUE_SAMPLES,
        HW_QUEUE_THRESHOLD,
        MIN_TT_NS,
        MSEC_NS,
        TTIME_VALID_SAMPLES,
    )


class Idling:
    """What decides about idling on one device."""

    def __init__(self, bfqd: BfqData, raising: Raising) -> None:
        self.bfqd = bfqd
        self.raising = raising
        self.hw_tag_samples = 0

    # -- the decision ----------------------------------------------------------------

    def boosts_throughput(self, bfqq: BfqQueue) -> bool:
        """Whether waiting for `bfqq` raises throughput and harms no raised queue."""
        bfqd = self.bfqd
        rotational = bfqd.queue.rotational
        if bfqd.wr_busy_queues or bfqq.process_refs() == 0:
            return False
        if rotational and not bfqd.hw_tag:
            return True
        return (
            (rotational or not bfqd.hw_tag) and bfqq.has_short_ttime and bfqq.io_bound and not bfqq.is_seeky()
        )

    def needed_for_guarantees(self, bfqq: BfqQueue) -> bool:
        """Whether `bfqq` would lose its share without."""
        bfqd = self.bfqd
        if bfqq.process_refs() == 0:
            return False
        busy = bfqd.tot_busy_queues
        return (
            busy == 1
            or (
                bfqq.wr_coeff > 1 and (bfqd.wr_busy_queues < busy or bfqd.rq_in_driver >= bfqq.dispatched + 4)
            )
            or bfqd.is_asymmetric(bfqq)
        )

    def better_to_idle(self, bfqq: BfqQueue) -> bool:
        """Whether to wait for the next request of `bfqq` when it has none."""
        bfqd = self.bfqd
        if bfqq.process_refs() == 0:
            return False
        if bfqd.strict_guarantees:
            return True
        if bfqd.slice_idle_ns == 0 or not bfqq.sync or bfqq.is_idle_class():
            return False
        return self.boosts_throughput(bfqq) or self.needed_for_guarantees(bfqq)

    def must_idle(self, bfqq: BfqQueue) -> bool:
        """The same for a queue that may have requests."""
        return bfqq.sort_list.count == 0 and self.better_to_idle(bfqq)

    def begin(self, bfqq: BfqQueue) -> int:
        """The queue in service is waited for from now on; for how long (ns)."""
        bfqd = self.bfqd
        bfqq.wait_request = True
        length_ns = bfqd.slice_idle_ns
        if bfqq.wr_coeff > 1:
            length_ns = max(length_ns, 20 * MSEC_NS)
        elif bfqq.is_seeky() and not bfqd.is_asymmetric(bfqq):
            length_ns = min(length_ns, MIN_TT_NS)
        bfqd.last_idling_start_ns = bfqd.clock.now_ns
        bfqd.last_idling_start_jiffy_ns = bfqd.jiffy_now_ns()
        return length_ns

    # -- what a queue is like ------------------------------------------------------------

    def update_thinktime(self, bfqq: BfqQueue) -> int:
        """A request came: if the queue had none, its process thought about it since the last one was served."""
        bfqd = self.bfqd
        if bfqq.dispatched or bfqq.busy:
            return 0
        elapsed_ns = bfqd.clock.now_ns - bfqq.last_end_request_ns
        # A new queue's last end was noted 1 ns ahead, and no time may have passed since
        elapsed_ns = min(max(elapsed_ns, 0), 2 * bfqd.slice_idle_ns)
        bfqq.ttime_samples = (7 * bfqq.ttime_samples + 256) // 8
        bfqq.ttime_total = (7 * bfqq.ttime_total + 256 * elapsed_ns) // 8
        bfqq.ttime_mean_ns = (bfqq.ttime_total + 128) // bfqq.ttime_samples
        return 0

    def has_short_ttime(self, bfqq: BfqQueue, process_lives: bool) -> bool:
        """Whether the next request of a queue is worth waiting for, as far as is known."""
        if not process_lives:
            return False
        return bfqq.ttime_samples <= TTIME_VALID_SAMPLES or bfqq.ttime_mean_ns <= self.bfqd.slice_idle_ns >> 1

    def update_seeks(self, bfqq: BfqQueue, rq: Request) -> int:
        """A request came: near the last one or far?"""
        bfqq.note_seek(self.bfqd.is_seek(bfqq.last_request_pos, rq))
        return self.raising.on_seek(bfqq)

    def update_io_intensity(self, bfqq: BfqQueue) -> int:
        """A request came: is its process doing I/O most of the time (idle at most a fifth of some 200 ms)?"""
        now_ns = self.bfqd.clock.now_ns
        total_ns = now_ns - bfqq.io_start_ns
        if bfqq.sort_list.count == 0 and bfqq.dispatched == 0:
            bfqq.tot_idle_ns += max(0, now_ns - bfqq.last_end_request_ns)
        if bfqq.just_created:
            return 0
        bfqq.io_bound = bfqq.tot_idle_ns * 5 <= total_ns
        if total_ns > 200 * MSEC_NS:
            bfqq.io_start_ns = now_ns - (total_ns >> 1)
            bfqq.tot_idle_ns >>= 1
        return 0

    # -- what the device is like ----------------------------------------------------------

    def update_hw_tag(self) -> int:
        """A request was completed: does the device queue several?"""
        bfqd = self.bfqd
        bfqd.max_rq_in_driver = max(bfqd.max_rq_in_driver, bfqd.rq_in_driver)
        if bfqd.hw_tag == 1 or bfqd.rq_in_driver + bfqd.queued <= HW_QUEUE_THRESHOLD:
            return 0
        bfqq: BfqQueue | None = bfqd.in_service_queue
        if (
            bfqq is not None
            and bfqq.has_short_ttime
            and bfqq.dispatched + bfqq.queued_async + bfqq.queued_sync < HW_QUEUE_THRESHOLD
            and bfqd.rq_in_driver < HW_QUEUE_THRESHOLD
        ):
            # Idling for that queue may be what keeps the device from having more
            return 0
        self.hw_tag_samples += 1
        if self.hw_tag_samples <= HW_QUEUE_SAMPLES:
            return 0
        bfqd.hw_tag = 1 if bfqd.max_rq_in_driver > HW_QUEUE_THRESHOLD else 0
        bfqd.max_rq_in_driver = 0
        self.hw_tag_samples = 0
        bfqd.nonrot_with_queueing = not bfqd.queue.rotational and bfqd.hw_tag == 1
        return 0
