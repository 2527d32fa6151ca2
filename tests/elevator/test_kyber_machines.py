"""What people measured with kyber: the merging thread of May 2018, and light loads on NVMe."""

from __future__ import annotations

import pytest

from blklab.metrics.result import RunResult
from blklab.sim.api import simulate
from blklab.workload.jobfile import parse_job_text

pytestmark = pytest.mark.compiled_only

JOBS = 8
OF_EACH_MB = 16


def thread(rw: str, *settings: str, scheduler: str = "kyber") -> tuple[float, float, float, int]:
    """fio's job of "block: kyber: make kyber more friendly with merging", but a sixteenth of its size. Returns IOPS,
    slat and clat in us, and merges for each hundred I/Os."""
    job = f"""[global]
ioengine=libaio
direct=1
bs=4k
iodepth=64
numjobs={JOBS}
size={OF_EACH_MB}m
offset_increment={OF_EACH_MB}m
[a]
rw={rw}
"""
    result = simulate(
        parse_job_text(job, "thread.fio"), "kyber-thread", scheduler=scheduler, settings=settings
    )
    found = [job.stats.read for job in result.jobs]
    ios = sum(stats.done_ios for stats in found)
    assert ios == JOBS * OF_EACH_MB * 256
    iops = ios * 1e9 / max(stats.runtime_ns for stats in found)
    slat = sum(stats.slat.mean for stats in found) / JOBS / 1000
    clat = sum(stats.clat.mean for stats in found) / JOBS / 1000
    return iops, slat, clat, 100 * result.disk_util[0].read_merges // ios


def test_the_ctx_queue_lets_sequential_readers_merge() -> None:
    """The thread: without 151k IOPS, slat 6.89 us, clat 3349 us, no merges; with 277k, 4.93, 1831, 43 of 100."""
    iops, slat, clat, merges = thread("read")
    assert merges == 0
    assert (iops, slat, clat) == pytest.approx((151_000, 6.89, 3349), rel=0.05)

    with_iops, with_slat, with_clat, with_merges = thread("read", "feature/kyber_ctx_queue=1")

    assert 36 <= with_merges <= 54
    assert with_iops / iops == pytest.approx(1.79, rel=0.15)
    assert with_slat / slat == pytest.approx(0.72, rel=0.1)
    assert with_clat / clat == pytest.approx(0.55, rel=0.1)


def test_random_readers_do_not_notice() -> None:
    without, *_ = thread("randread")
    iops, _, _, merges = thread("randread", "feature/kyber_ctx_queue=1")

    assert iops == pytest.approx(without, rel=0.02)
    assert merges <= 5


def test_none_does_not_merge_either() -> None:
    assert thread("read", scheduler="none")[3] == 0


def light(job: str, scheduler: str, run_ms: int, costs: str | None = None) -> RunResult:
    """One job on the machine of the ICPE'24 study."""
    text = f"[global]\nioengine=io_uring\ndirect=1\nbs=4k\nnorandommap\ntime_based\nruntime={run_ms}ms\nsize=8g\n{job}"
    return simulate(parse_job_text(text, "light.fio"), "icpe24", scheduler=scheduler, costs=costs)


def test_a_light_load_pays_some_percent_for_kyber_and_only_in_cpu_time() -> None:
    job = "[r]\nrw=randread\niodepth=32\niodepth_batch_submit=8\niodepth_batch_complete_min=8\n"
    iops = {
        (name, costs): light(job, name, 100, costs).jobs[0].stats.read.done_ios
        for name in ("none", "kyber")
        for costs in (None, "zero")
    }

    assert 0.01 <= 1 - iops["kyber", None] / iops["none", None] <= 0.07
    assert iops["kyber", "zero"] == pytest.approx(iops["none", "zero"], rel=0.01)


def test_reads_are_better_off_among_writes() -> None:
    job = "[r]\nrw=randread\niodepth=32\n[w]\nrw=randwrite\niodepth=128\nnumjobs=2\noffset=16g\n"
    none, kyber = (light(job, name, 800) for name in ("none", "kyber"))

    assert kyber.jobs[0].stats.read.clat.mean < 0.85 * none.jobs[0].stats.read.clat.mean
    written = [sum(job.stats.write.done_ios for job in result.jobs) for result in (none, kyber)]
    assert written[1] > 0.9 * written[0]
