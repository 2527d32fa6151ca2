from libc.stdint cimport int64_t

cdef inline int64_t truncate(double x) noexcept nogil:
    return <int64_t>x

cdef inline int64_t next_multiple(int64_t x, int64_t unit) noexcept nogil:
    return (x + unit - 1) // unit
