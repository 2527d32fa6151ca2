"""The plug that a direct write or a discard brings with it, and who issues what is in it."""

from __future__ import annotations

from blklab.block.consts import TR_ALL
from blklab.block.trace import Tracer
from blklab.sim.build import build
from blklab.sim.machine import load_machine
from blklab.sim.run import Run
from blklab.workload.jobfile import parse_job_text

SETTINGS = (
    "device/irqmode=2",
    "device/completion_nsec=100000",
    "device/gb=1",
    "cpu/count=1",
    "queue/scheduler=none",
)


def story(job: str, *settings: str) -> list[str]:
    """Action and pid of each event: w of a worker, t of the thread, i of the interrupt (whoever runs)."""
    machine = load_machine("null", settings=[*SETTINGS, *settings], costs="lab-guest")
    built = build(machine)
    tracer = Tracer(built.host, TR_ALL)
    built.trace(tracer, TR_ALL)
    Run(built, parse_job_text(f"[a]\ndirect=1\nsize=1m\n{job}", "a.fio")).run()
    return [f"{record.action}{'w' if record.pid < 2000 else ''}" for record in tracer if record.action != "C"]


def test_a_synchronous_write_sleeps_with_its_plug_and_a_worker_issues_it() -> None:
    # As in the capture flush/none-fsync-writethrough-jobs1
    assert story("rw=write\nioengine=psync\nnumber_ios=2\n") == ["Q", "G", "P", "UT", "I", "Dw"] * 2


def test_an_asynchronous_write_flushes_its_plug_and_goes_on() -> None:
    assert story("rw=write\nioengine=libaio\niodepth=4\nnumber_ios=2\n") == ["Q", "G", "P", "D"] * 2


def test_a_read_has_no_plug() -> None:
    assert story("rw=read\nioengine=psync\nnumber_ios=2\n") == ["Q", "G", "D"] * 2


def test_a_discard_sleeps_with_its_plug() -> None:
    settings = ("device/discard=1", "device/memory_backed=1")
    assert story("rw=trim\nioengine=psync\nnumber_ios=1\n", *settings) == ["Q", "G", "P", "UT", "I", "Dw"]


def test_a_large_read_has_a_plug_for_its_bios() -> None:
    # 2 MiB are 512 pages, two bios, which merge in the plug
    found = story("rw=read\nbs=2m\nsize=2m\nioengine=psync\n", "device/max_sectors=8192")
    assert found.count("Q") == 2
    assert "P" in found
    assert "UT" not in found
