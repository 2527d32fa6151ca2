cimport cython
from libc.stdint cimport int64_t
from blklab.core.host cimport Host
from blklab.block.consts cimport (F_FUA, F_META, F_PREFLUSH, F_RAHEAD, F_SYNC, OP_DISCARD, OP_FLUSH, OP_READ,
                                  OP_WRITE, OP_WRITE_ZEROES)

@cython.final
cdef class Tracer:
    cdef readonly Host host
    cdef public int mask
    cdef readonly object sink
    cdef readonly list blocks, messages
    cdef readonly int64_t count
    cdef Py_ssize_t position
    cdef object block
    cdef int64_t[::1] cells

    @cython.locals(host=Host, cells=int64_t[::1], i=Py_ssize_t)
    cpdef int add(self, int action, int device, int op, int flags, int64_t sector, int64_t nr_sectors,
                  int64_t extra) except -1
    cpdef int message(self, int device, str text) except -1
