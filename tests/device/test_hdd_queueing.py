"""What queueing in the disk gives: shortest positioning time first, and how it compares with what was measured."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from typing import Any

import pytest
from disk_rig import random_iops

Rig = Callable[..., Any]
OLD = "hitachi-7k500-500gb"
NEW = "wd-hc310-6tb"
FAST = "seagate-cheetah-15k7-450gb"
GB = 10**9


def rates(device_rig: Rig, preset: str, depths: tuple[int, ...], span: int = 0, **more: Any) -> list[float]:
    """Random 4 KiB reads a second at each depth."""
    return [random_iops(device_rig("hdd", {"preset": preset, **more}), span, depth, 600) for depth in depths]


@pytest.mark.parametrize("preset", [OLD, NEW, FAST])
def test_more_commands_give_more_iops(device_rig: Rig, preset: str) -> None:
    found = rates(device_rig, preset, (1, 2, 4, 8, 16, 31), window=0)
    # One waits while another is served: nothing to choose from
    assert found[1] == pytest.approx(found[0], rel=0.04)
    for fewer, more in itertools.pairwise(found[1:]):
        assert more > 1.1 * fewer
    # The algorithm is that of Jacobson and Wilkes, "Disk scheduling algorithms based on rotational position"
    # (HPL-CSP-91-7); the bounds are this model's own, wider than the gains below since `window` is all commands
    assert 1.9 < found[-1] / found[0] < 3.2


def test_in_order_depth_gives_nothing(device_rig: Rig) -> None:
    found = rates(device_rig, OLD, (1, 31), window=1)
    assert found[1] == pytest.approx(found[0], rel=0.04)


def test_the_gain_is_what_disks_of_the_time_had(device_rig: Rig) -> None:
    """`window` of the 7200 rpm presets is set on these two runs, and on nothing else:

    32 threads of random reads over all of a 500 GB Seagate of 7200 rpm, NCQ on, no scheduler queue: comparable to the
    "about 50%" that sorting in the kernel gave over one thread (ilsistemista.net, "A look at how NCQ ... impact disk
    performance", 2012). 4 KiB over 1 GB of 1 TB disks, depth 1 and 32: 95.0 -> 209.5 and 79.7 -> 232.3
    (CrystalDiskMark, pastebin.com/XrkgJVUX, 3Q7RYtj9)."""
    one, many = rates(device_rig, OLD, (1, 32))
    assert 1.4 < many / one < 1.9
    one, many = rates(device_rig, OLD, (1, 32), 1 << 30)
    assert 2.0 < many / one < 3.0


# seastar issue #157 (2016): "Generating evaluation file sized 10GB ... Maximum throughput: 384 IOPS", and with the file
# set to 500 GB "25.7529GB written in 144 seconds ... 308 IOPS". Which disk is not told; it wrote 180 MB/s. iotune
# looked for the depth itself: it recommended 75 and 48 requests, more than a disk takes.
CASE_12 = {10: 384, 500: 308}


def test_case_12_random_reads_depend_on_span_and_depth(device_rig: Rig) -> None:
    """Free parameters: the preset (a disk of today), and seek_track_ns = 1.2 ms, set on the first value: what settling
    takes decides at 10 GB. Off: 4% and -13%."""
    disk = {"preset": NEW, "seek_track_ns": 1_200_000}
    found = {gb: random_iops(device_rig("hdd", dict(disk)), gb * GB, 48, 1500) for gb in CASE_12}
    assert found[10] == pytest.approx(CASE_12[10], rel=0.06)
    assert found[500] == pytest.approx(CASE_12[500], rel=0.16)
    assert found[10] > 1.2 * found[500]
    # The file of the second run was in truth of 25.8 GB: 1.5 times as far as the first
    real = random_iops(device_rig("hdd", dict(disk)), 25_752_900_000, 48, 1500)
    assert found[500] < real < 1.1 * found[10]
    for gb in CASE_12:
        alone = random_iops(device_rig("hdd", dict(disk)), gb * GB, 1, 500)
        assert alone < 0.6 * found[gb]
    # Depth beyond what the disk takes changes nothing
    less = random_iops(device_rig("hdd", dict(disk)), 10 * GB, 32, 1500)
    assert less == pytest.approx(found[10], rel=0.03)


def test_littles_law_holds_and_the_arm_is_never_idle_under_load(device_rig: Rig) -> None:
    rig = device_rig("hdd", {"preset": OLD, "queue_depth": 8})
    unit = rig.driver.unit
    iops = random_iops(rig, 0, 8, 1000)
    busy_ns = unit.stroke_ns + unit.wait_ns + unit.media_ns
    assert busy_ns == pytest.approx(1000 / iops * 1e9, rel=0.01)
    assert unit.strokes == 1000


def test_thirty_two_queued_commands_cost_little_time_of_the_simulator(
    device_rig: Rig, compiled: bool
) -> None:
    """100,000 I/Os a second at depth 32, with all of the block layer: 0.1 s for 10,000 of them; ten times that is
    allowed here, as tests share the machine."""
    if not compiled:
        pytest.skip("a figure of the compiled form")
    rig = device_rig("hdd", {"preset": FAST, "window": 0})
    began = time.process_time()
    random_iops(rig, 0, 32, 10_000)
    assert time.process_time() - began < 1.0
