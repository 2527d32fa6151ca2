cimport cython
from libc.stdint cimport int64_t
from blklab.core.charging cimport charge
from blklab.core.host cimport Host
from blklab.core.steps cimport STEP_BIO_ALLOC, STEP_BIO_PAGE, STEP_FIRST_TOUCH, STEP_SUBMIT_IO
from blklab.block.bio cimport Bio
from blklab.block.consts cimport F_IDLE, F_SYNC, MAX_BIO_BYTES, OP_DISCARD, OP_READ, OP_WRITE
from blklab.block.queue cimport RequestQueue
from blklab.block.submit cimport Submitter
from blklab.sim.io_unit cimport IoUnit

@cython.final
cdef class DirectIo:
    cdef readonly Submitter submitter
    cdef public int64_t max_bio_bytes, run_bytes
    cdef public int ioprio
    cdef public object blkg
    cdef IoUnit unit
    cdef RequestQueue queue
    cdef int op
    cdef readonly int64_t sector, left_bytes, position_bytes

    @cython.locals(host=Host)
    cpdef int start(self, IoUnit unit, RequestQueue queue, int64_t start_sector) except -1
    cpdef bint wants_plug(self) noexcept
    @cython.locals(queue=RequestQueue, host=Host, size=int64_t, bio=Bio)
    cpdef Bio next_bio(self)
