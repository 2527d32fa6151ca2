cimport cython
from libc.stdint cimport int64_t
from blklab.block.consts cimport OP_DISCARD

@cython.final
cdef class RwStat:
    cdef readonly int64_t read, write, discard, sync, async_

    cpdef void add(self, int op, bint sync, int64_t value) noexcept
    cpdef void add_all(self, RwStat other) noexcept
    cpdef int64_t total(self) noexcept
