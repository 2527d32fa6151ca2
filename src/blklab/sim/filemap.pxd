cimport cython
from libc.stdint cimport int64_t
from blklab.core.charging cimport charge
from blklab.core.host cimport Host
from blklab.core.steps cimport STEP_BIO_ALLOC
from blklab.block.bio cimport Bio
from blklab.block.consts cimport F_FUA, F_META, F_PREFLUSH, F_SYNC, OP_WRITE
from blklab.block.queue cimport RequestQueue
from blklab.block.submit cimport Submitter

@cython.final
cdef class Log:
    cdef readonly int64_t start_sector, nr_sectors, record_sectors, next_sectors, records

    @cython.locals(sector=int64_t)
    cpdef int64_t next_record(self) except -1

@cython.final
cdef class FileMap:
    cdef readonly str name
    cdef readonly RequestQueue queue
    cdef readonly list extents
    cdef readonly Log log
    cdef readonly int64_t size_bytes, sector
    cdef int64_t[::1] starts, sectors
    cdef readonly int nr_extents
    cdef public bint dirty
    cdef int64_t modified_jiffy

    @cython.locals(low=int, high=int, middle=int)
    cpdef int64_t find(self, int64_t offset_bytes) except -1
    @cython.locals(host=Host, jiffy=int64_t)
    cpdef int wrote(self) except -1
    @cython.locals(queue=RequestQueue, bio=Bio)
    cpdef Bio sync_bio(self, Submitter submitter, bint datasync)
