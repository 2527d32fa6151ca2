cimport cython
from libc.stdint cimport int64_t
from blklab.core.charging cimport charge
from blklab.core.host cimport Host
from blklab.core.steps cimport STEP_MERGE_BVEC
from blklab.block.bio cimport Bio, BioPool
from blklab.block.consts cimport F_NOT_CLONED, TR_A
from blklab.block.driver cimport Driver
from blklab.block.queue cimport RequestQueue

cdef class Stacked(Driver):
    cdef readonly Host host
    cdef readonly list slaves
    cdef readonly RequestQueue queue

    @cython.locals(clone=Bio)
    cpdef Bio clone_bio(self, Bio bio, int64_t nr_sectors)
    @cython.locals(part=Bio)
    cpdef Bio split_bio(self, Bio bio, int64_t nr_sectors)
    @cython.locals(lower=RequestQueue)
    cpdef int trace_remap(self, Bio bio, int64_t sector) except -1
