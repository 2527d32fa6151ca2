cimport cython
from libc.stdint cimport int64_t
from blklab.block.bio cimport Bio
from blklab.block.cgroup cimport Blkg, Cgroup
from blklab.elevator.bfq.bfqq cimport BfqQueue, IoContext
from blklab.elevator.bfq.data cimport BfqData
from blklab.elevator.bfq.entity cimport SchedData, ServiceTree
from blklab.elevator.bfq.group cimport BfqGroup
from blklab.elevator.bfq.merging cimport Cooperators
from blklab.elevator.bfq.params cimport PREEMPTED
from blklab.elevator.bfq.turns cimport Turns
from blklab.elevator.bfq.weights cimport NR_CLASSES

@cython.final
cdef class Moves:
    cdef readonly BfqData bfqd
    cdef readonly Cooperators cooperators
    cdef readonly Turns turns

    @cython.locals(blkg=Blkg, group=BfqGroup)
    cpdef BfqGroup group_of_bio(self, Bio bio)
    @cython.locals(group=BfqGroup, blkg=Blkg, ident=int, bfqq=BfqQueue)
    cpdef int update_cgroup(self, IoContext bic, Bio bio) except -1
    @cython.locals(other=BfqQueue)
    cdef int _change_sync(self, IoContext bic, BfqQueue bfqq, BfqGroup group) except -1
    @cython.locals(bfqd=BfqData, old=BfqGroup)
    cpdef int move(self, BfqQueue bfqq, BfqGroup group) except -1
    @cython.locals(sd=SchedData, st=ServiceTree, class_idx=int, at=Py_ssize_t, bfqq=BfqQueue)
    cpdef int offline(self, BfqGroup group) except -1
