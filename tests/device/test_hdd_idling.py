"""Waiting for the next request of a sequential reader pays on a disk that turns, and costs on an SSD."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from disk_rig import SECOND_NS, Loop, quiet, sequential_places

from blklab.block.attributes import write
from blklab.block.switch import set_elevator

Rig = Callable[..., Any]
BLOCK_SECTORS = 128


def megabytes_per_s(
    device_rig: Rig, model: str, preset: str, readers: int, slice_idle: int, ns: int, turns: int = 1
) -> list[float]:
    """What each of several sequential readers of 64 KiB gets under bfq."""
    rig = quiet(device_rig(model, {"preset": preset}, nr_cpus=readers))
    # bfq looks at it when it begins
    write(rig.queue, "queue/rotational", str(turns))
    set_elevator(rig.queue, "bfq")
    # Raised queues of applications that have just begun are not idled for
    write(rig.queue, "queue/iosched/low_latency", "0")
    write(rig.queue, "queue/iosched/slice_idle", str(slice_idle))
    gap = rig.queue.size_sectors // readers // BLOCK_SECTORS * BLOCK_SECTORS
    loops = [
        Loop(rig, sequential_places(gap * i, BLOCK_SECTORS), until_ns=ns, nr_sectors=BLOCK_SECTORS, cpu=i)
        for i in range(readers)
    ]
    rig.run()
    return [loop.bytes_per_s() / 1e6 for loop in loops]


@pytest.mark.parametrize("readers", [2, 4])
@pytest.mark.parametrize(
    ("preset", "idle_least", "other_most"),
    [("hitachi-7k500-500gb", 40, 8), ("wd-hc310-6tb", 150, 8)],
)
def test_idling_pays_on_a_disk(
    device_rig: Rig, preset: str, readers: int, idle_least: float, other_most: float
) -> None:
    """Measured here: 51 against 4 MB/s (two readers, 7K500), 48 against 5 (four); 176 against 5 and 168 against 7 on
    the disk of today: each read is otherwise a seek and half a turn for 64 KiB."""
    idling = megabytes_per_s(device_rig, "hdd", preset, readers, 8, 2 * SECOND_NS)
    other = megabytes_per_s(device_rig, "hdd", preset, readers, 0, SECOND_NS)
    assert sum(idling) > idle_least
    assert sum(other) < other_most
    # And fairly
    assert min(idling) > 0.6 * max(idling)


@pytest.mark.parametrize("readers", [2, 4])
def test_idling_costs_on_an_ssd(device_rig: Rig, readers: int) -> None:
    """bfq does not idle on a device that does not turn; told that it turns, one reader's I/O is in it at a time."""
    ssd = "intel-ssdpekkr128g7"
    idling = sum(megabytes_per_s(device_rig, "ssd", ssd, readers, 8, SECOND_NS // 10))
    other = sum(megabytes_per_s(device_rig, "ssd", ssd, readers, 0, SECOND_NS // 10))
    spared = sum(megabytes_per_s(device_rig, "ssd", ssd, readers, 8, SECOND_NS // 10, turns=0))
    assert idling < 1.15 * other / readers
    assert spared == pytest.approx(other, rel=0.01)
