cimport cython
from libc.stdint cimport int64_t
from blklab.block.rwstat cimport RwStat

@cython.final
cdef class GroupStats:
    cdef readonly RwStat merged, service_time, wait_time, queued, service_bytes, serviced
    cdef public int64_t time_ticks, unaccounted_ticks, avg_queue_size_sum, avg_queue_size_samples, dequeue
    cdef public int64_t group_wait_time_ns, idle_time_ns, empty_time_ns
    cdef public int64_t waiting_since_ns, idling_since_ns, empty_since_ns

    cpdef void reset(self) noexcept
    cpdef void io_add(self, int op, bint sync, bint in_service, int64_t now_ns) noexcept
    cpdef void set_active(self, int64_t now_ns) noexcept
    cpdef void set_empty(self, int64_t now_ns) noexcept
    cpdef void idle_begins(self, int64_t now_ns) noexcept
    cpdef void idle_ends(self, int64_t now_ns) noexcept
    cpdef void completed(self, int op, bint sync, int64_t start_ns, int64_t io_start_ns, int64_t now_ns) noexcept
    cpdef void dispatched(self, int op, bint sync, int64_t nr_sectors) noexcept
