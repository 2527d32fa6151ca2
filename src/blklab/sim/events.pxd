cimport cython
from libc.stdint cimport int64_t
from blklab.core.bits cimport NEVER_NS
from blklab.core.clock cimport Clock, Event, Lane

cdef class EventQueue(Clock):
    cdef public int64_t sequence
    cdef readonly Py_ssize_t size
    cdef Py_ssize_t room
    cdef readonly int64_t head_ns, base_ns, fired
    cdef readonly bint stopped
    cdef bint hole
    cdef int64_t[::1] times, sequences, slots
    cdef list events

    @cython.locals(i=Py_ssize_t, parent=Py_ssize_t, slot=Py_ssize_t, before=int64_t, times=int64_t[::1],
                   sequences=int64_t[::1], slots=int64_t[::1])
    cpdef int insert(self, int64_t time_ns, int64_t sequence, Event event) except -1
    cdef int _grow(self) except -1
    @cython.locals(i=Py_ssize_t, child=Py_ssize_t, right=Py_ssize_t, n=Py_ssize_t, times=int64_t[::1],
                   sequences=int64_t[::1], slots=int64_t[::1])
    cdef int _sink(self, int64_t time_ns, int64_t sequence, int64_t slot) except -1
    @cython.locals(event=Event, times=int64_t[::1])
    cdef Event _take(self)
    @cython.locals(n=Py_ssize_t, free=int64_t, last=int64_t, time_ns=int64_t, sequence=int64_t, slots=int64_t[::1])
    cdef int _close(self) except -1
    cpdef void stop(self) noexcept
    @cython.locals(done=int64_t, time_ns=int64_t, event=Event)
    cpdef int64_t run(self, int64_t until_ns, int64_t most) except -1

cdef class VirtualLane(Lane):
    cdef EventQueue clock
    cdef Py_ssize_t room, first
    cdef readonly Py_ssize_t count
    cdef int64_t last_ns
    cdef int64_t[::1] times, sequences
    cdef list events

    @cython.locals(clock=EventQueue, i=Py_ssize_t)
    cpdef int push(self, int64_t time_ns, Event event) except -1
    cdef int _grow(self) except -1
    @cython.locals(i=Py_ssize_t, event=Event)
    cpdef int fire(self, int64_t now_ns) except -1
