cimport cython
from libc.stdint cimport int64_t
from blklab.block.consts cimport F_META
from blklab.block.request cimport Request
from blklab.elevator.cfq.cfqq cimport CfqGroup, CfqQueue
from blklab.elevator.cfq.cooperators cimport Cooperators
from blklab.elevator.cfq.data cimport CfqData
from blklab.elevator.cfq.groups cimport Groups
from blklab.elevator.cfq.idling cimport Idling
from blklab.elevator.cfq.params cimport SYNC_NOIDLE_WORKLOAD
from blklab.elevator.cfq.seeks cimport Seeks
from blklab.elevator.cfq.service cimport Service
from blklab.elevator.cfq.slices cimport Slices

cdef int64_t NO_LIMIT

@cython.final
cdef class Turns:
    cdef readonly CfqData cfqd
    cdef readonly Groups groups
    cdef readonly Slices slices
    cdef readonly Seeks seeks
    cdef readonly Cooperators cooperators
    cdef readonly Service service
    cdef readonly Idling idling

    @cython.locals(cfqd=CfqData)
    cpdef int begin(self, CfqQueue cfqq) except -1
    @cython.locals(cfqd=CfqData, resid=int64_t)
    cpdef int expire(self, CfqQueue cfqq, bint timed_out) except -1
    cpdef int expire_active(self, bint timed_out) except -1
    @cython.locals(cfqd=CfqData, cfqq=CfqQueue, cooperator=CfqQueue)
    cpdef CfqQueue select(self)
    cdef bint _waits_for_end(self, CfqQueue cfqq) except -1
    @cython.locals(cfqd=CfqData, cfqg=CfqGroup)
    cdef bint _waits_for_group(self, CfqQueue cfqq) except -1
    @cython.locals(cfqd=CfqData, now=int64_t)
    cdef bint _keeps_waiting(self, CfqQueue cfqq) except -1
    @cython.locals(cfqd=CfqData, soft=bint, most=int64_t, alone=bint, depth=int64_t)
    cpdef bint may_dispatch(self, CfqQueue cfqq) except -1
    @cython.locals(cfqd=CfqData, active=CfqQueue, rt_first=bint, active_is_empty=bint)
    cpdef bint should_preempt(self, CfqQueue cfqq, Request rq) except -1
    @cython.locals(cfqd=CfqData, type_before=int)
    cpdef int preempt(self, CfqQueue cfqq) except -1
