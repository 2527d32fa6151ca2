cimport cython
from libc.stdint cimport int64_t, uint64_t
from blklab.core.bits cimport bit64

@cython.final
cdef class Lfsr:
    cdef readonly uint64_t nr_values
    cdef uint64_t top, mask, state
    cdef uint64_t given
    cdef bint extra_step

    @cython.locals(ones=uint64_t)
    cpdef void reset(self, object seed) except *
    cpdef int64_t next(self) noexcept
    @cython.locals(low=uint64_t)
    cdef void _step(self) noexcept
