cimport cython
from libc.stdint cimport int64_t
from blklab.core.clock cimport Clock, Event
from blklab.core.steps cimport STEP_LOCK_HANDOVER

@cython.final
cdef class Lock:
    cdef readonly str name
    cdef public int64_t free_at_ns, taken, contended, spin_ns, held_ns, since_ns

cdef class Work(Event):
    cdef public int cpu
    cdef public bint pending
    cdef public int64_t due_ns
    cdef public Work next_work

    cpdef int step(self) except -1

cdef class Host:
    cdef readonly Clock clock
    cdef readonly int nr_cpus
    cdef public int cpu
    cdef public int64_t task_id
    cdef readonly bint costs_on
    cdef public bint in_section
    cdef public int64_t jiffy_ns
    cdef int64_t[::1] cost_ns
    cdef readonly int64_t[::1] charged

    cpdef void charge(self, int step) noexcept
    cpdef void charge_n(self, int step, int64_t count) noexcept
    @cython.locals(clock=Clock)
    cpdef void lock(self, Lock lock, int step) noexcept
    cpdef void unlock(self, Lock lock) noexcept
    cpdef bint yield_due(self) noexcept
    cpdef bint cond_resched(self) noexcept
    cpdef int queue_work(self, Work work, int cpu, int64_t delay_ns) except -1
    cpdef int interrupt(self, int cpu, Event event, bint remote) except -1
    cpdef bint share_cache(self, int cpu, int other) noexcept
