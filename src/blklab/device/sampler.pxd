cimport cython
from libc.stdint cimport int64_t, uint64_t
from blklab.core.rand cimport RandomStream

@cython.final
cdef class Sampler:
    cdef RandomStream stream
    cdef const int64_t[::1] table
    cdef readonly int64_t fixed_ns

    @cython.locals(x=uint64_t, i=Py_ssize_t, part=int64_t, value=int64_t, table="const int64_t[::1]")
    cpdef int64_t draw(self) noexcept
