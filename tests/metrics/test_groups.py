"""How jobs are put together for a report."""

from __future__ import annotations

import pytest

from blklab.metrics.groups import cpu_shares, distribution, merge_jobs, share_of_group, summarize
from blklab.metrics.result import JobResult, RunResult
from blklab.metrics.stats import JobStats

MS = 1_000_000


def job(name: str, groupid: int = 0, group_reporting: bool = True, ios: int = 10, ms: int = 100) -> JobResult:
    stats = JobStats()
    for i in range(ios):
        stats.io_done(0, 4096, -1, 1000 + i, 1000 + i)
    stats.read.runtime_ns = ms * MS if ios else 0
    stats.total_run_ns = ms * MS
    return JobResult(name, stats, groupid, group_reporting, options={"name": name}, pid=ord(name))


def entries_of(*jobs: JobResult) -> list[tuple[str, int, int]]:
    entries, _ = summarize(RunResult(list(jobs)))
    return [(e.first.name, e.members, e.stats.read.ios) for e in entries]


def test_jobs_of_a_group_are_one_entry_only_with_group_reporting() -> None:
    assert entries_of(job("a"), job("b"), job("c", 1)) == [("a", 2, 20), ("c", 1, 10)]
    assert entries_of(job("a", group_reporting=False), job("b", group_reporting=False)) == [
        ("a", 1, 10),
        ("b", 1, 10),
    ]


def test_the_job_that_joins_decides() -> None:
    """As in fio: a job with group_reporting is added to the entry before it even if that one has it not."""
    assert entries_of(job("a", group_reporting=False), job("b")) == [("a", 2, 20)]
    assert entries_of(job("a"), job("b", group_reporting=False)) == [("a", 1, 10), ("b", 1, 10)]


def test_first_and_last_job_of_an_entry() -> None:
    entry = merge_jobs([job("a"), job("b"), job("c")])
    assert (entry.first.pid, entry.last.options) == (ord("a"), {"name": "c"})


def test_the_first_error_counts() -> None:
    one, two, three = job("a"), job("b"), job("c")
    two.continue_on_error, two.first_error, two.verror, two.total_errors = True, 5, "five", 2
    three.error, three.verror = 28, "full"
    entry = merge_jobs([one, two, three])
    assert (entry.error, entry.verror, entry.total_errors) == (5, "five", 2)
    two.continue_on_error = False
    entry = merge_jobs([one, two, three])
    assert (entry.error, entry.verror) == (28, "full")
    assert (merge_jobs([one]).error, merge_jobs([one]).verror) == (0, "")


def test_group_totals_are_made_from_entries() -> None:
    separate = [job("a", 0, False, 10, 100), job("b", 0, False, 30, 200), job("c", 2, False, 0)]
    _, groups = summarize(RunResult(separate))
    d = groups[0].directions[0]
    assert (d.min_run, d.max_run) == (100, 200)
    assert (d.min_bw, d.max_bw) == (409_600, 614_400)
    assert (d.bytes, d.agg) == (40 * 4096, 40 * 4096 * 1000 // 200)
    assert [g.groupid for g in groups] == [0, 1, 2]
    assert groups[2].directions[0].max_run == 0
    together = [job("a", 0, True, 10, 100), job("b", 0, True, 30, 200)]
    _, groups = summarize(RunResult(together))
    d = groups[0].directions[0]
    assert d.min_bw == d.max_bw == d.agg == 40 * 4096 * 1000 // 200


def test_no_jobs() -> None:
    assert summarize(RunResult()) == ([], [])


def test_priorities_are_kept_apart_only_if_they_differ() -> None:
    low, high, same = job("a", ios=4), job("b", ios=6), job("c", ios=2)
    low.ioprio, high.ioprio, same.ioprio = 2 << 13 | 7, 1 << 13, 2 << 13 | 7
    prios = merge_jobs([low, high, same]).prios[0]
    assert [(ioprio, p.stat.n, p.hist.n) for ioprio, p in prios.items()] == [
        (2 << 13 | 7, 6, 6),
        (1 << 13, 6, 6),
    ]
    assert merge_jobs([low, same]).prios == ({}, {}, {})


def test_distribution() -> None:
    assert distribution([0, 0], 0, 0.1) == [0.0, 0.0]
    assert distribution([1, 0, 999, 1000], 2000, 0.1) == [0.1, 0.0, 49.95, 50.0]
    assert distribution([5, 0], 1000, 0.1) == [0.5, 0.0]


def test_share_of_group_cuts_the_mean_and_stops_at_100() -> None:
    _, groups = summarize(RunResult([job("a", ios=100, ms=100)]))
    assert groups[0].directions[0].agg == 4_096_000  # 4000 KiB/s
    assert share_of_group(groups[0], 0, 1000.9) == pytest.approx(25.0)
    assert share_of_group(groups[0], 0, 9000.0) == 100.0
    assert share_of_group(groups[0], 1, 1.0) == 100.0


def test_cpu_shares_are_of_whole_milliseconds() -> None:
    result = job("a", ms=8)
    result.stats.total_run_ns, result.stats.usr_ns, result.stats.sys_ns = 8_999_999, 1_999_999, 4_000_000
    assert cpu_shares(merge_jobs([result])) == (12.5, 50.0)
    result.stats.total_run_ns = 999_999
    assert cpu_shares(merge_jobs([result])) == (0.0, 0.0)


def test_eta_as_fio_has_it_at_the_end() -> None:
    assert [JobResult("a", elapsed_s=s).eta for s in (1, 2, 3)] == [2147483647, 2147483647, 0]
    assert JobResult("a", eta_s=7).eta == 7
