cimport cython
from libc.stdint cimport int64_t
from blklab.core.clock cimport Clock
from blklab.core.charging cimport charge
from blklab.core.host cimport Host
from blklab.core.steps cimport (STEP_COMPLETE, STEP_DISPATCH_ONE, STEP_INSERT, STEP_LOCK_CTX,
                                STEP_LOCK_HCTX, STEP_QUEUE_RQ, STEP_REMOTE_COMPLETE, STEP_REQUEUE,
                                STEP_RQ_INIT, STEP_SCHED_INSERT, STEP_SCHED_TAG_GET, STEP_SOFTIRQ,
                                STEP_TAG_GET, STEP_TAG_PUT)
from blklab.block.bio cimport Bio, BioPool
from blklab.block.cgroup cimport QueueGroups
from blklab.block.consts cimport (DONE, F_FUA, F_PREFLUSH, F_TRACED, HOOK_BIO_MERGE, HOOK_COMPLETED, HOOK_FINISH,
                                  HOOK_LIMIT_DEPTH, HOOK_PREPARE, HOOK_REQUEUE, RQF_ELV, RQF_ELVPRIV, RQF_FLUSH_SEQ,
                                  RQF_HW_TAG, RQF_IO_STAT, RQF_MQ_INFLIGHT, RQF_REMOTE, RQ_COMPLETE,
                                  RQ_DISPATCH, RQ_FREE, RQ_GOT, RQ_QUEUED, RQ_STARTED, STS_DEV_RESOURCE,
                                  STS_OK, STS_RESOURCE, TR_C, TR_D, TR_G, TR_I, TR_R, WAIT)
from blklab.block.driver cimport Driver
from blklab.block.elevator cimport Elevator
from blklab.block.elv_merge cimport ElvMerge
from blklab.block.features cimport Features
from blklab.block.flush cimport RequeueWork
from blklab.block.hwqueue cimport HardwareQueue
from blklab.block.iostat cimport IoStat
from blklab.block.legacy cimport LegacyPath
from blklab.block.legacy_run cimport RequestFn
from blklab.block.limits cimport QueueLimits
from blklab.block.merge cimport Merger
from blklab.block.qos cimport QosChain, Throttle
from blklab.block.request cimport Request, RequestList
from blklab.block.sbitmap cimport WaitQueue
from blklab.block.submit cimport Submitter
from blklab.block.swqueue cimport SoftwareQueue
from blklab.block.tags cimport TagSet
from blklab.block.timeout cimport TimeoutTimer
from blklab.block.trace cimport Tracer

@cython.final
cdef class RequestQueue:
    cdef readonly str name
    cdef readonly int number
    cdef readonly Host host
    cdef readonly Clock clock
    cdef readonly Driver driver
    cdef readonly TagSet tag_set
    cdef readonly Features features
    cdef readonly QueueLimits limits
    cdef readonly IoStat stat
    cdef readonly BioPool bios
    cdef readonly Merger merger
    cdef public ElvMerge elv_merge
    cdef public int64_t size_sectors, start_sector
    cdef readonly bint bio_based
    cdef public RequestQueue whole
    cdef public Elevator elevator
    cdef public str elevator_name
    cdef public int elevator_hooks
    cdef public bint hw_tag, sq_sched
    cdef public QosChain qos
    cdef public QueueGroups blkcg
    cdef public Throttle throttle
    cdef public LegacyPath legacy
    cdef readonly Tracer tracer
    cdef readonly int trace_mask
    cdef public Request last_merge
    cdef public bint checks, iostats, rotational, write_cache, hw_write_cache, fua
    cdef readonly bint quiesced, stopped, halted
    cdef public int nomerges, rq_affinity, nr_requests, freeze_depth
    cdef readonly int nr_hw_queues
    cdef public int64_t io_timeout_ns
    cdef public int64_t usage
    cdef readonly WaitQueue frozen_waiters
    cdef public list when_drained
    cdef RequestList one
    cdef public Request free_rqs
    cdef readonly TimeoutTimer timer
    cdef readonly RequeueWork requeues
    cdef readonly list ctxs, hctxs, map

    cpdef set_trace(self, Tracer tracer, int mask)
    cpdef HardwareQueue hctx_of(self, int cpu)
    cpdef bint start_flush(self, Bio bio) except -1
    cpdef wait_unfrozen(self, Submitter submitter)
    @cython.locals(elevator=Elevator, ctx=SoftwareQueue, merged=bint)
    cpdef bint sched_bio_merge(self, Bio bio, int segments, Submitter submitter) except -1
    cpdef int start_bio(self, Request rq, Bio bio, int segments) except -1
    cpdef int trace_insert(self, Request rq) except -1
    @cython.locals(hctx=HardwareQueue, ctx=SoftwareQueue)
    cpdef int insert_request(self, Request rq, bint at_head) except -1
    @cython.locals(host=Host, rq=Request)
    cpdef int insert_list(self, HardwareQueue hctx, SoftwareQueue ctx, RequestList rqs) except -1
    @cython.locals(hctx=HardwareQueue)
    cpdef int bypass_insert(self, Request rq) except -1
    cpdef int run_here(self, HardwareQueue hctx, Submitter submitter) except -1
    cpdef int run_async(self, HardwareQueue hctx) except -1
    @cython.locals(how=int)
    cpdef bint dispatches_from_worker(self, Request rq) noexcept
    cpdef void set_quiesced(self, bint quiesced) noexcept
    cpdef void stop_hw_queues(self) noexcept
    cpdef int start_stopped(self) except -1
    @cython.locals(jiffy_ns=int64_t, jiffies=int64_t, now=int64_t, due=int64_t)
    cpdef int run_delayed(self, HardwareQueue hctx, int64_t delay_ns) except -1
    @cython.locals(hctx=HardwareQueue, mine=HardwareQueue)
    cpdef int run_all(self) except -1
    @cython.locals(hctx=HardwareQueue, mine=HardwareQueue)
    cpdef int run_all_delayed(self, int64_t delay_ns) except -1
    cpdef int get_budget(self) except -2
    cpdef int put_budget(self, int token) except -1
    @cython.locals(token=int)
    cpdef int put_rq_budget(self, Request rq) except -1
    @cython.locals(token=int)
    cpdef bint prepare_direct(self, Request rq) except -1
    @cython.locals(hctx=HardwareQueue, status=int)
    cpdef int issue_prepared(self, Request rq, bint last) except -1
    cpdef int issue_directly(self, Request rq, bint last) except -1
    @cython.locals(now=int64_t)
    cpdef int start_request(self, Request rq) except -1
    cpdef int requeued(self, Request rq) except -1
    @cython.locals(hctx=HardwareQueue)
    cpdef int requeue(self, Request rq) except -1
    cpdef int fail_request(self, Request rq, int status) except -1
    cpdef int complete(self, Request rq, int status) except -1
    @cython.locals(host=Host, cpu=int)
    cpdef int completed_here(self, Request rq) except -1
    cpdef int end_request(self, Request rq, int status) except -1
    cpdef int end_flushed(self, Request rq, int status) except -1
    cpdef int end_bios(self, Request rq, int status) except -1
    @cython.locals(now=int64_t, bio=Bio, following=Bio)
    cdef int _bios_ended(self, Request rq, int status) except -1
    cpdef int end_bio(self, Bio bio, int status) except -1
    @cython.locals(hctx=HardwareQueue, cpu=int)
    cpdef int free_request(self, Request rq) except -1
    cpdef int drained(self) except -1
