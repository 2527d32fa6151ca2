cimport cython
from libc.stdint cimport int64_t
from blklab.core.charging cimport charge
from blklab.core.steps cimport STEP_BIO_ALLOC, STEP_BIO_PAGE, STEP_SYSCALL
from blklab.block.bio cimport Bio
from blklab.block.consts cimport (DONE, F_SYNC, MAX_BIO_BYTES, MOST_BIO_SECTORS, OP_DISCARD, OP_WRITE, OP_WRITE_ZEROES,
                                  STS_NOTSUPP, STS_OK, WAIT)
from blklab.block.queue cimport RequestQueue
from blklab.block.submit cimport Submitter
from blklab.sim.cpu cimport Task
from blklab.sim.task_states cimport STEP_CONTINUE, STEP_EXIT, STEP_SLEEP

@cython.locals(disk=RequestQueue, granularity=int64_t, over=int64_t)
cpdef int64_t discard_bio_sectors(RequestQueue queue, int64_t sector) except -1

@cython.final
cdef class RangeBios:
    cdef Submitter submitter
    cdef RequestQueue queue
    cdef readonly int op
    cdef int64_t sector
    cdef readonly int64_t left_sectors

    cpdef int start(self, int op, int64_t sector, int64_t nr_sectors) except -1
    @cython.locals(queue=RequestQueue, most=int64_t, bio=Bio)
    cpdef Bio next_bio(self)

cdef class BlkDiscard(Task):
    cdef readonly RequestQueue queue
    cdef readonly list ranges
    cdef readonly int range, bios_left, status
    cdef readonly RangeBios bios_of_range
    cdef readonly dict errors
    cdef readonly int64_t ended_ns

    @cython.locals(bios=RangeBios, result=int)
    cpdef int step(self) except -1
    cdef int _ioctl(self, object wanted) except -1
    cdef int _issue(self, int op, object wanted) except -1
    cdef int _ended(self) except -1
    cpdef int bio_done(self, Bio bio) except -1
