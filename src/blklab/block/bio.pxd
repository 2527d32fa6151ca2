cimport cython
from libc.stdint cimport int64_t
from blklab.block.queue cimport RequestQueue
from blklab.block.submit cimport Submitter
from blklab.block.consts cimport F_FUA, F_PREFLUSH, F_SYNC, OP_READ, PAGE_BYTES, STS_OK

@cython.final
cdef class Bio:
    cdef public Bio next, parent
    cdef public RequestQueue queue
    cdef public Submitter submitter
    cdef public object io, blkg
    cdef public int op, flags, status, ioprio, remaining
    cdef public int64_t sector, nr_sectors, buffer_offset_bytes, run_bytes

    cpdef bint is_sync(self) noexcept

@cython.final
cdef class BioPool:
    cdef Bio free
    cdef readonly int64_t made

    @cython.locals(bio=Bio)
    cpdef Bio get(self)
    cpdef void put(self, Bio bio) noexcept
