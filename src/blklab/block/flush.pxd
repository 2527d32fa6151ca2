cimport cython
from libc.stdint cimport int64_t
from blklab.core.charging cimport charge
from blklab.core.host cimport Host, Lock, Work
from blklab.core.steps cimport STEP_FLUSH, STEP_INSERT, STEP_LOCK, STEP_LOCK_HCTX
from blklab.block.consts cimport (DONE, F_FUA, F_PREFLUSH, F_SYNC, HOOK_COMPLETED, OP_FLUSH, RQ_DISPATCH, RQ_FREE,
                                  RQ_GOT, RQF_ELV, RQF_FLUSH_SEQ, RQF_MQ_INFLIGHT, STS_OK, TR_C, YIELD)
from blklab.block.dispatch cimport HctxRun
from blklab.block.hwqueue cimport HardwareQueue
from blklab.block.queue cimport RequestQueue
from blklab.block.request cimport Request, RequestList
from blklab.block.submit cimport Submitter

@cython.final
cdef class FlushQueue:
    cdef readonly HardwareQueue hctx
    cdef readonly RequestQueue queue
    cdef readonly Lock lock
    cdef readonly Request flush_rq
    cdef readonly RequestList pending, running
    cdef RequestList served
    cdef readonly bint in_flight
    cdef readonly int64_t data_in_flight, pending_since_ns, nr_flushes

    @cython.locals(queue=RequestQueue, needs=int)
    cpdef int insert(self, Request rq, Submitter submitter) except -1
    @cython.locals(queue=RequestQueue, hctx=HardwareQueue)
    cpdef int ended(self, Request rq, int status) except -1
    @cython.locals(rq=Request, queue=RequestQueue, served=RequestList)
    cdef int _flush_ended(self, int status) except -1
    @cython.locals(queue=RequestQueue, host=Host, nr_sectors=int64_t)
    cdef int _step_done(self, Request rq, int step, int status) except -1
    @cython.locals(queue=RequestQueue, now=int64_t, first=Request, rq=Request)
    cdef int _kick(self) except -1

cdef class RequeueWork(Work):
    cdef readonly RequestQueue queue
    cdef readonly RequestList rqs
    cdef readonly HctxRun run
    cdef Py_ssize_t index

    cpdef int add(self, Request rq, bint at_head) except -1
    @cython.locals(queue=RequestQueue, hctx=HardwareQueue, mine=HardwareQueue)
    cpdef int step(self) except -1
    @cython.locals(queue=RequestQueue, hctx=HardwareQueue, host=Host)
    cdef int _insert(self, Request rq) except -1

cdef int _next_step(int done) noexcept
