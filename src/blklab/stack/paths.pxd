cimport cython
from libc.stdint cimport int64_t
from blklab.block.consts cimport STS_AGAIN, STS_MEDIUM, STS_NOTSUPP

cdef class Paths:
    cdef readonly list queues, failed, used
    cdef readonly int nr_paths, nr_valid, present
    cdef readonly int64_t rr_min_io, left
    cdef readonly bint queue_if_no_path
    cdef object wake

    @cython.locals(path=int)
    cpdef int choose(self) except -2
    cpdef bint may_be_the_paths(self, int status) noexcept
    cpdef int fail(self, int path) except -1
    cpdef int reinstate(self, int path) except -1
