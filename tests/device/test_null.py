"""null_blk: its limits, its three ways to complete, its bandwidth limit, its shared tags."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from blklab.block.attributes import attribute_paths, read
from blklab.block.consts import STS_OK
from blklab.block.models import find_model
from blklab.core.errors import BlklabError

Rig = Callable[..., Any]
NOT_PARAMETERS = ("name", "model", "size_sectors")


def test_limits_are_those_of_every_capture(device_rig: Rig, shared: Path) -> None:
    parameters = {parameter.name for parameter in find_model("null").parameters}
    compared = 0
    for file in sorted(shared.glob("reference/*/*/setup.json")):
        setup = json.loads(file.read_text())
        for device in setup["devices"]:
            settings = {key: value for key, value in device.items() if key not in NOT_PARAMETERS}
            if device["model"] != "null" or settings["zoned"] or settings["cache_size"]:
                continue
            assert set(settings) <= parameters
            rig = device_rig("null", settings, nr_cpus=setup["cpus"])
            assert rig.queue.size_sectors == device["size_sectors"]
            limits = setup["initial_limits"].get(device["name"], {})
            changed = {write["path"] for write in setup["attributes"] if write["device"] == device["name"]}
            have = set(attribute_paths(rig.queue))
            for name, value in limits.items():
                path = f"queue/{name}"
                # With a scheduler nr_requests is its business; what the case wrote is not the device's
                if path in changed or path not in have or name in ("scheduler", "nr_requests"):
                    continue
                assert str(read(rig.queue, path)) == str(value), f"{file.parent.name}: {name}"
                compared += 1
    assert compared > 500


@pytest.mark.parametrize(("irqmode", "took_ns"), [(0, 0), (1, 0), (2, 25_000)])
def test_each_way_to_complete_takes_its_time(device_rig: Rig, irqmode: int, took_ns: int) -> None:
    rig = device_rig("null", {"irqmode": irqmode, "completion_nsec": 25_000})
    rig.send([rig.bio(0)]).run()
    assert rig.times("C") == [took_ns]


def test_a_bandwidth_limit_holds_over_its_ticks(device_rig: Rig) -> None:
    # 1 MiB/s: 51.2 KiB a tick of 50 ms
    rig = device_rig("null", {"irqmode": 2, "mbps": 1})
    rig.send(*[[rig.bio(64 * i, 8)] for i in range(60)]).run()
    assert set(rig.statuses().values()) == {STS_OK}
    assert rig.counts()["R"] >= 4
    assert 60 * 4096 * 1e9 / rig.last_end_ns() == pytest.approx(1 << 20, rel=0.25)


def test_devices_with_shared_tags_use_one_set(device_rig: Rig) -> None:
    rig = device_rig("null", {"shared_tags": True}, {"shared_tags": True}, {}, {})
    sets = [queue.tag_set for queue in rig.queues]
    assert sets[0] is sets[1]
    assert len({id(tag_set) for tag_set in sets}) == 3


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"queue_mode": 1}, "has no queue_mode 1"),
        ({"bs": 1000}, "bs is a power of two"),
        ({"zoned": True}, "zoned devices are not built"),
        ({"irqmode": 3}, "irqmode = 3 is out of range"),
        ({"gb": "many"}, "gb is a int"),
    ],
)
def test_a_wrong_parameter_gives_one_clear_error(
    device_rig: Rig, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(BlklabError, match=message):
        device_rig("null", settings)
