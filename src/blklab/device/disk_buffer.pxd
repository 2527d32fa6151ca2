cimport cython
from libc.stdint cimport int64_t
from blklab.device.disk_geometry cimport Geometry

@cython.final
cdef class ReadBuffer:
    cdef Geometry geometry
    cdef readonly Py_ssize_t segments, active
    cdef readonly int64_t segment_sectors, readahead_sectors
    cdef readonly int64_t[::1] starts, ends
    cdef int64_t[::1] used
    cdef int64_t stamp
    cdef readonly bint running, following
    cdef readonly int64_t ahead_from, ahead_begin_ns, ahead_end

    @cython.locals(i=Py_ssize_t, geometry=Geometry, passed_ns=int64_t, track_ns=int64_t, end=int64_t)
    cpdef int64_t advance(self, int64_t now_ns) noexcept
    cdef int _grow(self, Py_ssize_t i, int64_t end) noexcept
    cpdef int stop(self, int64_t now_ns) noexcept
    @cython.locals(i=Py_ssize_t)
    cpdef bint hit(self, int64_t sector, int64_t end) noexcept
    @cython.locals(end=int64_t)
    cpdef bint joins(self, int64_t sector, int64_t now_ns) noexcept
    cpdef int64_t joined_ns(self, int64_t end) noexcept
    @cython.locals(i=Py_ssize_t, k=Py_ssize_t)
    cpdef int filled(self, int64_t sector, int64_t end, int64_t now_ns) noexcept
    cpdef int resume(self, int64_t begin_ns) noexcept
    @cython.locals(i=Py_ssize_t)
    cpdef bint asked(self, int64_t end) noexcept
    cpdef int reach(self, int64_t end) noexcept
    @cython.locals(i=Py_ssize_t)
    cpdef int forget(self, int64_t sector, int64_t end) noexcept
