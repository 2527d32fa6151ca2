"""The text, against what fio 3.33 printed, and what of it depends on what."""

from __future__ import annotations

import json

import pytest
from tests.report.fio_output import DATA, assert_same_text, idle_clone, recorded, recorded_names

from blklab.metrics.result import DiskUtil, JobResult, RunResult
from blklab.metrics.stats import JobStats
from blklab.report.fio_read import latency_from
from blklab.report.fio_text import percentile_lines, render_header, render_text, stat_line

MS = 1_000_000


def small_job(ios: int = 100, slat_ns: int = -1, runtime_ns: int = 10 * MS) -> JobResult:
    stats = JobStats()
    for i in range(ios):
        stats.io_done(0, 4096, slat_ns, 50_000 + i, 50_000 + i)
        stats.depth_mark(1)
        stats.submit_mark(1)
        stats.complete_mark(1)
    stats.read.runtime_ns = stats.total_run_ns = runtime_ns
    return JobResult("job", stats, rw="randread")


@pytest.mark.parametrize("name", [name for name in recorded_names() if name != "two-priorities"])
def test_recorded_run(name: str) -> None:
    output = recorded(name)
    assert_same_text(render_text(output.result, header=False), output.text)


def test_recorded_run_with_two_priorities() -> None:
    """The reader leaves "prios" out; here the jobs are made from them, so that merging makes the prio lines."""
    output = recorded("two-priorities")
    first = output.result.jobs[0]
    prios = json.loads(output.json)["jobs"][0]["read"]["prios"]
    first.stats.read.clat.reset()
    first.stats.read.clat_hist.reset()
    output.result.jobs = [first, idle_clone(first)]
    for job, prio in zip(output.result.jobs, prios, strict=True):
        job.ioprio = prio["prioclass"] << 13 | prio["prio"]
        latency_from(job.stats.read.clat, job.stats.read.clat_hist, prio["clat_ns"])
    assert "clat prio 2/3 (50.00% of IOs) percentiles" in output.text
    assert_same_text(render_text(output.result, header=False), output.text)


def test_headers() -> None:
    """The header of a recorded run with clones, a thread and processes, from the options of its jobs."""
    output = recorded("two-groups")
    sizes = ((4096, 4096),) * 3
    a = JobResult("a", rw="read", bs=sizes, ioengine="null", thread=True)
    b = [
        JobResult("b", groupid=1, rw="trim", bs=sizes, ioengine="null", thread=True, clone=i)
        for i in range(2)
    ]
    expected = output.header
    assert render_header(RunResult([a, *b])) == expected.replace("1 thread and 2 processes", "3 threads")
    for job in b:
        job.thread = False
    assert render_header(RunResult([a, *b])) == expected


def test_whole_output_of_a_plain_run() -> None:
    """Header, blocks and totals in one, byte for byte: the recorded run without its JSON."""
    name = "async-job"
    output = recorded(name)
    job = output.result.jobs[0]
    job.rw, job.bs, job.ioengine, job.iodepth = "randread", ((4096, 4096),) * 3, "null", 8
    recorded_text = (DATA / f"{name}.out").read_text().partition("\n")[2]
    assert_same_text(render_text(output.result), recorded_text.replace(output.json, ""))


def test_a_job_that_did_nothing_has_no_block() -> None:
    text = render_text(RunResult([JobResult("idle"), small_job()]), header=False)
    assert "idle" not in text
    assert text.startswith("\njob: (groupid=0, jobs=1): err= 0: pid=0: Thu Jan  1 00:00:00 1970\n")
    nothing = render_text(RunResult([JobResult("idle")]), header=False)
    assert nothing == "\n\nRun status group 0 (all jobs):\n"


def test_slat_shows_only_if_there_is_any() -> None:
    assert "slat" not in render_text(RunResult([small_job()]))
    assert "    slat (nsec): min=700, max=700, avg=700.00, stdev= 0.00\n" in render_text(
        RunResult([small_job(slat_ns=700)])
    )


def test_a_direction_without_a_millisecond_is_not_shown() -> None:
    text = render_text(RunResult([small_job(runtime_ns=999)]))
    assert "read:" not in text
    assert "READ:" not in text
    assert "issued rwts: total=100,0,0,0" in text
    assert "(400KiB/1msec)" in render_text(RunResult([small_job(runtime_ns=1000)]))


