cimport cython
from libc.stdint cimport int64_t
from blklab.core.charging cimport charge
from blklab.core.steps cimport STEP_SCSI_QUEUE
from blklab.block.consts cimport OP_READ, OP_WRITE, STS_OK
from blklab.block.hwqueue cimport HardwareQueue
from blklab.block.request cimport Request
from blklab.device.disk_driver cimport DiskDriver
from blklab.device.disk_extents cimport Extents
from blklab.device.disk_unit cimport DiskCommand, DiskUnit

@cython.final
cdef class Member:
    cdef readonly DiskUnit unit
    cdef readonly int index
    cdef readonly Extents dirty, moving
    cdef readonly object reads
    cdef public int reading, writing
    cdef public int64_t swept_to

cdef class StorageArray(DiskDriver):
    cdef readonly list members
    cdef readonly int64_t nr_disks, chunk_sectors, cache_sectors, high_sectors, low_sectors, destage_sectors
    cdef int disk_depth, destage_depth
    cdef bint destage_first
    cdef int64_t controller_ns, write_ns, read_ns, link_mib_ns, controller_free_ns, link_free_ns
    cdef readonly int64_t held, read_hits, write_waits
    cdef readonly bint pressed
    cdef readonly object waiting_writes
    cdef int64_t part_disk, part_sector

    @cython.locals(begin=int64_t)
    cpdef int queue_rq(self, HardwareQueue hctx, Request rq, bint last) except -1
    cpdef int rq_done(self, Request rq) except -1
    @cython.locals(done=DiskCommand, member=Member, rq=Request)
    cpdef int disk_done(self, object cmd) except -1
    cdef int64_t _over_link(self, int64_t begin_ns, int64_t nr_sectors) noexcept
    cdef bint _has_room(self, Request rq) noexcept
    @cython.locals(now=int64_t, begin=int64_t, sector=int64_t, end=int64_t, part=int64_t, member=Member)
    cdef int _accept(self, Request rq) except -1
    @cython.locals(chunk=int64_t, inside=int64_t, row=int64_t, left=int64_t)
    cdef int64_t _part(self, int64_t sector, int64_t end) noexcept
    @cython.locals(i=Py_ssize_t)
    cdef int _destage_all(self) except -1
    @cython.locals(pressed=bint, dirty=Extents, rq=object, sector=int64_t, nr_sectors=int64_t)
    cdef int _feed(self, Member member) except -1
    @cython.locals(cmd=DiskCommand)
    cdef int _give(self, Member member, object rq, int64_t sector, int64_t nr_sectors, bint write) except -1
    @cython.locals(sector=int64_t, end=int64_t, part=int64_t, member=Member, start=int64_t)
    cdef int _read(self, Request rq) except -1
    @cython.locals(now=int64_t, begin=int64_t)
    cdef int _answer(self, Request rq) except -1
