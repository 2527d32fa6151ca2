cimport cython
from libc.stdint cimport int64_t
from blklab.block.bio cimport Bio
from blklab.block.consts cimport F_PREFLUSH, OP_WRITE
from blklab.stack.answers cimport MAP_ENDED, MAP_REMAPPED
from blklab.stack.mapper cimport Target

cdef class Stripe(Target):
    cdef readonly list members
    cdef readonly int64_t stripes, chunk, start, width

    @cython.locals(sector=int64_t, chunk=int64_t)
    cpdef int map(self, Bio clone, int number) except -1
    @cython.locals(sector=int64_t, begin=int64_t, end=int64_t)
    cdef int _map_range(self, Bio clone, int number) except -1
    @cython.locals(chunk=int64_t, row=int64_t, stripe=int64_t)
    cdef int64_t _bound(self, int64_t sector, int number) noexcept
