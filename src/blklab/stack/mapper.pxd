cimport cython
from libc.stdint cimport int64_t
from blklab.core.charging cimport charge
from blklab.core.steps cimport STEP_BIO_ALLOC, STEP_DM_MAP
from blklab.block.bio cimport Bio, BioEnd
from blklab.block.consts cimport (F_PREFLUSH, F_SYNC, OP_DISCARD, OP_WRITE, PAGE_BYTES, STS_IOERR, STS_NOTSUPP,
                                  STS_OK, TR_X)
from blklab.block.daemon cimport Daemon
from blklab.block.queue cimport RequestQueue
from blklab.block.submit cimport Submitter
from blklab.stack.answers cimport MAP_ENDED, MAP_KILL, MAP_REMAPPED
from blklab.stack.stacked cimport Stacked

cdef class Target(BioEnd):
    cdef public DmDevice device
    cdef public int64_t begin, nr_sectors, max_io_len
    cdef public int nr_copies
    cdef public bint takes_write_zeroes, accounts, has_end_io

    cpdef int map(self, Bio clone, int number) except -1
    cpdef int end_io(self, Bio clone, int status) except -1
    @cython.locals(device=DmDevice, queue=RequestQueue, whole=Bio, status=int, now=int64_t)
    cpdef int bio_end_io(self, Bio bio) except -1

cdef class DmDevice(Stacked):
    cdef readonly list targets
    cdef readonly int nr_targets
    cdef readonly Target first
    cdef readonly Daemon worker
    cdef readonly int64_t nr_sectors

    @cython.locals(target=Target)
    cpdef Target find_target(self, int64_t sector)
    @cython.locals(within=int64_t, most=int64_t, left=int64_t)
    cpdef int64_t max_io_len(self, Target target, int64_t sector) noexcept
    @cython.locals(queue=RequestQueue, target=Target, most=int64_t, nr_sectors=int64_t, clone=Bio)
    cpdef int submit_bio(self, Submitter submitter, Bio bio) except -1
    @cython.locals(sector=int64_t, answer=int)
    cdef int64_t _map(self, Submitter submitter, Target target, Bio clone, Bio bio, int64_t nr_sectors) except -1
    cpdef int send(self, Submitter submitter, Bio clone, int64_t sector) except -1
    @cython.locals(now=int64_t)
    cdef int _count(self, Bio bio, int64_t nr_sectors) except -1
    cdef int count_io(self, DmIo io) except -1
    @cython.locals(now=int64_t)
    cdef int uncount_io(self, DmIo io) except -1
    @cython.locals(io=DmIo, target=Target, number=int, flush=Bio)
    cdef int _flush(self, Submitter submitter, Bio bio) except -1
    @cython.locals(queue=RequestQueue, target=Target, copies=int, nr_sectors=int64_t, io=DmIo, number=int)
    cdef int _several(self, Submitter submitter, Bio bio) except -1
    @cython.locals(target=Target, most=int64_t, lower=RequestQueue, there=int64_t)
    cpdef int64_t merge_bvec(self, RequestQueue queue, int64_t sector) except -1

cdef class DmIo(BioEnd):
    cdef DmDevice device
    cdef Bio bio
    cdef int64_t nr_sectors, pending, start_ns
    cdef int status
    cdef bint counted

    @cython.locals(device=DmDevice, sector=int64_t, answer=int)
    cdef int send(self, Submitter submitter, Target target, Bio clone, int number) except -1
    cpdef int bio_end_io(self, Bio bio) except -1
    @cython.locals(bio=Bio, device=DmDevice)
    cdef int done(self, int status) except -1
