"""A BFQ queue: the requests of one process, and what is known of how it does I/O; and the context of a process.

What: `BfqQueue` is an entity of the B-WF2Q+ tree (`entity.py`) that holds requests. `IoContext` is what a process
keeps with one scheduler (the kernel's bfq_io_cq): its synchronous and its asynchronous queue, and what its queue
was like when it was merged with that of another process.

Theory of operation
-------------------
Requests of a queue are in two orders: by sector (`sort_list`, in which they are served) and by age (`fifo`).
`next_rq` is the one to be served next. A queue is busy from its first request until it has none left and is not
waited for.

A synchronous queue belongs to one process, to several that were merged (`pid` is SHARED_PID then), or to none; an
asynchronous one to all processes of its group with the same priority.

References are counted as in the kernel (`ref`), as how many of them are processes decides about merging and idling: one
for each context that points here or will after a decided merge, each request, the place in the service tree, the
weight counter and each context that means to merge with it later.

Deliberate differences: no queue for when memory is short, no requests marked as metadata, one actuator.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import cython

from blklab.block.request import RequestList
from blklab.block.rqtree import RequestTree
from blklab.elevator.bfq.entity import LONG_AGO_NS, Entity

if TYPE_CHECKING:
    from blklab.block.request import Request
    from blklab.block.submit import Submitter

if not cython.compiled:
    from blklab.core.bits import ALL_ONES_32
    from blklab.elevator.bfq.params import CLASS_IDLE, SEEKY_BITS, SHARED_PID


class BfqQueue(Entity):
    """One queue. `jiffy_ns`: the beginning of the present jiffy. Sizes are sectors."""

    def __init__(self, pid: int, sync: bool, now_ns: int, jiffy_ns: int) -> None:
        super().__init__()
        self.pid = pid
        self.sync = sync
        # Who holds it
        self.bic: IoContext | None = None  # the one process it belongs to
        self.stable_ref = 0
        self.weight_counted = 0  # its weight when it was counted among those of busy queues; 0: it is not
        self.new_bfqq: BfqQueue | None = None  # the queue it is to be merged into
        # Its requests
        self.sort_list = RequestTree()
        self.fifo = RequestList()
        self.next_rq: Request | None = None
        self.queued_async = 0
        self.queued_sync = 0
        # Its service
        self.budget_timeout_ns = (
            LONG_AGO_NS  # end of its turn; or, when it is not busy, since when it has been idle
        )
        self.fifo_checked = False  # the age of its first request has been looked at in this turn
        self.split_coop = False
        self.coop = False
        self.in_pos_tree = False
        self.pos_sector = 0
        # How it does I/O
        self.has_short_ttime = False
        self.io_bound = True
        self.last_end_request_ns = now_ns + 1
        self.ttime_samples = 0
        self.ttime_total = 0
        self.ttime_mean_ns = 0
        self.io_start_ns = now_ns
        self.tot_idle_ns = 0
        self.seek_history = 1  # a bit a request, 1: far from the one before; the last 32
        self.nr_seeks = 1  # bits set in it
        self.last_request_pos = 0
        # Weight raising. Times are the beginning of a jiffy
        self.just_created = False
        self.in_large_burst = False
        self.in_burst_list = False
        self.softrt_update = False
        self.wr_cur_max_time_ns = 0
        self.last_wr_start_finish_ns = jiffy_ns
        self.wr_start_at_switch_to_srt_ns = LONG_AGO_NS
        self.soft_rt_next_start_ns = jiffy_ns
        self.last_idle_bklogged_ns = LONG_AGO_NS
        self.split_time_ns = LONG_AGO_NS
        self.creation_time_ns = jiffy_ns
        # Injection
        self.last_serv_time_ns = 0
        self.inject_limit = 0
        self.decrease_time_ns = LONG_AGO_NS
        # Who wakes it, and whom it wakes (latest first)
        self.waker_bfqq: BfqQueue | None = None
        self.tentative_waker_bfqq: BfqQueue | None = None
        self.num_waker_detections = 0
        self.waker_detection_started_ns = 0
        self.woken: list[BfqQueue] = []

    # -- what it is like -------------------------------------------------------

    def process_refs(self) -> int:
        """How many contexts point to it, now or after merges that are decided."""
        refs = self.ref - self.allocated - self.stable_ref
        if self.on_st_or_in_serv:
            refs -= 1
        if self.weight_counted:
            refs -= 1
        return refs

    def budget_left(self) -> int:
        """Sectors of its budget that it has not used."""
        return self.budget - self.service

    def is_seeky(self) -> bool:
        """Whether more than 19 of the last 32 requests were far from the one before."""
        return self.nr_seeks > SEEKY_BITS

    def is_totally_seeky(self) -> bool:
        """Whether all of the last 32 were."""
        return self.nr_seeks == 32

    def note_seek(self, seeky: bool) -> None:
        """One more request came."""
        history = self.seek_history << 1
        if history > ALL_ONES_32:
            history &= ALL_ONES_32
            self.nr_seeks -= 1
        if seeky:
            history |= 1
            self.nr_seeks += 1
        self.seek_history = history

    def is_idle_class(self) -> bool:
        """Whether it is served only when nobody else wants to be."""
        return self.ioprio_class == CLASS_IDLE

    # -- messages --------------------------------------------------------------

    def name(self) -> str:
        """As the kernel's messages call it."""
        if self.pid == SHARED_PID:
            return "bfqSHARED-" + ("S" if self.sync else "A")
        return f"bfq{self.pid}" + ("S" if self.sync else "A")


class IoContext:
    """A process as one scheduler knows it."""

    def __init__(self, submitter: Submitter) -> None:
        self.submitter = submitter
        self.sync_bfqq: BfqQueue | None = None
        self.async_bfqq: BfqQueue | None = None
        self.ioprio = 0  # of its last request
        self.cgroup_ident = -1  # the control group of its last bio; -1: none yet
        self.requests = 0  # allocated
        self.stable_merge_bfqq: BfqQueue | None = None
        self.stably_merged = False
        # Its queue at the time of a merge, restored when it gets one of its own again
        self.saved_has_short_ttime = False
        self.saved_io_bound = False
        self.saved_io_start_ns = 0
        self.saved_tot_idle_ns = 0
        self.saved_in_large_burst = False
        self.was_in_burst_list = False
        self.saved_weight = 0
        self.saved_wr_coeff = 0
        self.saved_last_wr_start_finish_ns = 0
        self.saved_service_from_wr = 0
        self.saved_wr_start_at_switch_to_srt_ns = 0
        self.saved_wr_cur_max_time_ns = 0
        self.saved_last_end_request_ns = 0
        self.saved_ttime_samples = 0
        self.saved_ttime_total = 0
        self.saved_ttime_mean_ns = 0
        self.saved_last_serv_time_ns = 0
        self.saved_inject_limit = 0
        self.saved_decrease_time_ns = 0

    def bfqq_of(self, sync: bool) -> BfqQueue | None:
        """Its queue for synchronous or asynchronous requests."""
        return self.sync_bfqq if sync else self.async_bfqq

    def set_bfqq(self, bfqq: BfqQueue | None, sync: bool) -> None:
        """Another queue takes that place; the old one no longer belongs to this process alone."""
        old = self.sync_bfqq if sync else self.async_bfqq
        if old is not None and old.bic is self:
            old.bic = None
        if sync:
            self.sync_bfqq = bfqq
        else:
            self.async_bfqq = bfqq
