cimport cython
from blklab.block.request cimport RequestList

cdef class PlugCallback:
    cdef readonly object owner
    cdef PlugCallback following

    cpdef int unplug(self, bint from_schedule) except -1

@cython.final
cdef class Plug:
    cdef public bint active, multiple_queues, has_elevator, flushing, from_schedule, direct
    cdef readonly RequestList requests, cached, single
    cdef public int count, nr_ios, queued
    cdef readonly PlugCallback callbacks

    cpdef void start(self, int nr_ios) noexcept
    @cython.locals(callback=PlugCallback)
    cpdef PlugCallback callback_of(self, object owner)
    cpdef void add_callback(self, PlugCallback callback) noexcept
    @cython.locals(callback=PlugCallback, following=PlugCallback)
    cpdef int run_callbacks(self, bint from_schedule) except -1
