"""What a job counts: running statistics, marks, windows, and adding jobs up."""

from __future__ import annotations

import math
import pickle
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blklab.metrics.buckets import LATENCY_STARTS
from blklab.metrics.stats import JobStats, Stat, ms_down, ms_up

MS = 1_000_000
values = st.integers(0, 10**10)


def stat_of(numbers: list[int]) -> Stat:
    stat = Stat()
    for number in numbers:
        stat.add(number)
    return stat


def figures(stat: Stat) -> tuple[int, int, int, float, float]:
    return stat.n, stat.min, stat.max, stat.mean, stat.s


def everything(stats: JobStats) -> object:
    """All that a job has counted, as plain data."""
    return [
        [
            [figures(s) for s in (d.slat, d.clat, d.lat, d.bw, d.iops)],
            [h.bins() for h in (d.slat_hist, d.clat_hist, d.lat_hist)],
            (d.ios, d.done_ios, d.bytes, d.short_ios, d.drop_ios, d.runtime_ns),
        ]
        for d in stats.directions()
    ] + [
        (figures(stats.sync), stats.sync_hist.bins(), stats.sync_ios, stats.zone_resets),
        (stats.depths(), stats.submit_counts(), stats.complete_counts(), stats.latency_counts()),
        (stats.submits, stats.completes, stats.total_run_ns, stats.usr_ns, stats.sys_ns),
        (stats.ctx, stats.majf, stats.minf),
    ]


def busy_job(seed: int = 1) -> JobStats:
    """A job in which every counter is used."""
    stats = JobStats(True, True, True)
    stats.start_windows(0)
    for i in range(60):
        number = (i * 7919 + seed * 104729) % 100_003
        stats.io_done(i % 3, 512 * (1 + i % 8), number % 5000, number * 11, number * 11 + number % 5000)
        stats.depth_mark(1 + number % 100)
        stats.submit_mark(number % 90)
        stats.complete_mark(number % 70)
        stats.sync_done(number)
        if i % 20 == 19:
            stats.sample((i + 1) * 25 * MS)
    stats.read.runtime_ns, stats.write.runtime_ns = 1_700_500, 900_000
    stats.total_run_ns, stats.usr_ns, stats.sys_ns = 1_999_999, 600_001, 1_400_000
    stats.ctx, stats.majf, stats.minf, stats.zone_resets = 3, 4, 5, 6
    stats.write.short_ios, stats.trim.drop_ios = 1, 2
    return stats


@given(st.lists(values, min_size=1))
def test_stat_is_mean_and_deviation(numbers: list[int]) -> None:
    stat = stat_of(numbers)
    assert (stat.n, stat.min, stat.max) == (len(numbers), min(numbers), max(numbers))
    assert math.isclose(stat.mean, statistics.fmean(numbers), rel_tol=1e-12, abs_tol=1e-9)
    expected = statistics.stdev(numbers) if len(numbers) > 1 else 0.0
    assert math.isclose(stat.stddev, expected, rel_tol=1e-6, abs_tol=1e-3)


@given(st.lists(values), st.lists(values))
def test_merge_is_the_stat_of_all(one: list[int], two: list[int]) -> None:
    merged, both = stat_of(one), stat_of(one + two)
    merged.merge(stat_of(two))
    assert figures(merged)[:3] == figures(both)[:3]
    assert math.isclose(merged.mean, both.mean, rel_tol=1e-12, abs_tol=1e-9)
    assert math.isclose(merged.stddev, both.stddev, rel_tol=1e-6, abs_tol=1e-3)


def test_merge_into_nothing_changes_no_bit() -> None:
    stat, empty = stat_of([3, 1, 4, 1, 5, 9, 2, 6]), Stat()
    empty.merge(stat)
    assert figures(empty) == figures(stat)
    stat.merge(Stat())
    assert figures(empty) == figures(stat)


def test_merge_sum_adds_every_figure() -> None:
    stat = stat_of([10, 20])
    stat.merge_sum(stat_of([1, 2, 3]))
    assert figures(stat) == (5, 11, 23, 17.0, 52.0)


