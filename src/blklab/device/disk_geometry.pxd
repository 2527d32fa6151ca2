cimport cython
from libc.stdint cimport int64_t

@cython.final
cdef class Geometry:
    cdef readonly int64_t size_sectors, heads, zones, rev_ns, head_switch_ns, cylinder_switch_ns
    cdef readonly int64_t zone_cylinders, cylinders
    cdef readonly int64_t[::1] zone_starts, zone_tracks
    cdef readonly int64_t cylinder, head, angle_ns, left, track_sectors

    @cython.locals(starts=int64_t[::1], low=Py_ssize_t, high=Py_ssize_t, middle=Py_ssize_t, per_track=int64_t,
                   rest=int64_t, track=int64_t, place=int64_t, cylinder=int64_t, head=int64_t, skew=int64_t)
    cpdef int64_t locate(self, int64_t sector) noexcept
    @cython.locals(left=int64_t, taken=int64_t)
    cpdef int64_t transfer_ns(self, int64_t sector, int64_t nr_sectors) noexcept
