cimport cython
from libc.stdint cimport int64_t
from blklab.core.host cimport Host
from blklab.block.bio cimport Bio
from blklab.block.consts cimport STS_IOERR
from blklab.stack.answers cimport MAP_ENDED, MAP_KILL
from blklab.stack.linear cimport Linear
from blklab.stack.mapper cimport Target

cdef class Flakey(Linear):
    cdef Host host
    cdef int64_t up_s, down_s
    cdef bint drop_writes, error_writes

    @cython.locals(elapsed_s=int64_t)
    cpdef int map(self, Bio clone, int number) except -1

cdef class Error(Target):
    cpdef int map(self, Bio clone, int number) except -1
