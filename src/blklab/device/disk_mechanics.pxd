cimport cython
from libc.stdint cimport int64_t
from blklab.device.disk_geometry cimport Geometry

@cython.final
cdef class Mechanics:
    cdef readonly Geometry geometry
    cdef readonly int64_t rev_ns, head_switch_ns, write_settle_ns
    cdef int64_t[::1] near, far
    cdef int far_shift
    cdef int64_t near_cylinders
    cdef readonly int64_t cylinder, head

    @cython.locals(step=int64_t, before=int64_t, part=int64_t)
    cpdef int64_t seek_ns(self, int64_t distance) noexcept
    @cython.locals(distance=int64_t, taken=int64_t)
    cpdef int64_t move_ns(self, int64_t cylinder, int64_t head, bint write) noexcept
    @cython.locals(moved=int64_t, wait=int64_t)
    cpdef int64_t position_ns(self, int64_t cylinder, int64_t head, int64_t angle_ns, bint write,
                              int64_t now_angle_ns) noexcept
    cpdef int stand_at(self, int64_t sector) noexcept
