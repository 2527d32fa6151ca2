cimport cython
from libc.stdint cimport int64_t
from blklab.core.charging cimport charge
from blklab.core.steps cimport STEP_MQ_DEADLINE
from blklab.block.bio cimport Bio
from blklab.block.consts cimport MERGE_FRONT
from blklab.block.elevator cimport Elevator
from blklab.block.legacy cimport LegacyPath
from blklab.block.queue cimport RequestQueue
from blklab.block.request cimport Request, RequestList, direction
from blklab.block.rqtree cimport RequestTree

@cython.final
cdef class Line:
    cdef readonly RequestTree tree
    cdef readonly RequestList fifo
    cdef Request next_rq

cdef class Deadline(Elevator):
    cdef readonly int64_t jiffy_ns
    cdef public int64_t read_expire_ns, write_expire_ns, writes_starved, front_merges, fifo_batch
    cdef readonly Line reads, writes
    cdef readonly int64_t batching, starved

    cpdef Request request_merge(self, Bio bio)
    cpdef Request latter_request(self, Request rq)
    cpdef Request former_request(self, Request rq)
    @cython.locals(line=Line)
    cpdef request_merged(self, Request rq, int kind)
    @cython.locals(line=Line)
    cpdef requests_merged(self, Request rq, Request following)
    @cython.locals(line=Line)
    cpdef add_request(self, Request rq)
    @cython.locals(reads=Line, writes=Line, line=Line, rq=Request)
    cpdef int dispatch_requests(self, bint force) except -1
    @cython.locals(due=bint)
    cdef bint _writes_are_due(self) except -1
    @cython.locals(following=Request)
    cdef int _give(self, Request rq, Line line) except -1
    cdef Line _line(self, int op)
    @cython.locals(now_ns=int64_t)
    cdef int64_t _now_ns(self) noexcept
    cdef _take_out(self, Request rq, Line line)
