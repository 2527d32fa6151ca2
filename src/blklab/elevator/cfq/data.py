"""What CFQ knows of one device: the tunables, what is being served, what is in the device; time, and
messages.

What: `CfqData` (cfq_data) is shared by all parts of the policy; what only one part needs is in that part.

Theory of operation
-------------------
CFQ counts time in jiffies before Linux 4.8, in nanoseconds since
(feature `cfq_ns_timers`). Here both are ticks: a tick is a jiffy or a nanosecond (`tick_ns`), `now()` is the
present tick, and the arithmetic is the kernel's, including what is rounded away. Ticks begin at one second,
so that subtracting as much stays above 0 and 0 can mean "not yet".

A message names its queue as `cfq1234S`: process, and S for synchronous or A for asynchronous, since 3.9
followed by N if it is not idled for, else by a blank; and then its group, if the machine has control groups.

Deliberate differences: since 4.14 the kernel gives the group in the record and not in the text; here it is
always in the text. A kernel without groups wrote `cfq1234` without the letter before 3.9.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import cython

from blklab.elevator.cfq.cfqq import GroupTree

if TYPE_CHECKING:
    from blklab.block.elv_timer import IdleSliceTimer
    from blklab.block.queue import RequestQueue
    from blklab.elevator.cfq.cfqq import CfqContext, CfqGroup, CfqQueue

if not cython.compiled:
    from blklab.block.consts import TR_MSG
    from blklab.elevator.cfq.params import (
        BACK_SEEK_MAX_KB,
        BACK_SEEK_PENALTY,
        BE_WORKLOAD,
        FIFO_EXPIRE_ASYNC_MS,
        FIFO_EXPIRE_SYNC_MS,
        GROUP_IDLE_MS,
        HW_TAG_UNKNOWN,
        IDLE_DELAY_MS,
        MSEC_NS,
        QUANTUM,
        QUANTUM_BEFORE_2_6_34,
        SEC_NS,
        SLICE_ASYNC_MS,
        SLICE_ASYNC_RQ,
        SLICE_IDLE_MS,
        SLICE_SYNC_MS,
        SYNC_NOIDLE_WORKLOAD,
        TARGET_LATENCY_MS,
    )


class CfqData:
    """The state of CFQ on one queue."""

    def __init__(self, queue: RequestQueue, timer: IdleSliceTimer) -> None:
        self.queue = queue
        self.clock = queue.clock
        self.features = queue.features
        self.timer = timer
        self.logging = False
        # Time
        jiffy_ns = queue.host.jiffy_ns
        self.tick_ns = 1 if queue.features.cfq_ns_timers else jiffy_ns
        self.jiffy_ticks = jiffy_ns if queue.features.cfq_ns_timers else 1
        self.sec_ticks = SEC_NS // self.tick_ns
        self.idle_delay_ticks = self.default_ticks(IDLE_DELAY_MS)
        # Tunables
        self.quantum = QUANTUM if queue.features.cfq_quantum_soft else QUANTUM_BEFORE_2_6_34
        self.fifo_expire_sync_ticks = self.default_ticks(FIFO_EXPIRE_SYNC_MS)
        self.fifo_expire_async_ticks = self.default_ticks(FIFO_EXPIRE_ASYNC_MS)
        self.back_seek_max_kb = BACK_SEEK_MAX_KB
        self.back_seek_penalty = BACK_SEEK_PENALTY
        self.slice_sync_ticks = self.default_ticks(SLICE_SYNC_MS)
        self.slice_async_ticks = self.default_ticks(SLICE_ASYNC_MS)
        self.slice_async_rq = SLICE_ASYNC_RQ
        self.slice_idle_ticks = self.default_ticks(SLICE_IDLE_MS)
        self.target_latency_ticks = self.default_ticks(TARGET_LATENCY_MS)
        self.low_latency = True
        self.group_isolation = False
        self.group_idle_flag = queue.features.cfq_group_idle_flag != 0
        self.group_idle_ticks = 0
        if queue.features.cfq_group_idle and queue.blkcg is not None:
            self.group_idle_ticks = self.default_ticks(GROUP_IDLE_MS)
        if queue.features.cfq_ssd_no_idle and not queue.rotational:
            self.slice_idle_ticks = 0
        # What is being served
        self.groups = GroupTree()
        self.root_group: CfqGroup | None = None
        self.serving_group: CfqGroup | None = None
        self.serving_class = BE_WORKLOAD
        self.serving_type = SYNC_NOIDLE_WORKLOAD
        self.workload_expires_ticks = 0
        self.noidle_tree_requires_idle = False
        self.active_queue: CfqQueue | None = None
        self.active_cic: CfqContext | None = None
        self.busy_queues = 0
        self.busy_sync_queues = 0
        # The device
        self.rq_queued = 0
        self.rq_in_driver = 0
        self.in_flight_sync = 0
        self.in_flight_async = 0
        self.last_position = 0
        self.last_delayed_sync_ticks = self.now() - self.sec_ticks
        self.hw_tag = HW_TAG_UNKNOWN  # whether it queues requests itself; -1: not known yet, taken for yes
        self.hw_tag_est_depth = 0
        self.hw_tag_samples = 0

    # -- time -----------------------------------------------------------------------

    def now(self) -> int:
        """The present tick."""
        return self.clock.now_ns // self.tick_ns + self.sec_ticks

    def tick_time_ns(self, ticks: int) -> int:
        """When that tick begins, on the clock of the machine."""
        return (ticks - self.sec_ticks) * self.tick_ns

    def default_ticks(self, milliseconds: int) -> int:
        """The kernel's HZ / n: rounded down to ticks, at least one."""
        return max(milliseconds * MSEC_NS // self.tick_ns, 1)

    def ticks_of_ns(self, nanoseconds: int) -> int:
        """A written tunable: rounded up (msecs_to_jiffies)."""
        return (nanoseconds + self.tick_ns - 1) // self.tick_ns

    # -- what follows from several things ---------------------------------------------

    def idles_on_groups_ticks(self) -> int:
        """How long the device waits for a group whose only queue is not waited for; 0: not at all."""
        if self.group_idle_flag:
            return self.slice_idle_ticks
        return self.group_idle_ticks

    def iops_mode(self) -> bool:
        """Whether groups are charged requests instead of time: without idling a device that has many requests
        at once serves several queues at a time, and time says nothing."""
        return self.features.cfq_group_idle != 0 and self.slice_idle_ticks == 0 and self.hw_tag != 0

    def nonrot_with_queueing(self) -> bool:
        """Whether it is a device without seeks that has many requests at once: no idling on queues there."""
        return not self.queue.rotational and self.hw_tag != 0

    def schedule_dispatch(self) -> int:
        """cfq_schedule_dispatch: have a worker run the queue, if there is something to serve."""
        if self.busy_queues:
            if self.logging:
                self.log("schedule dispatch")
            self.queue.legacy.kick()
        return 0

    # -- messages -------------------------------------------------------------------

    def look_for_tracer(self) -> None:
        """Whether messages are wanted; asked where a hook begins."""
        self.logging = (self.queue.trace_mask & TR_MSG) != 0

    def log(self, text: str) -> int:
        """A message about the device (cfq_log). Test `logging` first."""
        self.queue.tracer.message(self.queue.number, "cfq " + text)
        return 0

    def log_queue(self, cfqq: CfqQueue, text: str) -> int:
        """A message about a queue (cfq_log_cfqq). Test `logging` first."""
        name = f"cfq{cfqq.pid}{'S' if cfqq.sync else 'A'}"
        if self.features.cfq_hierarchical_weights:
            name += "N" if cfqq.wl_type() == SYNC_NOIDLE_WORKLOAD else " "
        if self.queue.blkcg is not None and cfqq.cfqg is not None:
            name += " " + cfqq.cfqg.path
        self.queue.tracer.message(self.queue.number, f"{name} {text}")
        return 0

    def log_group(self, cfqg: CfqGroup, text: str) -> int:
        """A message about a group (cfq_log_cfqg); none on a machine without groups. Test `logging` first."""
        if self.queue.blkcg is not None:
            self.queue.tracer.message(self.queue.number, f"{cfqg.path} {text}")
        return 0
