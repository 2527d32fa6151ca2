cimport cython
from libc.stdint cimport int64_t
from blklab.core.charging cimport charge
from blklab.core.steps cimport STEP_BIO_ALLOC
from blklab.block.bio cimport Bio
from blklab.block.consts cimport DONE, OP_DISCARD, STS_OK
from blklab.block.queue cimport RequestQueue
from blklab.block.submit cimport Submitter
from blklab.stack.md cimport MdDevice, Member

cdef class Zone:
    cdef readonly list members
    cdef readonly int64_t nr_members, begin, end, dev_start

cdef class Raid0(MdDevice):
    cdef readonly bint alternate, merges_asked
    cdef readonly list zones

    @cython.locals(zone=Zone)
    cpdef Zone find_zone(self, int64_t sector)
    @cython.locals(within=int64_t, member=Member)
    cpdef Member member_at(self, Zone zone, int64_t sector)
    @cython.locals(chunk=int64_t, row=int64_t)
    cpdef int64_t member_sector(self, Zone zone, int64_t sector) noexcept
    @cython.locals(chunk=int64_t, left=int64_t, part=Bio)
    cpdef int make_request(self, Submitter submitter, Bio bio) except -1
    @cython.locals(zone=Zone, member=Member, sector=int64_t)
    cdef int _map(self, Submitter submitter, Bio bio) except -1
    @cython.locals(zone=Zone, end=int64_t, part=Bio, chunk=int64_t, stripe=int64_t, first=int64_t, last=int64_t,
                   into_first=int64_t, into_last=int64_t, shift=int64_t, index=int64_t, place=int64_t, begin=int64_t,
                   stop=int64_t, member=Member, clone=Bio)
    cdef int _discard(self, Submitter submitter, Bio bio) except -1
    @cython.locals(chunk=int64_t, before=int64_t)
    cdef int64_t _within(self, int64_t into, int64_t place) noexcept
    @cython.locals(chunk=int64_t, most=int64_t, zone=Zone, member=Member, lower=int64_t)
    cpdef int64_t merge_bvec(self, RequestQueue queue, int64_t sector) except -1
