cimport cython
from libc.stdint cimport int64_t
from blklab.elevator.cfq.cfqq cimport CfqGroup, CfqQueue, ServiceTree
from blklab.elevator.cfq.cooperators cimport Cooperators
from blklab.elevator.cfq.data cimport CfqData
from blklab.elevator.cfq.groups cimport Groups
from blklab.elevator.cfq.params cimport (ASYNC_WORKLOAD, BE_WORKLOAD, IDLE_WORKLOAD, MIN_TT_JIFFIES, NR_TYPES,
                                         RT_WORKLOAD, SYNC_NOIDLE_WORKLOAD, SYNC_WORKLOAD)
from blklab.elevator.cfq.slices cimport Slices

@cython.final
cdef class Service:
    cdef readonly CfqData cfqd
    cdef readonly Groups groups
    cdef readonly Slices slices
    cdef readonly Cooperators cooperators

    @cython.locals(cfqd=CfqData, root=CfqGroup, wl_type=int)
    cdef bint _change_group(self, CfqQueue cfqq) except -1
    @cython.locals(cfqd=CfqData, group_changed=bint, tree=ServiceTree, now=int64_t, key=int64_t, offset=int64_t,
                   is_new=bint)
    cpdef int place(self, CfqQueue cfqq, bint at_front) except -1
    cpdef int resort(self, CfqQueue cfqq) except -1
    @cython.locals(cfqd=CfqData)
    cpdef int add(self, CfqQueue cfqq) except -1
    @cython.locals(cfqd=CfqData)
    cpdef int remove(self, CfqQueue cfqq) except -1
    @cython.locals(best=int, lowest=int64_t, found=bint, wl_type=int, cfqq=CfqQueue)
    cdef int _choose_type(self, CfqGroup cfqg, int wl_class) except -1
    @cython.locals(cfqd=CfqData, now=int64_t, before=int, wl_class=int, tree=ServiceTree, queues=int64_t,
                   average=int64_t, length=int64_t, share=int64_t)
    cdef int _choose_workload(self, CfqGroup cfqg) except -1
    @cython.locals(cfqd=CfqData, cfqg=CfqGroup)
    cpdef int choose_group(self) except -1
    @cython.locals(cfqd=CfqData)
    cpdef CfqQueue next_queue(self)
