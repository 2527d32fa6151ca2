cimport cython
from libc.stdint cimport int64_t
from blklab.block.request cimport Request
from blklab.block.submit cimport Submitter
from blklab.elevator.bfq.bfqq cimport BfqQueue, IoContext
from blklab.elevator.bfq.budget cimport Budgets
from blklab.elevator.bfq.bursts cimport Bursts
from blklab.elevator.bfq.data cimport BfqData
from blklab.elevator.bfq.entity cimport Entity
from blklab.elevator.bfq.group cimport BfqGroup
from blklab.elevator.bfq.injection cimport Injection
from blklab.elevator.bfq.merging cimport Cooperators
from blklab.elevator.bfq.moving cimport Moves
from blklab.elevator.bfq.params cimport CLASS_BE, CLASS_IDLE, CLASS_RT, CLASS_SHIFT, NR_LEVELS
from blklab.elevator.bfq.weights cimport WEIGHT_PER_LEVEL

@cython.final
cdef class Processes:
    cdef readonly BfqData bfqd
    cdef readonly Budgets budgets
    cdef readonly Bursts bursts
    cdef readonly Injection injection
    cdef readonly Cooperators cooperators
    cdef readonly Moves moves
    cdef readonly dict contexts

    cpdef IoContext find(self, Submitter submitter)
    @cython.locals(bic=IoContext)
    cpdef IoContext get(self, Submitter submitter)
    @cython.locals(bic=IoContext, bfqd=BfqData, sync=bint, bfqq=BfqQueue, split=bint, kept=bint, waker=BfqQueue)
    cpdef BfqQueue queue_for(self, Request rq)
    @cython.locals(bfqq=BfqQueue)
    cdef BfqQueue _new_queue_of(self, IoContext bic, Request rq, bint sync, bint split)
    @cython.locals(bfqd=BfqData, group=BfqGroup, at=int, ioprio_class=int, bfqq=BfqQueue)
    cdef BfqQueue _get_queue(self, IoContext bic, Request rq, bint sync, bint respawn)
    @cython.locals(entity=Entity)
    cpdef int count_allocated(self, BfqQueue bfqq, int64_t count) except -1
    @cython.locals(ioprio_class=int, level=int)
    cdef int _set_next_ioprio(self, BfqQueue bfqq, IoContext bic) except -1
    @cython.locals(bfqq=BfqQueue)
    cdef int _ioprio_changed(self, IoContext bic, Request rq) except -1
