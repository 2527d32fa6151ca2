cimport cython
from libc.stdint cimport int64_t
from blklab.block.cgroup cimport Blkg
from blklab.block.iostat cimport IoStat
from blklab.core.charging cimport charge
from blklab.core.steps cimport STEP_END_BIO
from blklab.block.queue cimport RequestQueue
from blklab.block.submit cimport Submitter
from blklab.block.consts cimport F_FUA, F_PREFLUSH, F_SYNC, F_TRACED, OP_READ, PAGE_BYTES, STS_OK, TR_A, TR_C

cdef class BioEnd:
    cpdef int bio_end_io(self, Bio bio) except -1

@cython.final
cdef class Bio:
    cdef public Bio next, parent
    cdef public RequestQueue queue
    cdef public Submitter submitter
    cdef public object io
    cdef public Blkg blkg
    cdef public BioEnd end_io
    cdef public IoStat part
    cdef public int op, flags, status, ioprio, remaining
    cdef public int64_t sector, nr_sectors, start_ns, buffer_offset_bytes, run_bytes

    cpdef bint is_sync(self) noexcept
    @cython.locals(bio=Bio, parent=Bio, queue=RequestQueue, end_io=BioEnd)
    cpdef int endio(self, int status) except -1
    @cython.locals(partition=RequestQueue, disk=RequestQueue, sector=int64_t)
    cpdef int remap_partition(self) except -1

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
