"""Where a queue stands on the service trees, and which tree is served.

Theory of operation
-------------------
A group has a service tree for each class (real-time, best-effort) and
type (synchronous, synchronous without idling, asynchronous) and one for the idle class. The key of a queue is
when it came, plus an offset by priority, less what was left of its last slice: about in turn. A queue that
preempts goes before the first.

The group on the group tree that was served least is served next; in it real-time before best-effort before
idle; and within a class the type whose first queue has the lowest key, for a share of the group's slice: as
many of the queues of the class as it has. Only synchronous queues with idling make the device wait one by
one; those without are served together, and waited for together at the end: that is what the types are for.

Group isolation (2.6.33 to 2.6.38): unless `group_isolation` is 1, a queue without idling moves to the root
group when it is put on a tree, so that all seeking queues of the machine are served together and waited for
once, at the price of isolation between their groups; when it has become sequential it returns to its own
group.

Deliberate differences: a weight of a queue's own group counts in the root group as it does in the kernel: not
at all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import cython

if TYPE_CHECKING:
    from blklab.elevator.cfq.cfqq import CfqGroup, CfqQueue
    from blklab.elevator.cfq.cooperators import Cooperators
    from blklab.elevator.cfq.data import CfqData
    from blklab.elevator.cfq.groups import Groups
    from blklab.elevator.cfq.slices import Slices

if not cython.compiled:
    from blklab.elevator.cfq.params import (
        ASYNC_WORKLOAD,
        BE_WORKLOAD,
        IDLE_WORKLOAD,
        MIN_TT_JIFFIES,
        NR_TYPES,
        RT_WORKLOAD,
        SYNC_NOIDLE_WORKLOAD,
        SYNC_WORKLOAD,
    )


class Service:
    """The service trees of one device."""

    def __init__(self, cfqd: CfqData, groups: Groups, slices: Slices, cooperators: Cooperators) -> None:
        self.cfqd = cfqd
        self.groups = groups
        self.slices = slices
        self.cooperators = cooperators

    # -- a queue's place ---------------------------------------------------------------

    def _change_group(self, cfqq: CfqQueue) -> bool:
        # group_isolation=0: whether it moved to the root group, or back to its own
        cfqd = self.cfqd
        root = cfqd.root_group
        wl_type = cfqq.wl_type()
        if wl_type == SYNC_NOIDLE_WORKLOAD and cfqq.cfqg is not root:
            if cfqd.logging:
                cfqd.log_queue(cfqq, "moving to root group")
            if cfqq.service_tree is not None:
                self.groups.queue_gone(cfqq.cfqg)
            cfqq.orig_cfqg = cfqq.cfqg
            cfqq.cfqg = root
            return True
        if wl_type == SYNC_WORKLOAD and cfqq.orig_cfqg is not None:
            if cfqq.service_tree is not None:
                self.groups.queue_gone(cfqq.cfqg)
            cfqq.cfqg = cfqq.orig_cfqg
            cfqq.orig_cfqg = None
            if cfqd.logging:
                cfqd.log_queue(cfqq, "moved to origin group")
            return True
        return False

    def place(self, cfqq: CfqQueue, at_front: bool) -> int:
        """cfq_service_tree_add: on the tree of its class and type, by its key or before the first."""
        cfqd = self.cfqd
        group_changed = False
        if cfqd.features.cfq_group_isolation and not cfqd.group_isolation:
            group_changed = self._change_group(cfqq)
        tree = cfqq.cfqg.tree_for(cfqq.wl_class(), cfqq.wl_type())
        now = cfqd.now()
        if cfqq.is_idle_class():
            key = now
            if tree.last is not None and tree.last is not cfqq:
                key = tree.last.rb_key
            key += cfqd.idle_delay_ticks
        elif at_front:
            key = now if tree.first is None else tree.first.rb_key
            key -= cfqd.sec_ticks
        else:
            # The more queues, the farther behind the best priority those of a lower one
            offset = self.slices.prio_slice(True, 0) - self.slices.prio_slice(cfqq.sync, cfqq.ioprio)
            key = now + (cfqq.cfqg.nr_cfqq - 1) * offset - cfqq.slice_resid_ticks
            cfqq.slice_resid_ticks = 0
        is_new = True
        if cfqq.service_tree is not None:
            is_new = False
            if key == cfqq.rb_key and cfqq.service_tree is tree:
                return 0
            cfqq.service_tree.remove(cfqq)
        cfqq.rb_key = key
        tree.add(cfqq)
        if group_changed or (is_new and not at_front):
            self.groups.queue_added(cfqq.cfqg)
        return 0

    def resort(self, cfqq: CfqQueue) -> int:
        """cfq_resort_rr_list: a new place, if it has one."""
        if cfqq.on_rr:
            self.place(cfqq, False)
            self.cooperators.move(cfqq)
        return 0

    def add(self, cfqq: CfqQueue) -> int:
        """cfq_add_cfqq_rr: it has its first request."""
        cfqd = self.cfqd
        if cfqd.logging:
            cfqd.log_queue(cfqq, "add_to_rr")
        cfqq.on_rr = True
        cfqd.busy_queues += 1
        if cfqq.sync:
            cfqd.busy_sync_queues += 1
        return self.resort(cfqq)

    def remove(self, cfqq: CfqQueue) -> int:
        """cfq_del_cfqq_rr: it has no requests, and its slice has ended."""
        cfqd = self.cfqd
        if cfqd.logging:
            cfqd.log_queue(cfqq, "del_from_rr")
        cfqq.on_rr = False
        if cfqq.service_tree is not None:
            cfqq.service_tree.remove(cfqq)
        self.cooperators.remove(cfqq)
        self.groups.queue_gone(cfqq.cfqg)
        cfqd.busy_queues -= 1
        if cfqq.sync:
            cfqd.busy_sync_queues -= 1
        return 0

    # -- what is served ------------------------------------------------------------------

    def _choose_type(self, cfqg: CfqGroup, wl_class: int) -> int:
        # cfq_choose_wl_type: the one whose first queue comes first
        best = SYNC_NOIDLE_WORKLOAD
        lowest = 0
        found = False
        for wl_type in range(NR_TYPES):
            cfqq = cfqg.tree_for(wl_class, wl_type).first
            if cfqq is not None and (not found or cfqq.rb_key < lowest):
                found = True
                lowest = cfqq.rb_key
                best = wl_type
        return best

    def _choose_workload(self, cfqg: CfqGroup) -> int:
        # choose_wl_class_and_type
        cfqd = self.cfqd
        now = cfqd.now()
        before = cfqd.serving_class
        if cfqg.busy_queues(RT_WORKLOAD):
            cfqd.serving_class = RT_WORKLOAD
        elif cfqg.busy_queues(BE_WORKLOAD):
            cfqd.serving_class = BE_WORKLOAD
        else:
            cfqd.serving_class = IDLE_WORKLOAD
            cfqd.workload_expires_ticks = now + cfqd.jiffy_ticks
            return 0
        wl_class = cfqd.serving_class
        if before == wl_class or not cfqd.features.cfq_preempt_rules:
            # Of 2.6.33 only since 2.6.38: another class begins a workload of its own
            tree = cfqg.tree_for(wl_class, cfqd.serving_type)
            if tree.count and now <= cfqd.workload_expires_ticks:
                return 0
        cfqd.serving_type = self._choose_type(cfqg, wl_class)
        queues = cfqg.tree_for(wl_class, cfqd.serving_type).count
        average = cfqg.busy_avg_rt if wl_class == RT_WORKLOAD else cfqg.busy_avg_be
        length = self.groups.slice_ticks(cfqg) * queues // max(average, cfqg.busy_queues(wl_class))
        if cfqd.serving_type == ASYNC_WORKLOAD:
            # Asynchronous queues share the machine's target latency, and have less by the ratio of the slices
            share = cfqd.target_latency_ticks * cfqg.busy_async_queues() // cfqd.busy_queues
            length = min(length, share) * cfqd.slice_async_ticks // cfqd.slice_sync_ticks
        else:
            length = max(length, 2 * cfqd.slice_idle_ticks)
        length = max(length, MIN_TT_JIFFIES * cfqd.jiffy_ticks)
        if cfqd.logging:
            cfqd.log(f"workload slice:{length}")
        cfqd.workload_expires_ticks = now + length
        cfqd.noidle_tree_requires_idle = False
        return 0

    def choose_group(self) -> int:
        """cfq_choose_cfqg: the group that was served least, and in it where it was interrupted or what comes
        next."""
        cfqd = self.cfqd
        cfqg = self.groups.next()
        cfqd.serving_group = cfqg
        if cfqg is None:
            return 0
        if cfqg.saved_wl_slice_ticks:
            cfqd.workload_expires_ticks = cfqd.now() + cfqg.saved_wl_slice_ticks
            cfqd.serving_type = cfqg.saved_wl_type
            cfqd.serving_class = cfqg.saved_wl_class
        else:
            cfqd.workload_expires_ticks = cfqd.now() - 1
        return self._choose_workload(cfqg)

    def next_queue(self) -> CfqQueue | None:
        """cfq_get_next_queue: the first of the tree that is served."""
        cfqd = self.cfqd
        if cfqd.rq_queued == 0 or cfqd.serving_group is None:
            return None
        return cfqd.serving_group.tree_for(cfqd.serving_class, cfqd.serving_type).first
