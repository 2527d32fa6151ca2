cimport cython
from libc.stdint cimport int64_t
from blklab.core.charging cimport charge
from blklab.core.host cimport Host
from blklab.core.steps cimport (STEP_BIO_ALLOC, STEP_BIO_PAGE, STEP_DIO_IO, STEP_DIO_PAGE, STEP_FILE_MAP,
                                STEP_FIRST_TOUCH, STEP_MERGE_BVEC, STEP_SUBMIT_IO)
from blklab.block.bio cimport Bio
from blklab.block.consts cimport (F_IDLE, F_SYNC, MAX_BIO_BYTES, MAX_BIO_VECS, OP_DISCARD, OP_READ, OP_WRITE,
                                  PAGE_BYTES)
from blklab.block.features cimport Features
from blklab.block.limits cimport QueueLimits
from blklab.block.memory cimport MemoryLayout
from blklab.block.queue cimport RequestQueue
from blklab.block.submit cimport Submitter
from blklab.sim.discard cimport discard_bio_sectors
from blklab.sim.filemap cimport FileMap
from blklab.sim.io_unit cimport IoUnit

@cython.final
cdef class DirectIo:
    cdef readonly Submitter submitter
    cdef public int64_t max_bio_bytes, run_bytes
    cdef public MemoryLayout memory
    cdef public object sizes
    cdef public int ioprio, write_flags
    cdef IoUnit unit
    cdef RequestQueue queue
    cdef int op
    cdef readonly int64_t sector, left_bytes, position_bytes

    cdef FileMap file
    cdef readonly bint in_file
    cdef int64_t sure_bytes, offset_bytes, extent_bytes

    @cython.locals(host=Host, features=Features)
    cpdef int start(self, IoUnit unit, RequestQueue queue, int64_t start_sector) except -1
    cpdef int start_in_file(self, IoUnit unit, FileMap file) except -1
    cpdef bint wants_plug(self) noexcept
    @cython.locals(queue=RequestQueue, host=Host, size=int64_t, most=int64_t, bio=Bio)
    cpdef Bio next_bio(self)
    @cython.locals(queue=RequestQueue, features=Features, most=int64_t)
    cdef int64_t _bio_bytes(self, int64_t size) except -1
    @cython.locals(most=int64_t)
    cdef int64_t _of_bio_vecs(self, int64_t size) except -1
    @cython.locals(disk=RequestQueue, limits=QueueLimits, sector=int64_t, in_page=int64_t, taken=int64_t, most=int64_t)
    cdef int64_t _addable(self, int64_t size) except -1
