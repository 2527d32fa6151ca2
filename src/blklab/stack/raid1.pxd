cimport cython
from libc.stdint cimport int64_t
from blklab.block.bio cimport Bio
from blklab.block.consts cimport UNLIMITED
from blklab.block.queue cimport RequestQueue
from blklab.block.submit cimport Submitter
from blklab.stack.md cimport Member
from blklab.stack.mirror cimport Leg, MirrorDevice, MirrorIo

cdef class Raid1(MirrorDevice):
    cpdef bint can_lose(self, Member member) except -1
    cpdef bint can_retry(self, Member member) except -1
    @cython.locals(left=int64_t, part=Bio)
    cpdef int make_request(self, Submitter submitter, Bio bio) except -1
    @cython.locals(sector=int64_t, best=int, nearest=int, nearest_distance=int64_t, least_busy=int,
                   least_pending=int64_t, any_solid=bint, look_on=bint, slot=int, leg=Leg, solid=bint,
                   distance=int64_t, io_opt=int64_t)
    cpdef int read_balance(self, MirrorIo io) except -2
    @cython.locals(most=int64_t, member=Member)
    cpdef int64_t merge_bvec(self, RequestQueue queue, int64_t sector) except -1
