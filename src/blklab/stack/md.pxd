cimport cython
from libc.stdint cimport int64_t
from blklab.core.charging cimport charge
from blklab.core.host cimport Host
from blklab.core.steps cimport STEP_BIO_ALLOC, STEP_MD_MAP
from blklab.block.bio cimport Bio, BioEnd
from blklab.block.cgroup cimport QueueGroups
from blklab.block.consts cimport (DONE, F_BPS_THROTTLED, F_NOMERGE, F_PREFLUSH, F_RELEASED, OP_WRITE, STS_IOERR,
                                  STS_OK, WAIT)
from blklab.block.daemon cimport Daemon
from blklab.block.queue cimport RequestQueue
from blklab.block.sbitmap cimport Waiter, WaitQueue
from blklab.block.submit cimport Submitter
from blklab.stack.answers cimport GO_ON
from blklab.stack.stacked cimport Stacked

cdef class Member:
    cdef readonly RequestQueue queue
    cdef readonly int number
    cdef public int64_t data_offset, nr_sectors, nr_pending
    cdef public bint faulty

cdef class MdDevice(Stacked):
    cdef public int64_t chunk_sectors
    cdef readonly list members
    cdef public bint broken
    cdef MdCounting counting
    cdef readonly Bio flushing
    cdef readonly int64_t flush_pending, flush_start_ns, prev_flush_start_ns
    cdef readonly WaitQueue flush_waiters
    cdef dict came_ns
    cdef MdFlushEnd flush_end
    cdef readonly MdWorker worker

    cpdef int make_request(self, Submitter submitter, Bio bio) except -1
    @cython.locals(taken=int)
    cpdef int submit_bio(self, Submitter submitter, Bio bio) except -1
    cpdef bint waits_inside(self, Bio bio) except -1
    @cython.locals(queue=RequestQueue, now=int64_t, clone=Bio)
    cpdef Bio account_bio(self, Bio bio)
    cpdef Bio cut(self, Bio bio, int64_t nr_sectors)
    @cython.locals(before=int64_t)
    cpdef int send(self, Submitter submitter, Bio bio, Member member, int64_t sector) except -1
    @cython.locals(came=int64_t)
    cpdef int flush_request(self, Submitter submitter, Bio bio) except -1
    @cython.locals(member=Member, flush=Bio)
    cpdef int submit_flushes(self) except -1
    cpdef int flush_done(self) except -1
    @cython.locals(bio=Bio)
    cpdef int flushed(self) except -1
    @cython.locals(woken=WaitQueue, waiter=Waiter)
    cdef int _wake_waiters(self) except -1

cdef class MdCounting(BioEnd):
    cdef MdDevice device

    @cython.locals(queue=RequestQueue, whole=Bio, status=int, now=int64_t)
    cpdef int bio_end_io(self, Bio bio) except -1

cdef class MdFlushEnd(BioEnd):
    cdef MdDevice device

    @cython.locals(member=Member)
    cpdef int bio_end_io(self, Bio bio) except -1

cdef class MdWorker(Daemon):
    cdef MdDevice device

    @cython.locals(device=MdDevice)
    cpdef int step(self) except -1
