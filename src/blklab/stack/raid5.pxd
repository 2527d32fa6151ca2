cimport cython
from libc.stdint cimport int64_t
from blklab.core.charging cimport charge
from blklab.core.steps cimport STEP_BIO_ALLOC, STEP_MD_MAP, STEP_PARITY_PAGE
from blklab.block.bio cimport Bio, BioEnd
from blklab.block.consts cimport DONE, F_SYNC, OP_READ, OP_WRITE, STS_NOTSUPP, STS_OK, TR_U, TR_UT, WAIT, YIELD
from blklab.block.daemon cimport Daemon
from blklab.block.plug cimport PlugCallback
from blklab.block.queue cimport RequestQueue
from blklab.block.sbitmap cimport WaitQueue
from blklab.block.submit cimport Submitter
from blklab.stack.md cimport MdDevice, Member
from blklab.stack.stripe_cache cimport StripeCache
from blklab.stack.stripe_head cimport StripeDev, StripeHead

cdef class StripeRequest:
    cdef readonly Bio bio
    cdef int64_t first, last
    cdef int pages, at
    cdef bytearray todo

    @cython.locals(page=int)
    cdef int find(self) noexcept

cdef class AlignedRead(BioEnd):
    cdef Raid5 device
    cdef readonly Bio bio
    cdef Member member
    cdef int64_t start_ns
    cdef StripeRequest request

    @cython.locals(device=Raid5, queue=RequestQueue, status=int, whole=Bio, now=int64_t)
    cpdef int bio_end_io(self, Bio bio) except -1

cdef class Raid5(MdDevice):
    cdef readonly int disks, rmw_level, degraded, dd_idx
    cdef readonly Raid5Thread thread
    cdef readonly StripeCache cache
    cdef readonly bint merges_asked
    cdef readonly dict waiting
    cdef readonly list reads_to_retry

    cpdef fail_member(self, Member member)
    cpdef bint waits_inside(self, Bio bio) except -1
    @cython.locals(chunk=int64_t, number=int64_t, row=int64_t, parity=int64_t)
    cpdef int64_t compute_sector(self, int64_t sector) noexcept
    @cython.locals(request=StripeRequest, waiters=WaitQueue)
    cpdef int make_request(self, Submitter submitter, Bio bio) except -1
    @cython.locals(chunk=int64_t, left=int64_t, part=Bio, sector=int64_t, member=Member, clone=Bio, read=AlignedRead,
                   queue=RequestQueue)
    cdef int _aligned_read(self, Submitter submitter, Bio bio) except -1
    @cython.locals(request=StripeRequest, chunk=int64_t, sector=int64_t, left=int64_t, parity=int64_t, following=int)
    cdef StripeRequest _request_of(self, Bio bio)
    @cython.locals(bio=Bio, page=int, stripe=StripeHead)
    cdef WaitQueue _put_into_stripes(self, Submitter submitter, StripeRequest request)
    @cython.locals(kept=KeptStripes)
    cdef int _keep_in_plug(self, Submitter submitter, StripeHead stripe) except -1
    @cython.locals(read=AlignedRead, bio=Bio)
    cdef bint retry_read(self) except -1
    @cython.locals(member=Member, bio=Bio)
    cdef int send_page(self, StripeHead stripe, int i, int op, int flags, int64_t sector) except -1
    cpdef int ops_fill(self, StripeHead stripe, int i, Bio bio) except -1
    cpdef int ops_drain(self, StripeHead stripe, int i, Bio bio) except -1
    cpdef int ops_compute(self, StripeHead stripe, int i) except -1
    @cython.locals(pages=int, dev=StripeDev)
    cpdef int ops_prexor(self, StripeHead stripe) except -1
    @cython.locals(pages=int, dev=StripeDev)
    cpdef int ops_reconstruct(self, StripeHead stripe, bint whole) except -1
    @cython.locals(chunk=int64_t, most=int64_t, there=int64_t, member=Member)
    cpdef int64_t merge_bvec(self, RequestQueue queue, int64_t sector) except -1

cdef class KeptStripes(PlugCallback):
    cdef Raid5 device
    cdef list stripes

    @cython.locals(stripe=StripeHead, queue=RequestQueue, action=int)
    cpdef int unplug(self, bint from_schedule) except -1

cdef class Raid5Thread(Daemon):
    cdef Raid5 device
    cdef list taken
    cdef int next_taken

    @cython.locals(result=int, bio=Bio, stripe=StripeHead)
    cpdef int step(self) except -1
    @cython.locals(device=Raid5, stripe=StripeHead, following=StripeHead)
    cdef bint _next_batch(self) except -1
