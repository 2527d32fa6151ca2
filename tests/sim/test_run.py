"""Whole runs: fio's rules of starting, pacing, stopping and stamping, on a machine that does next to nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from blklab.core.errors import BlklabError
from blklab.metrics.result import RunResult
from blklab.report.fio_json import render_json
from blklab.sim.api import simulate
from blklab.sim.build import build
from blklab.sim.machine import load_machine
from blklab.sim.progress import Progress, StopFlag
from blklab.sim.run import Run
from blklab.workload.jobfile import parse_job_text

FIFO = f"{Path(__file__).parents[2] / 'examples' / 'schedulers' / 'fifo.py'}:Fifo"
NULL = ("device/irqmode=2", "device/completion_nsec=100000", "device/gb=1")


def run(
    job: str, *settings: str, costs: str = "zero", seed: int = 1, scheduler: str | None = None
) -> RunResult:
    machine = load_machine("null", settings=[*NULL, *settings], costs=costs)
    text = "[global]\ndirect=1\nioengine=libaio\nbs=4k\n" + job
    return simulate(parse_job_text(text, "test.fio"), machine, scheduler, seed)


def test_one_at_a_time_takes_what_the_device_takes() -> None:
    job = run("[a]\nrw=randread\niodepth=1\nnumber_ios=100\n").jobs[0]
    assert job.stats.read.done_ios == 100
    assert (job.stats.read.clat.min, job.stats.read.clat.max) == (100_000, 100_000)
    assert job.stats.read.slat.max == 0
    assert job.stats.read.runtime_ns == 100 * 100_000


@pytest.mark.parametrize("engine", ["sync", "psync", "pvsync", "pvsync2", "libaio", "io_uring", "posixaio"])
def test_every_engine_completes_its_job(engine: str) -> None:
    for rw in ("read", "randwrite", "randrw"):
        depth = 1 if engine == "posixaio" else 8
        result = run(f"[a]\nrw={rw}\nioengine={engine}\niodepth={depth}\nsize=1m\n")
        stats = result.jobs[0].stats
        assert stats.read.bytes + stats.write.bytes == 1 << 20
        assert result.disk_util[0].read_ios + result.disk_util[0].write_ios <= 256
        has_slat = engine in ("libaio", "io_uring")
        assert (stats.read.slat.n + stats.write.slat.n > 0) == has_slat


def test_depth_times_latency_is_throughput() -> None:
    # Little's law in fio's own figures
    job = run("[a]\nrw=randread\niodepth=32\nruntime=1\ntime_based\n").jobs[0]
    d = job.stats.read
    assert d.ios * d.lat.mean / d.runtime_ns == pytest.approx(32, rel=0.01)
    assert d.runtime_ns == pytest.approx(1e9, abs=200_000)


def test_ramp_time_is_not_counted() -> None:
    job = run("[a]\nrw=randread\niodepth=1\nruntime=1\nramp_time=1\ntime_based\n").jobs[0]
    assert job.stats.read.runtime_ns == pytest.approx(1e9, abs=200_000)
    assert job.stats.read.done_ios == pytest.approx(10_000, abs=2)


def test_stonewall_waits_for_all_before_it() -> None:
    result = run(
        "rw=read\nsize=4m\n[a]\noffset=0\n[b]\noffset=8m\n[c]\nstonewall\n[d]\n",
        "device/completion_nsec=10000",
    )
    starts = {job.name: job.job_start_ms for job in result.jobs}
    assert starts["a"] == starts["b"] == 0
    assert starts["c"] == starts["d"] == 10
    assert [job.groupid for job in result.jobs] == [0, 0, 1, 1]


def test_wait_for_waits_for_one_job() -> None:
    result = run("rw=read\n[a]\nsize=4m\n[b]\nsize=40k\n[c]\nwait_for=b\nsize=40k\n")
    starts = {job.name: job.job_start_ms for job in result.jobs}
    assert starts == {"a": 0, "b": 0, "c": 1}


def test_startdelay() -> None:
    assert run("[a]\nrw=read\nsize=4k\nstartdelay=2\n").jobs[0].job_start_ms == 2000


def test_rate_iops_holds_a_job_back() -> None:
    job = run("[a]\nrw=randread\niodepth=4\nrate_iops=1000\nruntime=1\ntime_based\n").jobs[0]
    assert job.stats.read.done_ios == pytest.approx(1000, abs=2)


def test_each_direction_of_a_mixed_job_keeps_its_rate() -> None:
    stats = (
        run("[a]\nrw=randrw\niodepth=4\nrate_iops=1000,500\nrwmixread=50\nruntime=1\ntime_based\n")
        .jobs[0]
        .stats
    )
    assert stats.read.done_ios == pytest.approx(1000, abs=3)
    assert stats.write.done_ios == pytest.approx(500, abs=3)


def test_thinktime_in_blocks() -> None:
    # cases: QD100, batch of 100, 5 ms of thinking: 100 I/Os each time the device's time plus 5 ms
    job = run(
        "[a]\nrw=randread\niodepth=100\niodepth_batch=100\niodepth_batch_complete_min=100\nthinktime=5000\n"
        "thinktime_blocks=100\nruntime=1\ntime_based\n",
        "device/completion_nsec=1800000",
        "device/hw_queue_depth=128",
    ).jobs[0]
    assert job.stats.read.done_ios == pytest.approx(100 / 0.0068, rel=0.02)


def test_a_batch_of_submissions_and_completions() -> None:
    stats = (
        run("[a]\nrw=randread\niodepth=64\niodepth_batch=16\niodepth_batch_complete_min=16\nnumber_ios=640\n")
        .jobs[0]
        .stats
    )
    assert stats.submits == 40
    # The last three batches are fetched by one call, when there is nothing left to issue
    assert stats.completes == 38


def test_merges_show_in_the_disk_statistics() -> None:
    disk = run(
        "[a]\nrw=read\niodepth=32\niodepth_batch=32\niodepth_batch_complete_min=32\nsize=16m\n",
        "device/max_sectors=2560",
    ).disk_util[0]
    assert (disk.read_ios, disk.read_merges) == (128, 4096 - 128)
    assert disk.read_sectors == 32768


def test_time_shows_in_the_disk_statistics() -> None:
    disk = run("[a]\nrw=randread\niodepth=4\nruntime=1\ntime_based\n").disk_util[0]
    assert disk.in_queue_ms == pytest.approx(4000, rel=0.01)
    assert disk.util_pct == pytest.approx(100, abs=1)


def test_a_device_error_ends_the_job_with_its_errno() -> None:
    result = run("[a]\nrw=trim\nbs=4k\nsize=1m\n", "device/discard=1", "device/memory_backed=1").jobs[0]
    assert result.error == 0 and result.stats.trim.done_ios == 256
    with pytest.raises(BlklabError, match="takes no discards"):
        run("[a]\nrw=trim\nsize=1m\n")


@pytest.mark.parametrize(
    ("job", "reason"),
    [
        ("[a]\nrw=read\ndirect=0\nsize=1m\n", "set direct=1"),
        ("[a]\nrw=read\nfilename=/dev/sdz\nsize=1m\n", "has no device 'sdz'"),
        ("[a]\nrw=read\nbs=1k\nsize=1m\n", "whose blocks are 4096 bytes"),
        ("[a]\nrw=read\nsize=1m\ncpus_allowed=99\n", "CPUs 0 to 7"),
        ("[a]\nrw=read\nioengine=null\nsize=1m\n", "takes no time"),
        ("[a]\nrw=read\nioengine=posixaio\niodepth=2\nsize=1m\n", "iodepth=1 only"),
    ],
)
def test_what_a_machine_cannot_do_is_an_error_before_anything_runs(job: str, reason: str) -> None:
    with pytest.raises(BlklabError, match=reason) as caught:
        run(job, "device/bs=4096")
    assert str(caught.value).startswith("test.fio:")


@pytest.mark.compiled_only
def test_a_driver_that_takes_no_time_without_costs_is_refused() -> None:
    with pytest.raises(BlklabError, match="time stands still"):
        run("[a]\nrw=read\nruntime=1\ntime_based\n", "device/completion_nsec=0")


def test_same_seed_same_bytes_and_another_seed_other_bytes() -> None:
    job = "[a]\nrw=randrw\niodepth=16\nnumjobs=3\nrandrepeat=0\nnumber_ios=500\n"
    first, again, other = (render_json(run(job, costs="icpe24", seed=s), plus=True) for s in (1, 1, 2))
    assert first == again
    assert first != other


def test_a_run_is_not_changed_by_being_watched() -> None:
    job = "[global]\ndirect=1\nioengine=libaio\nrw=randread\niodepth=8\nnumber_ios=3000\n[a]\n[b]\n"
    machine = load_machine("null", settings=NULL, costs="icpe24")
    seen: list[Progress] = []
    texts = [
        render_json(simulate(parse_job_text(job, "x"), machine, progress=seen.append if watch else None))
        for watch in (False, True)
    ]
    assert texts[0] == texts[1]
    assert seen and seen[-1].elapsed_s > 0


def test_a_stopped_run_gives_the_results_so_far() -> None:
    job = "[global]\ndirect=1\nioengine=libaio\nrw=randread\niodepth=8\nruntime=1000\ntime_based\n[a]\n[b]\nstonewall\n"
    flag = StopFlag()
    result = simulate(
        parse_job_text(job, "x"),
        load_machine("null", settings=NULL),
        progress=lambda p: flag.stop(),
        stop=flag,
    )
    assert [j.name for j in result.jobs] == ["a"]
    assert 0 < result.jobs[0].stats.read.done_ios < 1_000_000


def test_threads_are_spread_over_cpus_or_kept_where_they_may_be() -> None:
    machine = load_machine("null", settings=NULL)
    job = "[global]\ndirect=1\nrw=read\nsize=4k\n[a]\nnumjobs=4\n[b]\ncpus_allowed=5\nnumjobs=2\n"
    run_ = Run(build(machine), parse_job_text(job, "x"))
    run_.run()
    cpus = [m.thread.cpu for m in run_.members if m.thread is not None]
    assert cpus == [0, 1, 2, 3, 5, 5]


def test_more_threads_on_one_cpu_share_it() -> None:
    one = run("[a]\nrw=randread\niodepth=64\nruntime=50ms\ntime_based\n", costs="icpe24")
    two = run(
        "[a]\nrw=randread\niodepth=64\nruntime=50ms\ntime_based\nnumjobs=2\ncpus_allowed=0\n", costs="icpe24"
    )
    alone = one.jobs[0].stats.read.done_ios
    shares = [job.stats.read.done_ios for job in two.jobs]
    # Together they sleep and are interrupted less often, so they get a little more out of the CPU than one
    assert 0.95 * alone < sum(shares) < 1.4 * alone
    assert min(shares) > 0.3 * alone


def test_the_notes_say_what_was_done_otherwise() -> None:
    result = run("[a]\nrw=read\nsize=4k\nverify=crc32c\n")
    assert any("verify" in note for note in result.notes)


def test_a_users_scheduler_runs_a_job() -> None:
    result = run("[a]\nrw=randread\niodepth=32\nnumber_ios=500\n", scheduler=FIFO)
    assert result.jobs[0].stats.read.done_ios == 500
