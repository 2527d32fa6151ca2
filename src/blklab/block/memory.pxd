cimport cython
from libc.stdint cimport int64_t
from blklab.block.consts cimport PAGE_BYTES

@cython.final
cdef class MemoryLayout:
    cdef readonly double contiguous
    cdef int64_t[::1] frames
    cdef int64_t mask

    cpdef int64_t address(self, int64_t position) noexcept
    @cython.locals(page=int64_t, nbytes=int64_t, frame=int64_t)
    cpdef int64_t side_by_side(self, int64_t position, int64_t most) noexcept
    @cython.locals(taken=int64_t)
    cpdef int64_t runs(self, int64_t position, int64_t most, int nr_runs) noexcept
