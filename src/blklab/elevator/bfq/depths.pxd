cimport cython
from libc.stdint cimport int64_t
from blklab.block.sbitmap cimport SbitmapQueue
from blklab.elevator.bfq.bfqq cimport BfqQueue
from blklab.elevator.bfq.data cimport BfqData
from blklab.elevator.bfq.entity cimport Entity, SchedData
from blklab.elevator.bfq.params cimport NR_LEVELS

@cython.final
cdef class Depths:
    cdef readonly BfqData bfqd
    cdef readonly int shift, asynchronous, sync_write, asynchronous_raised, sync_write_raised

    @cython.locals(depth=int)
    cpdef updated(self, SbitmapQueue bitmap)
    cpdef int of_kind(self, bint sync) noexcept
    @cython.locals(path=list, entity=Entity, level=Py_ssize_t, wsum=int64_t)
    cpdef bint is_over(self, BfqQueue bfqq, int64_t limit) except -1
    @cython.locals(sched_data=SchedData, wsum=int64_t, class_idx=int)
    cdef int64_t _wsum(self, BfqQueue bfqq) except -1
    cdef bint _over(self, BfqQueue bfqq, int64_t allocated, int64_t limit, Py_ssize_t level) except -1
