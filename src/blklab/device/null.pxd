cimport cython
from libc.stdint cimport int64_t
from blklab.core.clock cimport Event, Lane
from blklab.core.host cimport Host
from blklab.core.steps cimport STEP_NULL_PAGE
from blklab.block.consts cimport (F_FUA, OP_FLUSH, OP_READ, OP_WRITE, RQ_COMPLETE, STS_DEV_RESOURCE, STS_OK)
from blklab.block.driver cimport Driver
from blklab.block.hwqueue cimport HardwareQueue
from blklab.block.queue cimport RequestQueue
from blklab.block.request cimport Request

cdef class NullDevice(Driver):
    cdef Host host
    cdef readonly dict settings
    cdef bint by_timer, inline, has_cache
    cdef readonly int64_t completion_ns, tick_bytes, left_bytes
    cdef int64_t cached_pages
    cdef list lanes
    cdef NullTick tick

    @cython.locals(queue=RequestQueue, lane=Lane)
    cpdef int queue_rq(self, HardwareQueue hctx, Request rq, bint last) except -1
    @cython.locals(pages=int64_t)
    cdef int _use_memory(self, Request rq) except -1
    cdef bint _take_bytes(self, Request rq) except -1
    cpdef int refill(self) except -1
    cpdef int timeout(self, Request rq) except -1

cdef class NullTick(Event):
    cdef NullDevice device
    cdef readonly bint active
    cdef int64_t due_ns

    cdef int start(self) except -1
    @cython.locals(now=int64_t)
    cdef int restart(self) except -1
    cpdef int fire(self, int64_t now_ns) except -1
