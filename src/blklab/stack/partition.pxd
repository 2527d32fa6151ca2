from libc.stdint cimport int64_t
from blklab.block.driver cimport Driver
from blklab.block.queue cimport RequestQueue

cdef class Partition(Driver):
    cdef readonly RequestQueue disk
    cdef readonly int64_t start_sector, nr_sectors

    cdef int _share_limits(self, RequestQueue queue) except -1
