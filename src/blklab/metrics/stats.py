"""What fio counts for one job: running mean and variance, latencies, depths, windows of bandwidth and IOPS.

Theory of operation
-------------------
The workload engine tells a `JobStats` what happened, in integers of nanoseconds and bytes that it measured
itself:

- `io_done` when an I/O has completed. slat is from the moment fio prepared the I/O to the moment it was
  issued, clat from there to completion, lat from preparation to completion. A negative latency means that
  there is none: engines that submit and wait in one call (sync, psync, ...) have no slat, and disable_lat and
  the like switch others off.
- where the submission matters by itself, `io_issued` at submission and `io_completed` at completion instead.
  fio counts an I/O and its slat when it is issued, and its bytes, clat and lat when it completes; the two
  differ for I/Os in flight when ramp_time ends.
- `depth_mark` for each I/O with the number of I/Os then in flight, `submit_mark` and `complete_mark` with the
  number of I/Os of each submission and reaping call. An engine without a separate commit marks (1, 1) for
  every I/O; the sync mode of the null engine marks depth alone.
- `sample` every `bw_avg_ms` of the run (fio's helper thread): bandwidth and IOPS of the window that ends.
- `reset` and `start_windows` when ramp_time ends, `loop_restart` when a loop of the job begins again.

Mean and variance are Welford's running form, in the order of operations of fio, so that they agree to the
last bit. `merge` is how fio reports jobs of a group as one: latencies pool their samples, bandwidth and IOPS
add up.

Times are kept in nanoseconds; fio keeps the CPU times and runtimes of a job in milliseconds, and `merge` adds
them as such (`ms_up`, `ms_down`), so that a group's figures are fio's.

Differences from fio: an empty `Stat` has min 0, not the largest number (fio never shows it). Counters are
signed.
"""

from __future__ import annotations

import math
from array import array
from typing import Any

import cython

from blklab.metrics.buckets import LATENCY_EDGES
from blklab.metrics.histogram import LatencyHistogram

if not cython.compiled:
    from blklab.core.bits import fls64
    from blklab.metrics.buckets import DEPTH_BUCKETS, LATENCY_BUCKETS, NS_PER_MS, plat_index


def ms_down(ns: int) -> int:
    """Whole milliseconds, as fio measures CPU time and the whole run of a job."""
    return ns // NS_PER_MS