def test_errors_and_latency_target() -> None:
    job = small_job()
    job.error, job.verror = 28, "No space left on device"
    job.continue_on_error, job.total_errors, job.first_error = True, 3, 28
    job.latency_target, job.latency_window, job.latency_percentile = 10_000, 5_000, 99.9
    job.latency_depth = 4
    text = render_text(RunResult([job]))
    assert ": err=28 (No space left on device): pid=" in text
    assert "     errors    : total=3, first_error=28/<No space left on device>\n" in text
    assert "     latency   : target=10000, window=5000, percentile=99.90%, depth=4\n" in text


def test_disk_stats_of_a_stacked_device() -> None:
    members = (
        DiskUtil("sda", 10, 4, 1, 3, 80, 32, 100, 41, 141, 50.0),
        DiskUtil("sdb", 13, 4, 0, 0, 104, 32, 90, 40, 130, 75.5),
    )
    stacked = DiskUtil("md0", 23, 8, 0, 0, 184, 64, 0, 0, 0, 0.0, members)
    text = render_text(RunResult([small_job()], [stacked, *members]))
    assert text.endswith(
        "\nDisk stats (read/write):\n"
        "    md0: ios=23/8, merge=0/0, ticks=0/0, in_queue=0, util=0.00%, aggrios=11/4, aggrmerge=0/1, "
        "aggrticks=95/40, aggrin_queue=135, aggrutil=75.50%\n"
        "  sda: ios=10/4, merge=1/3, ticks=100/41, in_queue=141, util=50.00%\n"
        "  sdb: ios=13/4, merge=0/0, ticks=90/40, in_queue=130, util=75.50%\n"
    )


def test_both_shows_the_sum_as_well() -> None:
    job = small_job()
    for i in range(20):
        job.stats.io_done(1, 4096, -1, 70_000 + i, 70_000 + i)
    job.stats.write.runtime_ns = 5 * MS
    job.unified_rw = "both"
    text = render_text(RunResult([job]))
    assert "  mixed: IOPS=12.0k, BW=46.9MiB/s (49.2MB/s)(480KiB/10msec)\n" in text
    assert "\n  MIXED: bw=" in text
    job.unified_rw = "mixed"
    text = render_text(RunResult([job]))
    assert "read:" not in text
    assert "total=120,0,0,0" in text


@pytest.mark.parametrize(
    ("low", "high", "unit"),
    [
        (2_000, 10**6, "nsec"),  # the least value is too small for usec
        (2_001, 10**6, "usec"),
        (2_001, 99_999, "nsec"),
        (2_000_001, 10**8, "msec"),
        (2_000_001, 99_999_999, "usec"),
        (2_000_000, 10**9, "usec"),
    ],
)
def test_unit_of_a_latency(low: int, high: int, unit: str) -> None:
    job = small_job(ios=0)
    for ns in (low, high):
        job.stats.io_done(0, 512, -1, ns, ns)
    stat = job.stats.read.clat
    assert f"({unit})" in stat_line("clat", stat)
    stat.load(2, low, high, stat.mean, 10.0)  # hardly any deviation: nanoseconds keep it visible
    assert "(nsec)" in stat_line("clat", stat)


def test_percentile_table() -> None:
    job = small_job(ios=0)
    assert percentile_lines("clat", job.stats.read.clat_hist, job) == []
    job.stats.io_done(0, 512, -1, 0, 0)
    job.percentile_list, job.percentile_precision = (99.0, 1.0), 0
    table = "    clat percentiles (nsec):\n     |   1th=[    0],  99th=[    0]\n"
    assert percentile_lines("clat", job.stats.read.clat_hist, job) == [table]
    job.percentile_list = ()
    assert percentile_lines("clat", job.stats.read.clat_hist, job) == []


def test_bandwidth_in_larger_units() -> None:
    job = small_job()
    job.stats.read.bw.load(2, 3_000_000, 3_145_728, 3_072_864.0, 1024.0)
    text = render_text(RunResult([job]))
    assert "   bw (  MiB/s): min= 2929, max= 3072, per=100.00%, avg=3000.84, stdev= 1.00, samples=2\n" in text
    job.stats.read.bw.load(2, 100, 200, 150.0, 50.0)
    job.kb_base = 1000
    assert "   bw (   kB/s): min=  100, max=  200, per=0.38%," in render_text(RunResult([job]))


def test_same_result_same_text() -> None:
    assert render_text(RunResult([small_job()])) == render_text(RunResult([small_job()]))
