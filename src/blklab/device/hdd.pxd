cimport cython
from blklab.core.charging cimport charge
from blklab.core.steps cimport STEP_SCSI_QUEUE
from blklab.block.consts cimport F_FUA, OP_FLUSH, OP_WRITE, STS_OK
from blklab.block.hwqueue cimport HardwareQueue
from blklab.block.request cimport Request
from blklab.device.disk_driver cimport DiskDriver
from blklab.device.disk_unit cimport DiskCommand, DiskUnit

cdef class HddDevice(DiskDriver):
    cdef readonly DiskUnit unit

    @cython.locals(cmd=DiskCommand)
    cpdef int queue_rq(self, HardwareQueue hctx, Request rq, bint last) except -1
    @cython.locals(done=DiskCommand, rq=Request)
    cpdef int disk_done(self, object cmd) except -1