def ms_up(ns: int) -> int:
    """Milliseconds of a direction's runtime: fio rounds whole microseconds up to milliseconds."""
    return (ns // 1000 + 999) // 1000


class Stat:
    """Number, minimum, maximum, mean and variance of integers; `s` sums squared distances from the mean."""

    def __init__(self) -> None:
        self.n = 0
        self.min = 0
        self.max = 0
        self.mean = 0.0
        self.s = 0.0

    def add(self, value: int) -> None:
        """Take one value into account."""
        if self.n == 0:
            self.min = value
            self.max = value
        elif value < self.min:
            self.min = value
        elif value > self.max:
            self.max = value
        val = float(value)
        delta = val - self.mean
        self.n += 1
        self.mean += delta / self.n
        self.s += delta * (val - self.mean)

    def merge(self, other: Stat) -> None:
        """Pool the samples of `other` with these (Chan's parallel form, with fio's order of operations)."""
        if other.n == 0:
            return
        if self.n == 0:
            self.merge_sum(other)
            return
        self.min = min(self.min, other.min)
        self.max = max(self.max, other.max)
        own = float(self.n)
        more = float(other.n)
        delta = other.mean - self.mean
        self.mean = (other.mean * more + self.mean * own) / (own + more)
        self.s = other.s + self.s + delta * delta * (own * more) / (own + more)
        self.n += other.n

    def merge_sum(self, other: Stat) -> None:
        """Add `other`'s figures to these: fio's way with bandwidth and IOPS, which of several jobs add up."""
        self.n += other.n
        self.min += other.min
        self.max += other.max
        self.mean += other.mean
        self.s += other.s

    def reset(self) -> None:
        """Forget everything."""
        self.n = 0
        self.min = 0
        self.max = 0
        self.mean = 0.0
        self.s = 0.0

    def load(self, n: int, low: int, high: int, mean: float, stddev: float) -> None:
        """Take the figures of a published result: samples, minimum, maximum, mean, standard deviation."""
        self.n = n
        self.min = low
        self.max = high
        self.mean = mean
        self.s = stddev * stddev * (n - 1) if n > 1 else 0.0

    def __reduce__(self) -> tuple[object, ...]:
        return Stat, (), (self.n, self.min, self.max, self.mean, self.s)

    def __setstate__(self, state: tuple[int, int, int, float, float]) -> None:
        self.n, self.min, self.max, self.mean, self.s = state

    @property
    def stddev(self) -> float:
        """Standard deviation of the samples (n - 1); 0 with fewer than two."""
        return math.sqrt(self.s / (self.n - 1)) if self.n > 1 else 0.0


class DirectionStats:
    """Counts of one direction (reads, writes or trims) of a job.

    `ios` are issued, `done_ios` and `bytes` completed. `runtime_ns` is set by the caller at the end.
    Latencies are in nanoseconds, `bw` in KiB/s and `iops` in I/Os per second, one sample a window.
    """

    def __init__(self) -> None:
        self.slat = Stat()
        self.clat = Stat()
        self.lat = Stat()
        self.bw = Stat()
        self.iops = Stat()
        self.slat_hist = LatencyHistogram()
        self.clat_hist = LatencyHistogram()
        self.lat_hist = LatencyHistogram()
        self.ios = 0
        self.done_ios = 0
        self.bytes = 0
        self.short_ios = 0
        self.drop_ios = 0
        self.runtime_ns = 0
        self.bw_seen_bytes = 0
        self.iops_seen_ios = 0

    def merge(self, other: DirectionStats) -> None:
        """Add another job's direction. The runtime of both is the longer one."""
        self.slat.merge(other.slat)
        self.clat.merge(other.clat)
        self.lat.merge(other.lat)
        if other.bw.n:
            self.bw.merge_sum(other.bw)
        if other.iops.n:
            self.iops.merge_sum(other.iops)
        self.slat_hist.merge(other.slat_hist)
        self.clat_hist.merge(other.clat_hist)
        self.lat_hist.merge(other.lat_hist)
        self.ios += other.ios
        self.done_ios += other.done_ios
        self.bytes += other.bytes
        self.short_ios += other.short_ios
        self.drop_ios += other.drop_ios
        self.runtime_ns = max(self.runtime_ns, other.runtime_ns)

    def reset(self) -> None:
        """Forget everything."""
        self.slat.reset()
        self.clat.reset()
        self.lat.reset()
        self.bw.reset()
        self.iops.reset()
        self.slat_hist.reset()
        self.clat_hist.reset()
        self.lat_hist.reset()
        self.ios = 0
        self.done_ios = 0
        self.bytes = 0
        self.short_ios = 0
        self.drop_ios = 0
        self.runtime_ns = 0
        self.bw_seen_bytes = 0
        self.iops_seen_ios = 0

    def __reduce__(self) -> tuple[object, ...]:
        stats = (self.slat, self.clat, self.lat, self.bw, self.iops)
        hists = (self.slat_hist, self.clat_hist, self.lat_hist)
        counts = (self.ios, self.done_ios, self.bytes, self.short_ios, self.drop_ios, self.runtime_ns)
        return DirectionStats, (), (stats, hists, counts, (self.bw_seen_bytes, self.iops_seen_ios))

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        stats, hists, counts, seen = state
        self.slat, self.clat, self.lat, self.bw, self.iops = stats
        self.slat_hist, self.clat_hist, self.lat_hist = hists
        self.ios, self.done_ios, self.bytes, self.short_ios, self.drop_ios, self.runtime_ns = counts
        self.bw_seen_bytes, self.iops_seen_ios = seen


class JobStats:
    """Everything fio counts for one job. Directions: 0 read, 1 write, 2 trim.

    The percentile options say of which latencies a histogram is kept; fio's default is clat alone.
    `total_run_ns` (the job from its start, or from the end of ramp_time, to its end), the CPU times `usr_ns`
    and `sys_ns`, `ctx`, `majf` and `minf` are the caller's to set.
    """

    def __init__(
        self,
        clat_percentiles: bool = True,
        lat_percentiles: bool = False,
        slat_percentiles: bool = False,
        bw_avg_ms: int = 500,
        iops_avg_ms: int = 500,
    ) -> None:
        self.clat_percentiles = clat_percentiles
        self.lat_percentiles = lat_percentiles
        self.slat_percentiles = slat_percentiles
        self.bw_avg_ms = bw_avg_ms
        self.iops_avg_ms = iops_avg_ms
        self.read = DirectionStats()
        self.write = DirectionStats()
        self.trim = DirectionStats()
        self.sync = Stat()
        self.sync_hist = LatencyHistogram()
        self.edges = LATENCY_EDGES
        self.depth_map = array("q", [0] * DEPTH_BUCKETS)
        self.submit_map = array("q", [0] * DEPTH_BUCKETS)
        self.complete_map = array("q", [0] * DEPTH_BUCKETS)
        self.latency_map = array("q", [0] * LATENCY_BUCKETS)
        self.sync_ios = 0
        self.zone_resets = 0
        self.submits = 0
        self.completes = 0
        self.total_run_ns = 0
        self.usr_ns = 0
        self.sys_ns = 0
        self.ctx = 0
        self.majf = 0
        self.minf = 0
        self.bw_from_ns = 0
        self.iops_from_ns = 0

    def of(self, ddir: int) -> DirectionStats:
        """The counts of direction `ddir`."""
        if ddir == 0:
            return self.read
        if ddir == 1:
            return self.write
        return self.trim

    def directions(self) -> tuple[DirectionStats, DirectionStats, DirectionStats]:
        """The counts of reads, writes and trims."""
        return (self.read, self.write, self.trim)

    def io_done(self, ddir: int, length_bytes: int, slat_ns: int, clat_ns: int, lat_ns: int) -> None:
        """An I/O of `length_bytes` completed. A latency below 0 is one that this job does not have."""
        self.io_issued(ddir, slat_ns)
        self.io_completed(ddir, length_bytes, clat_ns, lat_ns)

    def io_issued(self, ddir: int, slat_ns: int) -> None:
        """An I/O was submitted `slat_ns` after it was prepared (below 0: none); `io_completed` follows."""
        d = self.of(ddir)
        d.ios += 1
        if slat_ns >= 0:
            d.slat.add(slat_ns)
            if self.slat_percentiles:
                d.slat_hist.add(slat_ns)

    def io_completed(self, ddir: int, length_bytes: int, clat_ns: int, lat_ns: int) -> None:
        """An I/O that `io_issued` counted has completed; latencies below 0 are not counted."""
        d = self.of(ddir)
        d.done_ios += 1
        d.bytes += length_bytes
        if lat_ns >= 0:
            d.lat.add(lat_ns)
            if self.lat_percentiles:
                d.lat_hist.add(lat_ns)
        if clat_ns >= 0:
            d.clat.add(clat_ns)
            if self.clat_percentiles:
                h = d.clat_hist
                if h.n == 0:
                    h.allocate()
                h.n += 1
                h.counts[plat_index(clat_ns)] += 1
            edge = 3 * fls64(clat_ns)
            bucket = self.edges[edge]
            if clat_ns >= self.edges[edge + 1]:
                bucket += 1
            if clat_ns >= self.edges[edge + 2]:
                bucket += 1
            self.latency_map[bucket] += 1

    def sync_done(self, latency_ns: int) -> None:
        """An fsync, fdatasync or sync_file_range of the job took `latency_ns`. Of these `sync_ios` counts only
        fsyncs."""
        self.sync.add(latency_ns)
        self.sync_hist.add(latency_ns)

    def depth_mark(self, depth: int) -> None:
        """An I/O was submitted that makes `depth` of them in flight."""
        self.depth_mark_many(depth, 1)

    def depth_mark_many(self, depth: int, ios: int) -> None:
        """A batch of `ios` I/Os was committed, which made `depth` in flight: fio marks them all alike."""
        bucket = fls64(depth) - 1
        if bucket > 6 or bucket < 0:
            bucket = 6
        self.depth_map[bucket] += ios

    def submit_mark(self, n: int) -> None:
        """A submission call submitted `n` I/Os."""
        bucket = 0
        if n > 0:
            bucket = fls64((n - 1) | 3) - 1
            if bucket > 6:
                bucket = 6
        self.submit_map[bucket] += 1
        self.submits += 1

    def complete_mark(self, n: int) -> None:
        """A call that reaps completions got `n`; 0 counts too."""
        bucket = 0
        if n > 0:
            bucket = fls64((n - 1) | 3) - 1
            if bucket > 6:
                bucket = 6
        self.complete_map[bucket] += 1
        self.completes += 1

    def start_windows(self, now_ns: int) -> None:
        """Bandwidth and IOPS windows begin now: the job starts, or its ramp_time is over."""
        self.bw_from_ns = now_ns
        self.iops_from_ns = now_ns

    def sample(self, now_ns: int) -> int:
        """End the windows that are due and take their samples. Returns after how many ns to call again."""
        return min(self.sample_bw(now_ns), self.sample_iops(now_ns))

    def sample_bw(self, now_ns: int) -> int:
        """`sample` for bandwidth alone: KiB/s of each direction that moved anything in the window."""
        spent_ms = (now_ns - self.bw_from_ns) // NS_PER_MS if now_ns > self.bw_from_ns else 0
        if spent_ms + 1 < self.bw_avg_ms:  # 1 ms early is as good as due
            return (self.bw_avg_ms - spent_ms) * NS_PER_MS
        for ddir in range(3):
            d = self.of(ddir)
            delta = d.bytes - d.bw_seen_bytes
            if delta:
                d.bw.add(delta * 1000 // spent_ms // 1024 if spent_ms else 0)
                d.bw_seen_bytes = d.bytes
        self.bw_from_ns = now_ns
        return next_window_ns(self.bw_avg_ms, spent_ms)

    def sample_iops(self, now_ns: int) -> int:
        """`sample` for IOPS alone."""
        spent_ms = (now_ns - self.iops_from_ns) // NS_PER_MS if now_ns > self.iops_from_ns else 0
        if spent_ms + 1 < self.iops_avg_ms:
            return (self.iops_avg_ms - spent_ms) * NS_PER_MS
        for ddir in range(3):
            d = self.of(ddir)
            delta = d.done_ios - d.iops_seen_ios
            if delta:
                d.iops.add(delta * 1000 // spent_ms if spent_ms else 0)
                d.iops_seen_ios = d.done_ios
        self.iops_from_ns = now_ns
        return next_window_ns(self.iops_avg_ms, spent_ms)

    def loop_restart(self) -> None:
        """The job begins its next loop: what the current windows have seen so far is lost, as in fio."""
        for ddir in range(3):
            d = self.of(ddir)
            d.bw_seen_bytes = d.bytes
            d.iops_seen_ios = d.done_ios

    def reset(self) -> None:
        """Forget everything (end of ramp_time); `start_windows` has to follow."""
        self.read.reset()
        self.write.reset()
        self.trim.reset()
        self.sync.reset()
        self.sync_hist.reset()
        for bucket in range(DEPTH_BUCKETS):
            self.depth_map[bucket] = 0
            self.submit_map[bucket] = 0
            self.complete_map[bucket] = 0
        for bucket in range(LATENCY_BUCKETS):
            self.latency_map[bucket] = 0
        self.sync_ios = 0
        self.zone_resets = 0
        self.submits = 0
        self.completes = 0
        self.total_run_ns = 0
        self.usr_ns = 0
        self.sys_ns = 0
        self.ctx = 0
        self.majf = 0
        self.minf = 0

    def merge(self, other: JobStats, mixed: bool = False) -> None:
        """Add another job; `mixed` counts its writes and trims as reads (unified_rw_reporting)."""
        for ddir in range(3):
            self.of(0 if mixed else ddir).merge(other.of(ddir))
        self.sync.merge(other.sync)
        self.sync_hist.merge(other.sync_hist)
        for bucket in range(DEPTH_BUCKETS):
            self.depth_map[bucket] += other.depth_map[bucket]
            self.submit_map[bucket] += other.submit_map[bucket]
            self.complete_map[bucket] += other.complete_map[bucket]
        for bucket in range(LATENCY_BUCKETS):
            self.latency_map[bucket] += other.latency_map[bucket]
        self.sync_ios += other.sync_ios
        self.zone_resets += other.zone_resets
        self.submits += other.submits
        self.completes += other.completes
        self.total_run_ns += ms_down(other.total_run_ns) * NS_PER_MS
        self.usr_ns += ms_down(other.usr_ns) * NS_PER_MS
        self.sys_ns += ms_down(other.sys_ns) * NS_PER_MS
        self.ctx += other.ctx
        self.majf += other.majf
        self.minf += other.minf

    def depths(self) -> list[int]:
        """I/Os submitted at a depth of 1, 2-3, 4-7, 8-15, 16-31, 32-63, 64 and more."""
        return list(self.depth_map)

    def submit_counts(self) -> list[int]:
        """Submission calls with 0, 1-4, 5-8, 9-16, 17-32, 33-64, more than 64 I/Os."""
        return list(self.submit_map)

    def complete_counts(self) -> list[int]:
        """Reaping calls that got 0, 1-4, 5-8, 9-16, 17-32, 33-64, more than 64 I/Os."""
        return list(self.complete_map)

    def latency_counts(self) -> list[int]:
        """Completion latencies in each bucket of fio's distribution (`buckets.LATENCY_STARTS`)."""
        return list(self.latency_map)

    def load_maps(
        self,
        depths: list[int],
        submit_counts: list[int],
        complete_counts: list[int],
        latencies: list[int],
        submits: int,
        completes: int,
    ) -> None:
        """Take the distributions of a published result, and its numbers of submission and reaping calls."""
        self.depth_map = array("q", depths)
        self.submit_map = array("q", submit_counts)
        self.complete_map = array("q", complete_counts)
        self.latency_map = array("q", latencies)
        self.submits = submits
        self.completes = completes

    def __reduce__(self) -> tuple[object, ...]:
        options = (self.clat_percentiles, self.lat_percentiles, self.slat_percentiles)
        windows = (self.bw_avg_ms, self.iops_avg_ms)
        parts = (self.read, self.write, self.trim, self.sync, self.sync_hist)
        maps = (self.depths(), self.submit_counts(), self.complete_counts(), self.latency_counts())
        calls = (self.submits, self.completes, self.sync_ios, self.zone_resets)
        usage = (self.total_run_ns, self.usr_ns, self.sys_ns, self.ctx, self.majf, self.minf)
        since = (self.bw_from_ns, self.iops_from_ns)
        return JobStats, (*options, *windows), (parts, maps, calls, usage, since)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        parts, maps, calls, usage, since = state
        depths, submit_counts, complete_counts, latencies = maps
        submits, completes, self.sync_ios, self.zone_resets = calls
        self.read, self.write, self.trim, self.sync, self.sync_hist = parts
        self.load_maps(depths, submit_counts, complete_counts, latencies, submits, completes)
        self.total_run_ns, self.usr_ns, self.sys_ns, self.ctx, self.majf, self.minf = usage
        self.bw_from_ns, self.iops_from_ns = since


def next_window_ns(avg_ms: int, spent_ms: int) -> int:
    """How long until the next window ends, if the last one took `spent_ms`: fio makes up for a late one."""
    late_ms = 1 + spent_ms - avg_ms if spent_ms > avg_ms else 0
    return max(avg_ms - late_ms, 1) * NS_PER_MS
