from libc.stdint cimport int64_t
from blklab.block.bio cimport Bio
from blklab.block.consts cimport STS_TIMEOUT, UNLIMITED
from blklab.block.hwqueue cimport HardwareQueue
from blklab.block.queue cimport RequestQueue
from blklab.block.request cimport Request
from blklab.block.submit cimport Submitter

cdef class Driver:
    cdef public bint has_budget, has_commit_rqs, ends_in_irq, bio_based, blocking
    cdef readonly list queues

    cpdef int submit_bio(self, Submitter submitter, Bio bio) except -1
    cpdef int64_t merge_bvec(self, RequestQueue queue, int64_t sector) except -1
    cpdef int queue_rq(self, HardwareQueue hctx, Request rq, bint last) except -1
    cpdef int commit_rqs(self, HardwareQueue hctx) except -1
    cpdef int rq_done(self, Request rq) except -1
    cpdef int end(self, Request rq) except -1
    cpdef int get_budget(self, RequestQueue queue) except -2
    cpdef int put_budget(self, RequestQueue queue, int token) except -1
    cpdef int timeout(self, Request rq) except -1
    cpdef int irq_cpu(self, Request rq) except -1
