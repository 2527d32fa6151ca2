cimport cython
from libc.stdint cimport int64_t
from blklab.core.bits cimport NEVER_NS
from blklab.core.clock cimport Event
from blklab.core.host cimport Host
from blklab.block.consts cimport RQ_COMPLETE, RQ_STARTED, RQF_FLUSH_SEQ, RQF_LOST, RQF_TIMED_OUT, STS_OK
from blklab.block.hwqueue cimport HardwareQueue
from blklab.block.queue cimport RequestQueue
from blklab.block.request cimport Request

cdef class TimeoutTimer(Event):
    cdef readonly RequestQueue queue
    cdef readonly bint armed
    cdef readonly int64_t expired

    cpdef int arm(self, int64_t deadline_ns) except -1
    @cython.locals(host=Host, earliest=int64_t, hctx=HardwareQueue, rq=Request)
    cpdef int fire(self, int64_t now_ns) except -1
    @cython.locals(rqs=list, rq=Request)
    cdef list _started(self, HardwareQueue hctx)
    @cython.locals(queue=RequestQueue, status=int)
    cdef int _late(self, Request rq, int64_t now_ns) except -1
