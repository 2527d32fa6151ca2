cimport cython
from libc.stdint cimport int64_t
from blklab.elevator.cfq.cfqq cimport CfqContext, CfqQueue
from blklab.elevator.cfq.data cimport CfqData
from blklab.elevator.cfq.params cimport NR_LEVELS
from blklab.elevator.cfq.seeks cimport Seeks

@cython.final
cdef class Cooperators:
    cdef readonly CfqData cfqd
    cdef readonly Seeks seeks
    cdef readonly list positions, queues

    @cython.locals(level=int, positions=list, queues=list, at=Py_ssize_t)
    cpdef int remove(self, CfqQueue cfqq) except -1
    @cython.locals(level=int, sector=int64_t, positions=list, queues=list, at=Py_ssize_t)
    cpdef int move(self, CfqQueue cfqq) except -1
    @cython.locals(positions=list, queues=list, count=Py_ssize_t, head=int64_t, at=Py_ssize_t, found=Py_ssize_t,
                   candidate=CfqQueue)
    cdef CfqQueue _near(self, CfqQueue cfqq)
    @cython.locals(found=CfqQueue)
    cpdef CfqQueue close(self, CfqQueue cfqq)
    @cython.locals(target=CfqQueue, mine=int64_t, theirs=int64_t)
    cpdef int plan_merge(self, CfqQueue cfqq, CfqQueue other) except -1
    @cython.locals(target=CfqQueue)
    cpdef CfqQueue merged_into(self, CfqQueue cfqq, CfqContext cic)
