cimport cython
from blklab.block.sbitmap cimport SbitmapQueue

@cython.final
cdef class Tags:
    cdef readonly int nr_tags, nr_made, nr_reserved, active_queues
    cdef readonly SbitmapQueue bitmap, reserved

    cpdef int put(self, int tag, int cpu) except -1
    cpdef void activate(self) noexcept
    cpdef int deactivate(self) except -1

@cython.final
cdef class TagSet:
    cdef readonly int nr_hw_queues, queue_depth, nr_reserved, nr_cpus
    cdef readonly bint hctx_shared
    cdef readonly list queues, tags

@cython.final
cdef class TagUser:
    cdef public bint active
    cdef public int nr_active

@cython.locals(depth=int, users=int, share=int)
cpdef bint may_queue(TagUser user, Tags tags) noexcept
