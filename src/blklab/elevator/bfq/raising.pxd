cimport cython
from libc.stdint cimport int64_t
from blklab.elevator.bfq.bfqq cimport BfqQueue, IoContext
from blklab.elevator.bfq.budget cimport Budgets
from blklab.elevator.bfq.data cimport BfqData
from blklab.elevator.bfq.group cimport BfqGroup
from blklab.elevator.bfq.params cimport (MAX_SERVICE_FROM_WR, MAX_WR_MS, MIN_WR_MS, REF_RATE_NONROT,
                                         REF_RATE_ROT, REF_WR_DURATION_NONROT_MS, REF_WR_DURATION_ROT_MS,
                                         SOFTRT_WEIGHT_FACTOR, WR_COEFF, WR_DEFAULT_WEIGHT,
                                         WR_MAX_SOFTRT_RATE, WR_MIN_IDLE_MS, WR_MIN_INTER_ARR_ASYNC_MS,
                                         WR_RT_MAX_MS)

@cython.final
cdef class Raising:
    cdef readonly BfqData bfqd
    cdef readonly Budgets budgets
    cdef readonly int64_t rt_max_ns, min_idle_ns, min_inter_arr_async_ns, min_wr_ns, max_wr_ns, rate_dur_prod

    @cython.locals(duration_ns=int64_t)
    cpdef int64_t duration_ns(self) noexcept
    cpdef bint idle_for_long(self, BfqQueue bfqq) except -1
    cpdef bint deserves_soft_rt(self, BfqQueue bfqq) except -1
    @cython.locals(bfqd=BfqData)
    cpdef int on_activation(self, BfqQueue bfqq, int64_t old_wr_coeff, bint deserves, bint interactive,
                            bint in_burst, bint soft_rt) except -1
    @cython.locals(bfqd=BfqData)
    cpdef int on_async_request(self, BfqQueue bfqq, int64_t old_wr_coeff) except -1
    @cython.locals(now=int64_t)
    cpdef int begin_turn(self, BfqQueue bfqq) except -1
    cpdef int64_t timeout_coeff(self, BfqQueue bfqq) noexcept
    @cython.locals(bfqd=BfqData, now=int64_t)
    cpdef int update(self, BfqQueue bfqq) except -1
    cpdef int end_or_back_to_interactive(self, BfqQueue bfqq, bint was_soft_rt) except -1
    cpdef bint back_in_time(self, BfqQueue bfqq) except -1
    cpdef void back_to_interactive(self, BfqQueue bfqq) noexcept
    @cython.locals(bfqd=BfqData, now=int64_t)
    cpdef int end(self, BfqQueue bfqq) except -1
    @cython.locals(bfqd=BfqData, bfqq=BfqQueue)
    cpdef int end_all(self) except -1
    @cython.locals(bfqq=BfqQueue)
    cpdef int end_async(self, BfqGroup group) except -1
    @cython.locals(bfqd=BfqData, second=int64_t, served_ns=int64_t, pause_ns=int64_t)
    cpdef int64_t softrt_next_start_ns(self, BfqQueue bfqq) noexcept
    @cython.locals(bfqd=BfqData)
    cpdef int on_expire(self, BfqQueue bfqq) except -1
    cpdef int on_completion(self, BfqQueue bfqq) except -1
    cpdef int on_seek(self, BfqQueue bfqq) except -1
    @cython.locals(bfqd=BfqData, old_wr_coeff=int64_t)
    cpdef int resume(self, BfqQueue bfqq, IoContext bic, bint busy) except -1
    cpdef int save(self, BfqQueue bfqq, IoContext bic) except -1
    @cython.locals(bfqd=BfqData)
    cpdef int hand_over(self, BfqQueue bfqq, BfqQueue new_bfqq) except -1
