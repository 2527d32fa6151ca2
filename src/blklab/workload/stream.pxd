from libc.stdint cimport int64_t

cdef class Stream:
    cdef readonly int ddir, file_index
    cdef readonly int64_t offset_bytes, length_bytes, pass_number

    cpdef int advance(self) except -1
    cpdef void ramp_over(self, int64_t ios_in_flight, int64_t bytes_in_flight) noexcept
    cpdef int draw_ddir(self) except -1
    cpdef void turn_ddir(self, int ddir) noexcept
