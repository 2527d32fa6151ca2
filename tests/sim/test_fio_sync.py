"""Jobs that sync: as many syncs as fio 3.33 counts for the same options, and what they send to device or volume."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from blklab.metrics.result import RunResult
from blklab.report.fio_json import render_json
from blklab.report.fio_text import render_text
from blklab.sim.api import simulate
from blklab.sim.machine import load_machine
from blklab.workload.jobfile import parse_job_text

CACHE = ("device/irqmode=2", "device/completion_nsec=30000", "device/gb=1", "device/memory_backed=1")
VOLUME = """
kernel = "6.1"
[cpu]
count = 1
costs = "lab-guest"
[device.nullb0]
model = "null"
gb = 2
memory_backed = true
cache_size = {cache}
queue.scheduler = "none"
[volume.data]
device = "nullb0"
"""


def run(options: str, cache: bool = True, trace: StringIO | None = None) -> RunResult:
    """A job of these fio options, 4 KiB blocks, on null with a write cache or without."""
    machine = load_machine("null", settings=[*CACHE, f"device/cache_size={16 if cache else 0}"])
    lines = ["[a]", "bs=4k", "filename=/dev/nullb0", "direct=1", *options.split()]
    return simulate(parse_job_text("\n".join(lines) + "\n", "t.fio"), machine, None, 1, trace=trace)


def events(trace: StringIO, actions: Sequence[str] = ("Q",)) -> list[str]:
    """'QWS+8': action, rwbs and sectors of some events."""
    found = []
    for line in trace.getvalue().splitlines():
        words = line.split()
        if len(words) > 6 and words[5] in actions:
            found.append(f"{words[5]}{words[6]}+{words[9] if words[8:9] == ['+'] else 0}")
    return found


def counted(job: dict[str, Any]) -> dict[str, object]:
    """What depends on the options alone."""
    return {
        "ios": [job[ddir]["total_ios"] for ddir in ("read", "write", "trim")],
        "fsyncs": job["sync"]["total_ios"],
        "latencies": job["sync"]["lat_ns"].get("N", 0),
        "levels": {k: float(v) for k, v in job["iodepth_level"].items() if float(v)},
        "submit": {k: float(v) for k, v in job["iodepth_submit"].items() if float(v)},
        "complete": {k: float(v) for k, v in job["iodepth_complete"].items() if float(v)},
    }


# -- as fio counts ---------------------------------------------------------------------------

ALWAYS = (
    "rw=write size=64k number_ios=6 fsync=2 ioengine=psync",
    "rw=write size=64k number_ios=7 fsync=2 ioengine=sync",
    "rw=write size=64k fsync=1 ioengine=psync",
    "rw=write size=64k fsync=3 ioengine=pvsync2",
    "rw=write size=64k fsync=16 ioengine=psync",
    "rw=write size=64k fsync=17 ioengine=psync",
    "rw=randwrite size=64k fdatasync=2 ioengine=psync",
    "rw=randwrite size=64k fsync=4 fdatasync=2 ioengine=psync",
    "rw=randread size=64k fsync=1 ioengine=psync",
    "rw=randrw size=256k fsync=2 ioengine=psync",
    "rw=write size=64k end_fsync=1 ioengine=psync",
    "rw=write size=64k fsync_on_close=1 ioengine=psync",
    "rw=write size=64k fsync=4 end_fsync=1 ioengine=psync",
    "rw=write size=64k sync=dsync ioengine=psync",
    "rw=write size=64k sync=sync fsync=4 ioengine=psync",
    "rw=write size=64k fsync=2 numjobs=3 group_reporting=1 ioengine=psync",
    "rw=write size=64k fsync=2 ioengine=psync thinktime=100 thinktime_blocks=2",
    "rw=write size=64k fsync=2 ioengine=psync rate_iops=20000",
    "rw=write size=64k fsync=2 ioengine=psync disable_clat=1",
    "rw=write size=64k fsync=1 ioengine=libaio iodepth=1",
    "rw=randrw size=256k fsync=3 ioengine=libaio iodepth=1",
    "rw=write size=64k fsync=2 ioengine=io_uring iodepth=1",
    # libaio waits for one I/O at a time, so with several under way too it does not matter when they complete
    "rw=write size=64k fsync=2 ioengine=libaio iodepth=4",
    "rw=write size=64k fsync=1 ioengine=libaio iodepth=4",
    "rw=write size=64k fsync=8 ioengine=libaio iodepth=4",
    "rw=write size=64k fdatasync=4 ioengine=libaio iodepth=4",
)
# What is queued is not what has completed: fio may sync twice after one write, and each run differs
BY_CHANCE = (
    ("rw=write size=64k fsync=2 ioengine=io_uring iodepth=4", 7, 28),
    ("rw=write size=64k fsync=1 ioengine=io_uring iodepth=4", 15, 45),
)
ALL = (*ALWAYS, *(options for options, _, _ in BY_CHANCE))


def all_jobs(where: str, name: str) -> str:
    """A job file of all of them, one after another: in one, as the order in which a job reads and writes depends on
    its number."""
    lines = ["[global]", "bs=4k", "direct=1", "stonewall", where]
    for number, options in enumerate(ALL):
        lines += [f"[job{number}]", f"filename={name.format(number)}", *options.split()]
    return "\n".join(lines) + "\n"


def by_options(output: str) -> dict[str, dict[str, Any]]:
    """Options -> the job that had them."""
    jobs = {job["jobname"]: job for job in json.loads(output)["jobs"]}
    return {options: jobs[f"job{number}"] for number, options in enumerate(ALL)}


@pytest.fixture(scope="module")
def fios(fio: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """fio's figures, of direct I/O on files."""
    folder = tmp_path_factory.mktemp("fio")
    (folder / "all.fio").write_text(all_jobs(f"directory={folder}", "f{}"))
    command = [str(fio), "--output-format=json", str(folder / "all.fio")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    if done.returncode:
        pytest.skip(f"fio cannot run these here: {done.stderr[:200]}")
    return by_options(done.stdout[done.stdout.index("{") :])


@pytest.fixture(scope="module")
def ours() -> dict[str, dict[str, Any]]:
    """The same of the model."""
    machine = load_machine("null", settings=[*CACHE, "device/cache_size=16"])
    text = all_jobs("", "/dev/nullb0")
    return by_options(render_json(simulate(parse_job_text(text, "all.fio"), machine, None, 1)))


Figures = dict[str, dict[str, Any]]


@pytest.mark.parametrize("options", ALWAYS)
def test_as_many_syncs_as_fio_counts(fios: Figures, ours: Figures, options: str) -> None:
    assert counted(ours[options]) == counted(fios[options])


@pytest.mark.parametrize(("options", "least", "most"), BY_CHANCE)
def test_io_uring_queues_syncs_like_other_ios(
    fios: Figures, ours: Figures, options: str, least: int, most: int
) -> None:
    for job in (ours[options], fios[options]):
        assert job["write"]["total_ios"] == 16
        assert least <= job["sync"]["total_ios"] <= most


# -- what they send ----------------------------------------------------------------------------


def test_an_fsync_of_a_device_is_an_empty_flush() -> None:
    trace = StringIO()
    run("rw=write size=16k fsync=2 ioengine=psync", trace=trace)
    assert events(trace) == ["QWS+8", "QWS+8", "QFWS+0", "QWS+8", "QWS+8"]
    assert events(trace, "D") == ["DWS+8", "DWS+8", "DFN+0", "DWS+8", "DWS+8"]


def test_without_a_cache_it_is_a_call_and_nothing_more() -> None:
    trace = StringIO()
    job = run("rw=write size=16k fsync=2 ioengine=psync", cache=False, trace=trace).jobs[0]
    assert events(trace, "QD") == ["QWS+8", "DWS+8"] * 4
    assert job.stats.sync_ios == 1


def test_end_fsync_is_sent_and_counted_nowhere() -> None:
    trace = StringIO()
    job = run("rw=write size=16k end_fsync=1 ioengine=psync", trace=trace).jobs[0]
    assert events(trace) == ["QWS+8"] * 4 + ["QFWS+0"]
    assert (job.stats.sync_ios, job.stats.sync.n) == (0, 0)


@pytest.mark.parametrize("engine", ["psync", "libaio", "io_uring"])
def test_end_fsync_comes_when_all_else_has_ended(engine: str) -> None:
    trace = StringIO()
    run(f"rw=write size=64k end_fsync=1 ioengine={engine} iodepth=4", trace=trace)
    assert events(trace, "DC")[-3:-2] == ["CWS+8"] or events(trace, "DC")[-4] == "CWS+8"
    assert events(trace, "QC")[-3:] == ["QFWS+0", "CFN+0", "CWS+0"]


def test_end_fsync_of_a_job_that_reads_is_not_sent() -> None:
    trace = StringIO()
    run("rw=read size=16k end_fsync=1 ioengine=psync", trace=trace)
    assert events(trace) == ["QR+8"] * 4


def test_end_fsync_goes_not_after_an_fsync_that_was_last() -> None:
    trace = StringIO()
    run("rw=write size=16k fsync=1 number_ios=3 end_fsync=1 ioengine=psync", trace=trace)
    assert events(trace) == ["QWS+8", "QFWS+0", "QWS+8", "QFWS+0", "QWS+8", "QFWS+0"]


@pytest.mark.parametrize("opened", ["dsync", "sync"])
def test_a_synchronous_write_to_a_device_opened_so_is_fua_and_then_a_flush(opened: str) -> None:
    trace = StringIO()
    run(f"rw=write size=8k sync={opened} ioengine=psync", trace=trace)
    assert events(trace) == ["QWFS+8", "QFWS+0"] * 2
    # null takes FUA
    assert events(trace, "D") == ["DWFS+8", "DFN+0"] * 2


def test_an_asynchronous_write_to_it_is_fua_alone() -> None:
    trace = StringIO()
    run("rw=write size=8k sync=dsync ioengine=libaio", trace=trace)
    assert events(trace) == ["QWFS+8"] * 2


def test_a_sync_takes_the_time_of_its_flush() -> None:
    sync = run("rw=write size=64k fsync=2 ioengine=psync").jobs[0].stats.sync
    assert sync.n == 7
    assert 30_000 <= sync.min <= sync.max < 60_000
    nothing = run("rw=write size=64k fsync=2 ioengine=psync", cache=False).jobs[0].stats.sync
    assert nothing.n == 7
    assert nothing.max < 5_000


# -- on a volume ----------------------------------------------------------------------------------


def on_volume(folder: Path, options: str, cache: int = 16, lines: str = "") -> list[str]:
    """The Q events of a job on a file of a volume."""
    machine = folder / "m.toml"
    machine.write_text(VOLUME.format(cache=cache) + lines)
    trace = StringIO()
    job = "\n".join(["[a]", "bs=4k", "direct=1", "directory=/mnt/data", *options.split()]) + "\n"
    simulate(parse_job_text(job, "t.fio"), machine=str(machine), trace=trace)
    return events(trace)


def test_the_first_fsync_of_a_jiffy_writes_a_log_record_and_others_only_flush(tmp_path: Path) -> None:
    found = on_volume(tmp_path, "rw=write size=32k fsync=1 ioengine=psync")
    assert found[:2] == ["QWS+8", "QFWFSM+2"]
    assert found[2:] == ["QWS+8", "QFWS+0"] * 6 + ["QWS+8"]


def test_fdatasync_of_a_file_is_always_the_empty_flush(tmp_path: Path) -> None:
    found = on_volume(tmp_path, "rw=write size=32k fdatasync=1 ioengine=psync")
    assert found == ["QWS+8", "QFWS+0"] * 7 + ["QWS+8"]


def test_a_file_opened_with_dsync_takes_fua_where_there_is_fua(tmp_path: Path) -> None:
    assert on_volume(tmp_path, "rw=write size=8k sync=dsync ioengine=psync") == ["QWFS+8"] * 2
    # sync wants the time of modification on the disk as well
    found = on_volume(tmp_path, "rw=write size=8k sync=sync ioengine=psync")
    assert found == ["QWS+8", "QFWFSM+2", "QWS+8", "QFWS+0"]


def test_on_a_device_without_fua_dsync_of_a_file_is_a_sync(tmp_path: Path) -> None:
    machine = tmp_path / "m.toml"
    machine.write_text(
        'kernel = "6.1"\n[cpu]\ncount = 1\n[device.vda]\nmodel = "virtio"\n[volume.data]\ndevice = "vda"\n'
    )
    trace = StringIO()
    job = "[a]\nbs=4k\ndirect=1\ndirectory=/mnt/data\nrw=write\nsize=8k\nsync=dsync\nioengine=psync\n"
    simulate(parse_job_text(job, "t.fio"), machine=str(machine), trace=trace)
    assert events(trace) == ["QWS+8", "QFWS+0"] * 2


# -- reports ------------------------------------------------------------------------------------------


def test_the_reports_have_syncs_of_their_own() -> None:
    result = run("rw=write size=64k fsync=2 ioengine=psync")
    job = json.loads(render_json(result, plus=True))["jobs"][0]
    assert job["sync"]["total_ios"] == 7
    assert job["sync"]["lat_ns"]["N"] == 7
    assert sum(job["sync"]["lat_ns"]["bins"].values()) == 7
    text = render_text(result)
    assert "  fsync/fdatasync/sync_file_range:\n    sync (" in text
    assert "    sync percentiles (" in text
    assert "issued rwts: total=0,16,0,7 short=0,0,0,0" in text
    assert "sync" not in render_text(run("rw=write size=64k ioengine=psync")).replace("psync", "")


def test_disk_util_counts_flushes_as_the_kernel_does() -> None:
    util = run("rw=write size=64k fsync=2 ioengine=psync").disk_util[0]
    assert util.write_ios == 16 + 7
