cimport cython
from blklab.core.host cimport Lock
from blklab.block.request cimport RequestList

@cython.final
cdef class SoftwareQueue:
    cdef readonly int cpu
    cdef public int index_hw
    cdef readonly RequestList rq_list
    cdef readonly Lock lock
