cimport cython
from blklab.core.charging cimport charge
from libc.stdint cimport int64_t
from blklab.block.bio cimport Bio
from blklab.block.consts cimport (F_FUA, F_NOMERGE, F_PREFLUSH, MERGE_BACK, MERGE_DISCARD, MERGE_FAILED, MERGE_FRONT,
                                  MERGE_NONE, MERGE_OK, OP_DISCARD, OP_FLUSH, OP_WRITE, OP_WRITE_ZEROES,
                                  RQ_STARTED, RQF_FLUSH_SEQ, RQF_IO_STAT, RQF_NOMERGE, TR_F, TR_M)
from blklab.block.limits cimport QueueLimits
from blklab.block.plug cimport Plug
from blklab.block.queue cimport RequestQueue
from blklab.block.request cimport Request, RequestList
from blklab.core.steps cimport STEP_MERGE, STEP_MERGE_TRY

@cython.final
cdef class Merger:
    cdef readonly RequestQueue queue

    cpdef bint bio_mergeable(self, Bio bio) noexcept
    cpdef bint rq_mergeable(self, Request rq) noexcept
    cpdef bint merge_ok(self, Request rq, Bio bio) noexcept
    cpdef int merge_kind(self, Request rq, Bio bio) noexcept
    @cython.locals(queue=RequestQueue)
    cdef bint _no_merge(self, Request rq) noexcept
    @cython.locals(limits=QueueLimits)
    cdef bint _fits(self, Request rq, int64_t sector, int64_t nr_sectors, int segments) noexcept
    @cython.locals(mask=int64_t, end=int64_t)
    cdef bint _gap(self, Bio first, Bio before, Bio after) noexcept
    @cython.locals(queue=RequestQueue)
    cpdef int back_merge(self, Request rq, Bio bio, int segments) except -1
    @cython.locals(queue=RequestQueue)
    cpdef int front_merge(self, Request rq, Bio bio, int segments) except -1
    @cython.locals(queue=RequestQueue, limits=QueueLimits)
    cpdef int discard_merge(self, Request rq, Bio bio) except -1
    @cython.locals(queue=RequestQueue, kind=int)
    cpdef int attempt_bio_merge(self, Request rq, Bio bio, int segments, bint ask_elevator) except -1
    @cython.locals(rq=Request)
    cpdef bint plug_merge(self, Plug plug, Bio bio, int segments) except -1
    @cython.locals(rq=Request, checked=int, result=int)
    cpdef bint list_merge(self, RequestList rqs, Bio bio, int segments) except -1
    @cython.locals(queue=RequestQueue, limits=QueueLimits, most=int64_t)
    cpdef bint merge_requests(self, Request rq, Request following) except -1
