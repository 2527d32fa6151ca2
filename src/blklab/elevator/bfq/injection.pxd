cimport cython
from libc.stdint cimport int64_t
from blklab.block.request cimport Request
from blklab.elevator.bfq.bfqq cimport BfqQueue, IoContext
from blklab.elevator.bfq.budget cimport Budgets
from blklab.elevator.bfq.data cimport BfqData
from blklab.elevator.bfq.idling cimport Idling
from blklab.elevator.bfq.params cimport (SECT_THR_NONROT, WAKER_DETECTIONS, WAKER_PERIODS, WAKER_WINDOW_NS)

@cython.final
cdef class Injection:
    cdef readonly BfqData bfqd
    cdef readonly Budgets budgets
    cdef readonly Idling idling
    cdef readonly int64_t relearn_ns, short_change_ns, measure_ns

    @cython.locals(bfqd=BfqData, bic=IoContext, other=BfqQueue)
    cpdef BfqQueue choose(self, BfqQueue bfqq)
    cdef bint _can_serve(self, BfqQueue bfqq) noexcept
    @cython.locals(bfqd=BfqData, bfqq=BfqQueue, limit=int64_t, always=bint)
    cdef BfqQueue _choose_any(self, BfqQueue in_service)
    @cython.locals(bfqd=BfqData, now=int64_t)
    cpdef int on_request(self, BfqQueue bfqq) except -1
    cpdef int reset(self, BfqQueue bfqq) except -1
    cpdef int short_ttime_changed(self, BfqQueue bfqq) except -1
    @cython.locals(bfqd=BfqData)
    cpdef int dispatched(self, BfqQueue bfqq, Request rq) except -1
    @cython.locals(bfqd=BfqData, total_ns=int64_t, old_limit=int64_t, threshold_ns=int64_t)
    cpdef int served(self, BfqQueue bfqq) except -1
    @cython.locals(bfqd=BfqData, now_ns=int64_t, last=BfqQueue)
    cdef int _check_waker(self, BfqQueue bfqq) except -1
    cpdef int set_waker(self, BfqQueue bfqq, BfqQueue waker) except -1
