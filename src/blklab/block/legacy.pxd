cimport cython
from blklab.block.bio cimport Bio
from blklab.block.queue cimport RequestQueue
from blklab.block.submit cimport Submitter

cdef class LegacyPath:
    cdef readonly RequestQueue queue

    cpdef int submit(self, Submitter submitter, Bio bio) except -1
