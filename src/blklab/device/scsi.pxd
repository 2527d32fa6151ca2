cimport cython
from libc.stdint cimport int64_t
from blklab.core.charging cimport charge
from blklab.core.clock cimport Clock, Lane
from blklab.core.host cimport Host, Work
from blklab.core.rand cimport RandomStream
from blklab.core.steps cimport STEP_SCSI_DONE, STEP_SCSI_QUEUE
from blklab.block.consts cimport OP_FLUSH, OP_READ, OP_WRITE, RQF_LOST, STS_MEDIUM, STS_OK, STS_RESOURCE, STS_TIMEOUT
from blklab.block.driver cimport Driver
from blklab.block.hwqueue cimport HardwareQueue
from blklab.block.queue cimport RequestQueue
from blklab.block.request cimport Request

@cython.final
cdef class ScsiTarget:
    cdef readonly int can_queue
    cdef public int busy

@cython.final
cdef class ScsiHost:
    cdef public int busy, blocked
    cdef public bint written
    cdef readonly dict targets
    cdef public list starved

cdef class RequeueWork(Work):
    cdef ScsiDisk disk

    @cython.locals(host=ScsiHost, disk=ScsiDisk)
    cpdef int step(self) except -1

cdef class ScsiDisk(Driver):
    cdef readonly dict settings
    cdef readonly Host host
    cdef Clock clock
    cdef readonly int64_t delay_ns, flush_ns, commands
    cdef bint random, fake_rw
    cdef RandomStream stream
    cdef object seed
    cdef readonly RequestQueue queue
    cdef readonly int queue_depth, busy, restarts
    cdef int opts, every_nth
    cdef readonly ScsiHost scsi_host
    cdef readonly ScsiTarget target
    cdef RequeueWork requeue_work
    cdef list lanes

    cpdef int get_budget(self, RequestQueue queue) except -2
    cpdef int put_budget(self, RequestQueue queue, int token) except -1
    @cython.locals(injected=bint)
    cpdef int queue_rq(self, HardwareQueue hctx, Request rq, bint last) except -1
    @cython.locals(target=ScsiTarget)
    cdef bint _target_ready(self) except -1
    @cython.locals(host=ScsiHost)
    cdef bint _host_ready(self) except -1
    cdef int _starve(self) except -1
    @cython.locals(start=int64_t, end=int64_t)
    cdef int _look_for_medium_error(self, Request rq) except -1
    @cython.locals(clock=Clock, lane=Lane, host=ScsiHost, delay_ns=int64_t)
    cdef int _schedule(self, Request rq) except -1
    @cython.locals(host=ScsiHost, queue=RequestQueue)
    cpdef int end(self, Request rq) except -1
    cpdef int timeout(self, Request rq) except -1
