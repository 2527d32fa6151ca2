"""Which group is served: the group tree, weights, and what a group is charged for a slice.

Theory of operation
-------------------
Each group has a virtual disk time: what it was served, times how much
less than the whole device it deserves. The group with the least is served next. A slice is charged when it
ends; while a group has queues it stands on the tree.

- A group whose queues have all gone leaves the tree, and comes back behind the last one: it loses what it did
  not use. That is why CFQ idles on groups (`idling.py`). With the feature cfq_return_to_front it comes back
  at the front instead, as far as what it was charged before allows: an idea of 2009 that was never merged.
- Flat (before 3.9): a group deserves its weight over that of all groups on the tree, whatever the tree of
  control groups looks like. Hierarchical: `vfraction` compounds, from the group up to the root, its weight
  over that of the active children of its parent; the tasks of a group compete with its children with its
  `leaf_weight`.
- What is charged is time: from the end of the first request of a slice (or the dispatch of it, if none has
  ended) to its end, never more than the slice; a whole slice for an asynchronous queue that is alone. In IOPS
  mode it is the number of requests.
- The share of the target latency that a group deserves is its slice, which bounds how long its workloads are
  served.

Deliberate differences: before 2.6.38 the kernel changes the weight of a group on the tree without adding the
difference to the sum of weights; here it always takes effect when the group is put on the tree next.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import cython

if TYPE_CHECKING:
    from blklab.elevator.cfq.cfqq import CfqGroup, CfqQueue
    from blklab.elevator.cfq.data import CfqData

if not cython.compiled:
    from blklab.elevator.cfq.params import IOPS_GROUP_DELAY, SERVICE_SHIFT, WEIGHT_DEFAULT


class Groups:
    """The groups of one device."""

    def __init__(self, cfqd: CfqData) -> None:
        self.cfqd = cfqd
        self.hierarchy = cfqd.features.cfq_hierarchical_weights != 0
        self.unaccounted_ticks = 0

    # -- on and off the tree ---------------------------------------------------------

    def _add(self, cfqg: CfqGroup) -> int:
        # cfq_group_service_tree_add: weights are taken over here, as nobody counts on the old ones
        tree = self.cfqd.groups
        if not self.hierarchy:
            self._take_over_weight(cfqg)
            tree.add(cfqg)
            tree.total_weight += cfqg.weight
            return 0
        if cfqg.new_leaf_weight:
            cfqg.leaf_weight = cfqg.new_leaf_weight
            cfqg.new_leaf_weight = 0
        tree.add(cfqg)
        vfraction = 1 << SERVICE_SHIFT
        becomes_active = cfqg.nr_active == 0
        cfqg.nr_active += 1
        cfqg.children_weight += cfqg.leaf_weight
        vfraction = vfraction * cfqg.leaf_weight // cfqg.children_weight
        child = cfqg
        parent = cfqg.parent
        while parent is not None:
            if becomes_active:
                self._take_over_weight(child)
                becomes_active = parent.nr_active == 0
                parent.nr_active += 1
                parent.children_weight += child.weight
            vfraction = vfraction * child.weight // parent.children_weight
            child = parent
            parent = child.parent
        cfqg.vfraction = max(vfraction, 1)
        return 0

    def _take_over_weight(self, cfqg: CfqGroup) -> int:
        if cfqg.new_weight:
            cfqg.weight = cfqg.new_weight
            cfqg.new_weight = 0
        return 0

    def _remove(self, cfqg: CfqGroup) -> int:
        # cfq_group_service_tree_del
        tree = self.cfqd.groups
        tree.remove(cfqg)
        if not self.hierarchy:
            tree.total_weight -= cfqg.weight
            return 0
        cfqg.nr_active -= 1
        cfqg.children_weight -= cfqg.leaf_weight
        child = cfqg
        while child.nr_active == 0:
            child.vfraction = 0
            parent = child.parent
            if parent is None:
                break
            parent.nr_active -= 1
            parent.children_weight -= child.weight
            child = parent
        return 0

    def queue_added(self, cfqg: CfqGroup) -> int:
        """cfq_group_notify_queue_add: it has one more queue. Its first one puts it on the tree."""
        cfqg.nr_cfqq += 1
        if cfqg.on_st:
            return 0
        cfqd = self.cfqd
        tree = cfqd.groups
        last = tree.last
        if cfqd.features.cfq_return_to_front:
            # Before those that wait, the heavier the farther; but it pays its debts
            ahead = cfqd.jiffy_ticks * cfqg.weight // WEIGHT_DEFAULT
            cfqg.vdisktime = max(cfqg.vdisktime, tree.min_vdisktime - ahead)
        elif last is None:
            cfqg.vdisktime = tree.min_vdisktime
        else:
            delay = cfqd.idle_delay_ticks
            if cfqd.features.cfq_ns_timers and cfqd.iops_mode():
                delay = IOPS_GROUP_DELAY
            cfqg.vdisktime = last.vdisktime + delay
        return self._add(cfqg)

    def queue_gone(self, cfqg: CfqGroup) -> int:
        """cfq_group_notify_queue_del: it has one queue less. The last one takes it off the tree."""
        cfqg.nr_cfqq -= 1
        if cfqg.nr_cfqq:
            return 0
        if self.cfqd.logging:
            self.cfqd.log_group(cfqg, "del_from_rr group")
        self._remove(cfqg)
        cfqg.saved_wl_slice_ticks = 0
        cfqg.stats.dequeue += 1
        return 0

    def next(self) -> CfqGroup | None:
        """cfq_get_next_cfqg: the one that has been served least."""
        tree = self.cfqd.groups
        cfqg = tree.first
        if cfqg is not None and cfqg.vdisktime > tree.min_vdisktime:
            tree.min_vdisktime = cfqg.vdisktime
        return cfqg

    # -- what it deserves, and what it is charged ------------------------------------------

    def slice_ticks(self, cfqg: CfqGroup) -> int:
        """cfq_group_slice: its share of the target latency."""
        target = self.cfqd.target_latency_ticks
        if self.hierarchy:
            return (target * cfqg.vfraction) >> SERVICE_SHIFT
        return target * cfqg.weight // max(self.cfqd.groups.total_weight, 1)

    def _slice_usage(self, cfqq: CfqQueue, now: int) -> int:
        # cfq_cfqq_slice_usage
        self.unaccounted_ticks = 0
        start = cfqq.slice_start_ticks
        if start == 0 or start == now:
            # No request has ended, or the first one now: the seek to it is charged
            return max(now - cfqq.dispatch_start_ticks, self.cfqd.jiffy_ticks)
        used = now - start
        if used > cfqq.allocated_slice_ticks:
            self.unaccounted_ticks = used - cfqq.allocated_slice_ticks
            used = cfqq.allocated_slice_ticks
        if start > cfqq.dispatch_start_ticks:
            self.unaccounted_ticks += start - cfqq.dispatch_start_ticks
        return used

    def served(self, cfqq: CfqQueue) -> int:
        """cfq_group_served: a slice of `cfqq` has ended; its group is charged, and remembers what was being
        served."""
        cfqd = self.cfqd
        cfqg = cfqq.cfqg
        now = cfqd.now()
        nr_sync = cfqg.nr_cfqq - cfqg.busy_async_queues() - cfqg.service_tree_idle.count
        used = self._slice_usage(cfqq, now)
        charge = used
        iops_mode = cfqd.iops_mode()
        if iops_mode:
            charge = cfqq.slice_dispatch
        elif not cfqq.sync and nr_sync == 0:
            charge = cfqq.allocated_slice_ticks
        vfraction = cfqg.vfraction
        weight = cfqg.weight
        self._remove(cfqg)
        if self.hierarchy:
            cfqg.vdisktime += (charge << (2 * SERVICE_SHIFT)) // vfraction
        else:
            cfqg.vdisktime += (charge << SERVICE_SHIFT) * WEIGHT_DEFAULT // weight
        self._add(cfqg)
        cfqg.saved_wl_slice_ticks = 0
        if cfqd.workload_expires_ticks > now:
            cfqg.saved_wl_slice_ticks = cfqd.workload_expires_ticks - now
            cfqg.saved_wl_type = cfqd.serving_type
            cfqg.saved_wl_class = cfqd.serving_class
        if cfqd.logging:
            cfqd.log_group(cfqg, f"served: vt={cfqg.vdisktime} min_vt={cfqd.groups.min_vdisktime}")
            if cfqd.features.cfq_group_idle:
                text = f"disp={cfqq.slice_dispatch} charge={charge} iops={int(iops_mode)} "
            else:
                text = ""
            cfqd.log_queue(cfqq, f"sl_used={used} {text}sect={cfqq.nr_sectors}")
        stats = cfqg.stats
        stats.time_ticks += used
        stats.unaccounted_ticks += self.unaccounted_ticks
        stats.set_empty(cfqd.clock.now_ns)
        return 0
