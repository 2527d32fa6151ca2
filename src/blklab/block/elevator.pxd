from libc.stdint cimport int64_t
from blklab.block.bio cimport Bio
from blklab.block.hwqueue cimport HardwareQueue
from blklab.block.queue cimport RequestQueue
from blklab.block.request cimport Request, RequestList
from blklab.block.submit cimport Submitter

cdef class Elevator:
    cdef readonly RequestQueue queue
    cdef readonly int hooks

    cpdef init_hctx(self, HardwareQueue hctx)
    cpdef depth_updated(self, HardwareQueue hctx)
    cpdef exit(self)
    cpdef exit_icq(self, Submitter submitter)
    cpdef int limit_depth(self, Bio bio) except -1
    cpdef bint bio_merge(self, Bio bio, int segments, Submitter submitter) except -1
    cpdef bint allow_merge(self, Request rq, Bio bio) except -1
    cpdef Request request_merge(self, Bio bio)
    cpdef Request latter_request(self, Request rq)
    cpdef Request former_request(self, Request rq)
    cpdef request_merged(self, Request rq, int kind)
    cpdef requests_merged(self, Request rq, Request following)
    cpdef prepare_request(self, Request rq)
    cpdef insert_requests(self, HardwareQueue hctx, RequestList rqs, bint at_head)
    cpdef Request dispatch_request(self, HardwareQueue hctx)
    cpdef bint has_work(self, HardwareQueue hctx) except -1
    cpdef completed_request(self, Request rq, int64_t now_ns)
    cpdef requeue_request(self, Request rq)
    cpdef finish_request(self, Request rq)
    cpdef int may_queue(self, Submitter submitter, int op, int flags) except -1
    cpdef set_request(self, Request rq, Bio bio)
    cpdef bio_merged(self, Request rq, Bio bio)
    cpdef add_request(self, Request rq)
    cpdef int dispatch_requests(self, bint force) except -1
    cpdef activate_request(self, Request rq)
    cpdef deactivate_request(self, Request rq)