def test_empty_stat() -> None:
    stat = Stat()
    assert (*figures(stat), stat.stddev) == (0, 0, 0, 0.0, 0.0, 0.0)
    stat.load(1, 5, 5, 5.0, 3.0)
    assert (stat.n, stat.stddev) == (1, 0.0)
    stat.load(3, 5, 7, 6.0, 1.5)
    assert (stat.min, stat.max, stat.mean, stat.stddev) == (5, 7, 6.0, 1.5)


@given(
    st.lists(
        st.one_of(values, st.sampled_from(LATENCY_STARTS[1:]).flatmap(lambda s: st.integers(s - 1, s + 1)))
    )
)
def test_latency_distribution(numbers: list[int]) -> None:
    stats = JobStats()
    for number in numbers:
        stats.io_done(0, 512, -1, number, -1)
    ends = [*LATENCY_STARTS[1:], math.inf]
    expected = [sum(low <= n < end for n in numbers) for low, end in zip(LATENCY_STARTS, ends, strict=True)]
    assert stats.latency_counts() == expected


def test_latencies_that_a_job_does_not_have() -> None:
    stats = JobStats(True, True, True)
    stats.io_done(1, 4096, -1, 700, -1)
    stats.io_done(1, 4096, 30, -1, 900)
    d = stats.write
    assert (d.ios, d.done_ios, d.bytes) == (2, 2, 8192)
    assert [(s.n, s.max) for s in (d.slat, d.clat, d.lat)] == [(1, 30), (1, 700), (1, 900)]
    assert [h.bins() for h in (d.slat_hist, d.clat_hist, d.lat_hist)] == [[(30, 1)], [(700, 1)], [(900, 1)]]
    assert sum(stats.latency_counts()) == 1


def test_histograms_are_kept_only_where_asked_for() -> None:
    stats = JobStats(clat_percentiles=False)
    stats.io_done(0, 512, 1, 2, 3)
    d = stats.read
    assert (d.slat_hist.n, d.clat_hist.n, d.lat_hist.n) == (0, 0, 0)
    assert (d.slat.n, d.clat.n, d.lat.n) == (1, 1, 1)


def test_issue_and_completion_may_be_counted_apart() -> None:
    whole, parts = JobStats(), JobStats()
    for i in range(5):
        whole.io_done(2, 512, i, 10 * i, 11 * i)
        parts.io_issued(2, i)
        assert (parts.trim.ios, parts.trim.done_ios) == (i + 1, i)
        parts.io_completed(2, 512, 10 * i, 11 * i)
    assert everything(whole) == everything(parts)


@pytest.mark.parametrize(
    ("bucket", "depths"),
    [(0, [1]), (1, [2, 3]), (2, [4, 7]), (3, [8, 15]), (4, [16, 31]), (5, [32, 63]), (6, [64, 65, 4096, 0])],
)
def test_depth_buckets(bucket: int, depths: list[int]) -> None:
    stats = JobStats()
    for depth in depths:
        stats.depth_mark(depth)
    stats.depth_mark_many(depths[0], 5)
    assert stats.depths() == [len(depths) + 5 if i == bucket else 0 for i in range(7)]


@pytest.mark.parametrize(
    ("bucket", "calls"),
    [(0, [0]), (1, [1, 4]), (2, [5, 8]), (3, [9, 16]), (4, [17, 32]), (5, [33, 64]), (6, [65, 66, 4096])],
)
def test_submit_and_complete_buckets(bucket: int, calls: list[int]) -> None:
    stats = JobStats()
    for n in calls:
        stats.submit_mark(n)
        stats.complete_mark(n)
    expected = [len(calls) if i == bucket else 0 for i in range(7)]
    assert stats.submit_counts() == stats.complete_counts() == expected
    assert stats.submits == stats.completes == len(calls)


