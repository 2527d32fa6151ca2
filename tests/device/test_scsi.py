"""scsi_debug's hosts: limits of the captures, and who waits for what on which level."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from blklab.block.attributes import attribute_paths, read, write
from blklab.block.consts import F_PREFLUSH, F_SYNC, OP_WRITE, STS_MEDIUM, STS_OK, STS_TIMEOUT
from blklab.block.limits import QueueLimits
from blklab.core.errors import AttributeRefused, BlklabError
from blklab.sim.build import build
from blklab.sim.machine import MachineBuilder

Rig = Callable[..., Any]
NOT_PARAMETERS = ("name", "model", "size_sectors")
MS = 1_000_000


def singles(rig: Any, count: int, stride: int = 1024, **more: Any) -> list[list[Any]]:
    """Batches of one bio each, far apart, so that nothing is plugged or merged."""
    return [[rig.bio(stride * i, **more)] for i in range(count)]


def in_flight(rig: Any, device: int | None = None) -> int:
    """The most requests that were between D and C at a time."""
    now = most = 0
    for record in rig.records("D C R", device):
        now += 1 if record.action == "D" else -1
        most = max(most, now)
    return most


# -- what it says of itself -------------------------------------------------------


def test_limits_are_those_of_every_capture(device_rig: Rig, shared: Path) -> None:
    compared = 0
    for file in sorted(shared.glob("reference/*/*/setup.json")):
        setup = json.loads(file.read_text())
        for device in setup["devices"]:
            if device["model"] != "scsi_debug":
                continue
            settings = {key: value for key, value in device.items() if key not in NOT_PARAMETERS}
            rig = device_rig("scsi", settings)
            assert rig.queue.size_sectors == device["size_sectors"]
            assert rig.queue.nr_hw_queues == setup["initial_limits"][device["name"]]["nr_hw_queues"]
            have = set(attribute_paths(rig.queue))
            for name, value in setup["initial_limits"][device["name"]].items():
                # With a scheduler nr_requests is twice the tags, and its own business
                if name in ("scheduler", "nr_hw_queues", "nr_requests") or f"queue/{name}" not in have:
                    continue
                assert str(read(rig.queue, f"queue/{name}")) == str(value), f"{file.parent.name}: {name}"
                compared += 1
    assert compared > 100


def test_limits_of_a_default_disk(device_rig: Rig) -> None:
    queue = device_rig("scsi").queue
    expected = {
        "max_segments": 2048,
        "max_segment_size": 4294967295,
        "optimal_io_size": 524288,
        "max_sectors_kb": 512,
        "max_hw_sectors_kb": 2147483647,
        "write_cache": "write back",
        "fua": 1,
        "io_timeout": 30000,
        "nr_requests": 192,
        "discard_max_bytes": 0,
        "write_zeroes_max_bytes": 33553920,
    }
    assert {name: read(queue, f"queue/{name}") for name in expected} == expected


def test_without_an_optimal_length_requests_have_the_kernels_default_size(device_rig: Rig) -> None:
    assert read(device_rig("scsi", {"opt_blks": 0, "dev_size_mb": 64}).queue, "queue/max_sectors_kb") == 1280
    assert read(device_rig("scsi", {"opt_blks": 7, "dev_size_mb": 64}).queue, "queue/max_sectors_kb") == 1280
    large = device_rig(
        "scsi", {"sector_size": 4096, "opt_blks": 512, "dev_size_mb": 64, "physblk_exp": 1}
    ).queue
    assert read(large, "queue/max_sectors_kb") == 2048
    assert read(large, "queue/physical_block_size") == 8192


# -- the delay ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "delay_ns"),
    [({"ndelay": 500_000}, 500_000), ({"delay": 2}, 8 * MS), ({"delay": 0}, 0), ({}, 4 * MS)],
)
def test_a_command_takes_the_delay(device_rig: Rig, settings: dict[str, Any], delay_ns: int) -> None:
    rig = device_rig("scsi", settings)
    rig.send(*singles(rig, 3)).run()
    assert rig.times("C") == [delay_ns] * 3
    rig.assert_clean()


def test_a_random_delay_is_at_most_the_delay(device_rig: Rig) -> None:
    rig = device_rig("scsi", {"ndelay": 100_000, "random": True})
    rig.send(*singles(rig, 40, stride=64)).run()
    times = rig.times("C")
    assert len(set(times)) > 30
    assert max(times) < 100_000


# -- queue_depth: the budget ------------------------------------------------------


def test_no_more_than_queue_depth_are_in_flight(device_rig: Rig) -> None:
    rig = device_rig("scsi", {"ndelay": 100_000})
    write(rig.queue, "device/queue_depth", "2")
    rig.send(*singles(rig, 10)).run()
    assert in_flight(rig) == 2
    assert rig.statuses() == dict.fromkeys(range(10), STS_OK)
    assert rig.driver.busy == 0
    # Who found no budget was inserted, and the completion's restart took it from there: no 3 ms delay
    assert rig.counts()["I"] == 8
    assert rig.last_end_ns() == 500_000
    rig.assert_clean()


def test_what_waits_for_a_budget_can_merge(device_rig: Rig) -> None:
    rig = device_rig("scsi", {"ndelay": 100_000})
    write(rig.queue, "device/queue_depth", "1")
    rig.send(*[[rig.bio(8 * i)] for i in range(10)]).run()
    # The second was taken to be dispatched, and waits on the dispatch list; the others wait in the software
    # queue
    assert [record.nr_sectors for record in rig.records("D")] == [8, 8, 64]
    assert rig.counts()["M"] == 7


def test_queue_depth_is_written_as_the_kernel_takes_it(device_rig: Rig) -> None:
    queue = device_rig("scsi", {"max_queue": 32}).queue
    assert read(queue, "device/queue_depth") == 32
    write(queue, "device/queue_depth", "32")
    for refused in ("0", "33", "-1", "two"):
        with pytest.raises(AttributeRefused, match="EINVAL"):
            write(queue, "device/queue_depth", refused)
    assert read(queue, "device/queue_depth") == 32


def test_queue_depth_may_change_under_load(device_rig: Rig) -> None:
    rig = device_rig("scsi", {"ndelay": 100_000})
    rig.send(*singles(rig, 12)).run(50_000)
    write(rig.queue, "device/queue_depth", "1")
    rig.send(*singles(rig, 6, stride=2048)).run(250_000)
    write(rig.queue, "device/queue_depth", "4")
    rig.run()
    assert set(rig.statuses().values()) == {STS_OK}
    assert len(rig.statuses()) == 18
    assert rig.driver.busy == 0
    rig.assert_clean()


# -- can_queue: the tags --------------------------------------------------------------


def test_max_queue_is_the_number_of_driver_tags(device_rig: Rig) -> None:
    rig = device_rig("scsi", {"ndelay": 100_000, "max_queue": 4})
    rig.send(*singles(rig, 10)).run()
    assert in_flight(rig) == 4
    # The task sleeps for a tag: nothing is inserted, nothing merges
    assert rig.counts()["I"] == 0
    rig.assert_clean()


def test_disks_of_one_host_share_its_tags(device_rig: Rig) -> None:
    rig = device_rig("scsi", *[{"ndelay": 100_000, "max_queue": 8, "host": "a"} for _ in range(2)], nr_cpus=2)
    assert rig.queues[0].tag_set is rig.queues[1].tag_set
    assert rig.driver.scsi_host is rig.queues[1].driver.scsi_host
    rig.send(*singles(rig, 20), cpu=0)
    rig.send(*singles(rig, 20, device=1, cpu=1), cpu=1)
    rig.run()
    assert in_flight(rig) == 8
    assert in_flight(rig, 0) <= 8
    assert rig.driver.scsi_host.busy == 0
    rig.assert_clean()


def test_disks_of_different_hosts_share_nothing(device_rig: Rig) -> None:
    rig = device_rig("scsi", {"host": "a"}, {"host": "b"}, {}, {})
    assert len({id(queue.tag_set) for queue in rig.queues}) == 4
    assert len({id(queue.driver.scsi_host) for queue in rig.queues}) == 4


def test_host_wide_tags_are_one_set_for_all_hardware_queues(device_rig: Rig) -> None:
    rig = device_rig("scsi", {"ndelay": 100_000, "submit_queues": 2, "host_max_queue": 6}, nr_cpus=2)
    assert rig.queue.nr_hw_queues == 2
    for cpu in (0, 1):
        rig.send(*singles(rig, 10, cpu=cpu), cpu=cpu)
    rig.run()
    assert in_flight(rig) == 6
    rig.assert_clean()


# -- target and host ------------------------------------------------------------------


def test_a_full_target_starves_a_disk_until_a_completion(device_rig: Rig) -> None:
    settings = {"ndelay": 100_000, "host": "a", "target_can_queue": 3}
    rig = device_rig("scsi", dict(settings), dict(settings), nr_cpus=2)
    assert rig.driver.target is rig.queues[1].driver.target
    rig.send(*singles(rig, 8, cpu=0), cpu=0)
    rig.send(*singles(rig, 8, device=1, cpu=1), cpu=1)
    rig.run()
    # RESOURCE without D: the request is put back (R), and was never issued
    counts = rig.counts()
    assert counts["R"] > 0
    assert counts["D"] == 16
    assert len(rig.statuses()) == 16
    assert rig.driver.target.busy == 0
    assert rig.driver.scsi_host.starved == []
    # 16 commands, 3 at a time: nobody waited for the 3 ms retry
    assert rig.last_end_ns() < 1_000_000
    rig.assert_clean()


def test_disks_on_different_targets_do_not_starve_each_other(device_rig: Rig) -> None:
    settings = {"ndelay": 100_000, "host": "a", "target_can_queue": 2}
    rig = device_rig("scsi", {**settings, "target": 0}, {**settings, "target": 1}, nr_cpus=2)
    rig.send(*singles(rig, 2, cpu=0), cpu=0)
    rig.send(*singles(rig, 2, device=1, cpu=1), cpu=1)
    rig.run()
    assert in_flight(rig) == 4
    assert rig.counts()["R"] == 0


def test_a_host_that_refuses_a_command_is_blocked_for_a_while(device_rig: Rig) -> None:
    rig = device_rig("scsi", {"ndelay": 100_000, "opts": 0x8000, "every_nth": 3})
    rig.send(*singles(rig, 6)).run()
    # The refused command was issued, then put back: D, R, and D again later
    story = [(record.action, record.sector) for record in rig.records("D R C")]
    refused = [
        (first, second) for first, second in pairwise(story) if first[0] == "D" and second == ("R", first[1])
    ]
    assert refused
    assert rig.counts()["D"] == 6 + len(refused)
    assert rig.statuses() == dict.fromkeys(range(6), STS_OK)
    assert rig.driver.scsi_host.busy == rig.driver.busy == 0
    rig.assert_clean()


def test_an_idle_blocked_host_is_tried_seven_times(device_rig: Rig) -> None:
    # The only command is refused, so no completion unblocks the host: retries after 3 ms each count it down
    rig = device_rig("scsi", {"ndelay": 100_000, "opts": 0x8000, "every_nth": 2})
    rig.send(*singles(rig, 1)).run(1 * MS)
    rig.send([rig.bio(4096)]).run()
    assert rig.counts()["D"] == 3
    assert rig.counts()["R"] == 1 + 6
    assert rig.last_end_ns() > 7 * 3 * MS
    assert len(rig.statuses()) == 2
    rig.assert_clean()


# -- faults -----------------------------------------------------------------------


def test_a_medium_error_fails_reads_of_its_blocks_only(device_rig: Rig) -> None:
    rig = device_rig("scsi", {"opts": 2, "medium_error_start": 16, "medium_error_count": 4})
    rig.send(
        [rig.bio(0)], [rig.bio(8, 8)], [rig.bio(16, 8)], [rig.bio(20, 8)], [rig.bio(16, 8, OP_WRITE)]
    ).run()
    assert rig.statuses() == {0: STS_OK, 1: STS_OK, 2: STS_MEDIUM, 3: STS_OK, 4: STS_OK}
    fake = device_rig("scsi", {"opts": 2, "medium_error_start": 16, "fake_rw": True})
    fake.send([fake.bio(16)]).run()
    assert fake.statuses() == {0: STS_OK}


def test_a_lost_command_fails_at_its_timeout_and_gives_everything_back(device_rig: Rig) -> None:
    rig = device_rig("scsi", {"ndelay": 100_000, "opts": 4, "every_nth": 3})
    rig.send(*singles(rig, 4)).run()
    assert rig.statuses() == {0: STS_OK, 1: STS_OK, 2: STS_TIMEOUT, 3: STS_OK}
    assert rig.driver.busy == rig.driver.target.busy == rig.driver.scsi_host.busy == 0
    rig.assert_clean()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"sector_size": 520}, "sector_size is 512, 1024"),
        ({"opts": 1}, "only 0x8006 are built"),
        ({"max_queue": 193}, "max_queue = 193 is out of range"),
        ({"poll_queues": 1}, "poll_queues = 1 is out of range"),
    ],
)
def test_a_wrong_parameter_gives_one_clear_error(
    device_rig: Rig, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(BlklabError, match=message):
        device_rig("scsi", settings)


def unmap_limits(**settings: object) -> QueueLimits:
    builder = MachineBuilder()
    device = builder.device("sda", "test")
    device.set_model("scsi", "test")
    for name, value in settings.items():
        device.set_parameter(name, value, "test")  # type: ignore[arg-type]
    return build(builder.build()).queue("sda").limits


def test_unmap_limits_are_those_of_sd() -> None:
    # Capture split/discard-scsi; sd_config_discard
    given = {"lbpu": 1, "unmap_max_blocks": 2048, "unmap_granularity": 64, "unmap_alignment": 8}
    limits = unmap_limits(dev_size_mb=64, **given)
    assert (limits.max_discard_sectors, limits.max_hw_discard_sectors) == (2048, 2048)
    assert (limits.discard_granularity_bytes, limits.discard_alignment_bytes) == (32768, 4096)
    assert (limits.max_discard_segments, limits.max_write_zeroes_sectors) == (1, 65535)

    large = unmap_limits(lbpu=1, sector_size=4096, physblk_exp=2)
    assert large.max_discard_sectors == 0x7FFFFF << 3  # SD_MAX_WS16_BLOCKS
    assert large.discard_granularity_bytes == 16384  # the physical block

    for without in ({"lbpu": 0}, {"lbpu": 1, "unmap_max_blocks": 0}, {"lbpu": 1, "fake_rw": 1}):
        assert unmap_limits(**without).max_discard_sectors == 0


def test_unmap_alignment_is_below_the_granularity() -> None:
    with pytest.raises(BlklabError, match="unmap_alignment 64 must be below unmap_granularity, which is 64"):
        unmap_limits(lbpu=1, unmap_granularity=64, unmap_alignment=64)


# -- flushes ------------------------------------------------------------------------------


def flush_time_ns(rig: Any) -> int:
    """How long an empty flush takes on the device."""
    rig.send([rig.bio(0, 0, OP_WRITE, F_PREFLUSH | F_SYNC)]).run()
    record, end = [r for r in rig.records("D C") if r.rwbs == "FN"][-2:]
    return int(end.time_ns - record.time_ns)


@pytest.mark.parametrize(
    ("settings", "milliseconds"),
    [
        ({}, 48),  # a twentieth of a second, whole jiffies: 12 of 4 ms
        ({"delay": 3}, 148),
        ({"ndelay": 10_001}, 48),
        ({"ndelay": 10_000}, 0.01),
        ({"delay": 0}, 0),
        ({"fake_rw": True}, 0),  # nothing is written
    ],
)
def test_a_flush_takes_its_time_only_after_a_write(
    device_rig: Rig, settings: dict[str, Any], milliseconds: float
) -> None:
    rig = device_rig("scsi", settings)
    assert flush_time_ns(rig) == 0
    rig.send([rig.bio(8, op=OP_WRITE)]).run()
    assert flush_time_ns(rig) == milliseconds * MS
    assert flush_time_ns(rig) == 0
