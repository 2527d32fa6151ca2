cimport cython
from libc.stdint cimport int64_t, uint64_t
from blklab.block.bio cimport Bio
from blklab.block.consts cimport OP_DISCARD, OP_READ, OP_WRITE, TR_MSG
from blklab.block.elevator cimport Elevator
from blklab.block.hwqueue cimport HardwareQueue
from blklab.block.queue cimport RequestQueue
from blklab.block.request cimport Request, RequestList
from blklab.block.sbitmap cimport SbitmapQueue, Waiter
from blklab.block.submit cimport Submitter
from blklab.block.swqueue cimport SoftwareQueue
from blklab.block.tags cimport Tags
from blklab.core.bits cimport bit64, ffs64
from blklab.core.charging cimport charge
from blklab.core.host cimport Host, Lock
from blklab.core.steps cimport STEP_KYBER, STEP_LOCK_CTX, STEP_LOCK_SCHED
from blklab.elevator.kyber.latency cimport Domain, Latencies

cdef class CtxQueue:
    cdef readonly Lock lock
    cdef readonly list rqs

cdef class TokenWait(Waiter):
    cdef readonly HardwareQueue hctx
    cdef public int next_index

cdef class HctxData:
    cdef readonly HardwareQueue hctx
    cdef readonly Lock lock
    cdef readonly list rqs, waits, ctx_queues
    cdef readonly int nr_words
    cdef uint64_t[::1] marks
    cdef readonly int64_t[::1] marked
    cdef public int64_t held
    cdef public int domain, batching
    cdef bint flushed

    @cython.locals(place=int, bit=uint64_t)
    cdef void mark(self, int domain, int index) noexcept

cdef class Kyber(Elevator):
    cdef readonly bint ctx_queue, histogram, all_but_sync_reads, whole_depth
    cdef readonly Latencies latencies
    cdef readonly list domains
    cdef readonly int last_domain, async_depth, word_depth

    @cython.locals(tags=Tags, bitmap=SbitmapQueue, word=int64_t)
    cpdef depth_updated(self, HardwareQueue hctx)
    cpdef int domain_of(self, int op, bint sync) noexcept
    @cython.locals(queue=RequestQueue, ctx=SoftwareQueue, data=HctxData, mine=CtxQueue, rqs=RequestList, merged=bint)
    cpdef bint bio_merge(self, Bio bio, int segments, Submitter submitter) except -1
    @cython.locals(host=Host, data=HctxData, rq=Request, index=int, domain=int, mine=CtxQueue, waiting=RequestList)
    cpdef insert_requests(self, HardwareQueue hctx, RequestList rqs, bint at_head)
    @cython.locals(host=Host, rq=Request, ctx=SoftwareQueue)
    cdef int _insert_into_ctx(self, HardwareQueue hctx, RequestList rqs, bint at_head) except -1
    @cython.locals(data=HctxData)
    cpdef bint has_work(self, HardwareQueue hctx) except -1
    @cython.locals(host=Host, data=HctxData, rq=Request, domain=Domain, _=int)
    cpdef Request dispatch_request(self, HardwareQueue hctx)
    @cython.locals(index=int, rqs=RequestList, token=int, domain=Domain, rq=Request)
    cdef Request _dispatch_domain(self, HctxData data)
    @cython.locals(domain=Domain, tokens=SbitmapQueue, waiter=TokenWait, cpu=int, token=int)
    cdef int _get_token(self, HctxData data, int index) except -2
    @cython.locals(host=Host, first=int, k=int, word=uint64_t, theirs=CtxQueue, waiting=RequestList)
    cdef int _flush_ctx_queues(self, HctxData data, int domain, RequestList rqs) except -1
    @cython.locals(host=Host, hctx=HardwareQueue, index=int, ctx=SoftwareQueue, rq=Request, rqs=RequestList)
    cdef int _flush_ctxs(self, HctxData data) except -1
    cpdef completed_request(self, Request rq, int64_t now_ns)
    @cython.locals(domain=Domain, token=int)
    cpdef finish_request(self, Request rq)
