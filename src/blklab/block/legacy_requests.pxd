cimport cython
from libc.stdint cimport int64_t
from blklab.block.consts cimport MUST_QUEUE
from blklab.block.request cimport Request
from blklab.block.sbitmap cimport Waiter, WaitQueue

cdef int BATCH_REQUESTS, BATCHES_PER_SECOND, DEFAULT_REQUESTS

@cython.final
cdef class IoContext:
    cdef public int nr_batch_requests, stage
    cdef public int64_t last_waited_ns
    cdef public Request rq

    @cython.locals(left=int, jiffies=int64_t)
    cpdef bint batching(self, int64_t now_ns, int64_t jiffy_ns) noexcept
    cpdef void set_batching(self, int64_t now_ns, int64_t jiffy_ns) noexcept

@cython.final
cdef class Side:
    cdef public int count
    cdef public bint full, congested, starved
    cdef readonly WaitQueue sleepers

@cython.final
cdef class RequestRoom:
    cdef readonly int64_t jiffy_ns
    cdef readonly bint counts_all
    cdef readonly int nr_requests, congestion_on, congestion_off
    cdef readonly Side asynchronous, synchronous

    cpdef Side side(self, bint sync)
    cpdef int total(self) noexcept
    @cython.locals(side=Side, nr=int, counts=bint)
    cpdef bint take(self, IoContext ioc, bint sync, int may_queue, int64_t now_ns) except -1
    @cython.locals(side=Side)
    cpdef refused(self, bint sync)
    @cython.locals(side=Side)
    cpdef sleep(self, Waiter waiter, bint sync)
    @cython.locals(side=Side, other=Side)
    cpdef int give(self, bint sync) except -1
    @cython.locals(waiter=Waiter)
    cdef int _freed(self, Side side) except -1
    @cython.locals(side=Side)
    cpdef resize(self, int nr)
