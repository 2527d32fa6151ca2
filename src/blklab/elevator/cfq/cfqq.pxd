cimport cython
from libc.stdint cimport int64_t
from blklab.block.cgroup cimport Blkg
from blklab.block.request cimport Request, RequestList
from blklab.block.rqtree cimport RequestTree
from blklab.block.submit cimport Submitter
from blklab.elevator.cfq.params cimport (ASYNC_WORKLOAD, BE_WORKLOAD, CLASS_BE, CLASS_IDLE, CLASS_RT, IDLE_WORKLOAD,
                                         NR_LEVELS, NR_TYPES, RT_WORKLOAD, SYNC_NOIDLE_WORKLOAD, SYNC_WORKLOAD,
                                         TTIME_VALID_SAMPLES, WEIGHT_DEFAULT)
from blklab.elevator.cfq.stats cimport GroupStats

@cython.final
cdef class ThinkTime:
    cdef public int64_t last_end_ticks
    cdef readonly int64_t samples, total, mean_ticks

    @cython.locals(elapsed=int64_t)
    cpdef void update(self, int64_t now_ticks, int64_t idle_ticks) noexcept
    cpdef bint is_valid(self) noexcept

@cython.final
cdef class ServiceTree:
    cdef readonly CfqQueue first, last
    cdef readonly int count
    cdef readonly ThinkTime ttime

    @cython.locals(key=int64_t, before=CfqQueue, following=CfqQueue)
    cpdef void add(self, CfqQueue cfqq) noexcept
    @cython.locals(before=CfqQueue, following=CfqQueue)
    cpdef void remove(self, CfqQueue cfqq) noexcept

@cython.final
cdef class CfqQueue:
    cdef public int64_t pid
    cdef readonly bint sync
    cdef public int64_t ref
    cdef readonly RequestTree sort_list
    cdef readonly RequestList fifo
    cdef public Request next_rq
    cdef public int64_t queued_sync, queued_async, allocated, meta_pending, dispatched
    cdef public CfqGroup cfqg, orig_cfqg
    cdef public bint on_rr
    cdef public ServiceTree service_tree
    cdef public CfqQueue tree_prev, tree_next
    cdef public int64_t rb_key
    cdef public int prio_level
    cdef public int64_t prio_sector
    cdef public bint prio_changed
    cdef public int ioprio, org_ioprio, ioprio_class, org_ioprio_class
    cdef public bint slice_new
    cdef public int64_t dispatch_start_ticks, slice_start_ticks, slice_end_ticks, allocated_slice_ticks
    cdef public int64_t slice_resid_ticks, slice_dispatch, nr_sectors
    cdef public bint fifo_checked, wait_request, wait_busy, must_dispatch, must_alloc_slice
    cdef public bint idle_window, deep
    cdef public int64_t last_request_pos, seek_history
    cdef public int nr_seeks
    cdef public int64_t seek_samples, seek_total, seek_mean, seeky_start_ticks
    cdef public CfqQueue new_cfqq
    cdef public bint coop, split_coop

    cpdef bint is_idle_class(self) noexcept
    cpdef bint is_rt_class(self) noexcept
    cpdef int wl_class(self) noexcept
    cpdef int wl_type(self) noexcept
    cpdef int64_t nr_queued(self) noexcept
    cpdef int64_t process_refs(self) noexcept

@cython.final
cdef class CfqGroup:
    cdef readonly str path
    cdef readonly CfqGroup parent
    cdef readonly Blkg blkg
    cdef public bint on_st
    cdef public CfqGroup st_prev, st_next
    cdef public int64_t vdisktime, weight, new_weight, dev_weight, leaf_weight, new_leaf_weight, dev_leaf_weight
    cdef public int64_t nr_active, children_weight, vfraction, nr_cfqq, busy_avg_be, busy_avg_rt
    cdef readonly list service_trees
    cdef readonly ServiceTree service_tree_idle
    cdef readonly list async_cfqqs
    cdef public int64_t saved_wl_slice_ticks
    cdef public int saved_wl_type, saved_wl_class
    cdef public int64_t dispatched
    cdef readonly ThinkTime ttime
    cdef readonly GroupStats stats

    @cython.locals(tree=ServiceTree)
    cpdef ServiceTree tree_for(self, int wl_class, int wl_type)
    @cython.locals(busy=int64_t, wl_type=int)
    cpdef int64_t busy_queues(self, int wl_class) except -1
    cpdef int64_t busy_async_queues(self) except -1
    @cython.locals(wl_class=int, wl_type=int, cfqq=CfqQueue)
    cpdef CfqQueue first_queue(self)
    @cython.locals(cfqg=CfqGroup)
    cpdef bint is_below(self, CfqGroup ancestor) noexcept
    cpdef int async_index(self, int ioprio_class, int level) noexcept

@cython.final
cdef class GroupTree:
    cdef readonly CfqGroup first, last
    cdef readonly int count
    cdef public int64_t total_weight, min_vdisktime

    @cython.locals(key=int64_t, before=CfqGroup, following=CfqGroup)
    cpdef void add(self, CfqGroup cfqg) noexcept
    @cython.locals(before=CfqGroup, following=CfqGroup)
    cpdef void remove(self, CfqGroup cfqg) noexcept

@cython.final
cdef class CfqContext:
    cdef readonly Submitter submitter
    cdef public CfqQueue sync_cfqq, async_cfqq
    cdef readonly ThinkTime ttime
    cdef public int64_t ioprio
    cdef public CfqGroup cfqg
    cdef public bint exited

    cpdef CfqQueue cfqq_of(self, bint sync)
    cpdef void set_cfqq(self, CfqQueue cfqq, bint sync) noexcept
