cimport cython
from libc.stdint cimport int64_t
from blklab.block.request cimport Request
from blklab.elevator.bfq.bfqq cimport BfqQueue
from blklab.elevator.bfq.data cimport BfqData
from blklab.elevator.bfq.params cimport (HW_QUEUE_SAMPLES, HW_QUEUE_THRESHOLD, MIN_TT_NS, MSEC_NS,
                                         TTIME_VALID_SAMPLES)
from blklab.elevator.bfq.raising cimport Raising

@cython.final
cdef class Idling:
    cdef readonly BfqData bfqd
    cdef readonly Raising raising
    cdef readonly int64_t hw_tag_samples

    @cython.locals(bfqd=BfqData, rotational=bint)
    cpdef bint boosts_throughput(self, BfqQueue bfqq) except -1
    @cython.locals(bfqd=BfqData, busy=int64_t)
    cpdef bint needed_for_guarantees(self, BfqQueue bfqq) except -1
    @cython.locals(bfqd=BfqData)
    cpdef bint better_to_idle(self, BfqQueue bfqq) except -1
    cpdef bint must_idle(self, BfqQueue bfqq) except -1
    @cython.locals(bfqd=BfqData, length_ns=int64_t)
    cpdef int64_t begin(self, BfqQueue bfqq) except -1
    @cython.locals(bfqd=BfqData, elapsed_ns=int64_t)
    cpdef int update_thinktime(self, BfqQueue bfqq) except -1
    cpdef bint has_short_ttime(self, BfqQueue bfqq, bint process_lives) noexcept
    cpdef int update_seeks(self, BfqQueue bfqq, Request rq) except -1
    @cython.locals(now_ns=int64_t, total_ns=int64_t)
    cpdef int update_io_intensity(self, BfqQueue bfqq) except -1
    @cython.locals(bfqd=BfqData, bfqq=BfqQueue)
    cpdef int update_hw_tag(self) except -1
