"""Against fio itself: the same I/Os counted here and by fio, and its text from its JSON.

Runs take milliseconds, but for the two that need windows. All of it is skipped where fio 3.33 is missing.
"""

from __future__ import annotations

import json
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.report.fio_output import FioOutput, assert_same_text, comparable
from tests.report.record import run_fio

from blklab.metrics.result import JobResult, RunResult
from blklab.metrics.stats import JobStats
from blklab.report.fio_json import render_json
from blklab.report.fio_text import render_text

COMMON = "--ioengine=null --size=4m --bs=4k --name=a"


@pytest.mark.parametrize(
    "options",
    [
        "--rw=randread --iodepth=8",
        "--rw=read",
        "--rw=trim --unit_base=1",
        "--rw=randrw --numjobs=3 --iodepth=16 --group_reporting",
        "--rw=write --numjobs=2 --iodepth=2 --lat_percentiles=1 --slat_percentiles=1 --clat_percentiles=0",
        "--rw=randrw --numjobs=2 --group_reporting --percentile_list=1:50:99.1234:100 --kb_base=1000",
        "--rw=randread --percentile_list=1:50",
        "--rw=randread --clat_percentiles=0 --thread",
        "--rw=write --name=b --ioengine=null --size=1m --rw=randread --stonewall --description=hello",
        "--rw=randrw --unified_rw_reporting=mixed --iodepth=4",
        "--rw=randrw --iodepth=4 --disable_clat=1",
        "--rw=randrw --iodepth=4 --disable_lat=1 --significant_figures=6",
        "--rw=randrw --iodepth=4 --disable_slat=1 --significant_figures=2",
        "--rw=randrw --iodepth=4 --gtod_reduce=1",
        "--rw=randrw --continue_on_error=all",
        "--rw=randread --iodepth=16 --latency_target=10us --latency_window=1000 --latency_percentile=99.9",
        "--rw=randrw --ioengine=psync --filename=file --fsync=16 --size=256k",
        "--rw=randrw --runtime=1 --time_based --ramp_time=1 --iodepth=64 --iodepth_batch=16 --rate_iops=5000",
        "--rw=randrw --runtime=2 --time_based --bs=512 --unit_base=1",
    ],
)
def test_text_and_json_of_a_run(fio: str, options: str) -> None:
    output = FioOutput(run_fio(fio, f"{COMMON} {options}"))
    assert_same_text(render_text(output.result, header=False), output.text)
    assert comparable(render_json(output.result, plus=True)) == comparable(output.json)


def log_lines(folder: Path, kind: str) -> list[tuple[int, int, int]]:
    """(value, direction, bytes) of a latency log of a single job."""
    lines = (folder / f"log_{kind}.1.log").read_text().splitlines()
    fields = [[int(field) for field in line.split(",")[:4]] for line in lines]
    return [(value, ddir, size) for _, value, ddir, size in fields]


@pytest.mark.parametrize(
    "options", ["--rw=randrw --iodepth=8", "--rw=randread --bsrange=512-16k", "--rw=randtrim"]
)
def test_the_same_latencies_counted_here(fio: str, tmp_path: Path, options: str) -> None:
    """fio logs every latency: counted by JobStats they give fio's mean, deviation, percentiles and buckets."""
    percentiles = "--slat_percentiles=1 --lat_percentiles=1"
    command = f"{fio} {COMMON} {options} {percentiles} --write_lat_log=log --output-format=json+"
    done = subprocess.run(shlex.split(command), capture_output=True, text=True, check=True, cwd=tmp_path)
    fios: dict[str, Any] = json.loads(done.stdout, parse_float=str)["jobs"][0]

    stats = JobStats(True, True, True)
    completions = list(zip(log_lines(tmp_path, "clat"), log_lines(tmp_path, "lat"), strict=True))
    slats = log_lines(tmp_path, "slat") if (tmp_path / "log_slat.1.log").stat().st_size else []
    for slat_ns, ddir, _ in slats or [(-1, ddir, 0) for (_, ddir, _), _ in completions]:
        stats.io_issued(ddir, slat_ns)
    for (clat_ns, ddir, size), (lat_ns, _, _) in completions:
        stats.io_completed(ddir, size, clat_ns, lat_ns)
    text = render_json(RunResult([JobResult("a", stats)]), plus=True)
    ours = json.loads(text, parse_float=str)["jobs"][0]

    assert sum(len(ours[name]["clat_ns"].get("bins", {})) for name in ("read", "write", "trim")) > 3
    for name in ("read", "write", "trim"):
        for key in ("io_bytes", "total_ios", "slat_ns", "clat_ns", "lat_ns"):
            assert ours[name][key] == fios[name][key], (name, key)
    for key in ("latency_ns", "latency_us", "latency_ms"):
        assert ours[key] == fios[key]


def test_jobs_merged_here_and_by_fio(fio: str, tmp_path: Path) -> None:
    """fio logs every latency of two jobs of a group: counted one by one and merged they give fio's figures."""
    command = (
        f"{fio} {COMMON} --rw=randrw --iodepth=4 --numjobs=2 --group_reporting --write_lat_log=log"
        " --output-format=json+"
    )
    done = subprocess.run(shlex.split(command), capture_output=True, text=True, check=True, cwd=tmp_path)
    fios = json.loads(done.stdout, parse_float=str)["jobs"][0]
    jobs = []
    for number in (1, 2):
        job = JobResult("a", group_reporting=True)
        for line in (tmp_path / f"log_clat.{number}.log").read_text().splitlines():
            _, clat_ns, ddir, size = (int(field) for field in line.split(",")[:4])
            job.stats.io_done(ddir, size, -1, clat_ns, -1)
        jobs.append(job)
    ours = json.loads(render_json(RunResult(jobs), plus=True), parse_float=str)["jobs"][0]
    for name in ("read", "write"):
        assert ours[name]["clat_ns"] == fios[name]["clat_ns"]
    assert ours["latency_ns"] == fios["latency_ns"]


def test_header(fio: str) -> None:
    jobs = "--rw=randrw --bsrange=4k-64k --iodepth=4 --numjobs=3 --name=b --ioengine=null --size=1m --rw=trim --thread"
    output = FioOutput(run_fio(fio, f"{COMMON} {jobs}"))
    kinds = [
        JobResult("a", rw="randrw", bs=((4096, 65536),) * 3, ioengine="null", iodepth=4, clone=i)
        for i in range(3)
    ]
    kinds.append(JobResult("b", rw="trim", ioengine="null", thread=True))
    text = render_text(RunResult(kinds))
    assert text.startswith(output.header)
