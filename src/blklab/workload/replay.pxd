cimport cython
from libc.stdint cimport int64_t
from blklab.workload.stream cimport Stream

cdef class ReplayStream(Stream):
    cdef int64_t[::1] ddirs, file_indices, offsets, lengths
    cdef Py_ssize_t count, position

    @cython.locals(i=Py_ssize_t)
    cpdef int advance(self) except -1
    cpdef int draw_ddir(self) except -1
