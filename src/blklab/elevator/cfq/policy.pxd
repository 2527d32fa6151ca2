cimport cython
from libc.stdint cimport int64_t
from blklab.block.bio cimport Bio
from blklab.block.cgroup cimport QueueGroups
from blklab.block.consts cimport (F_FUA, F_META, F_PREFLUSH, F_SYNC, MAY_QUEUE, MERGE_FRONT, MUST_QUEUE, OP_READ)
from blklab.block.elevator cimport Elevator
from blklab.block.queue cimport RequestQueue
from blklab.block.legacy cimport LegacyPath
from blklab.block.request cimport Request, RequestList
from blklab.block.submit cimport Submitter
from blklab.core.host cimport Host
from blklab.elevator.cfq.cfqq cimport CfqContext, CfqGroup, CfqQueue, ServiceTree
from blklab.elevator.cfq.cooperators cimport Cooperators
from blklab.elevator.cfq.data cimport CfqData
from blklab.elevator.cfq.groups cimport Groups
from blklab.elevator.cfq.idling cimport Idling
from blklab.elevator.cfq.order cimport Order
from blklab.elevator.cfq.params cimport PAGE_SECTORS
from blklab.elevator.cfq.processes cimport Processes
from blklab.elevator.cfq.seeks cimport Seeks
from blklab.elevator.cfq.service cimport Service
from blklab.elevator.cfq.slices cimport Slices
from blklab.block.elv_timer cimport IdleSliceTimer
from blklab.elevator.cfq.turns cimport Turns

cdef class IdlingEnds(IdleSliceTimer):
    cdef readonly Cfq policy

cdef class Cfq(Elevator):
    cdef readonly IdlingEnds timer
    cdef readonly CfqData cfqd
    cdef readonly Groups groups
    cdef readonly Slices slices
    cdef readonly Seeks seeks
    cdef readonly Order order
    cdef readonly Cooperators cooperators
    cdef readonly Service service
    cdef readonly Idling idling
    cdef readonly Turns turns
    cdef readonly Processes processes
    cdef readonly object group_policy

    cpdef exit(self)
    @cython.locals(legacy=LegacyPath)
    cpdef exit_icq(self, Submitter submitter)
    @cython.locals(cic=CfqContext)
    cdef CfqQueue _queue_of(self, Bio bio)
    @cython.locals(cfqq=CfqQueue)
    cpdef bint allow_merge(self, Request rq, Bio bio) except -1
    @cython.locals(cfqq=CfqQueue)
    cpdef Request request_merge(self, Bio bio)
    @cython.locals(cfqq=CfqQueue)
    cpdef Request latter_request(self, Request rq)
    @cython.locals(cfqq=CfqQueue)
    cpdef Request former_request(self, Request rq)
    @cython.locals(cfqg=CfqGroup)
    cpdef bio_merged(self, Request rq, Bio bio)
    @cython.locals(cfqq=CfqQueue)
    cpdef request_merged(self, Request rq, int kind)
    @cython.locals(cfqq=CfqQueue, other=CfqQueue, cfqg=CfqGroup)
    cpdef requests_merged(self, Request rq, Request following)
    @cython.locals(cic=CfqContext, cfqq=CfqQueue)
    cpdef int may_queue(self, Submitter submitter, int op, int flags) except -1
    @cython.locals(legacy=LegacyPath, cfqq=CfqQueue)
    cpdef set_request(self, Request rq, Bio bio)
    @cython.locals(cfqq=CfqQueue)
    cpdef finish_request(self, Request rq)
    @cython.locals(cfqd=CfqData, cfqq=CfqQueue, cic=CfqContext, cfqg=CfqGroup)
    cpdef add_request(self, Request rq)
    @cython.locals(before=Request)
    cdef int _sort_in(self, Request rq, CfqQueue cfqq) except -1
    @cython.locals(cfqd=CfqData)
    cdef int _enqueued(self, Request rq, CfqQueue cfqq, CfqContext cic) except -1
    @cython.locals(cfqd=CfqData, cfqg=CfqGroup)
    cdef int _remove(self, Request rq, CfqQueue cfqq) except -1
    @cython.locals(cfqd=CfqData, cfqq=CfqQueue)
    cpdef int dispatch_requests(self, bint force) except -1
    @cython.locals(cfqd=CfqData, rq=Request)
    cdef bint _dispatch_from(self, CfqQueue cfqq) except -1
    @cython.locals(cfqd=CfqData, cfqg=CfqGroup)
    cdef int _dispatch(self, Request rq, CfqQueue cfqq) except -1
    @cython.locals(cfqd=CfqData, dispatched=int, cfqq=CfqQueue)
    cdef int _dispatch_all(self) except -1
    @cython.locals(cfqd=CfqData)
    cpdef activate_request(self, Request rq)
    @cython.locals(cfqd=CfqData)
    cpdef deactivate_request(self, Request rq)
    @cython.locals(cfqd=CfqData, cfqq=CfqQueue, sync=bint, now=int64_t, cfqg=CfqGroup)
    cpdef completed_request(self, Request rq, int64_t now_ns)
    @cython.locals(cfqd=CfqData, cic=CfqContext, tree=ServiceTree, jiffy_ns=int64_t, expire_jiffies=int64_t)
    cdef int _sync_completed(self, Request rq, CfqQueue cfqq, int64_t now) except -1
    @cython.locals(cfqd=CfqData, legacy=LegacyPath)
    cpdef int idle_slice_timer(self) except -1
    @cython.locals(cfqd=CfqData, cfqq=CfqQueue)
    cdef int _idle_slice_ended(self) except -1
