cimport cython
from libc.stdint cimport int64_t
from blklab.block.consts cimport F_IDLE, F_SYNC, OP_WRITE
from blklab.block.request cimport Request
from blklab.elevator.cfq.cfqq cimport CfqContext, CfqGroup, CfqQueue, ServiceTree, ThinkTime
from blklab.elevator.cfq.cooperators cimport Cooperators
from blklab.elevator.cfq.data cimport CfqData
from blklab.elevator.cfq.params cimport DEEP_QUEUE, HW_QUEUE_MIN, HW_TAG_SAMPLES, IDLE_WORKLOAD, SYNC_WORKLOAD
from blklab.elevator.cfq.seeks cimport Seeks
from blklab.elevator.cfq.slices cimport Slices

@cython.final
cdef class Idling:
    cdef readonly CfqData cfqd
    cdef readonly Slices slices
    cdef readonly Seeks seeks
    cdef readonly Cooperators cooperators

    @cython.locals(cfqd=CfqData, now=int64_t)
    cpdef int update_thinktime(self, CfqQueue cfqq, CfqContext cic) except -1
    cpdef bint nobody_follows(self, Request rq) noexcept
    @cython.locals(cfqd=CfqData, window=bint, following=Request)
    cpdef int update_window(self, CfqQueue cfqq, CfqContext cic) except -1
    @cython.locals(cfqd=CfqData)
    cpdef bint thinks_long(self, ThinkTime ttime, bint group) noexcept
    @cython.locals(cfqd=CfqData, tree=ServiceTree)
    cpdef bint should_idle(self, CfqQueue cfqq) except -1
    @cython.locals(cfqd=CfqData, cfqq=CfqQueue, group_ticks=int64_t, length=int64_t, on_group=bint, cic=CfqContext)
    cpdef int arm(self) except -1
    cpdef int cancel(self, CfqQueue cfqq) except -1
    @cython.locals(cfqd=CfqData, left=int64_t, cic=CfqContext)
    cpdef bint should_wait_busy(self, CfqQueue cfqq) noexcept
    @cython.locals(cfqd=CfqData)
    cpdef int queue_completed(self, CfqQueue cfqq, Request rq) except -1
    @cython.locals(cfqd=CfqData, cfqq=CfqQueue)
    cpdef int update_hw_tag(self) except -1
