cimport cython
from libc.stdint cimport int64_t
from blklab.elevator.cfq.cfqq cimport CfqGroup, CfqQueue, GroupTree
from blklab.elevator.cfq.data cimport CfqData
from blklab.elevator.cfq.params cimport IOPS_GROUP_DELAY, SERVICE_SHIFT, WEIGHT_DEFAULT
from blklab.elevator.cfq.stats cimport GroupStats

@cython.final
cdef class Groups:
    cdef readonly CfqData cfqd
    cdef readonly bint hierarchy
    cdef int64_t unaccounted_ticks

    @cython.locals(tree=GroupTree, vfraction=int64_t, becomes_active=bint, child=CfqGroup, parent=CfqGroup)
    cdef int _add(self, CfqGroup cfqg) except -1
    cdef int _take_over_weight(self, CfqGroup cfqg) except -1
    @cython.locals(tree=GroupTree, child=CfqGroup, parent=CfqGroup)
    cdef int _remove(self, CfqGroup cfqg) except -1
    @cython.locals(cfqd=CfqData, tree=GroupTree, last=CfqGroup, ahead=int64_t, delay=int64_t)
    cpdef int queue_added(self, CfqGroup cfqg) except -1
    cpdef int queue_gone(self, CfqGroup cfqg) except -1
    @cython.locals(tree=GroupTree, cfqg=CfqGroup)
    cpdef CfqGroup next(self)
    @cython.locals(target=int64_t)
    cpdef int64_t slice_ticks(self, CfqGroup cfqg) noexcept
    @cython.locals(start=int64_t, used=int64_t)
    cdef int64_t _slice_usage(self, CfqQueue cfqq, int64_t now) noexcept
    @cython.locals(cfqd=CfqData, cfqg=CfqGroup, now=int64_t, nr_sync=int64_t, used=int64_t, charge=int64_t,
                   iops_mode=bint, vfraction=int64_t, weight=int64_t, stats=GroupStats)
    cpdef int served(self, CfqQueue cfqq) except -1
