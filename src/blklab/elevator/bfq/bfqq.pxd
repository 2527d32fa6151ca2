cimport cython
from libc.stdint cimport int64_t
from blklab.block.request cimport Request, RequestList
from blklab.block.rqtree cimport RequestTree
from blklab.block.submit cimport Submitter
from blklab.core.bits cimport ALL_ONES_32
from blklab.elevator.bfq.entity cimport Entity
from blklab.elevator.bfq.params cimport CLASS_IDLE, SEEKY_BITS, SHARED_PID

cdef class BfqQueue(Entity):
    cdef public int64_t pid
    cdef readonly bint sync
    cdef public IoContext bic
    cdef public int64_t stable_ref, weight_counted
    cdef public BfqQueue new_bfqq
    cdef readonly RequestTree sort_list
    cdef readonly RequestList fifo
    cdef public Request next_rq
    cdef public int64_t queued_async, queued_sync, budget_timeout_ns
    cdef public bint fifo_checked, split_coop, coop, in_pos_tree
    cdef public int64_t pos_sector
    cdef public bint has_short_ttime, io_bound
    cdef public int64_t last_end_request_ns, ttime_samples, ttime_total, ttime_mean_ns, io_start_ns, tot_idle_ns
    cdef readonly int64_t seek_history
    cdef readonly int nr_seeks
    cdef public int64_t last_request_pos
    cdef public bint just_created, in_large_burst, in_burst_list, softrt_update
    cdef public int64_t wr_cur_max_time_ns, last_wr_start_finish_ns, wr_start_at_switch_to_srt_ns
    cdef public int64_t soft_rt_next_start_ns, last_idle_bklogged_ns, split_time_ns, creation_time_ns
    cdef public int64_t last_serv_time_ns, inject_limit, decrease_time_ns
    cdef public BfqQueue waker_bfqq, tentative_waker_bfqq
    cdef public int num_waker_detections
    cdef public int64_t waker_detection_started_ns
    cdef readonly list woken

    @cython.locals(refs=int64_t)
    cpdef int64_t process_refs(self) noexcept
    cpdef int64_t budget_left(self) noexcept
    cpdef bint is_seeky(self) noexcept
    cpdef bint is_totally_seeky(self) noexcept
    @cython.locals(history=int64_t)
    cpdef void note_seek(self, bint seeky) noexcept
    cpdef bint is_idle_class(self) noexcept
    cpdef str name(self)

@cython.final
cdef class IoContext:
    cdef readonly Submitter submitter
    cdef public BfqQueue sync_bfqq, async_bfqq
    cdef public int64_t ioprio, requests
    cdef public int cgroup_ident
    cdef public BfqQueue stable_merge_bfqq
    cdef public bint stably_merged
    cdef public bint saved_has_short_ttime, saved_io_bound, saved_in_large_burst, was_in_burst_list
    cdef public int64_t saved_io_start_ns, saved_tot_idle_ns, saved_weight, saved_wr_coeff
    cdef public int64_t saved_last_wr_start_finish_ns, saved_service_from_wr, saved_wr_start_at_switch_to_srt_ns
    cdef public int64_t saved_wr_cur_max_time_ns, saved_last_end_request_ns, saved_ttime_samples
    cdef public int64_t saved_ttime_total, saved_ttime_mean_ns, saved_last_serv_time_ns, saved_inject_limit
    cdef public int64_t saved_decrease_time_ns

    cpdef BfqQueue bfqq_of(self, bint sync)
    @cython.locals(old=BfqQueue)
    cpdef set_bfqq(self, BfqQueue bfqq, bint sync)
