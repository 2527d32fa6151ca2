cimport cython
from libc.stdint cimport int64_t
from blklab.block.consts cimport F_META
from blklab.block.request cimport Request
from blklab.elevator.cfq.cfqq cimport CfqQueue
from blklab.elevator.cfq.data cimport CfqData

@cython.final
cdef class Order:
    cdef readonly CfqData cfqd

    @cython.locals(sync1=bint, sector1=int64_t, sector2=int64_t, distance1=int64_t, distance2=int64_t)
    cpdef Request choose(self, Request rq1, Request rq2, int64_t last)
    cdef int64_t _distance(self, int64_t sector, int64_t last) noexcept
    @cython.locals(before=Request, after=Request)
    cpdef Request next_after(self, CfqQueue cfqq, Request last)
    @cython.locals(oldest=Request)
    cpdef Request expired(self, CfqQueue cfqq)
