cimport cython
from libc.stdint cimport int64_t

@cython.final
cdef class Extents:
    cdef readonly list starts, ends
    cdef readonly int64_t sectors, taken_start, taken_end
    cdef readonly Py_ssize_t count

    @cython.locals(first=Py_ssize_t, last=Py_ssize_t, before=int64_t, low=int64_t, high=int64_t)
    cpdef int64_t add(self, int64_t start, int64_t end) except -1
    @cython.locals(first=Py_ssize_t, last=Py_ssize_t, before=int64_t, left=int64_t)
    cpdef int64_t remove(self, int64_t start, int64_t end) except -1
    @cython.locals(i=Py_ssize_t)
    cpdef bint covers(self, int64_t start, int64_t end) except -1
    @cython.locals(i=Py_ssize_t)
    cpdef bint overlaps(self, int64_t start, int64_t end) except -1
    @cython.locals(i=Py_ssize_t)
    cpdef Py_ssize_t first_from(self, int64_t sector) except -1
    cpdef int64_t start_of(self, Py_ssize_t i) except -1
    @cython.locals(start=int64_t, end=int64_t)
    cpdef int64_t take(self, Py_ssize_t i, int64_t most) except -1
