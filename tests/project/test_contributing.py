"""The examples of CONTRIBUTING.md work as they are written there."""

from __future__ import annotations

import sys
import textwrap
import types
from pathlib import Path

import pytest

import blklab.block.models as registry
from blklab.block.elevator import ELEVATORS
from blklab.sim.api import simulate
from blklab.sim.machine import load_machine

ROOT = Path(__file__).parents[2]
JOB = "[a]\nioengine=libaio\ndirect=1\nrw=randrw\nbs=4k\niodepth=8\nsize=4m\nnumber_ios=100\n"


def section(title: str) -> str:
    """The text of one section."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    return text.split(f"## {title}\n", 1)[1].split("\n## ", 1)[0]


def example(title: str) -> str:
    """The first indented block of a section."""
    lines = section(title).splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("    "))
    end = next(i for i in range(start, len(lines)) if lines[i] and not lines[i].startswith("    "))
    return textwrap.dedent("\n".join(lines[start:end]))


@pytest.mark.parametrize("title", ["Adding a scheduler", "Adding a device", "Adding a cost table"])
def test_each_is_at_most_a_page(title: str) -> None:
    assert len(section(title).splitlines()) <= 66


def test_the_scheduler_runs(tmp_path: Path) -> None:
    path = tmp_path / "reads_first.py"
    path.write_text(example("Adding a scheduler"))
    job = tmp_path / "job.fio"
    job.write_text(JOB)
    try:
        result = simulate(job, machine="null", scheduler=f"{path}:ReadsFirst")
        assert "reads-first" in ELEVATORS
    finally:
        ELEVATORS.pop("reads-first", None)
    stats = result.jobs[0].stats
    assert stats.read.done_ios + stats.write.done_ios == 100


def test_the_device_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("blklab.device.one_arm")
    exec(example("Adding a device"), module.__dict__)
    monkeypatch.setitem(sys.modules, "blklab.device.one_arm", module)
    monkeypatch.setattr(registry, "MODULES", (*registry.MODULES, "device.one_arm"))
    machine = tmp_path / "machine.toml"
    machine.write_text(
        'kernel = "6.1"\n[cpu]\ncosts = "zero"\n[device.sda]\nmodel = "one-arm"\nservice_nsec = 50000\n'
    )
    job = tmp_path / "job.fio"
    job.write_text(JOB)
    read = simulate(job, machine=load_machine(machine)).jobs[0].stats.read
    assert read.clat.mean == pytest.approx(8 * 50_000, rel=0.1)
