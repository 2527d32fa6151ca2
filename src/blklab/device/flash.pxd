cimport cython
from libc.stdint cimport int64_t, uint64_t
from blklab.core.bits cimport ALL_ONES_64, STAR_64
from blklab.core.rand cimport RandomStream
from blklab.device.sampler cimport Sampler

@cython.final
cdef class Flash:
    cdef readonly int64_t units
    cdef readonly int64_t[::1] free_ns, backlog, owed, cached
    cdef int64_t[::1] ready_ns, backlog_owes, cached_owes, page_left
    cdef RandomStream stream
    cdef bint dirty
    cdef uint64_t retry_below
    cdef Sampler read_times, retry_times, program_times, cache_times
    cdef readonly int64_t page_bytes, most_backlog, cache_pages
    cdef int64_t random_owes, gc_ns, idle_ns
    cdef readonly int64_t programs, moves, programmed_ns

    @cython.locals(unit=Py_ssize_t)
    cpdef Py_ssize_t unit_of(self, uint64_t page) noexcept
    @cython.locals(free=int64_t)
    cpdef int64_t read(self, Py_ssize_t i, int64_t begin_ns) noexcept
    cpdef int64_t program(self, Py_ssize_t i, int64_t begin_ns, int64_t random_bytes) noexcept
    cpdef int64_t flush(self, Py_ssize_t i) noexcept
    @cython.locals(i=Py_ssize_t)
    cpdef int64_t flush_all(self) noexcept
    @cython.locals(begin=int64_t, owes=int64_t)
    cdef int _begin_program(self, Py_ssize_t i) noexcept
    @cython.locals(begin=int64_t)
    cdef int _catch_up(self, Py_ssize_t i, int64_t now_ns) noexcept
    @cython.locals(share=int64_t)
    cdef bint _move(self, Py_ssize_t i) noexcept
