cimport cython
from libc.stdint cimport int64_t
from blklab.core.charging cimport charge
from blklab.core.steps cimport STEP_BIO_ALLOC, STEP_MD_MAP
from blklab.block.bio cimport Bio, BioEnd, BioList
from blklab.block.consts cimport (DONE, F_FUA, F_SYNC, OP_DISCARD, OP_READ, OP_WRITE, STS_IOERR, STS_NOTSUPP, STS_OK,
                                  WAIT, YIELD)
from blklab.block.daemon cimport Daemon
from blklab.block.plug cimport PlugCallback
from blklab.block.queue cimport RequestQueue
from blklab.block.submit cimport Submitter
from blklab.stack.md cimport MdDevice, Member

cdef class Leg:
    cdef readonly Member member
    cdef readonly RequestQueue disk
    cdef public int64_t head_position, next_seq_sector, seq_start

cdef class MirrorIo(BioEnd):
    cdef MirrorDevice device
    cdef readonly Bio bio
    cdef readonly list legs, sectors
    cdef readonly int64_t sector, nr_sectors
    cdef Leg read_leg
    cdef int64_t remaining, start_ns
    cdef bint uptodate, counted
    cdef list failed

    cpdef int64_t sector_on(self, Py_ssize_t slot) except -1
    @cython.locals(slot=Py_ssize_t, op=int, status=int, leg=Leg)
    cpdef int bio_end_io(self, Bio bio) except -1
    cdef int _read_ended(self, Leg leg, int status) except -1
    cdef int _write_ended(self, Leg leg, int status, int op) except -1
    cdef int write_done(self) except -1
    @cython.locals(queue=RequestQueue)
    cdef int count(self) except -1
    @cython.locals(queue=RequestQueue, bio=Bio, now=int64_t)
    cpdef int end(self) except -1

cdef class MirrorDevice(MdDevice):
    cdef readonly list legs
    cdef readonly int degraded
    cdef readonly MirrorThread thread
    cdef readonly bint merges_asked

    cpdef bint can_lose(self, Member member) except -1
    cpdef bint can_retry(self, Member member) except -1
    cpdef int read_balance(self, MirrorIo io) except -2
    cpdef fail_member(self, Member member)
    @cython.locals(op=int)
    cpdef int start(self, Submitter submitter, MirrorIo io) except -1
    @cython.locals(slot=int, leg=Leg, clone=Bio)
    cdef int read(self, Submitter submitter, MirrorIo io) except -1
    @cython.locals(direct=bint, slot=int, leg=Leg, clone=Bio)
    cdef int _write(self, Submitter submitter, MirrorIo io) except -1
    @cython.locals(clone=Bio, leg=Leg, member=Member)
    cdef Bio _clone(self, MirrorIo io, int slot)
    @cython.locals(held=HeldWrites)
    cdef int _hold(self, Submitter submitter, Bio clone) except -1

cdef class HeldWrites(PlugCallback):
    cdef MirrorDevice device
    cdef BioList bios

    @cython.locals(bio=Bio)
    cpdef int unplug(self, bint from_schedule) except -1

cdef class MirrorThread(Daemon):
    cdef MirrorDevice device
    cdef list failed, to_end

    cpdef int handle(self, MirrorIo io) except -1
    @cython.locals(result=int, bio=Bio, io=MirrorIo)
    cpdef int step(self) except -1
    @cython.locals(io=MirrorIo, leg=Leg)
    cdef int _send(self, Bio bio) except -1
    @cython.locals(device=MirrorDevice, leg=Leg, member=Member)
    cdef int _look_after(self, MirrorIo io) except -1
