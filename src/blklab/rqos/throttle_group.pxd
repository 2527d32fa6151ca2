cimport cython
from libc.stdint cimport int64_t
from blklab.core.host cimport Host
from blklab.block.bio cimport Bio
from blklab.block.consts cimport F_BPS_THROTTLED, OP_DISCARD, TR_MSG
from blklab.block.queue cimport RequestQueue

# Limits and what is charged to them are 64 bits without a sign, and products of them: Python's numbers

@cython.final
cdef class SliceClock:
    cdef readonly RequestQueue queue
    cdef readonly Host host
    cdef readonly bint hierarchical, split_queues
    cdef readonly int64_t jiffy_ns, hz, slice, first
    cdef readonly int split_iops, recharge, carryover, next_slice_wait, longest_wait, log_names

    cpdef int64_t jiffies(self) noexcept
    cpdef int64_t time_ns(self, int64_t jiffies) noexcept
    cpdef int64_t due_bytes(self, Bio bio) noexcept
    cpdef int mark(self, Bio bio) except -1
    cpdef bint tracing(self) noexcept
    cpdef int log(self, str name, str text) except -1

@cython.final
cdef class Side:
    cdef readonly SliceClock clock
    cdef readonly str name, letter
    cdef public object bps, iops
    cdef public bint bps_rule, iops_rule
    cdef readonly int64_t slice_start, slice_end
    cdef readonly object bytes_disp, io_disp, carryover_bytes, carryover_ios
    cdef public int64_t split_ios

    cpdef bint slice_used(self) noexcept
    @cython.locals(clock=SliceClock, now=int64_t)
    cpdef int start_slice(self, bint clear_carryover) except -1
    @cython.locals(clock=SliceClock, now=int64_t)
    cpdef int start_slice_with_credit(self, int64_t start) except -1
    @cython.locals(length=int64_t)
    cdef int64_t _round_up(self, int64_t jiffies) noexcept
    cdef int _extend(self, int64_t end, int64_t now) except -1
    cdef int _log(self, str text) except -1
    cpdef object bytes_allowed(self, object jiffies)
    cpdef object ios_allowed(self, object jiffies)
    @cython.locals(clock=SliceClock, now=int64_t, elapsed=int64_t)
    cpdef int trim(self) except -1
    @cython.locals(clock=SliceClock, elapsed=int64_t)
    cpdef int carry_over(self) except -1
    @cython.locals(now=int64_t, wait=int64_t)
    cpdef int64_t wait(self, int64_t nr_bytes, bint queued) except -1
    @cython.locals(now=int64_t)
    cpdef int64_t wait_for_bytes(self, int64_t nr_bytes, bint queued) except -1
    @cython.locals(now=int64_t)
    cpdef int64_t wait_for_ios(self, bint queued) except -1
    @cython.locals(now=int64_t)
    cdef int64_t _go_on(self, bint queued) except -1
    cdef int64_t _extended_by(self, int64_t wait, int64_t now) except -1
    @cython.locals(clock=SliceClock, elapsed=int64_t, rounded=int64_t)
    cdef int64_t _iops_wait(self, int64_t now) except -1
    @cython.locals(clock=SliceClock, elapsed=int64_t, rounded=int64_t)
    cdef int64_t _bps_wait(self, int64_t nr_bytes, int64_t now) except -1
    cpdef int charge(self, int64_t nr_bytes) except -1
    cpdef int charge_bytes(self, int64_t nr_bytes) except -1
    cpdef int charge_io(self) except -1

@cython.final
cdef class ThrottleGroup:
    cdef readonly SliceClock clock
    cdef readonly str name
    cdef readonly ThrottleGroup parent
    cdef readonly Side read, write
    cdef readonly list stat_bytes, stat_ios

    cpdef Side side(self, bint write)
    @cython.locals(side=Side, above=Side)
    cpdef update_rules(self)
    @cython.locals(kind=int, sync=int, nr_bytes=int64_t)
    cpdef int account(self, Bio bio, bint with_bytes) except -1
