"""What CFQ serves: queues, the service trees they stand on, groups of them, and what it knows of a process.

What: `CfqQueue` holds the requests of one process (or the asynchronous ones of all processes with one
priority). `ServiceTree` has queues in the order in which they will be served. `CfqGroup` is a control group
on one device: seven service trees, and a place on the `GroupTree` of the device. `CfqContext` is what a
process keeps with one scheduler (cfq_io_cq): its two queues and its think time.

Theory of operation
-------------------
Requests of a queue are in two orders: by sector (`sort_list`, in
which they are served) and by age (`fifo`). A queue is on a service tree (`on_rr`) from its first request
until its slice ends and it has none left: an empty queue that is waited for is still there.

References (`ref`) are counted as in the kernel, because cooperating queues are merged towards the one that
more processes use: one for each context, each request, each context that a decided merge will bring, and, for
an asynchronous queue, its group.

Times are ticks (see `data.py`).

Deliberate differences: trees are lists, since new members almost always go to one of the ends; no queue for
when memory is short; groups are not counted references of.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import cython

from blklab.block.request import RequestList
from blklab.block.rqtree import RequestTree
from blklab.elevator.cfq.stats import GroupStats

if TYPE_CHECKING:
    from blklab.block.cgroup import Blkg
    from blklab.block.request import Request
    from blklab.block.submit import Submitter

if not cython.compiled:
    from blklab.elevator.cfq.params import (
        ASYNC_WORKLOAD,
        BE_WORKLOAD,
        CLASS_BE,
        CLASS_IDLE,
        CLASS_RT,
        IDLE_WORKLOAD,
        NR_LEVELS,
        NR_TYPES,
        RT_WORKLOAD,
        SYNC_NOIDLE_WORKLOAD,
        SYNC_WORKLOAD,
        TTIME_VALID_SAMPLES,
        WEIGHT_DEFAULT,
    )


class ThinkTime:
    """How long after the end of a request the next one comes (cfq_ttime): a moving mean in which the last
    sample has a weight of 1/8. `samples` begins at 0 and approaches 256."""

    def __init__(self, now_ticks: int) -> None:
        self.last_end_ticks = now_ticks
        self.samples = 0
        self.total = 0
        self.mean_ticks = 0

    def update(self, now_ticks: int, idle_ticks: int) -> None:
        """A request comes; what is longer than two idle slices counts as two."""
        elapsed = now_ticks - self.last_end_ticks
        if elapsed > 2 * idle_ticks:
            elapsed = 2 * idle_ticks
        self.samples = (7 * self.samples + 256) // 8
        self.total = (7 * self.total + 256 * elapsed) // 8
        self.mean_ticks = (self.total + 128) // self.samples

    def is_valid(self) -> bool:
        """Whether there have been enough samples."""
        return self.samples > TTIME_VALID_SAMPLES


class ServiceTree:
    """Queues by `rb_key`, of equal ones the one added first before the others (cfq_rb_root)."""

    def __init__(self, now_ticks: int) -> None:
        self.first: CfqQueue | None = None
        self.last: CfqQueue | None = None
        self.count = 0
        self.ttime = ThinkTime(now_ticks)

    def add(self, cfqq: CfqQueue) -> None:
        """At the place of its key."""
        key = cfqq.rb_key
        before = self.last
        if self.first is not None and key < self.first.rb_key:
            before = None
        while before is not None and key < before.rb_key:
            before = before.tree_prev
        following = self.first if before is None else before.tree_next
        cfqq.tree_prev = before
        cfqq.tree_next = following
        if before is None:
            self.first = cfqq
        else:
            before.tree_next = cfqq
        if following is None:
            self.last = cfqq
        else:
            following.tree_prev = cfqq
        self.count += 1
        cfqq.service_tree = self

    def remove(self, cfqq: CfqQueue) -> None:
        """It must be here."""
        before = cfqq.tree_prev
        following = cfqq.tree_next
        if before is None:
            self.first = following
        else:
            before.tree_next = following
        if following is None:
            self.last = before
        else:
            following.tree_prev = before
        cfqq.tree_prev = None
        cfqq.tree_next = None
        self.count -= 1
        cfqq.service_tree = None


class CfqQueue:
    """One queue (cfq_queue)."""

    def __init__(self, pid: int, sync: bool) -> None:
        self.pid = pid
        self.sync = sync
        self.ref = 0
        # Its requests
        self.sort_list = RequestTree()
        self.fifo = RequestList()
        self.next_rq: Request | None = None
        self.queued_sync = 0
        self.queued_async = 0
        self.allocated = 0
        self.meta_pending = 0
        self.dispatched = 0  # of its requests, on the dispatch list or in the driver
        # Its place
        self.cfqg: CfqGroup | None = None
        self.orig_cfqg: CfqGroup | None = None  # its own group, while it stands in the root group
        self.on_rr = False
        self.service_tree: ServiceTree | None = None
        self.tree_prev: CfqQueue | None = None
        self.tree_next: CfqQueue | None = None
        self.rb_key = 0
        self.prio_level = -1  # the tree of positions that it is in; -1: none
        self.prio_sector = 0
        # Its priority; `org_`: its process', without boost
        self.prio_changed = True
        self.ioprio = 0
        self.org_ioprio = 0
        self.ioprio_class = 0
        self.org_ioprio_class = 0
        # Its slice. `slice_start_ticks` 0: no request of it has ended yet
        self.slice_new = False
        self.dispatch_start_ticks = 0
        self.slice_start_ticks = 0
        self.slice_end_ticks = 0
        self.allocated_slice_ticks = 0
        self.slice_resid_ticks = 0
        self.slice_dispatch = 0
        self.nr_sectors = 0
        self.fifo_checked = False
        self.wait_request = False  # the device idles for its next request
        self.wait_busy = False  # the same, though its slice is used: so that its group keeps its place
        self.must_dispatch = False
        self.must_alloc_slice = False
        # What it is like
        self.idle_window = False
        self.deep = False
        self.last_request_pos = 0
        self.seek_history = 0  # a bit a request, 1: it was a seek; the last 32
        self.nr_seeks = 0  # bits set in it
        self.seek_samples = 0  # by mean distance
        self.seek_total = 0
        self.seek_mean = 0
        self.seeky_start_ticks = 0
        # Cooperators
        self.new_cfqq: CfqQueue | None = None  # the queue it is to be merged into
        self.coop = False
        self.split_coop = False

    def is_idle_class(self) -> bool:
        """cfq_class_idle."""
        return self.ioprio_class == CLASS_IDLE

    def is_rt_class(self) -> bool:
        """cfq_class_rt."""
        return self.ioprio_class == CLASS_RT

    def wl_class(self) -> int:
        """cfqq_class: with whom it competes."""
        if self.ioprio_class == CLASS_IDLE:
            return IDLE_WORKLOAD
        return RT_WORKLOAD if self.ioprio_class == CLASS_RT else BE_WORKLOAD

    def wl_type(self) -> int:
        """cfqq_type: with whom it is served."""
        if not self.sync:
            return ASYNC_WORKLOAD
        return SYNC_WORKLOAD if self.idle_window else SYNC_NOIDLE_WORKLOAD

    def nr_queued(self) -> int:
        """Requests that it holds."""
        return self.queued_sync + self.queued_async

    def process_refs(self) -> int:
        """How many contexts point to it, now or after merges that are decided."""
        return self.ref - self.allocated


class CfqGroup:
    """A control group on one device (cfq_group): `path` as messages show it, `parent` in the hierarchy."""

    def __init__(self, path: str, parent: CfqGroup | None, blkg: Blkg | None, now_ticks: int) -> None:
        self.path = path
        self.parent = parent
        self.blkg = blkg
        # Its place on the group tree
        self.on_st = False
        self.st_prev: CfqGroup | None = None
        self.st_next: CfqGroup | None = None
        self.vdisktime = 0
        # Weights; `new_`: taken over when it goes on the tree next, 0: none; `dev_`: for this device alone,
        # 0: none
        self.weight = WEIGHT_DEFAULT
        self.new_weight = 0
        self.dev_weight = 0
        self.leaf_weight = WEIGHT_DEFAULT
        self.new_leaf_weight = 0
        self.dev_leaf_weight = 0
        # Hierarchy: active are it and its active children, and what they weigh; its fraction of the device
        self.nr_active = 0
        self.children_weight = 0
        self.vfraction = 0
        # Its queues
        self.nr_cfqq = 0
        self.busy_avg_be = 0
        self.busy_avg_rt = 0
        self.service_trees = [ServiceTree(now_ticks) for _ in range(2 * NR_TYPES)]
        self.service_tree_idle = ServiceTree(now_ticks)
        self.async_cfqqs: list[CfqQueue | None] = [None] * (2 * NR_LEVELS + 1)
        # What was being served when its turn ended
        self.saved_wl_slice_ticks = 0
        self.saved_wl_type = 0
        self.saved_wl_class = 0
        self.dispatched = 0
        self.ttime = ThinkTime(now_ticks)
        self.stats = GroupStats()

    def tree_for(self, wl_class: int, wl_type: int) -> ServiceTree:
        """st_for: the service tree of a class and type."""
        if wl_class == IDLE_WORKLOAD:
            return self.service_tree_idle
        tree: ServiceTree = self.service_trees[wl_class * NR_TYPES + wl_type]
        return tree

    def busy_queues(self, wl_class: int) -> int:
        """cfq_group_busy_queues_wl: queues of a class."""
        if wl_class == IDLE_WORKLOAD:
            return self.service_tree_idle.count
        busy = 0
        for wl_type in range(NR_TYPES):
            busy += self.tree_for(wl_class, wl_type).count
        return busy

    def busy_async_queues(self) -> int:
        """cfqg_busy_async_queues."""
        return (
            self.tree_for(RT_WORKLOAD, ASYNC_WORKLOAD).count
            + self.tree_for(BE_WORKLOAD, ASYNC_WORKLOAD).count
        )

    def first_queue(self) -> CfqQueue | None:
        """Any queue of it, in the order of the trees."""
        for wl_class in range(IDLE_WORKLOAD):
            for wl_type in range(NR_TYPES):
                cfqq = self.tree_for(wl_class, wl_type).first
                if cfqq is not None:
                    return cfqq
        return self.service_tree_idle.first

    def is_below(self, ancestor: CfqGroup) -> bool:
        """cfqg_is_descendant: whether it is `ancestor` or below it."""
        cfqg: CfqGroup | None = self
        while cfqg is not None:
            if cfqg is ancestor:
                return True
            cfqg = cfqg.parent
        return False

    def async_index(self, ioprio_class: int, level: int) -> int:
        """cfq_async_queue_prio: where the asynchronous queue of a priority is."""
        if ioprio_class == CLASS_RT:
            return level
        if ioprio_class == CLASS_BE:
            return NR_LEVELS + level
        return 2 * NR_LEVELS


class GroupTree:
    """Groups by virtual disk time (grp_service_tree)."""

    def __init__(self) -> None:
        self.first: CfqGroup | None = None
        self.last: CfqGroup | None = None
        self.count = 0
        self.total_weight = 0  # without hierarchy: of those on the tree
        self.min_vdisktime = 0

    def add(self, cfqg: CfqGroup) -> None:
        """At the place of its virtual disk time, behind those of the same."""
        key = cfqg.vdisktime
        before = self.last
        while before is not None and key < before.vdisktime:
            before = before.st_prev
        following = self.first if before is None else before.st_next
        cfqg.st_prev = before
        cfqg.st_next = following
        if before is None:
            self.first = cfqg
        else:
            before.st_next = cfqg
        if following is None:
            self.last = cfqg
        else:
            following.st_prev = cfqg
        self.count += 1
        cfqg.on_st = True

    def remove(self, cfqg: CfqGroup) -> None:
        """It must be here."""
        before = cfqg.st_prev
        following = cfqg.st_next
        if before is None:
            self.first = following
        else:
            before.st_next = following
        if following is None:
            self.last = before
        else:
            following.st_prev = before
        cfqg.st_prev = None
        cfqg.st_next = None
        self.count -= 1
        cfqg.on_st = False


class CfqContext:
    """A process as one scheduler knows it (cfq_io_cq)."""

    def __init__(self, submitter: Submitter, now_ticks: int) -> None:
        self.submitter = submitter
        self.sync_cfqq: CfqQueue | None = None
        self.async_cfqq: CfqQueue | None = None
        self.ttime = ThinkTime(now_ticks)
        self.ioprio = 0  # of its last request
        self.cfqg: CfqGroup | None = None  # its group, as of its last request
        self.exited = False

    def cfqq_of(self, sync: bool) -> CfqQueue | None:
        """cic_to_cfqq."""
        return self.sync_cfqq if sync else self.async_cfqq

    def set_cfqq(self, cfqq: CfqQueue | None, sync: bool) -> None:
        """cic_set_cfqq."""
        if sync:
            self.sync_cfqq = cfqq
        else:
            self.async_cfqq = cfqq
