cimport cython
from libc.stdint cimport int64_t
from blklab.block.bio cimport Bio
from blklab.block.queue cimport RequestQueue
from blklab.stack.answers cimport MAP_REMAPPED
from blklab.stack.mapper cimport Target

cdef class Linear(Target):
    cdef readonly RequestQueue lower
    cdef readonly int64_t start

    cpdef int map(self, Bio clone, int number) except -1
