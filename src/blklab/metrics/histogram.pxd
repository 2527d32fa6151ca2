cimport cython
from libc.stdint cimport int64_t
from blklab.metrics.buckets cimport PLAT_BUCKETS, plat_index

@cython.final
cdef class LatencyHistogram:
    cdef readonly int64_t n
    cdef int64_t[::1] counts

    cpdef void allocate(self) noexcept
    cpdef void add(self, int64_t ns) noexcept
    cpdef void add_many(self, int64_t ns, int64_t count) noexcept
    @cython.locals(index=int)
    cpdef void merge(self, LatencyHistogram other) noexcept
    cpdef void reset(self) noexcept
