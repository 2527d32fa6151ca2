cimport cython
from libc.stdint cimport int64_t
from blklab.block.consts cimport F_META
from blklab.block.request cimport Request
from blklab.elevator.bfq.bfqq cimport BfqQueue
from blklab.elevator.bfq.data cimport BfqData

@cython.final
cdef class Order:
    cdef readonly BfqData bfqd

    @cython.locals(sync1=bint, sector1=int64_t, sector2=int64_t, distance1=int64_t, distance2=int64_t)
    cpdef Request choose(self, Request rq1, Request rq2, int64_t last)
    cdef int64_t _distance(self, int64_t sector, int64_t last) noexcept
    @cython.locals(oldest=Request, before=Request, after=Request)
    cpdef Request next_after(self, BfqQueue bfqq, Request last)
