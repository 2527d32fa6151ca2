cimport cython
from libc.stdint cimport int64_t
from blklab.core.clock cimport Clock, Lane
from blklab.block.consts cimport OP_FLUSH, OP_READ, OP_WRITE, STS_OK
from blklab.block.driver cimport Driver
from blklab.block.hwqueue cimport HardwareQueue
from blklab.block.queue cimport RequestQueue
from blklab.block.request cimport Request

cdef class VirtioDisk(Driver):
    cdef object settings
    cdef Clock clock
    cdef int64_t request_ns, flush_ns, mib_ns
    cdef Py_ssize_t threads
    cdef int64_t[::1] free_ns, irq_cpus
    cdef list lanes

    cpdef int irq_cpu(self, Request rq) except -1
    @cython.locals(thread=Py_ssize_t, i=Py_ssize_t, begin=int64_t, done=int64_t, lane=Lane)
    cpdef int queue_rq(self, HardwareQueue hctx, Request rq, bint last) except -1
    cpdef int timeout(self, Request rq) except -1
