cimport cython
from libc.stdint cimport int64_t
from blklab.elevator.cfq.cfqq cimport CfqGroup, CfqQueue
from blklab.elevator.cfq.data cimport CfqData
from blklab.elevator.cfq.groups cimport Groups
from blklab.elevator.cfq.params cimport (BE_WORKLOAD, HIST_DIVISOR, NORMAL_LEVEL, NR_LEVELS, RT_WORKLOAD, SLICE_SCALE)

@cython.final
cdef class Slices:
    cdef readonly CfqData cfqd
    cdef readonly Groups groups

    @cython.locals(base=int64_t)
    cpdef int64_t prio_slice(self, bint sync, int level) noexcept
    @cython.locals(busy=int64_t, before=int64_t, average=int64_t)
    cdef int64_t _average_queues(self, CfqGroup cfqg, bint rt) except -1
    @cython.locals(cfqd=CfqData, length=int64_t, queues=int64_t, expected=int64_t, group_slice=int64_t, low=int64_t)
    cpdef int64_t scaled(self, CfqQueue cfqq) except -1
    @cython.locals(length=int64_t, now=int64_t)
    cpdef int begin(self, CfqQueue cfqq) except -1
    cpdef bint used(self, CfqQueue cfqq) noexcept
    cpdef bint used_soon(self, CfqQueue cfqq) noexcept
    cpdef int64_t most_async(self, CfqQueue cfqq) noexcept
