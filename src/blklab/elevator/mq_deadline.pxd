cimport cython
from libc.stdint cimport int64_t
from blklab.core.charging cimport charge, give_lock, take_lock
from blklab.core.host cimport Host, Lock
from blklab.core.steps cimport STEP_LOCK_SCHED, STEP_MQ_DEADLINE
from blklab.block.bio cimport Bio
from blklab.block.consts cimport MERGE_FRONT, OP_READ
from blklab.block.elevator cimport Elevator
from blklab.block.elv_merge cimport ElvMerge
from blklab.block.hwqueue cimport HardwareQueue
from blklab.block.queue cimport RequestQueue
from blklab.block.request cimport Request, RequestList, direction
from blklab.block.rqtree cimport RequestTree
from blklab.block.submit cimport Submitter
from blklab.block.tags cimport Tags

cdef int READ, WRITE, CLASS_SHIFT, CLASS_RT, CLASS_IDLE
cdef int64_t NO_LIMIT_NS

@cython.final
cdef class Line:
    cdef readonly int way
    cdef readonly RequestTree tree
    cdef readonly RequestList fifo
    cdef Request next_rq
    cdef int64_t latest_pos

@cython.final
cdef class IoClass:
    cdef readonly Line reads, writes
    cdef readonly RequestList dispatch
    cdef readonly int64_t inserted, merged, dispatched, completed

cdef class MqDeadline(Elevator):
    cdef readonly bint with_classes, aging, by_position, less_locking, whole_depth
    cdef readonly int64_t jiffy_ns
    cdef public int64_t read_expire_ns, write_expire_ns, prio_aging_expire_ns
    cdef public int64_t writes_starved, front_merges, fifo_batch, async_depth
    cdef readonly Lock lock, insert_lock
    cdef readonly IoClass rt, be, idle
    cdef readonly int at_work
    cdef readonly int64_t batching, starved, held, dispatching_until_ns
    cdef readonly RequestList dispatch, at_head, at_tail

    @cython.locals(queue=RequestQueue, tags=Tags, depth=int64_t)
    cpdef int limit_depth(self, Bio bio) except -1
    @cython.locals(queue=RequestQueue, elv_merge=ElvMerge, merged=bint, emptied=Request)
    cpdef bint bio_merge(self, Bio bio, int segments, Submitter submitter) except -1
    cpdef Request request_merge(self, Bio bio)
    cpdef Request latter_request(self, Request rq)
    cpdef Request former_request(self, Request rq)
    @cython.locals(line=Line)
    cpdef request_merged(self, Request rq, int kind)
    @cython.locals(io_class=IoClass, line=Line)
    cpdef requests_merged(self, Request rq, Request following)
    cpdef prepare_request(self, Request rq)
    @cython.locals(host=Host)
    cpdef insert_requests(self, HardwareQueue hctx, RequestList rqs, bint at_head)
    @cython.locals(queue=RequestQueue, io_class=IoClass, line=Line, emptied=list, one=Request, at=RequestList)
    cdef _insert(self, Request rq, bint at_head)
    cpdef bint has_work(self, HardwareQueue hctx) except -1
    @cython.locals(queue=RequestQueue, host=Host, rq=Request)
    cpdef Request dispatch_request(self, HardwareQueue hctx)
    @cython.locals(host=Host)
    cdef _sort_in(self)
    @cython.locals(now_ns=int64_t, latest_ns=int64_t, rq=Request, rt=int64_t, be=int64_t, idle=int64_t)
    cdef Request _choose(self)
    @cython.locals(reads=Line, writes=Line, line=Line, rq=Request)
    cdef Request _choose_of(self, IoClass io_class, int64_t now_ns, int64_t latest_ns)
    cdef Request _ahead(self, Line line)
    @cython.locals(io_class=IoClass)
    cdef Request _give(self, Request rq)
    @cython.locals(io_class=IoClass)
    cpdef finish_request(self, Request rq)
    @cython.locals(number_of_class=int)
    cdef IoClass _class(self, int ioprio)
    cdef Line _line(self, IoClass io_class, int op)
    cdef IoClass _class_of(self, Request rq)
    cdef Line _line_of(self, Request rq)
    @cython.locals(now_ns=int64_t)
    cdef int64_t _now_ns(self) noexcept
    cdef int64_t _expire_ns(self, Line line) noexcept
    cdef _take_out(self, Request rq, Line line)
