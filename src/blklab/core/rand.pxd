cimport cython
from libc.stdint cimport int64_t, uint64_t
from blklab.core.bits cimport ALL_ONES_64, STAR_64

@cython.final
cdef class RandomStream:
    cdef uint64_t state

    @cython.locals(x=uint64_t)
    cpdef uint64_t next64(self) noexcept
    cpdef int64_t below(self, int64_t n) noexcept
    cpdef double uniform(self) noexcept
    cpdef int64_t exponential_ns(self, int64_t mean_ns) except -1
