cimport cython
from libc.stdint cimport int64_t
from blklab.block.bio cimport Bio, BioEnd
from blklab.block.consts cimport F_FUA, F_SYNC, OP_READ, OP_WRITE, STS_IOERR, STS_OK
from blklab.block.queue cimport RequestQueue
from blklab.stack.md cimport Member
from blklab.stack.raid5 cimport Raid5

cdef class StripeDev:
    cdef readonly int64_t sector
    cdef readonly list to_read, to_write, written
    cdef readonly bint locked, uptodate, overwrite, want_drain
    cdef bint overlap, want_read, want_write, want_fua, sync_io

    @cython.locals(other=Bio)
    cdef bint overlaps(self, Bio bio) except -1
    @cython.locals(other=Bio, at=Py_ssize_t, covered=int64_t)
    cdef int add(self, Bio bio) except -1

cdef class StripeHead(BioEnd):
    cdef Raid5 device
    cdef readonly int disks
    cdef readonly list devs
    cdef readonly int64_t sector
    cdef readonly int pd_idx
    cdef public int count
    cdef public bint needs_handling, delayed, preread_active, on_unplug_list
    cdef readonly bint full_write, io_started
    cdef int reconstructed
    cdef readonly StripeList list
    cdef readonly StripeHead before, behind
    cdef int nr_locked, nr_uptodate, nr_reading, nr_writing, nr_written, nr_partly_written, nr_failed, failed_idx

    @cython.locals(device=Raid5, chunk=int64_t, row=int64_t, i=int, dev=StripeDev, place=int64_t)
    cdef int use_for(self, int64_t sector) except -1
    @cython.locals(free=bint, i=int, dev=StripeDev)
    cdef bint add_bio(self, Bio bio, int64_t first, int64_t last, bytearray todo) except -1
    @cython.locals(member=Member)
    cdef bint in_sync(self, int i) except -1
    @cython.locals(was_active=bint, i=int, dev=StripeDev)
    cdef int look_after(self) except -1
    @cython.locals(i=int, dev=StripeDev)
    cdef int _analyse(self) except -1
    @cython.locals(i=int, dev=StripeDev, writes=list)
    cdef int _fail(self) except -1
    @cython.locals(queue=RequestQueue, bio=Bio)
    cdef int _end_bios(self, StripeDev dev, list bios, int status) except -1
    @cython.locals(bios=list, bio=Bio)
    cdef int _end_reads(self, StripeDev dev, int i, int status) except -1
    @cython.locals(bios=list)
    cdef int _end_written_of(self, StripeDev dev, int status) except -1
    cdef int _no_full_write(self) except -1
    @cython.locals(parity=StripeDev)
    cdef bint _parity_written(self) except -1
    @cython.locals(i=int, dev=StripeDev)
    cdef int _end_written(self) except -1
    @cython.locals(dev=StripeDev, failed=StripeDev)
    cdef bint _needs(self, int i) except -1
    @cython.locals(i=int, dev=StripeDev)
    cdef int _fetch(self) except -1
    cdef int _read(self, StripeDev dev) except -1
    @cython.locals(dev=StripeDev)
    cdef bint _modify_needs(self, int i) except -1
    @cython.locals(dev=StripeDev)
    cdef bint _reconstruct_needs(self, int i) except -1
    @cython.locals(modify=int, reconstruct=int, level=int, i=int, pages=int, prefer_modify=bint)
    cdef int _dirty(self) except -1
    cdef int _pre_read(self, StripeDev dev) except -1
    @cython.locals(i=int, dev=StripeDev, parity=StripeDev)
    cdef int _reconstruct(self, bint whole) except -1
    @cython.locals(bios=list, parity=StripeDev, bio=Bio)
    cdef int _drain(self, StripeDev dev, int i) except -1
    @cython.locals(i=int, dev=StripeDev)
    cdef int _run_io(self) except -1
    @cython.locals(flags=int)
    cdef int _send(self, StripeDev dev, int i, int op) except -1
    @cython.locals(i=int, op=int, status=int, device=Raid5, dev=StripeDev, member=Member)
    cpdef int bio_end_io(self, Bio bio) except -1

@cython.final
cdef class StripeList:
    cdef readonly StripeHead head, tail
    cdef readonly int64_t count

    cdef void append(self, StripeHead stripe) noexcept
    cdef void remove(self, StripeHead stripe) noexcept
    @cython.locals(stripe=StripeHead)
    cdef StripeHead popleft(self)
