cimport cython
from blklab.core.host cimport Host, Work
from blklab.block.bio cimport Bio, BioList
from blklab.block.consts cimport DONE, WAIT, YIELD
from blklab.block.submit cimport Submitter

cdef class Daemon(Submitter):
    cdef readonly Host host
    cdef readonly str name
    cdef readonly BioList given
    cdef readonly DaemonWork work
    cdef readonly bint sleeping
    cdef bint running

    cpdef int queue_bio(self, Bio bio) except -1
    cpdef int wake_up(self) except -1
    @cython.locals(bio=Bio, result=int)
    cpdef int step(self) except -1

cdef class DaemonWork(Work):
    cdef readonly Daemon daemon

    @cython.locals(daemon=Daemon, result=int)
    cpdef int step(self) except -1
