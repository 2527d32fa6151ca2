cimport cython
from libc.stdint cimport int64_t
from blklab.core.clock cimport Clock, Lane
from blklab.core.host cimport Host
from blklab.block.consts cimport F_FUA, OP_FLUSH, OP_READ, OP_WRITE, STS_OK
from blklab.block.driver cimport Driver
from blklab.block.hwqueue cimport HardwareQueue
from blklab.block.queue cimport RequestQueue
from blklab.block.request cimport Request, RequestList
from blklab.device.flash cimport Flash

cdef class SsdDevice(Driver):
    cdef readonly dict settings
    cdef readonly Host host
    cdef Clock clock
    cdef object seed
    cdef readonly Flash flash
    cdef Py_ssize_t units
    cdef list lanes
    cdef int64_t[::1] out_ns, write_ends, irq_cpus
    cdef int page_shift
    cdef int64_t latency_ns, write_latency_ns, flush_ns, other_ns
    cdef int64_t read_command_ns, write_command_ns, read_mib_ns, write_mib_ns, command_mib_ns
    cdef int64_t command_free_ns, read_link_free_ns, write_link_free_ns, buffer_free_ns
    cdef readonly int64_t slots, in_slots
    cdef readonly RequestList waiting
    cdef bint buffered, amplifies
    cdef int64_t page_bytes, open_bytes, open_random_bytes
    cdef Py_ssize_t next_unit

    cpdef int irq_cpu(self, Request rq) except -1
    cpdef int queue_rq(self, HardwareQueue hctx, Request rq, bint last) except -1
    cpdef int rq_done(self, Request rq) except -1
    cpdef int timeout(self, Request rq) except -1
    cdef int _begin(self, Request rq) except -1
    @cython.locals(lane=Lane)
    cdef int _leave(self, Request rq, Py_ssize_t lane_index, int64_t done_ns) except -1
    @cython.locals(flash=Flash, begin=int64_t, transfer_ns=int64_t, alone_ns=int64_t, page=int64_t, end_page=int64_t,
                   done=int64_t, unit=Py_ssize_t, i=Py_ssize_t, end=int64_t)
    cdef int _read(self, Request rq) except -1
    @cython.locals(begin=int64_t, size=int64_t, transfer_ns=int64_t)
    cdef int _write(self, Request rq) except -1
    @cython.locals(flash=Flash, left=int64_t, done=int64_t, unit=Py_ssize_t, i=Py_ssize_t, end=int64_t)
    cdef int _write_through(self, Request rq, int64_t begin_ns, int64_t transfer_ns) except -1
    @cython.locals(now=int64_t, done=int64_t)
    cdef int _flush(self, Request rq) except -1
    @cython.locals(region=Py_ssize_t, continues=bint, end=int64_t)
    cdef bint _continues(self, Request rq) noexcept
    @cython.locals(share=int64_t)
    cdef int64_t _random_share(self) noexcept
    @cython.locals(unit=Py_ssize_t)
    cdef Py_ssize_t _turn(self) noexcept
