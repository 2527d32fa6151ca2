cimport cython
from libc.stdint cimport int64_t
from blklab.core.bits cimport fls64
from blklab.metrics.buckets cimport DEPTH_BUCKETS, LATENCY_BUCKETS, NS_PER_MS, plat_index
from blklab.metrics.histogram cimport LatencyHistogram

@cython.final
cdef class Stat:
    cdef readonly int64_t n, min, max
    cdef readonly double mean, s

    @cython.locals(val=double, delta=double)
    cpdef void add(self, int64_t value) noexcept
    @cython.locals(own=double, more=double, delta=double)
    cpdef void merge(self, Stat other) noexcept
    cpdef void merge_sum(self, Stat other) noexcept
    cpdef void reset(self) noexcept

@cython.final
cdef class DirectionStats:
    cdef readonly Stat slat, clat, lat, bw, iops
    cdef readonly LatencyHistogram slat_hist, clat_hist, lat_hist
    cdef public int64_t ios, done_ios, bytes, short_ios, drop_ios, runtime_ns
    cdef int64_t bw_seen_bytes, iops_seen_ios

    cpdef void merge(self, DirectionStats other) noexcept
    cpdef void reset(self) noexcept

@cython.final
cdef class JobStats:
    cdef readonly DirectionStats read, write, trim
    cdef readonly Stat sync
    cdef readonly LatencyHistogram sync_hist
    cdef readonly bint clat_percentiles, lat_percentiles, slat_percentiles
    cdef readonly int64_t bw_avg_ms, iops_avg_ms
    cdef int64_t[::1] depth_map, submit_map, complete_map, latency_map, edges
    cdef public int64_t sync_ios, zone_resets
    cdef readonly int64_t submits, completes
    cdef public int64_t total_run_ns, usr_ns, sys_ns, ctx, majf, minf
    cdef int64_t bw_from_ns, iops_from_ns

    cpdef DirectionStats of(self, int ddir)
    cpdef void io_done(self, int ddir, int64_t length_bytes, int64_t slat_ns, int64_t clat_ns, int64_t lat_ns) noexcept
    @cython.locals(d=DirectionStats)
    cpdef void io_issued(self, int ddir, int64_t slat_ns) noexcept
    @cython.locals(d=DirectionStats, h=LatencyHistogram, edge=int, bucket=int64_t)
    cpdef void io_completed(self, int ddir, int64_t length_bytes, int64_t clat_ns, int64_t lat_ns) noexcept
    cpdef void sync_done(self, int64_t latency_ns) noexcept
    cpdef void depth_mark(self, int depth) noexcept
    @cython.locals(bucket=int)
    cpdef void depth_mark_many(self, int depth, int64_t ios) noexcept
    @cython.locals(bucket=int)
    cpdef void submit_mark(self, int n) noexcept
    @cython.locals(bucket=int)
    cpdef void complete_mark(self, int n) noexcept
    cpdef void start_windows(self, int64_t now_ns) noexcept
    cpdef int64_t sample(self, int64_t now_ns) noexcept
    @cython.locals(spent_ms=int64_t, delta=int64_t, d=DirectionStats)
    cpdef int64_t sample_bw(self, int64_t now_ns) noexcept
    @cython.locals(spent_ms=int64_t, delta=int64_t, d=DirectionStats)
    cpdef int64_t sample_iops(self, int64_t now_ns) noexcept
    @cython.locals(d=DirectionStats)
    cpdef void loop_restart(self) noexcept
    @cython.locals(bucket=int)
    cpdef void reset(self) noexcept
    @cython.locals(bucket=int, ddir=int)
    cpdef void merge(self, JobStats other, bint mixed=*) noexcept
