"""Questions that people asked about the size of requests, as small experiments with a right answer."""

from __future__ import annotations

from pathlib import Path

import pytest

from blklab.sim.api import simulate
from blklab.workload.cmdline import parse_command_line

SATA = """
kernel = "6.1"
[cpu]
count = 1
[device.sda]
model = "ssd"
queues = 1
queue_depth = 31
unit_bytes = 16384
"""
# Free parameters: what the two drives do inside was not published, only what came of it
ALONE_IS_SLOW = """
command_bytes_per_s = "430m"
read_bytes_per_s = "549m"
latency_ns = 20000
read_ns = 20000
units = 64
"""
COMMANDS_COST = """
read_bytes_per_s = "520m"
read_iops = 6900
latency_ns = 60000
read_ns = 60000
"""


def sequential_mb_per_s(machine: Path, max_sectors_kb: int) -> float:
    words = "--name=dd --ioengine=psync --rw=read --bs=512k --direct=1 --number_ios=1000"
    job, _ = parse_command_line(words.split())
    assert job is not None
    settings = [f"queue/max_sectors_kb={max_sectors_kb}", "queue/scheduler=none"]
    read = simulate(job, machine, settings=settings).jobs[0].stats.read
    assert read.runtime_ns
    return read.bytes / read.runtime_ns * 1e3


@pytest.mark.parametrize(
    ("drive", "before", "change"),
    [(ALONE_IS_SLOW, 436, 0.23), (COMMANDS_COST, None, -0.10)],
    ids=["gains", "loses"],
)
def test_smaller_requests_gain_only_where_a_drive_needs_several(
    tmp_path: Path, drive: str, before: float | None, change: float
) -> None:
    # blog.schmorp.de, 2016-03-01: max_sectors_kb=64 made sequential reads of one SSD 23% faster (436 -> 534 MB/s),
    # those of another 10% slower. One I/O becomes eight requests at once: a gain where one command alone does not
    # fill the link, a loss where each command has its price
    machine = tmp_path / "sata.toml"
    machine.write_text(SATA + drive)

    whole = sequential_mb_per_s(machine, 512)
    cut = sequential_mb_per_s(machine, 64)

    assert cut / whole - 1 == pytest.approx(change, abs=0.03)
    if before is not None:
        assert whole == pytest.approx(before, rel=0.05)
