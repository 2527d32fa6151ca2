cimport cython
from libc.stdint cimport int64_t
from blklab.block.rwstat cimport RwStat
from blklab.elevator.bfq.bfqq cimport BfqQueue
from blklab.elevator.bfq.entity cimport Group
from blklab.elevator.bfq.params cimport CLASS_IDLE, CLASS_RT, CLOSE_THR_SECTORS, NR_LEVELS

cdef class BfqGroup(Group):
    cdef readonly list async_bfqqs
    cdef public BfqQueue last_bfqq_created
    cdef public bint online
    cdef public RwStat bytes, ios
    cdef list pos_sectors, pos_bfqqs

    cpdef int async_index(self, int ioprio_class, int ioprio) noexcept
    @cython.locals(at=Py_ssize_t)
    cpdef pos_remove(self, BfqQueue bfqq)
    @cython.locals(at=Py_ssize_t, sector=int64_t)
    cpdef pos_add(self, BfqQueue bfqq)
    @cython.locals(at=Py_ssize_t)
    cpdef BfqQueue find_close(self, int64_t sector)
