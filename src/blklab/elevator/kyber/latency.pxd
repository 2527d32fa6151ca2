cimport cython
from libc.stdint cimport int64_t
from blklab.block.elevator cimport Elevator
from blklab.block.request cimport Request
from blklab.block.sbitmap cimport SbitmapQueue
from blklab.core.clock cimport Clock, Event

cdef enum:
    BUCKETS = 8

cdef class Domain:
    cdef readonly str name
    cdef readonly int most, batch
    cdef public int64_t target_ns, timeout_jiffy, sum_ns, nr_samples
    cdef readonly SbitmapQueue tokens
    cdef readonly int64_t[::1] total_samples, io_samples
    cdef public int p99

    @cython.locals(width=int64_t, bucket=int64_t)
    cpdef void sample(self, int64_t total_ns, int64_t io_ns) noexcept

cdef class Latencies(Event):
    cdef readonly Elevator elevator
    cdef readonly Clock clock
    cdef readonly int64_t jiffy_ns
    cdef readonly bint histogram
    cdef readonly tuple kinds
    cdef readonly list domains
    cdef readonly int last
    cdef public bint armed

    @cython.locals(domain=Domain, io_ns=int64_t)
    cpdef int completed(self, Request rq, int index, int64_t now_ns) except -1
    @cython.locals(jiffies=int64_t)
    cpdef int arm(self, int64_t delay_ns) except -1
