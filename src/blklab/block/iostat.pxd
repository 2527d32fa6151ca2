cimport cython
from libc.stdint cimport int64_t

@cython.final
cdef class IoStat:
    cdef readonly int64_t jiffy_ns, io_ticks, stamp, in_flight_read, in_flight_write
    cdef readonly int64_t[::1] ios, merges, sectors, time_ns

    @cython.locals(jiffies=int64_t)
    cpdef void started(self, int op, int64_t now_ns) noexcept
    cpdef void merged(self, int op) noexcept
    cpdef void unmade(self, int op) noexcept
    @cython.locals(jiffies=int64_t, group=int)
    cpdef void done(self, int op, int64_t nr_sectors, int64_t start_ns, int64_t now_ns) noexcept
    @cython.locals(group=int)
    cpdef void bio_started(self, int op, int64_t nr_sectors, int64_t now_ns) noexcept
    @cython.locals(jiffies=int64_t, group=int)
    cpdef void bio_done(self, int op, int64_t start_ns, int64_t now_ns) noexcept
    cpdef void flush_done(self, int64_t start_ns, int64_t now_ns) noexcept
