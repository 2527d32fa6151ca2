cimport cython
from blklab.core.charging cimport charge
from blklab.core.clock cimport Clock
from blklab.core.host cimport Host
from blklab.core.steps cimport STEP_SCSI_DONE
from blklab.block.consts cimport STS_OK
from blklab.block.driver cimport Driver
from blklab.block.queue cimport RequestQueue
from blklab.block.request cimport Request

cdef class DiskDriver(Driver):
    cdef readonly dict settings
    cdef readonly Host host
    cdef Clock clock
    cdef readonly int queue_depth, busy, restarts

    cpdef int disk_done(self, object cmd) except -1
    cpdef int get_budget(self, RequestQueue queue) except -2
    cpdef int put_budget(self, RequestQueue queue, int token) except -1
    @cython.locals(queue=RequestQueue)
    cpdef int end(self, Request rq) except -1
    cpdef int timeout(self, Request rq) except -1