def test_windows_of_bandwidth_and_iops() -> None:
    stats = JobStats(bw_avg_ms=500, iops_avg_ms=1000)
    stats.start_windows(7 * MS)
    for _ in range(250):
        stats.io_done(0, 4096, -1, 1, 1)
    stats.io_done(1, 1_000_000, -1, 1, 1)
    assert stats.sample(100 * MS) == 407 * MS  # 93 of 500 ms have passed
    assert stats.read.bw.n == 0
    assert stats.sample(506 * MS) == 500 * MS  # a millisecond early is as good as due
    assert figures(stats.read.bw)[:3] == (
        1,
        250 * 4096 * 1000 // 499 // 1024,
        250 * 4096 * 1000 // 499 // 1024,
    )
    assert stats.write.bw.max == 1_000_000 * 1000 // 499 // 1024
    assert stats.trim.bw.n == stats.read.iops.n == 0
    assert stats.sample(1020 * MS) == 485 * MS  # 514 ms: next time 15 ms earlier; nothing moved, so no sample
    assert stats.read.bw.n == stats.write.bw.n == 1
    assert figures(stats.read.iops)[:3] == (1, 250 * 1000 // 1013, 250 * 1000 // 1013)


def test_a_late_window_never_asks_for_the_past() -> None:
    stats = JobStats()
    stats.start_windows(0)
    assert stats.sample(5_000 * MS) == 1 * MS


def test_a_loop_that_restarts_loses_its_window() -> None:
    stats = JobStats()
    stats.start_windows(0)
    stats.io_done(0, 1 << 20, -1, 1, 1)
    stats.loop_restart()
    stats.io_done(0, 1 << 19, -1, 1, 1)
    stats.sample(500 * MS)
    assert (stats.read.bw.max, stats.read.iops.max, stats.read.bytes) == (1024, 2, 3 << 19)


def test_reset_is_a_new_job() -> None:
    stats = busy_job()
    stats.reset()
    assert everything(stats) == everything(JobStats(True, True, True))
    stats.io_done(0, 512, 1, 2, 3)
    stats.start_windows(0)
    stats.sample(500 * MS)
    assert (stats.read.clat_hist.bins(), stats.read.bw.n) == ([(2, 1)], 1)


def test_merge_of_jobs() -> None:
    one, two, both = busy_job(1), busy_job(2), JobStats(True, True, True)
    two.read.runtime_ns = 5_000_000
    both.merge(one)
    both.merge(two)
    for total, a, b in zip(both.directions(), one.directions(), two.directions(), strict=True):
        assert (total.ios, total.bytes) == (a.ios + b.ios, a.bytes + b.bytes)
        assert total.runtime_ns == max(a.runtime_ns, b.runtime_ns)
        assert total.clat.n == a.clat.n + b.clat.n
        assert total.clat_hist.n == total.clat.n
        assert total.bw.mean == a.bw.mean + b.bw.mean
        assert total.iops.min == a.iops.min + b.iops.min
    assert both.depths() == [a + b for a, b in zip(one.depths(), two.depths(), strict=True)]
    assert both.submits == one.submits + two.submits
    assert (both.total_run_ns, both.usr_ns, both.sys_ns) == (2 * MS, 0, 2 * MS)  # whole ms of each job
    assert (both.ctx, both.majf, both.minf, both.zone_resets) == (6, 8, 10, 12)


def test_mixed_merge_counts_everything_as_reads() -> None:
    job, mixed = busy_job(), JobStats(True, True, True)
    mixed.merge(job, True)
    assert mixed.read.ios == sum(d.ios for d in job.directions())
    assert mixed.read.clat.n == 60
    assert mixed.read.bw.mean == sum(d.bw.mean for d in job.directions())
    assert (mixed.write.ios, mixed.trim.clat.n) == (0, 0)
    assert mixed.read.runtime_ns == 1_700_500


def test_pickle_keeps_everything() -> None:
    stats = busy_job()
    again = pickle.loads(pickle.dumps(stats))
    assert everything(again) == everything(stats)
    assert again.slat_percentiles and again.bw_avg_ms == 500
    for s in (stats, again):
        s.io_done(0, 4096, 5, 6, 11)
        s.sample(5_000 * MS)
    assert everything(again) == everything(stats)


def test_milliseconds() -> None:
    assert [ms_up(ns) for ns in (0, 999, 1_000, 1_000_000, 1_000_999, 1_001_000)] == [0, 0, 1, 1, 1, 2]
    assert [ms_down(ns) for ns in (0, 999_999, 1_000_000)] == [0, 0, 1]
