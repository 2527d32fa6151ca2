"""Cuts at max_segments where nobody recorded which pages lie together: the rule, in the captures and in the model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from blklab.block.consts import TR_ALL
from blklab.block.trace import Tracer
from blklab.lab.conform_capture import find_cases, read_capture
from blklab.lab.conform_model import run_case
from blklab.sim.build import build
from blklab.sim.machine import load_machine
from blklab.sim.run import Run
from blklab.workload.cmdline import parse_command_line

CASES = find_cases(Path(__file__).resolve().parent.parent / "reference")
UNKNOWN = [f"split/max{most}k-bs{size}m" for most in (1280, 4096) for size in (1, 4, 16)]
PAGES_OF_128 = 128 * 8  # sectors: each segment has at least a page


class Event(NamedTuple):
    action: str
    sector: int
    nr_sectors: int


def check_rule(events: Sequence[Event], most: int) -> list[int]:
    """The pieces tile the bios, none has more than `most` sectors, and one that ends before that and before its bio is
    full: it has 128 segments. Returns how long these are."""
    bios = [event for event in events if event.action == "Q"]
    pieces = sorted((event.sector, event.nr_sectors) for event in events if event.action in ("G", "M"))
    ends = {bio.sector + bio.nr_sectors for bio in bios}
    assert sum(bio.nr_sectors for bio in bios) == sum(length for _, length in pieces)
    full = []
    expected = {bio.sector for bio in bios}
    for sector, length in pieces:
        assert sector in expected, sector
        expected.add(sector + length)
        assert length <= most
        if length < most and sector + length not in ends:
            assert length >= PAGES_OF_128
            full.append(length)
    return full


@pytest.mark.parametrize("case", UNKNOWN)
def test_kernel_and_model_end_a_request_at_its_size_or_its_segments(case: str) -> None:
    capture = read_capture(CASES[case])
    most = capture.setup["initial_limits"]["nullb0"]["max_sectors_kb"] * 2
    model = run_case(capture)
    assert model.contiguous is not None

    found = check_rule([Event(e.action, e.sector, e.nr_sectors) for e in capture.events["nullb0"]], most)
    mine = check_rule([Event(e.action, e.sector, e.nr_sectors) for e in model.events["nullb0"]], most)
    check_rule([Event(e.action, e.sector, e.nr_sectors) for e in model.contiguous["nullb0"]], most)

    assert set(mine) == {PAGES_OF_128}
    # In the guest, some of the pages lay side by side
    assert min(found, default=most) >= PAGES_OF_128


@pytest.mark.parametrize("share", [0.1, 0.5, 0.95])
def test_the_model_keeps_the_rule_whatever_the_memory_is_like(share: float) -> None:
    job, _ = parse_command_line(
        ["--name=a", "--direct=1", "--ioengine=libaio", "--rw=read", "--bs=16m", "--number_ios=6"]
    )
    assert job is not None
    settings = ["cpu/count=1", "device/irqmode=2", "device/max_sectors=8192", f"memory/contiguous={share}"]
    built = build(load_machine("null", settings=[*settings, "queue/max_sectors_kb=4096"]))
    tracer = Tracer(built.host, TR_ALL)
    built.trace(tracer, TR_ALL)
    Run(built, job).run()

    full = check_rule([Event(r.action, r.sector, r.nr_sectors) for r in tracer], 8192)

    # 128 runs of 1 / (1 - share) pages in the mean
    mean = sum(full) / len(full) if full else 8192
    assert mean == pytest.approx(min(PAGES_OF_128 / (1 - share), 8192), rel=0.15)
