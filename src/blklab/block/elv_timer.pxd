cimport cython
from libc.stdint cimport int64_t
from blklab.block.queue cimport RequestQueue
from blklab.core.clock cimport Event
from blklab.core.host cimport Host

cdef class IdleSliceTimer(Event):
    cdef readonly RequestQueue queue
    cdef readonly int cpu
    cdef readonly int64_t due_ns, asked_ns

    cpdef int expired(self) except -1
    cpdef bint pending(self) noexcept
    cpdef int arm(self, int64_t due_ns) except -1
    cpdef int cancel(self) except -1
    @cython.locals(host=Host)
    cpdef int fire(self, int64_t now_ns) except -1
