cimport cython
from libc.stdint cimport int64_t
from blklab.block.queue cimport RequestQueue
from blklab.block.submit cimport Submitter
from blklab.block.consts cimport F_FUA, F_PREFLUSH, F_SYNC, OP_READ, PAGE_BYTES, STS_OK

cdef class BioEnd:
    cpdef int bio_end_io(self, Bio bio) except -1

@cython.final
cdef class Bio:
    cdef public Bio next, parent
    cdef public RequestQueue queue
    cdef public Submitter submitter
    cdef public object io, blkg
    cdef public BioEnd end_io
    cdef public int op, flags, status, ioprio, remaining
    cdef public int64_t sector, nr_sectors, start_ns, buffer_offset_bytes, run_bytes

    cpdef bint is_sync(self) noexcept

@cython.final
cdef class BioList:
    cdef readonly Bio head, tail

    cpdef void append(self, Bio bio) noexcept
    @cython.locals(bio=Bio)
    cpdef Bio popleft(self)
    cpdef void push_list(self, BioList other) noexcept

@cython.final
cdef class BioPool:
    cdef Bio free
    cdef readonly int64_t made

    @cython.locals(bio=Bio)
    cpdef Bio get(self)
    cpdef void put(self, Bio bio) noexcept
