"""A turn of a queue: who gets it, how much it may have in the device, when it ends, who may cut it short.

Theory of operation
-------------------
`select` is asked before each request is dispatched. The queue in
service stays while its slice lasts and it has requests, or is waited for; else its slice ends (`expire`), its
group is charged, and the next group, class and type and their first queue follow.

Depth: a queue may have `quantum`/2 requests in the device while there are others, up to `quantum` if its
slice is long enough to see them end, any number when it is alone (before 2.6.34 `quantum` was 4, and a hard
limit). Synchronous and asynchronous requests are not in the device together if the device idles for the
queue. With `low_latency` asynchronous queues begin with one request, and get one more for each synchronous
slice for which no synchronous request has been late.

Preemption, when a request comes for a queue that is not in service: real-time over others, anything over idle
class, synchronous over asynchronous (those also between groups); within a group (since 4.5 also a parent's
over its child's): if the slice has run out, metadata over data, a queue without idling when the device idles
at the end of their tree, and a request near to the head while the device idles.

Ages: the rules of cfq_preempt_rules (2.6.38) let the only synchronous queue have any number of requests, do
not idle for an empty queue any longer than it deserves, and let a queue of another type than that in service
have its turn at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import cython

if TYPE_CHECKING:
    from blklab.block.request import Request
    from blklab.elevator.cfq.cfqq import CfqQueue
    from blklab.elevator.cfq.cooperators import Cooperators
    from blklab.elevator.cfq.data import CfqData
    from blklab.elevator.cfq.groups import Groups
    from blklab.elevator.cfq.idling import Idling
    from blklab.elevator.cfq.seeks import Seeks
    from blklab.elevator.cfq.service import Service
    from blklab.elevator.cfq.slices import Slices

if not cython.compiled:
    from blklab.block.consts import F_META
    from blklab.elevator.cfq.params import SYNC_NOIDLE_WORKLOAD

NO_LIMIT = 1 << 30


class Turns:
    """The queue in service on one device."""

    def __init__(
        self,
        cfqd: CfqData,
        groups: Groups,
        slices: Slices,
        seeks: Seeks,
        cooperators: Cooperators,
        service: Service,
        idling: Idling,
    ) -> None:
        self.cfqd = cfqd
        self.groups = groups
        self.slices = slices
        self.seeks = seeks
        self.cooperators = cooperators
        self.service = service
        self.idling = idling

    # -- it begins and ends --------------------------------------------------------------

    def begin(self, cfqq: CfqQueue | None) -> int:
        """__cfq_set_active_queue: it is in service from now; its slice runs from the end of its first
        request."""
        cfqd = self.cfqd
        if cfqq is not None:
            if cfqd.logging:
                word = "wl_class" if cfqd.features.cfq_hierarchical_weights else "wl_prio"
                cfqd.log_queue(cfqq, f"set_active {word}:{cfqd.serving_class} wl_type:{cfqd.serving_type}")
            cfqq.cfqg.stats.set_active(cfqd.clock.now_ns)
            cfqq.slice_start_ticks = 0
            cfqq.dispatch_start_ticks = cfqd.now()
            cfqq.allocated_slice_ticks = 0
            cfqq.slice_end_ticks = 0
            cfqq.slice_dispatch = 0
            cfqq.nr_sectors = 0
            cfqq.wait_request = False
            cfqq.must_dispatch = False
            cfqq.must_alloc_slice = False
            cfqq.fifo_checked = False
            cfqq.slice_new = True
            self.idling.cancel(cfqq)
        cfqd.active_queue = cfqq
        return 0

    def expire(self, cfqq: CfqQueue, timed_out: bool) -> int:
        """__cfq_slice_expired: its turn has ended. `timed_out`: it keeps what was left of its slice, or owes
        what it had too much."""
        cfqd = self.cfqd
        if cfqd.logging:
            cfqd.log_queue(cfqq, f"slice expired t={int(timed_out)}")
        if cfqq.wait_request:
            self.idling.cancel(cfqq)
        cfqq.wait_request = False
        cfqq.wait_busy = False
        if cfqq.coop and self.seeks.is_seeky(cfqq):
            cfqq.split_coop = True
        if timed_out:
            resid = 0
            if not cfqq.slice_new:
                resid = cfqq.slice_end_ticks - cfqd.now()
            elif cfqd.features.cfq_preempt_rules:
                resid = self.slices.scaled(cfqq)
            if not cfqq.slice_new or cfqd.features.cfq_preempt_rules:
                cfqq.slice_resid_ticks = resid
                if cfqd.logging:
                    cfqd.log_queue(cfqq, f"resid={resid}")
        self.groups.served(cfqq)
        if cfqq.on_rr and cfqq.sort_list.count == 0:
            self.service.remove(cfqq)
        self.service.resort(cfqq)
        if cfqq is cfqd.active_queue:
            cfqd.active_queue = None
        cfqd.active_cic = None
        return 0

    def expire_active(self, timed_out: bool) -> int:
        """cfq_slice_expired."""
        if self.cfqd.active_queue is not None:
            self.expire(self.cfqd.active_queue, timed_out)
        return 0

    # -- who is next ---------------------------------------------------------------------

    def select(self) -> CfqQueue | None:
        """cfq_select_queue: the queue to dispatch from now; None while the device idles, or there is none."""
        cfqd = self.cfqd
        cfqq = cfqd.active_queue
        cooperator = None
        if cfqq is not None:
            if cfqd.rq_queued == 0:
                return None
            if not (cfqq.wait_busy and cfqq.sort_list.count):
                if self.slices.used(cfqq) and not cfqq.must_dispatch:
                    if self._waits_for_end(cfqq):
                        return None
                elif cfqq.sort_list.count:
                    return cfqq
                else:
                    cooperator = self.cooperators.close(cfqq)
                    if cooperator is not None:
                        if cfqq.new_cfqq is None:
                            self.cooperators.plan_merge(cfqq, cooperator)
                    elif self._keeps_waiting(cfqq):
                        return None
            self.expire_active(False)
        if cooperator is None:
            self.service.choose_group()
            cooperator = self.service.next_queue()
        self.begin(cooperator)
        return cooperator

    def _waits_for_end(self, cfqq: CfqQueue) -> bool:
        # Its slice is used: alone in its group and empty, it is waited for as long as it has requests in the
        # device
        if (
            cfqq.cfqg.nr_cfqq == 1
            and cfqq.sort_list.count == 0
            and cfqq.dispatched
            and self.idling.should_idle(cfqq)
        ):
            return True
        return self._waits_for_group(cfqq)

    def _waits_for_group(self, cfqq: CfqQueue) -> bool:
        # A group with one queue is waited for as long as it has requests in the device
        cfqd = self.cfqd
        cfqg = cfqq.cfqg
        return (
            cfqd.idles_on_groups_ticks() != 0
            and cfqg.nr_cfqq == 1
            and cfqg.dispatched != 0
            and not self.idling.thinks_long(cfqg.ttime, True)
        )

    def _keeps_waiting(self, cfqq: CfqQueue) -> bool:
        # It has nothing left, within its slice
        cfqd = self.cfqd
        if cfqd.timer.pending():
            return True
        if cfqd.features.cfq_idle_rules and cfqq.idle_window and self.seeks.is_seeky(cfqq):
            now = cfqd.now()
            if cfqq.slice_new or cfqq.slice_end_ticks - now > now - cfqq.slice_start_ticks:
                # Deep and seeking, but the device serves it faster than it asks
                cfqq.deep = False
                cfqq.idle_window = False
        if cfqq.dispatched and self.idling.should_idle(cfqq):
            return True
        return self._waits_for_group(cfqq)

    # -- how much it may have in the device -----------------------------------------------------

    def may_dispatch(self, cfqq: CfqQueue) -> bool:
        """cfq_may_dispatch: one request more."""
        cfqd = self.cfqd
        if cfqd.features.cfq_fifo_first and cfqq.must_dispatch:
            return True
        if cfqd.in_flight_async and self.idling.should_idle(cfqq):
            return False
        if cfqd.in_flight_sync and not cfqq.sync:
            return False
        soft = cfqd.features.cfq_quantum_soft
        most = max(cfqd.quantum // 2, 1) if soft else cfqd.quantum
        if cfqq.is_idle_class():
            most = 1
        if cfqq.dispatched >= most:
            if cfqq.is_idle_class():
                return False
            alone = cfqd.busy_queues == 1
            if cfqd.features.cfq_preempt_rules and cfqq.sync and cfqd.busy_sync_queues == 1:
                alone = True
            if not alone and not (soft and not self.slices.used_soon(cfqq)):
                return False
            most = NO_LIMIT if alone else cfqd.quantum
        if not cfqq.sync and cfqd.low_latency:
            depth = (cfqd.now() - cfqd.last_delayed_sync_ticks) // cfqd.slice_sync_ticks
            if depth == 0 and cfqq.dispatched == 0:
                depth = 1
            if depth < most:
                most = depth
        return cfqq.dispatched < most

    # -- who may cut it short ----------------------------------------------------------------------

    def should_preempt(self, cfqq: CfqQueue, rq: Request) -> bool:
        """cfq_should_preempt: whether `rq` of `cfqq` ends the turn of the queue in service."""
        cfqd = self.cfqd
        active = cfqd.active_queue
        if active is None or cfqq.is_idle_class():
            return False
        if active.is_idle_class():
            return True
        if active.is_rt_class() and not cfqq.is_rt_class():
            return False
        if rq.is_sync() and not active.sync and not (cfqd.features.cfq_fifo_first and active.must_dispatch):
            return True
        if cfqq.cfqg is not active.cfqg:
            if not cfqd.features.cfq_preempt_child or not active.cfqg.is_below(cfqq.cfqg):
                return False
        if self.slices.used(active):
            return True
        rt_first = cfqq.is_rt_class() and not active.is_rt_class()
        if rt_first and cfqd.features.cfq_ns_timers:
            return True
        active_is_empty = active.sort_list.count == 0
        if (
            active_is_empty
            and cfqd.serving_type == SYNC_NOIDLE_WORKLOAD
            and cfqq.wl_type() == SYNC_NOIDLE_WORKLOAD
            and (
                cfqd.features.cfq_ns_timers
                or (cfqq.service_tree is not None and cfqq.service_tree.count == 2)
            )
        ):
            return True
        if rq.flags & F_META and active.meta_pending == 0:
            return True
        if rt_first:
            return True
        if cfqd.features.cfq_preempt_rules and active_is_empty and not self.idling.should_idle(active):
            return True
        if cfqd.active_cic is None or not active.wait_request:
            return False
        return self.seeks.is_close(active, rq, True)

    def preempt(self, cfqq: CfqQueue) -> int:
        """cfq_preempt_queue: it is next."""
        cfqd = self.cfqd
        if cfqd.logging:
            cfqd.log_queue(cfqq, "preempt")
        type_before = cfqd.active_queue.wl_type()
        self.expire_active(True)
        if cfqd.features.cfq_preempt_rules and type_before != cfqq.wl_type():
            # Else the group would go on with the workload that was interrupted
            cfqq.cfqg.saved_wl_slice_ticks = 0
        self.service.place(cfqq, True)
        cfqq.slice_end_ticks = 0
        cfqq.slice_new = True
        return 0
