"""virtio_blk: limits as QEMU's disk had them, a cache without FUA, threads that serve in turn."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from blklab.block.attributes import attribute_paths, read, write
from blklab.block.consts import F_FUA, F_PREFLUSH, F_SYNC, OP_DISCARD, OP_WRITE, STS_OK
from blklab.block.models import find_model
from blklab.block.switch import set_elevator
from blklab.core.errors import AttributeRefused, BlklabError
from blklab.lab.conform_capture import find_cases, read_capture

Rig = Callable[..., Any]
REFERENCE = Path(__file__).resolve().parent.parent / "reference"
NOT_PARAMETERS = ("name", "model", "size_sectors")
FIXED = {"request_ns": 10_000, "flush_ns": 400_000, "bytes_per_s": 1 << 30}


def captures() -> list[str]:
    """The cases on a virtio disk."""
    return [case for case in find_cases(REFERENCE) if "/virtio" in case]


@pytest.mark.parametrize("case", captures())
def test_limits_are_those_of_the_captures(device_rig: Rig, case: str) -> None:
    setup = read_capture(find_cases(REFERENCE)[case]).setup
    parameters = {parameter.name for parameter in find_model("virtio").parameters}
    compared = 0
    for device in setup["devices"]:
        settings = {key: value for key, value in device.items() if key not in NOT_PARAMETERS}
        assert set(settings) <= parameters
        settings["size"] = device["size_sectors"] << 9
        rig = device_rig("virtio", settings, nr_cpus=setup["cpus"])
        assert rig.queue.size_sectors == device["size_sectors"]
        limits = setup["initial_limits"][device["name"]]
        set_elevator(rig.queue, limits["scheduler"])
        have = set(attribute_paths(rig.queue))
        for name, value in limits.items():
            path = f"queue/{name}"
            if path in have and name != "scheduler":
                assert str(read(rig.queue, path)) == str(value), name
                compared += 1
        assert rig.queue.nr_hw_queues == limits["nr_hw_queues"]
        assert read(rig.queue, "hctx0/nr_tags") == limits["nr_tags"]
    assert compared >= 20


def test_there_are_captures() -> None:
    assert len(captures()) >= 2


def test_a_request_takes_its_time_and_that_of_its_bytes(device_rig: Rig) -> None:
    rig = device_rig("virtio", dict(FIXED))
    rig.send([rig.bio(0, 1024)]).run()
    # 512 KiB of 1 GiB a second
    assert rig.times("C") == [10_000 + 488_281]


@pytest.mark.parametrize(("threads", "ends"), [(1, [10, 20, 30, 40]), (2, [10, 10, 20, 20]), (8, [10] * 4)])
def test_threads_serve_first_in_first_out(device_rig: Rig, threads: int, ends: list[int]) -> None:
    rig = device_rig("virtio", {**FIXED, "iothreads": threads, "bytes_per_s": 1 << 50})
    rig.send(*[[rig.bio(64 * i)] for i in range(4)]).run()
    assert rig.times("C") == [at * 1000 for at in ends]


def test_a_flush_takes_its_own_time_and_holds_up_its_thread(device_rig: Rig) -> None:
    rig = device_rig("virtio", {**FIXED, "bytes_per_s": 1 << 50}, nr_cpus=2)
    rig.send([rig.bio(0, 0, OP_WRITE, F_PREFLUSH | F_SYNC)]).run(5_000)
    rig.send([rig.bio(8, cpu=1)], cpu=1).run()
    assert [(r.rwbs, r.time_ns) for r in rig.records("C")] == [
        ("FN", 400_000),
        ("WS", 400_000),
        ("R", 410_000),
    ]


def test_fua_is_data_and_a_flush_behind_it(device_rig: Rig) -> None:
    rig = device_rig("virtio", {})
    assert read(rig.queue, "queue/fua") == 0
    rig.send([rig.bio(8, 8, OP_WRITE, F_FUA | F_SYNC)]).run()
    assert [(r.rwbs, r.nr_sectors) for r in rig.records("D")] == [("WS", 8), ("FN", 0)]
    assert rig.statuses() == {0: STS_OK}


def test_write_through_has_no_flushes_and_cannot_be_written_back(device_rig: Rig) -> None:
    rig = device_rig("virtio", {"cache": "write through"})
    rig.send([rig.bio(8, 8, OP_WRITE, F_FUA | F_PREFLUSH)], [rig.bio(0, 0, OP_WRITE, F_PREFLUSH)]).run()
    assert [(r.rwbs, r.nr_sectors) for r in rig.records("D")] == [("W", 8)]
    with pytest.raises(AttributeRefused, match="EINVAL"):
        write(rig.queue, "queue/write_cache", "write back")


def test_each_ring_has_its_cpus_and_tags(device_rig: Rig) -> None:
    rig = device_rig("virtio", {"num_queues": 2, "queue_size": 4}, nr_cpus=4)
    assert [hctx.cpus for hctx in rig.queue.hctxs] == [[0, 1], [2, 3]]
    for cpu in range(4):
        rig.send(*[[rig.bio(800 * cpu + 64 * i, cpu=cpu)] for i in range(12)], cpu=cpu)
    rig.run()
    assert set(rig.statuses().values()) == {STS_OK}
    assert {r.cpu for r in rig.records("C")} >= {0, 2}
    rig.assert_clean()


def test_a_ring_for_each_cpu_at_most(device_rig: Rig) -> None:
    rig = device_rig("virtio", {"num_queues": 16}, nr_cpus=2)
    assert rig.queue.nr_hw_queues == 2


def test_discards_can_be_left_out(device_rig: Rig) -> None:
    rig = device_rig("virtio", {"discard": False})
    assert read(rig.queue, "queue/discard_max_bytes") == read(rig.queue, "queue/write_zeroes_max_bytes") == 0
    with_them = device_rig("virtio", {})
    with_them.send([with_them.bio(0, 4096, OP_DISCARD)]).run()
    assert with_them.statuses() == {0: STS_OK}


@pytest.mark.parametrize(
    "settings", [{"cache": "writeback"}, {"cache": ""}, {"logical_block": 1000}, {"logical_block": 4095}]
)
def test_what_is_refused(device_rig: Rig, settings: dict[str, Any]) -> None:
    with pytest.raises(BlklabError, match=r"virtio: (cache|logical_block)"):
        device_rig("virtio", settings)
