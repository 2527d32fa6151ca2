cimport cython
from libc.stdint cimport int64_t
from blklab.core.charging cimport charge
from blklab.core.host cimport Lock
from blklab.core.steps cimport STEP_LOCK, STEP_PLUG_ADD, STEP_RQ_INIT, STEP_SCHED_INSERT
from blklab.block.bio cimport Bio
from blklab.block.consts cimport (DONE, F_FUA, F_NOWAIT, F_PREFLUSH, MERGE_OK, NO_QUEUE, OP_DISCARD, RQ_DISPATCH,
                                  RQ_GOT, RQ_PLUGGED, RQF_DELIVERED, RQF_ELVPRIV, RQF_IO_STAT, RQF_SOFTBARRIER,
                                  RQF_SORTED, STS_AGAIN, STS_OK, TR_MSG, TR_P, TR_S, TR_U, TR_UT, WAIT, YIELD)
from blklab.block.elevator cimport Elevator
from blklab.block.elv_merge cimport ElvMerge
from blklab.block.features cimport Features
from blklab.block.hwqueue cimport HardwareQueue
from blklab.block.legacy_plug cimport QueuePlug
from blklab.block.legacy_requests cimport IoContext, RequestRoom
from blklab.block.legacy_run cimport RequestFn
from blklab.block.merge cimport Merger
from blklab.block.plug cimport Plug
from blklab.block.queue cimport RequestQueue
from blklab.block.request cimport Request, RequestList
from blklab.block.submit cimport Submitter

cdef int BIO_NEW, BIO_WAITS, BIO_HAS_REQUEST, BIO_FLUSHED

@cython.final
cdef class LegacyPath:
    cdef readonly RequestQueue queue
    cdef readonly HardwareQueue hctx
    cdef readonly RequestList dispatch_list
    cdef readonly Lock lock
    cdef public bint run_wanted
    cdef readonly bint inside, plugs_queue, bypass
    cdef readonly RequestRoom room
    cdef readonly RequestFn request_fn
    cdef readonly QueuePlug queue_plug
    cdef readonly int nr_requests, elvpriv
    cdef public int nr_sorted, in_driver
    cdef public int64_t end_sector
    cdef public Request boundary_rq
    cdef list switches

    cpdef void take(self) noexcept
    cpdef void give(self) noexcept
    cpdef bint is_empty(self) noexcept
    @cython.locals(ioc=IoContext, rq=Request)
    cpdef int submit(self, Submitter submitter, Bio bio) except -1
    cdef int _run_if_wanted(self, Submitter submitter) except -1
    @cython.locals(queue=RequestQueue, merger=Merger, rq=Request)
    cdef bint _plug_merge(self, Submitter submitter, Bio bio) except -1
    @cython.locals(queue=RequestQueue, merge=ElvMerge, emptied=Request)
    cdef bint _merge(self, Bio bio, int segments) except -1
    @cython.locals(queue=RequestQueue, elevator=Elevator, sync=bint, taken=bint, may_queue=int, scheduled=bint,
                   rq=Request)
    cdef bint _get_request(self, Submitter submitter, IoContext ioc, Bio bio) except -1
    @cython.locals(queue=RequestQueue, rq=Request)
    cdef Request _init_request(self, Bio bio, Submitter submitter)
    @cython.locals(queue=RequestQueue, plug=Plug, rq=Request, own=int, other=Request, last=Request,
                   features=Features)
    cdef int _add_to_plug(self, Submitter submitter, IoContext ioc) except -1
    @cython.locals(plug=Plug, rq=Request, first=RequestQueue)
    cpdef int unplug(self, Submitter submitter, bint from_schedule) except -1
    @cython.locals(queue=RequestQueue, plug=Plug, rqs=list, rq=Request, following=Request, action=int)
    cpdef int flush_list(self, Submitter submitter, bint from_schedule) except -1
    @cython.locals(plug=QueuePlug)
    cdef int _add_plugged(self, Request rq, Submitter submitter) except -1
    @cython.locals(queue=RequestQueue, elevator=Elevator, emptied=list, one=Request)
    cdef int _insert(self, Request rq, bint may_merge) except -1
    @cython.locals(boundary=int64_t, at=Request)
    cpdef dispatch_sort(self, Request rq)
    cpdef dispatch_add_tail(self, Request rq)
    cdef int _leaves(self, Request rq) except -1
    cpdef int run_queue(self) except -1
    cpdef int kick(self) except -1
    cpdef int requeue(self, Request rq) except -1
    cpdef int free_request(self, Request rq) except -1
    @cython.locals(queue=RequestQueue, scheduled=bint, sync=bint)
    cpdef int put(self, Request rq) except -1
    @cython.locals(elevator=Elevator)
    cdef int _drain(self) except -1
