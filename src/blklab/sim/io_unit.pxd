cimport cython
from libc.stdint cimport int64_t

cdef class IoUnit:
    cdef IoUnit next, link
    cdef public int ddir, file_index, error
    cdef int bios_left
    cdef bint touched
    cdef int64_t buffer_bytes
    cdef readonly int64_t offset_bytes, length_bytes, start_ns, issue_ns

@cython.final
cdef class IoList:
    cdef IoUnit head, tail
    cdef readonly Py_ssize_t count

    cpdef void append(self, IoUnit unit) noexcept
    @cython.locals(unit=IoUnit)
    cpdef IoUnit popleft(self)
