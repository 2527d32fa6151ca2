cimport cython
from libc.stdint cimport int64_t
from blklab.block.request cimport Request
from blklab.elevator.bfq.bfqq cimport BfqQueue
from blklab.elevator.bfq.data cimport BfqData
from blklab.elevator.bfq.params cimport (ASYNC_CHARGE_FACTOR, BUDGET_EXHAUSTED, BUDGET_TIMEOUT,
                                         DEFAULT_MAX_BUDGET, MIN_TT_NS, MSEC_NS, NO_MORE_REQUESTS,
                                         RATE_MIN_INTERVAL_NS, RATE_MIN_SAMPLES, RATE_REF_INTERVAL_NS,
                                         RATE_SHIFT, REF_RATE_NONROT, REF_RATE_ROT, SLICE_IDLE_MS,
                                         STATS_MIN_BUDGETS, TOO_IDLE)

@cython.final
cdef class Budgets:
    cdef readonly BfqData bfqd
    cdef public int64_t budgets_assigned, peak_rate
    cdef readonly int64_t peak_rate_samples, sequential_samples, tot_sectors_dispatched, last_rq_max_size
    cdef readonly int64_t delta_from_first_ns, first_dispatch_ns, last_dispatch_ns, turn_ms

    cpdef int64_t serv_to_charge(self, Request rq, BfqQueue bfqq) except -1
    cpdef bint affords_next(self, BfqQueue bfqq) except -1
    @cython.locals(bfqd=BfqData, budget=int64_t)
    cpdef int updated_next_req(self, BfqQueue bfqq) except -1
    cpdef int64_t initial_max_budget(self) noexcept
    cdef int64_t _largest(self) noexcept
    cpdef int64_t smallest(self) noexcept
    cpdef bint update_for_activation(self, BfqQueue bfqq, bint arrived_in_time) except -1
    @cython.locals(bfqd=BfqData)
    cpdef void begin_turn(self, BfqQueue bfqq) noexcept
    cpdef bint timed_out(self, BfqQueue bfqq) except -1
    @cython.locals(bfqd=BfqData, plenty=bint)
    cpdef bint may_expire_for_timeout(self, BfqQueue bfqq) except -1
    @cython.locals(bfqd=BfqData, slow=bint, end_ns=int64_t, turn_us=int64_t)
    cpdef bint is_slow(self, BfqQueue bfqq, bint compensate) except -1
    @cython.locals(bfqd=BfqData, smallest=int64_t, budget=int64_t, next_rq=Request, head=int64_t)
    cpdef int recalc(self, BfqQueue bfqq, int reason) except -1
    cpdef int64_t calc_max_budget(self) noexcept
    @cython.locals(bfqd=BfqData, now_ns=int64_t)
    cpdef int dispatched(self, Request rq) except -1
    @cython.locals(bfqd=BfqData, delta_us=int64_t)
    cpdef int completed(self, int64_t now_ns) except -1
    cdef int _update_and_reset(self, Request rq) except -1
    @cython.locals(bfqd=BfqData, rate=int64_t, sequential=bint, weight=int64_t, divisor=int64_t)
    cdef int _update(self) except -1
    @cython.locals(bfqd=BfqData)
    cdef int _reset(self, Request rq) except -1
