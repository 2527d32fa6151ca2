"""Attributes written during a run and read at its end: what a user sees of switching under load."""

from __future__ import annotations

from pathlib import Path

import pytest

from blklab import simulate
from blklab.block.consts import TR_ALL
from blklab.block.trace import Tracer
from blklab.cli.main import main
from blklab.core.errors import BlklabError
from blklab.sim.build import build
from blklab.sim.machine import load_machine
from blklab.sim.run import Run
from blklab.sim.timed import parse_at
from blklab.workload.cmdline import parse_command_line
from blklab.workload.jobspec import JobFile

FIFO = f"{Path(__file__).parents[2] / 'examples' / 'schedulers' / 'fifo.py'}:Fifo"
DIRECT = ["--name=a", "--ioengine=libaio", "--direct=1", "--bs=4k", "--randrepeat=1"]
JOB = [*DIRECT, "--rw=randread", "--iodepth=32", "--runtime=20ms", "--time_based"]
SLOW = ["device/irqmode=2", "device/completion_nsec=500000"]


def job() -> JobFile | None:
    return parse_command_line(JOB)[0]


def test_a_switch_under_load_stalls_between_q_and_g_and_loses_nothing() -> None:
    built = build(load_machine("null", settings=[*SLOW, "queue/scheduler=none"]))
    tracer = Tracer(built.host)
    built.trace(tracer, TR_ALL)
    found = job()
    assert found is not None
    result = Run(built, found, [f"10ms:queue/scheduler={FIFO}"], ["queue/nr_requests"]).run()
    read = result.jobs[0].stats.read
    queued = [r for r in tracer if r.action == "Q"]
    got = {r.sector: r.time_ns for r in tracer if r.action == "G"}
    assert read.done_ios == sum(r.action == "C" for r in tracer) > 100
    # Before the switch nothing is inserted, behind it everything
    inserted = [r.time_ns for r in tracer if r.action == "I"]
    assert min(inserted) >= 10_000_000
    waits = [got[r.sector] - r.time_ns for r in queued if r.time_ns > 10_000_000 and r.sector in got]
    before = [got[r.sector] - r.time_ns for r in queued if r.time_ns < 9_000_000]
    # Bios that come while the queue drains wait for the last of 500 us; others get their request at once
    assert max(waits) > 50_000 > 10_000 > max(before)
    assert [line.split(": ")[0].split("/", 1)[1] for line in result.attributes] == ["queue/nr_requests"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("queue/scheduler=none", "is not TIME:PATH=VALUE"),
        ("2s:queue/scheduler", "is not TIME:PATH=VALUE"),
        ("soon:queue/scheduler=none", "'soon' is not a time"),
        ("-1s:queue/scheduler=none", "before the beginning"),
        ("1s:feature/plug_lifo=1", "cannot be written while a run goes"),
        ("1s:nosuch/queue/scheduler=none", "no device 'nosuch'"),
        ("1s:queue/schedular=none", "did you mean 'queue/scheduler'"),
        ("1s:queue/scheduler=kybr", "no scheduler 'kybr'"),
    ],
)
def test_a_wrong_one_is_refused_before_the_run(text: str, said: str) -> None:
    found = job()
    assert found is not None
    with pytest.raises(BlklabError, match=said) as error:
        simulate(found, machine="null", at=[text])
    assert str(error.value).startswith("--at")


def test_what_the_kernel_refuses_ends_the_run_with_its_reason(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["run", *JOB, "--machine=null", "--at=5ms:queue/nr_requests=99999", "--eta=never"]
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("blklab: error: --at 5ms:queue/nr_requests: ") and "(EINVAL)" in err


def test_a_time_that_never_came_is_told() -> None:
    found = job()
    assert found is not None
    result = simulate(found, machine="null", at=["3s:queue/nomerges=2"])
    assert "--at 3s:queue/nomerges: the run had ended by then" in result.notes


def test_show_may_name_what_a_later_scheduler_has() -> None:
    found = job()
    assert found is not None
    result = simulate(found, machine="null", at=["1ms:queue/scheduler=kyber"], show=["queue/iosched/read_*"])
    assert result.attributes == ["nullb0/queue/iosched/read_lat_nsec: 2000000"]
    nothing = simulate(found, machine="null", at=["1ms:queue/scheduler=kyber"], show=["queue/iosched/fifo_*"])
    assert "--show queue/iosched/fifo_*: no attribute fits it at the end" in nothing.notes


def test_show_prints_what_was_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [
        "run",
        *JOB,
        "--machine=null",
        "--at",
        "1ms:queue/nomerges=2",
        "--show=queue/nom*",
        "--eta=never",
    ]
    assert main(arguments) == 0
    assert "nullb0/queue/nomerges: 2" in capsys.readouterr().err.splitlines()
    assert main(["run", *JOB, "--machine=null", "--show=queue/nomerge"]) == 2
    assert "no attribute fits 'queue/nomerge'; did you mean 'queue/nomerges'?" in capsys.readouterr().err


def test_the_parts_of_one() -> None:
    later = parse_at("500ms:nvme0n1/queue/iosched/read_lat_nsec=5")
    assert (later.at_ns, later.device, later.path, later.value) == (
        500_000_000,
        "nvme0n1",
        "queue/iosched/read_lat_nsec",
        "5",
    )
