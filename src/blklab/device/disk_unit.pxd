cimport cython
from libc.stdint cimport int64_t
from blklab.core.clock cimport Clock, Event
from blklab.device.disk_buffer cimport ReadBuffer
from blklab.device.disk_driver cimport DiskDriver
from blklab.device.disk_extents cimport Extents
from blklab.device.disk_geometry cimport Geometry
from blklab.device.disk_mechanics cimport Mechanics

cdef class DiskCommand(Event):
    cdef readonly DiskUnit unit
    cdef public object rq
    cdef public int64_t sector, end
    cdef public bint write, through, flush
    cdef public int index
    cdef int state
    cdef bint joined
    cdef readonly int64_t cylinder, head, angle_ns, arrived_ns, ready_ns, media_end_ns
    cdef DiskCommand following, preceding

    cpdef int fire(self, int64_t now_ns) except -1

@cython.final
cdef class DiskUnit:
    cdef Clock clock
    cdef DiskDriver owner
    cdef readonly int64_t rev_ns
    cdef readonly Geometry geometry
    cdef readonly object curve
    cdef readonly Mechanics mechanics
    cdef readonly ReadBuffer buffer
    cdef readonly int64_t command_ns, link_mib_ns, window, starve_ns
    cdef readonly bint cached, exclusive_flush
    cdef readonly int64_t cache_sectors, cache_runs, high_sectors, high_runs, destage_sectors
    cdef readonly Extents dirty
    cdef readonly int64_t reserved, reserved_runs, writing_start, writing_end
    cdef DiskCommand destage
    cdef bint destaged_last
    cdef readonly object waiting_writes, flushes
    cdef DiskCommand first, last
    cdef readonly Py_ssize_t waiting, in_service
    cdef readonly DiskCommand active
    cdef int64_t processor_free_ns, link_free_ns
    cdef DiskCommand free
    cdef readonly int64_t strokes, hits, joins, destages, starved, stroke_ns, wait_ns, media_ns, run_ns
    cdef public list journal

    cpdef DiskCommand command(self, object rq, int64_t sector, int64_t nr_sectors, bint write)
    @cython.locals(now=int64_t, ready=int64_t)
    cpdef int submit(self, DiskCommand cmd) except -1
    cpdef int fired(self, DiskCommand cmd) except -1
    cdef int64_t _over_link(self, int64_t begin_ns, int64_t nr_sectors) noexcept
    cdef int _reply(self, DiskCommand cmd, int64_t at_ns) except -1
    @cython.locals(buffer=ReadBuffer)
    cdef int _read(self, DiskCommand cmd) except -1
    cdef bint _in_cache(self, DiskCommand cmd) except -1
    @cython.locals(end=int64_t, moved=int64_t)
    cdef int _read_on(self, int64_t now_ns) except -1
    @cython.locals(nr_sectors=int64_t, held=int64_t)
    cdef bint _has_room(self, DiskCommand cmd) except -1
    @cython.locals(ready=int64_t)
    cdef int _accept(self, DiskCommand cmd) except -1
    cdef int _flush(self, DiskCommand cmd) except -1
    @cython.locals(now=int64_t, cmd=DiskCommand)
    cdef int _flushed(self) except -1
    cdef int _admit(self) except -1
    @cython.locals(geometry=Geometry)
    cdef int _queue(self, DiskCommand cmd) except -1
    cdef int _unqueue(self, DiskCommand cmd) except -1
    @cython.locals(commands=bint, destage=bint)
    cdef int _next(self) except -1
    @cython.locals(now=int64_t, mechanics=Mechanics, buffer=ReadBuffer, now_angle=int64_t, cmd=DiskCommand,
                   best=DiskCommand, best_ns=int64_t, joined=bint, left=int64_t, at=int64_t, taken=int64_t,
                   i=Py_ssize_t)
    cdef int _next_command(self, bint destage) except -1
    cdef int _follow(self, int64_t now_ns) except -1
    @cython.locals(buffer=ReadBuffer, geometry=Geometry, at=int64_t, cylinder=int64_t, nr_sectors=int64_t,
                   begin=int64_t, end=int64_t, moved=int64_t, tail=int64_t)
    cdef int _begin(self, DiskCommand cmd, int64_t now, bint joined) except -1
    cdef int _media_done(self, DiskCommand cmd) except -1
    @cython.locals(now=int64_t)
    cdef int _next_run(self) except -1
    @cython.locals(geometry=Geometry, dirty=Extents, now_angle=int64_t, i=Py_ssize_t, best=Py_ssize_t,
                   left=int64_t, taken=int64_t)
    cdef Py_ssize_t _nearest_run(self, int64_t now) except -1
    @cython.locals(cmd=DiskCommand, dirty=Extents)
    cdef int _write_run(self, Py_ssize_t i, int64_t now) except -1
