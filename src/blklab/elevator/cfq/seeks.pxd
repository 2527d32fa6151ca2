cimport cython
from libc.stdint cimport int64_t
from blklab.block.request cimport Request
from blklab.core.bits cimport ALL_ONES_32
from blklab.elevator.cfq.cfqq cimport CfqQueue
from blklab.elevator.cfq.data cimport CfqData
from blklab.elevator.cfq.params cimport (CLOSE_THR_SECTORS, SECT_THR_NONROT, SEEK_MEAN_THR_SECTORS, SEEK_THR_SECTORS,
                                         SEEKY_BITS, TTIME_VALID_SAMPLES)

@cython.final
cdef class Seeks:
    cdef readonly CfqData cfqd
    cdef readonly bint history

    @cython.locals(distance=int64_t, seek=bint, history=int64_t)
    cpdef int update(self, CfqQueue cfqq, Request rq) except -1
    @cython.locals(most=int64_t)
    cdef int _update_mean(self, CfqQueue cfqq, int64_t distance) except -1
    cpdef bint is_seeky(self, CfqQueue cfqq) noexcept
    cpdef bint forbids_idling(self, CfqQueue cfqq) noexcept
    @cython.locals(start=int64_t)
    cpdef bint wants_split(self, CfqQueue cfqq) noexcept
    @cython.locals(near=int64_t)
    cpdef bint is_close(self, CfqQueue cfqq, Request rq, bint for_preempt) noexcept
