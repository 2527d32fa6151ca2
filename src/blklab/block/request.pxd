cimport cython
from libc.stdint cimport int64_t
from blklab.core.clock cimport Event
from blklab.block.bio cimport Bio
from blklab.block.consts cimport F_FUA, F_PREFLUSH, F_SYNC, OP_READ, RQ_COMPLETE, RQF_TIMED_OUT
from blklab.block.hwqueue cimport HardwareQueue
from blklab.block.iostat cimport IoStat
from blklab.block.queue cimport RequestQueue
from blklab.block.submit cimport Submitter
from blklab.block.swqueue cimport SoftwareQueue

cdef class Request(Event):
    cdef readonly RequestQueue queue
    cdef public Request next, prev
    cdef public RequestList list
    cdef public Bio bio, biotail
    cdef public HardwareQueue hctx
    cdef public SoftwareQueue ctx
    cdef public Request tree_left, tree_right, tree_above
    cdef public Request hash_next, hash_prev
    cdef public Submitter submitter
    cdef public IoStat part
    cdef public object elv0, elv1
    cdef public int64_t elv_ns, elv_end, tree_rank
    cdef public int state, op, flags, rq_flags, ioprio, status, tag, internal_tag, budget_token
    cdef public int nr_segments, cpu, flush_seq
    cdef public int64_t sector, nr_sectors, start_ns, io_start_ns, deadline_ns, qos_ns, device_ns
    cdef public int device_slot

    @cython.locals(queue=RequestQueue)
    cpdef int fire(self, int64_t now_ns) except -1
    cpdef int move(self, int state) except -1
    cpdef bint is_sync(self) noexcept
    cpdef int64_t end_sector(self) noexcept

@cython.final
cdef class RequestList:
    cdef readonly Request head, tail
    cdef readonly Py_ssize_t count

    @cython.locals(tail=Request)
    cpdef void append(self, Request rq) noexcept
    @cython.locals(head=Request)
    cpdef void push(self, Request rq) noexcept
    @cython.locals(following=Request)
    cpdef void insert_behind(self, Request rq, Request before) noexcept
    @cython.locals(rq=Request, following=Request)
    cpdef Request popleft(self)
    @cython.locals(rq=Request, before=Request)
    cpdef Request pop(self)
    @cython.locals(before=Request, following=Request)
    cpdef void remove(self, Request rq) noexcept
    cpdef void splice_tail(self, RequestList other) noexcept

cdef class _RequestIterator:
    cdef Request following

cpdef int direction(int op) noexcept
