cimport cython
from libc.stdint cimport int64_t
from blklab.elevator.bfq.bfqq cimport BfqQueue
from blklab.elevator.bfq.budget cimport Budgets
from blklab.elevator.bfq.data cimport BfqData
from blklab.elevator.bfq.idling cimport Idling
from blklab.elevator.bfq.injection cimport Injection
from blklab.elevator.bfq.merging cimport Cooperators
from blklab.elevator.bfq.params cimport BUDGET_EXHAUSTED, BUDGET_TIMEOUT, NO_MORE_REQUESTS, PREEMPTED
from blklab.elevator.bfq.raising cimport Raising

@cython.final
cdef class Turns:
    cdef readonly BfqData bfqd
    cdef readonly Budgets budgets
    cdef readonly Raising raising
    cdef readonly Idling idling
    cdef readonly Injection injection
    cdef readonly Cooperators cooperators

    @cython.locals(bfqd=BfqData, bfqq=BfqQueue, reason=int)
    cpdef BfqQueue select_queue(self)
    @cython.locals(bfqd=BfqData, bfqq=BfqQueue)
    cdef BfqQueue _set_in_service(self)
    @cython.locals(bfqd=BfqData, slow=bint)
    cpdef int expire(self, BfqQueue bfqq, bint compensate, int reason) except -1
    @cython.locals(bfqd=BfqData)
    cpdef bint leave_service(self, BfqQueue bfqq, int reason) except -1
