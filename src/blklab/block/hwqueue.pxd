cimport cython
from libc.stdint cimport int64_t, uint64_t
from blklab.core.bits cimport bit64, ffs64, not64
from blklab.core.charging cimport charge
from blklab.core.host cimport Lock
from blklab.core.steps cimport STEP_RQ_INIT, STEP_SCHED_TAG_GET, STEP_TAG_GET
from blklab.block.bio cimport Bio
from blklab.block.consts cimport (BUSY_FACTOR, BUSY_WEIGHT, F_FUA, F_PREFLUSH, HOOK_FINISH, HOOK_LIMIT_DEPTH,
                                  HOOK_PREPARE, RQ_GOT, RQF_ELV, RQF_ELVPRIV, RQF_HW_TAG, RQF_IO_STAT,
                                  RQF_MQ_INFLIGHT, STS_OK, WORK_BATCH)
from blklab.block.dispatch cimport RunWork
from blklab.block.flush cimport FlushQueue
from blklab.block.elevator cimport Elevator
from blklab.block.queue cimport RequestQueue
from blklab.block.request cimport Request, RequestList
from blklab.block.sbitmap cimport Waiter
from blklab.block.submit cimport Submitter
from blklab.block.swqueue cimport SoftwareQueue
from blklab.block.tags cimport Tags, TagUser, may_queue

cdef class DispatchWait(Waiter):
    cdef readonly HardwareQueue hctx

@cython.final
cdef class HardwareQueue:
    cdef readonly RequestQueue queue
    cdef readonly int index
    cdef readonly Tags tags
    cdef public Tags sched_tags
    cdef readonly TagUser user
    cdef public list driver_rqs, sched_rqs
    cdef readonly list cpus, ctxs
    cdef readonly int nr_ctx
    cdef uint64_t[::1] ctx_pending
    cdef readonly int nr_pending
    cdef readonly RequestList dispatch_list
    cdef public int dispatch_from, dispatch_busy
    cdef readonly DispatchWait dispatch_wait
    cdef public bint restart, tag_queue_shared
    cdef int wait_index, next_cpu, next_cpu_batch
    cdef public int64_t run_count, queued_count, dispatched_count
    cdef readonly Lock lock
    cdef public object driver_data, sched_data
    cdef public RunWork work
    cdef public FlushQueue fq

    @cython.locals(index=int, bit=uint64_t)
    cpdef void mark_pending(self, SoftwareQueue ctx) noexcept
    @cython.locals(index=int, bit=uint64_t)
    cpdef void clear_pending(self, SoftwareQueue ctx) noexcept
    @cython.locals(words=int, index=int, word=uint64_t, _=int)
    cpdef int next_pending(self, int start) noexcept
    cpdef bint has_pending(self) except -1
    @cython.locals(queue=RequestQueue, average=int)
    cpdef void update_busy(self, bint busy) noexcept
    @cython.locals(queue=RequestQueue)
    cpdef int limit_depth(self, Bio bio) except -1
    @cython.locals(queue=RequestQueue, tags=Tags, tag=int)
    cpdef Request get_request(self, Bio bio, int cpu, int depth)
    @cython.locals(rq=Request)
    cpdef bint get_request_batch(self, Bio bio, int cpu, int wanted, RequestList cached) except -1
    @cython.locals(queue=RequestQueue, rq=Request)
    cdef Request _init_request(self, Bio bio, int cpu, int tag, int internal_tag)
    @cython.locals(queue=RequestQueue, tags=Tags)
    cpdef Tags wait_for_tag(self, Submitter submitter)
    cpdef void tag_busy(self) noexcept
    cpdef int tag_idle(self) except -1
    @cython.locals(tag=int)
    cpdef bint get_driver_tag(self, Request rq) except -1
    @cython.locals(tag=int)
    cpdef int put_driver_tag(self, Request rq) except -1
    cpdef int insert_flush(self, Request rq, Submitter submitter) except -1
    cpdef int next_wait_index(self) noexcept
    cpdef int next_work_cpu(self) except -2
