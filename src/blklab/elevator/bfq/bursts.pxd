cimport cython
from libc.stdint cimport int64_t
from blklab.elevator.bfq.bfqq cimport BfqQueue, IoContext
from blklab.elevator.bfq.data cimport BfqData
from blklab.elevator.bfq.entity cimport Entity
from blklab.elevator.bfq.params cimport BURST_INTERVAL_MS, FORGET_BURST_MS, LARGE_BURST_THRESH

@cython.final
cdef class Bursts:
    cdef readonly BfqData bfqd
    cdef readonly int64_t interval_ns, split_guard_ns, forget_ns, last_ns
    cdef readonly bint large
    cdef Entity parent

    @cython.locals(bfqd=BfqData, now=int64_t)
    cpdef int on_new(self, BfqQueue bfqq) except -1
    @cython.locals(bfqd=BfqData)
    cdef int _restart(self, BfqQueue bfqq) except -1
    @cython.locals(bfqd=BfqData, listed=BfqQueue)
    cdef int _add(self, BfqQueue bfqq) except -1
    @cython.locals(listed=BfqQueue)
    cdef int _clear(self) except -1
    cpdef int on_idle_activation(self, BfqQueue bfqq) except -1
    cpdef int on_split(self, BfqQueue bfqq, IoContext bic) except -1
