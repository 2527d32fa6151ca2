"""Whether the device waits for a queue that has nothing left: think times, the idle window, the timer, and
NCQ.

Theory of operation
-------------------
A synchronous queue has an idle window while its process thinks for
less than `slice_idle` and does not seek (a queue that had 4 requests at once is deep, and may seek, until
idling for it was in vain). When such a queue in service has nothing left, the device idles for its next
request. A queue without the window is waited for only if it is the last of its tree: so the queues that seek
are served together, and waited for once.

On a device without seeks that has many requests at once no queue is waited for by its window. Whether it has
is found by its depth (`hw_tag`): the most requests in 50 samples under load, and not known at first.

Groups: `group_idle` (2.6.36) waits for the next request of a group whose only queue is not waited for; in the
patches of the thread of 2009 it was a flag, with slice_idle as time. A queue that has used its slice and is
alone in its group is waited for before its slice ends (`wait_busy`), else its group would leave the tree and
lose its place.

Ages: the rules of cfq_idle_rules (2.6.37) do not wait for writes that say that nobody will follow them, nor
for a deep seeking queue that the device serves faster than it asks; before, the last queue without idling was
waited for only if one of its tree had a request that did not say so. With cfq_ttime_trees (3.1) trees and
groups have think times, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import cython

if TYPE_CHECKING:
    from blklab.block.request import Request
    from blklab.elevator.cfq.cfqq import CfqContext, CfqQueue, ThinkTime
    from blklab.elevator.cfq.cooperators import Cooperators
    from blklab.elevator.cfq.data import CfqData
    from blklab.elevator.cfq.seeks import Seeks
    from blklab.elevator.cfq.slices import Slices

if not cython.compiled:
    from blklab.block.consts import F_IDLE, F_SYNC, OP_WRITE
    from blklab.elevator.cfq.params import (
        DEEP_QUEUE,
        HW_QUEUE_MIN,
        HW_TAG_SAMPLES,
        IDLE_WORKLOAD,
        SYNC_WORKLOAD,
    )


class Idling:
    """Idling on one device."""

    def __init__(self, cfqd: CfqData, slices: Slices, seeks: Seeks, cooperators: Cooperators) -> None:
        self.cfqd = cfqd
        self.slices = slices
        self.seeks = seeks
        self.cooperators = cooperators

    # -- a request comes -----------------------------------------------------------------

    def update_thinktime(self, cfqq: CfqQueue, cic: CfqContext | None) -> int:
        """cfq_update_io_thinktime."""
        cfqd = self.cfqd
        now = cfqd.now()
        if not cfqd.features.cfq_ttime_trees:
            if cic is not None:
                cic.ttime.update(now, cfqd.slice_idle_ticks)
            return 0
        if cfqq.sync:
            if cic is not None:
                cic.ttime.update(now, cfqd.slice_idle_ticks)
            if cfqq.service_tree is not None:
                cfqq.service_tree.ttime.update(now, cfqd.slice_idle_ticks)
        cfqq.cfqg.ttime.update(now, cfqd.group_idle_ticks)
        return 0

    def nobody_follows(self, rq: Request) -> bool:
        """req_noidle: a synchronous write that says that its process will not write more soon."""
        return rq.op == OP_WRITE and (rq.flags & (F_SYNC | F_IDLE)) == F_SYNC

    def update_window(self, cfqq: CfqQueue, cic: CfqContext | None) -> int:
        """cfq_update_idle_window."""
        if not cfqq.sync or cfqq.is_idle_class():
            return 0
        cfqd = self.cfqd
        window = cfqq.idle_window
        if cfqd.features.cfq_deep_queue and cfqq.nr_queued() >= DEEP_QUEUE:
            cfqq.deep = True
        following = cfqq.next_rq
        if (cfqd.features.cfq_idle_rules and following is not None and self.nobody_follows(following)) or (
            cic is None
            or cic.exited
            or cfqd.slice_idle_ticks == 0
            or (not cfqq.deep and self.seeks.forbids_idling(cfqq))
        ):
            window = False
        elif cic.ttime.is_valid():
            window = cic.ttime.mean_ticks <= cfqd.slice_idle_ticks
        if window != cfqq.idle_window:
            if cfqd.logging:
                cfqd.log_queue(cfqq, f"idle={int(window)}")
            cfqq.idle_window = window
        return 0

    # -- a queue in service has nothing left ---------------------------------------------------

    def thinks_long(self, ttime: ThinkTime, group: bool) -> bool:
        """cfq_io_thinktime_big: longer than it is idled for."""
        cfqd = self.cfqd
        if not cfqd.features.cfq_ttime_trees or not ttime.is_valid():
            return False
        return ttime.mean_ticks > (cfqd.group_idle_ticks if group else cfqd.slice_idle_ticks)

    def should_idle(self, cfqq: CfqQueue) -> bool:
        """cfq_should_idle: whether to wait for its next request."""
        cfqd = self.cfqd
        tree = cfqq.service_tree
        if tree is None or cfqq.wl_class() == IDLE_WORKLOAD:
            return False
        if cfqd.slice_idle_ticks == 0 and cfqd.features.cfq_group_idle:
            return False
        if cfqq.idle_window and not cfqd.nonrot_with_queueing():
            return True
        if tree.count == 1 and cfqq.sync and not self.thinks_long(tree.ttime, False):
            return True
        if cfqd.logging:
            cfqd.log_queue(cfqq, f"Not idling. st->count:{tree.count}")
        return False

    def arm(self) -> int:
        """cfq_arm_slice_timer: idle for the queue in service, or for its group, if that is worth while."""
        cfqd = self.cfqd
        cfqq = cfqd.active_queue
        group_ticks = cfqd.idles_on_groups_ticks()
        if cfqd.nonrot_with_queueing() and (group_ticks == 0 or not cfqd.features.cfq_ssd_group_idle):
            return 0
        length = cfqd.slice_idle_ticks
        on_group = False
        if length == 0 or not self.should_idle(cfqq):
            if group_ticks == 0:
                return 0
            on_group = True
            length = group_ticks
        if cfqq.dispatched:
            return 0
        cic = cfqd.active_cic
        if cic is None or cic.exited:
            return 0
        if cic.ttime.is_valid() and cfqq.slice_end_ticks - cfqd.now() < cic.ttime.mean_ticks:
            if cfqd.logging:
                cfqd.log_queue(cfqq, f"Not idling. think_time:{cic.ttime.mean_ticks}")
            return 0
        if on_group and (cfqq.cfqg.nr_cfqq > 1 or self.thinks_long(cfqq.service_tree.ttime, True)):
            return 0
        cfqq.wait_request = True
        cfqd.timer.arm(cfqd.tick_time_ns(cfqd.now() + length))
        cfqq.cfqg.stats.idle_begins(cfqd.clock.now_ns)
        if cfqd.logging:
            text = f" group_idle: {int(on_group)}" if cfqd.features.cfq_group_idle else ""
            cfqd.log_queue(cfqq, f"arm_idle: {length}{text}")
        return 0

    def cancel(self, cfqq: CfqQueue) -> int:
        """cfq_del_timer: it is not waited for any more."""
        self.cfqd.timer.cancel()
        cfqq.cfqg.stats.idle_ends(self.cfqd.clock.now_ns)
        return 0

    def should_wait_busy(self, cfqq: CfqQueue) -> bool:
        """cfq_should_wait_busy: alone in its group, and its slice about to end: wait, so that the group
        stays."""
        cfqd = self.cfqd
        if cfqd.features.cfq_idle_rules and cfqq.sort_list.count:
            return False
        if cfqq.cfqg.nr_cfqq > 1 or self.thinks_long(cfqq.cfqg.ttime, True):
            return False
        if self.slices.used(cfqq):
            return True
        left = cfqq.slice_end_ticks - cfqd.now()
        cic = cfqd.active_cic
        if cic is not None and cic.ttime.is_valid() and left < cic.ttime.mean_ticks:
            return True
        return left <= cfqd.jiffy_ticks

    def queue_completed(self, cfqq: CfqQueue, rq: Request) -> int:
        """A synchronous request of the queue in service has ended, and it has nothing left."""
        cfqd = self.cfqd
        if self.cooperators.close(cfqq) is not None:
            return 0
        if not cfqd.features.cfq_idle_rules:
            if not self.nobody_follows(rq):
                cfqd.noidle_tree_requires_idle = True
            if not (
                cfqd.serving_type == SYNC_WORKLOAD or cfqd.noidle_tree_requires_idle or cfqq.cfqg.nr_cfqq == 1
            ):
                return 0
        return self.arm()

    # -- NCQ ---------------------------------------------------------------------------------------

    def update_hw_tag(self) -> int:
        """cfq_update_hw_tag: a request has ended. Whether the device can have many at once, while there is
        enough to do."""
        cfqd = self.cfqd
        if cfqd.rq_in_driver > cfqd.hw_tag_est_depth:
            cfqd.hw_tag_est_depth = cfqd.rq_in_driver
        if cfqd.hw_tag == 1:
            return 0
        if cfqd.rq_queued <= HW_QUEUE_MIN and cfqd.rq_in_driver <= HW_QUEUE_MIN:
            return 0
        cfqq = cfqd.active_queue
        if (
            cfqq is not None
            and cfqq.idle_window
            and cfqq.dispatched + cfqq.nr_queued() < HW_QUEUE_MIN
            and cfqd.rq_in_driver < HW_QUEUE_MIN
        ):
            return 0
        cfqd.hw_tag_samples += 1
        if cfqd.hw_tag_samples > HW_TAG_SAMPLES:
            cfqd.hw_tag = 1 if cfqd.hw_tag_est_depth >= HW_QUEUE_MIN else 0
        return 0
