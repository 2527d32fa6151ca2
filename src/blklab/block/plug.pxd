cimport cython
from blklab.block.request cimport RequestList

@cython.final
cdef class Plug:
    cdef public bint active, multiple_queues, has_elevator, flushing, from_schedule, direct
    cdef readonly RequestList requests, cached
    cdef public int count, nr_ios, queued

    cpdef void start(self, int nr_ios) noexcept
