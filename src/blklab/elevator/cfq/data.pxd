cimport cython
from libc.stdint cimport int64_t
from blklab.block.consts cimport TR_MSG
from blklab.block.features cimport Features
from blklab.block.queue cimport RequestQueue
from blklab.core.clock cimport Clock
from blklab.elevator.cfq.cfqq cimport CfqContext, CfqGroup, CfqQueue, GroupTree
from blklab.elevator.cfq.params cimport (BACK_SEEK_MAX_KB, BACK_SEEK_PENALTY, BE_WORKLOAD,
                                         FIFO_EXPIRE_ASYNC_MS, FIFO_EXPIRE_SYNC_MS, GROUP_IDLE_MS,
                                         HW_TAG_UNKNOWN, IDLE_DELAY_MS, MSEC_NS, QUANTUM,
                                         QUANTUM_BEFORE_2_6_34, SEC_NS, SLICE_ASYNC_MS, SLICE_ASYNC_RQ,
                                         SLICE_IDLE_MS, SLICE_SYNC_MS, SYNC_NOIDLE_WORKLOAD, TARGET_LATENCY_MS)
from blklab.block.elv_timer cimport IdleSliceTimer

@cython.final
cdef class CfqData:
    cdef readonly RequestQueue queue
    cdef readonly Clock clock
    cdef readonly Features features
    cdef readonly IdleSliceTimer timer
    cdef readonly bint logging
    cdef readonly int64_t tick_ns, jiffy_ticks, sec_ticks, idle_delay_ticks
    cdef public int64_t quantum, fifo_expire_sync_ticks, fifo_expire_async_ticks, back_seek_max_kb
    cdef public int64_t back_seek_penalty, slice_sync_ticks, slice_async_ticks, slice_async_rq, slice_idle_ticks
    cdef public int64_t target_latency_ticks, group_idle_ticks
    cdef public bint low_latency, group_isolation, group_idle_flag
    cdef readonly GroupTree groups
    cdef public CfqGroup root_group, serving_group
    cdef public int serving_class, serving_type
    cdef public int64_t workload_expires_ticks
    cdef public bint noidle_tree_requires_idle
    cdef public CfqQueue active_queue
    cdef public CfqContext active_cic
    cdef public int64_t busy_queues, busy_sync_queues, rq_queued, rq_in_driver, in_flight_sync, in_flight_async
    cdef public int64_t last_position, last_delayed_sync_ticks, hw_tag, hw_tag_est_depth, hw_tag_samples

    cpdef int64_t now(self) noexcept
    cpdef int64_t tick_time_ns(self, int64_t ticks) noexcept
    cpdef int64_t default_ticks(self, int64_t milliseconds) noexcept
    cpdef int64_t ticks_of_ns(self, int64_t nanoseconds) noexcept
    cpdef int64_t idles_on_groups_ticks(self) noexcept
    cpdef bint iops_mode(self) noexcept
    cpdef bint nonrot_with_queueing(self) noexcept
    cpdef int schedule_dispatch(self) except -1
    cpdef void look_for_tracer(self) noexcept
    cpdef int log(self, str text) except -1
    cpdef int log_queue(self, CfqQueue cfqq, str text) except -1
    cpdef int log_group(self, CfqGroup cfqg, str text) except -1
