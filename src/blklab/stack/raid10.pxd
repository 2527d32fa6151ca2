cimport cython
from libc.stdint cimport int64_t
from blklab.block.bio cimport Bio
from blklab.block.queue cimport RequestQueue
from blklab.block.submit cimport Submitter
from blklab.stack.md cimport Member
from blklab.stack.mirror cimport Leg, MirrorDevice, MirrorIo

cdef class Raid10(MirrorDevice):
    cdef readonly int64_t nr_members, nr_copies, near_copies, far_copies, nr_chunks, stride
    cdef readonly bint far_offset

    @cython.locals(first=int64_t, this=int64_t, found=bint, other=Member)
    cpdef bint enough_without(self, Member member) except -1
    cpdef bint can_lose(self, Member member) except -1
    cpdef bint can_retry(self, Member member) except -1
    @cython.locals(chunk=int64_t, nr_members=int64_t, number=int64_t, row=int64_t, device=int64_t, there=int64_t,
                   other=int64_t, place=int64_t, copy=int64_t)
    cpdef int find_phys(self, int64_t sector, list legs, list sectors) except -1
    @cython.locals(chunk=int64_t, left=int64_t, part=Bio)
    cpdef int make_request(self, Submitter submitter, Bio bio) except -1
    @cython.locals(nearest=int, nearest_distance=int64_t, least_busy=int, least_pending=int64_t, any_solid=bint,
                   slot=int, leg=Leg, there=int64_t, pending=int64_t, distance=int64_t)
    cpdef int read_balance(self, MirrorIo io) except -2
    @cython.locals(most=int64_t, leg=Leg, place=int64_t)
    cpdef int64_t merge_bvec(self, RequestQueue queue, int64_t sector) except -1
