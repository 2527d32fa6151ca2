from libc.stdint cimport int64_t

cdef class Event:
    cpdef int fire(self, int64_t now_ns) except -1

cdef class Lane(Event):
    cpdef int push(self, int64_t time_ns, Event event) except -1

cdef class Clock:
    cdef public int64_t now_ns

    cpdef int at(self, int64_t time_ns, Event event) except -1
    cpdef Lane lane(self)
