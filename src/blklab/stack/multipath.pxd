cimport cython
from libc.stdint cimport int64_t
from blklab.block.bio cimport Bio
from blklab.block.consts cimport F_NOT_CLONED, STS_IOERR, STS_OK
from blklab.block.daemon cimport Daemon
from blklab.stack.answers cimport MAP_KILL, MAP_REMAPPED, MAP_SUBMITTED
from blklab.stack.mapper cimport Target
from blklab.stack.paths cimport Paths

cdef class SentBio:
    cdef Bio bio
    cdef int path
    cdef int64_t sector, nr_sectors, buffer_offset_bytes

cdef class Multipath(Target):
    cdef readonly Paths paths
    cdef readonly dict sent
    cdef readonly list waiting
    cdef Daemon worker

    @cython.locals(path=int, sent=SentBio)
    cpdef int map(self, Bio clone, int number) except -1
    @cython.locals(sent=SentBio)
    cpdef int bio_end_io(self, Bio bio) except -1
    @cython.locals(bio=Bio, path=int)
    cdef int _send_again(self, SentBio sent) except -1
