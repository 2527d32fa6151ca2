from blklab.core.charging cimport charge
from blklab.core.host cimport Host
from blklab.core.steps cimport (STEP_DISPATCH_ONE, STEP_QUEUE_RQ, STEP_REQUEUE, STEP_RUN_QUEUE, STEP_SCHED_DISPATCH,
                                STEP_TAG_GET, STEP_TAG_PUT)
cimport cython
from blklab.block.consts cimport (HOOK_COMPLETED, RESOURCE_DELAY_NS, RQ_DISPATCH, RQF_DELIVERED, RQF_SOFTBARRIER,
                                  RQF_SORTED, STS_DEV_RESOURCE, STS_OK, STS_RESOURCE, TR_D, TR_I, TR_R)
from blklab.block.hwqueue cimport HardwareQueue
from blklab.block.legacy cimport LegacyPath
from blklab.block.queue cimport RequestQueue
from blklab.block.request cimport Request, RequestList

@cython.final
cdef class RequestFn:
    cdef readonly LegacyPath path
    cdef readonly RequestQueue queue
    cdef readonly HardwareQueue hctx
    cdef readonly RequestList dispatch_list
    cdef public bint short, completing

    cpdef int start_run(self) except -1
    @cython.locals(path=LegacyPath, queue=RequestQueue, host=Host, rq=Request, token=int, tag=int, status=int)
    cpdef bint run_one(self) except -1
    @cython.locals(path=LegacyPath, queue=RequestQueue, rq=Request)
    cdef Request _peek(self)
    @cython.locals(hctx=HardwareQueue)
    cdef int _wait_for_tag(self) except -1
    cdef int _delay(self) except -1
    @cython.locals(path=LegacyPath, queue=RequestQueue)
    cpdef int requeue(self, Request rq) except -1
    @cython.locals(queue=RequestQueue)
    cpdef int left_driver(self, Request rq) except -1
    cdef int _put_tag(self, Request rq) except -1
    cpdef int end(self, Request rq) except -1
    @cython.locals(path=LegacyPath, queue=RequestQueue)
    cpdef int run_after_end(self) except -1
