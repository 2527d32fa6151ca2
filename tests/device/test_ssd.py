"""The SSD: what it says of itself, its queues, its ceilings, its buffer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from blklab.block.attributes import read
from blklab.block.consts import F_FUA, F_PREFLUSH, F_SYNC, OP_DISCARD, OP_READ, OP_WRITE
from blklab.core.clock import Event
from blklab.core.errors import BlklabError

Rig = Callable[..., Any]


class Nothing(Event):
    """Lets time pass."""

    def fire(self, now_ns: int) -> int:
        return 0


def closed_loop(
    rig: Any, depth: int, ios: int, op: int = OP_READ, nr_sectors: int = 8, stride: int = 8, cpu: int = 0
) -> int:
    """Keeps `depth` I/Os in flight at every `stride` sectors until `ios` have ended; returns nanoseconds."""
    sender = rig.senders[cpu]
    sent = 0
    began = rig.events.now_ns

    def next_bio() -> Any:
        nonlocal sent
        sent += 1
        return rig.bio((sent * stride) % (rig.queue.size_sectors - nr_sectors), nr_sectors, op, cpu=cpu)

    def more(_: object) -> None:
        if sent < ios:
            rig.send([next_bio()], cpu=cpu)

    sender.on_done = more
    rig.send(*[[next_bio()] for _ in range(depth)], cpu=cpu)
    rig.run()
    sender.on_done = None
    return int(rig.last_end_ns() - began)


def test_limits_are_those_of_an_nvme_device(device_rig: Rig) -> None:
    rig = device_rig("ssd", {"size": "1g", "max_transfer": "512k"}, nr_cpus=4)
    expected = {
        "max_hw_sectors_kb": 512,
        "max_sectors_kb": 512,
        "max_segments": 128,
        "max_segment_size": 0xFFFFFFFF,
        "virt_boundary_mask": 4095,
        "logical_block_size": 512,
        "physical_block_size": 512,
        "minimum_io_size": 512,
        "optimal_io_size": 0,
        "rotational": 0,
        "write_cache": "write back",
        "fua": 1,
        "nr_requests": 1023,
        "discard_max_bytes": 2199023255040,
        "discard_granularity": 512,
        "max_discard_segments": 256,
        "io_timeout": 30000,
    }
    assert {name: read(rig.queue, f"queue/{name}") for name in expected} == expected
    assert read(rig.queue, "size") == 1 << 21
    small = device_rig("ssd", {"max_transfer": "128k", "volatile_cache": False, "discard": False})
    assert read(small.queue, "queue/max_segments") == 33
    assert read(small.queue, "queue/write_cache") == "write through"
    assert read(small.queue, "queue/discard_max_bytes") == 0
    # Without a limit of its own, the driver's 4 MiB; requests stay at the kernel's default
    large = device_rig("ssd", {"max_transfer": 0})
    assert read(large.queue, "queue/max_hw_sectors_kb") == 4096
    assert read(large.queue, "queue/max_sectors_kb") == 1280


@pytest.mark.parametrize(
    ("cpus", "queues", "groups"),
    [
        (4, 128, [[0], [1], [2], [3]]),
        (8, 4, [[0, 1], [2, 3], [4, 5], [6, 7]]),
        (10, 4, [[0, 1, 2], [3, 4, 5], [6, 7], [8, 9]]),
        (3, 1, [[0, 1, 2]]),
    ],
)
def test_hardware_queues_are_contiguous_groups_of_cpus(
    device_rig: Rig, cpus: int, queues: int, groups: list[list[int]]
) -> None:
    rig = device_rig("ssd", {"queues": queues}, nr_cpus=cpus)
    assert [hctx.cpus for hctx in rig.queue.hctxs] == groups


def test_the_interrupt_arrives_at_the_first_cpu_of_the_group(device_rig: Rig) -> None:
    rig = device_rig("ssd", {"queues": 2}, nr_cpus=4)
    rig.queue.rq_affinity = 0
    for cpu in range(4):
        rig.send([rig.bio(8 * cpu, cpu=cpu)], cpu=cpu)
    rig.run()
    assert sorted(record.cpu for record in rig.records("C")) == [0, 0, 2, 2]


def test_a_read_takes_the_time_of_its_unit_and_the_latency(device_rig: Rig) -> None:
    rig = device_rig("ssd", {"units": 1, "read_ns": 60_000, "latency_ns": 7_000})
    rig.send([rig.bio(0), rig.bio(8)]).run()
    # Both go to the one unit; the latency keeps no unit busy
    assert rig.times("C") == [67_000, 127_000]


def test_a_read_over_several_units_is_done_with_the_last_of_them(device_rig: Rig) -> None:
    rig = device_rig("ssd", {"units": 1, "read_ns": 60_000, "latency_ns": 0})
    rig.send([rig.bio(0, 32)]).run()
    assert rig.times("C") == [240_000]
    # Sectors 4..11 lie on two pages
    shifted = device_rig("ssd", {"units": 1, "read_ns": 60_000, "latency_ns": 0})
    shifted.send([shifted.bio(4, 8)]).run()
    assert shifted.times("C") == [120_000]
    wide = device_rig("ssd", {"units": 64, "read_ns": 60_000, "latency_ns": 0})
    wide.send([wide.bio(0, 32)]).run()
    assert 60_000 <= wide.times("C")[0] <= 120_000


def test_neighbouring_pages_spread_over_the_units(device_rig: Rig) -> None:
    flash = device_rig("ssd", {"units": 32}).driver.flash
    loads = [0] * 32
    for page in range(3200):
        loads[flash.unit_of(page)] += 1
    assert min(loads) >= 85
    assert max(loads) <= 115


@pytest.mark.parametrize(("op", "name"), [(OP_READ, "read"), (OP_WRITE, "write")])
def test_the_ceiling_of_iops_holds(device_rig: Rig, op: int, name: str) -> None:
    rig = device_rig("ssd", {f"{name}_iops": 100_000, "read_ns": 1000, "program_ns": 1000, "units": 64})
    took = closed_loop(rig, 64, 2000, op)
    assert 2000 * 1e9 / took == pytest.approx(100_000, rel=0.02)


@pytest.mark.parametrize(("op", "name"), [(OP_READ, "read"), (OP_WRITE, "write")])
def test_the_ceiling_of_bandwidth_holds(device_rig: Rig, op: int, name: str) -> None:
    rig = device_rig(
        "ssd", {f"{name}_bytes_per_s": 500_000_000, "read_ns": 1000, "program_ns": 1000, "units": 64}
    )
    took = closed_loop(rig, 16, 500, op, nr_sectors=128, stride=128)
    assert 500 * 65536 * 1e9 / took == pytest.approx(500_000_000, rel=0.05)


def test_reads_and_writes_share_the_ceiling_of_commands_but_not_the_link(device_rig: Rig) -> None:
    rig = device_rig("ssd", {"read_iops": 1_000_000, "write_iops": 1_000_000, "read_ns": 1, "latency_ns": 10,
                             "write_latency_ns": 10}, nr_cpus=2)  # fmt: skip
    rig.send(*[[rig.bio(8 * i)] for i in range(10)])
    rig.send(*[[rig.bio(8 * i, op=OP_WRITE, cpu=1)] for i in range(10, 20)], cpu=1)
    rig.run()
    assert max(rig.times("C")) >= 19_000
    link = device_rig("ssd", {"read_bytes_per_s": 1_000_000_000, "write_bytes_per_s": 1_000_000_000,
                              "read_ns": 1, "latency_ns": 10, "write_latency_ns": 10}, nr_cpus=2)  # fmt: skip
    link.send(*[[link.bio(1024 * i, 512)] for i in range(4)])
    link.send(*[[link.bio(1024 * i, 512, op=OP_WRITE, cpu=1)] for i in range(4)], cpu=1)
    link.run()
    assert max(link.times("C")) == pytest.approx(4 * 512 * 512, rel=0.05)


def test_slots_bound_what_the_controller_works_on(device_rig: Rig) -> None:
    rig = device_rig("ssd", {"slots": 2, "units": 64, "read_ns": 10_000, "latency_ns": 0})
    rig.send(*[[rig.bio(8 * i)] for i in range(6)]).run()
    # Six reads on different units, two at a time, in the order of their arrival
    assert rig.times("C") == [10_000, 10_000, 20_000, 20_000, 30_000, 30_000]
    assert rig.driver.in_slots == 0
    assert rig.driver.waiting.count == 0


def test_writes_are_fast_until_the_buffer_is_full_and_then_as_fast_as_programs(device_rig: Rig) -> None:
    settings = {
        "units": 4,
        "buffer": "1m",
        "program_ns": 1_000_000,
        "program_bytes": "32k",
        "write_latency_ns": 5_000,
    }
    rig = device_rig("ssd", settings)
    rig.send(*[[rig.bio(128 * i, 128, OP_WRITE)] for i in range(8)]).run()
    assert rig.times("C") == [5_000] * 8
    # 4 units of 32 KiB a millisecond
    took = closed_loop(device_rig("ssd", settings), 4, 400, OP_WRITE, nr_sectors=128, stride=128)
    assert 400 * 65536 * 1e9 / took == pytest.approx(4 * 32768 * 1000, rel=0.05)


def test_random_writes_are_slower_than_sequential_ones_by_the_amplification(device_rig: Rig) -> None:
    settings = {
        "units": 4, "buffer": "1m", "program_ns": 1_000_000, "gc_ns": 1_000_000, "gc_amplification": 4.0,
        "size": "16g",
    }  # fmt: skip
    rates = {}
    for name, stride in (("sequential", 8), ("random", 8 * 997)):
        rig = device_rig("ssd", dict(settings))
        # The first 256 fill the buffer
        rates[name] = (4000 - 256) * 1e9 / closed_loop(rig, 8, 4000, OP_WRITE, stride=stride)
    assert rates["sequential"] == pytest.approx(4 * 8 * 1000, rel=0.06)
    assert rates["sequential"] / rates["random"] == pytest.approx(4.0, rel=0.08)


def test_reads_after_a_burst_of_random_writes_meet_the_clean_up(device_rig: Rig) -> None:
    settings = {
        "units": 1,
        "read_ns": 10_000,
        "latency_ns": 0,
        "program_ns": 100_000,
        "cache": "1m",
        "cache_program_ns": 50_000,
        "gc_ns": 400_000,
        "gc_amplification": 2.0,
        "idle_ns": 100_000,
    }
    rig = device_rig("ssd", settings)
    rig.send(*[[rig.bio(1024 * i, 8, OP_WRITE)] for i in range(64)]).run(1_000_000)
    waits = []
    now = 1_000_000
    for i in range(200):
        # The unit is idle for a while, then a read comes
        now += 150_000
        rig.events.at(now, Nothing())
        rig.run(now)
        rig.send([rig.bio(8 * i)]).run(now + 5_000_000)
        waits.append(rig.last_end_ns() - now)
        now += waits[-1]
    disturbed = [wait > 10_000 for wait in waits]
    # 8 pages, which owe two moves each
    assert rig.driver.flash.programs == 8
    assert rig.driver.flash.moves == 16
    assert 12 <= sum(disturbed) <= 16
    assert not any(disturbed[-50:])
    assert rig.driver.flash.cached[0] == 0


def test_without_a_buffer_a_write_is_done_when_it_is_programmed(device_rig: Rig) -> None:
    rig = device_rig("ssd", {"units": 2, "buffer": 0, "program_ns": 500_000, "write_latency_ns": 1_000})
    rig.send(*[[rig.bio(8 * i * 64, 8, OP_WRITE)] for i in range(3)]).run()
    assert rig.times("C") == [501_000, 501_000, 1_001_000]


def test_discards_take_their_time_and_no_unit(device_rig: Rig) -> None:
    rig = device_rig("ssd", {"other_ns": 30_000, "units": 1, "read_ns": 60_000, "latency_ns": 0}, nr_cpus=2)
    rig.send([rig.bio(0, 1 << 20, OP_DISCARD)])
    rig.send([rig.bio(0, cpu=1)], cpu=1)
    rig.run()
    assert rig.times("C") == [30_000, 60_000]


def test_two_devices_of_a_machine_draw_different_times(device_rig: Rig) -> None:
    settings = {"read_shape": "exponential", "units": 1}
    rig = device_rig("ssd", dict(settings), dict(settings))
    rig.send(*[[rig.bio(8 * i, device=d)] for i in range(20) for d in (0, 1)]).run()
    assert rig.times("C", device=0) != rig.times("C", device=1)


def test_the_same_seed_draws_the_same_and_another_one_others(device_rig: Rig) -> None:
    def times(seed: int) -> list[int]:
        rig = device_rig("ssd", {"read_shape": "lognormal", "read_cv": 0.3, "read_retry_ppm": 50_000,
                                 "read_retry_ns": 30_000}, seed=seed)  # fmt: skip
        rig.send(*[[rig.bio(8 * i)] for i in range(100)]).run()
        return list(rig.times("C"))

    assert times(1) == times(1)
    assert times(1) != times(2)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"unit_bytes": 3000}, "unit_bytes is a power of two"),
        ({"logical_block": 1000}, "logical_block is a power of two"),
        ({"program_shape": "uniform"}, "program_shape is constant or exponential"),
        ({"max_transfer": 512}, "max_transfer is at least 4096"),
        ({"read_shape": "gamma"}, "no distribution 'gamma'"),
        ({"units": 0}, "units = 0 is out of range"),
        ({"preset": "samsung-990"}, "no preset 'samsung-990'"),
        ({"channels": 3}, "no parameter 'channels'"),
    ],
)
def test_a_wrong_parameter_gives_one_clear_error(
    device_rig: Rig, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(BlklabError, match=message):
        device_rig("ssd", settings)


# -- flushes --------------------------------------------------------------------------------

FLASH = {
    "units": 4,
    "program_ns": 600_000,
    "program_bytes": "32k",
    "write_latency_ns": 10_000,
    "flush_ns": 5_000,
}


def took_ns(rig: Any, nr_sectors: int, flags: int, sector: int = 0) -> int:
    """How long one bio takes."""
    began = rig.events.now_ns
    rig.send([rig.bio(sector, nr_sectors, OP_WRITE, flags | F_SYNC)]).run(began + 100_000_000)
    return int(rig.last_end_ns() - began)


def test_a_flush_programs_what_the_buffer_holds(device_rig: Rig) -> None:
    rig = device_rig("ssd", dict(FLASH))
    assert took_ns(rig, 0, F_PREFLUSH) == 5_000  # nothing
    assert took_ns(rig, 8, 0) == 10_000
    assert took_ns(rig, 0, F_PREFLUSH) == 605_000  # an open page
    assert took_ns(rig, 0, F_PREFLUSH) == 5_000
    rig.send(*[[rig.bio(64 * i, 64, OP_WRITE)] for i in range(8)]).run(rig.events.now_ns + 20_000)
    assert took_ns(rig, 0, F_PREFLUSH) == pytest.approx(2 * 600_000 - 10_000, abs=25_000)  # two pages a unit
    rig.run()
    rig.assert_clean()


def test_writes_go_on_while_a_flush_is_under_way(device_rig: Rig) -> None:
    rig = device_rig("ssd", dict(FLASH), nr_cpus=2)
    took_ns(rig, 8, 0)
    rig.send([rig.bio(0, 0, OP_WRITE, F_PREFLUSH | F_SYNC)])
    rig.send([rig.bio(800, 8, OP_WRITE, cpu=1)], cpu=1).run()
    assert rig.ended() == [0, 2, 1]


def test_a_write_with_fua_is_programmed_at_once(device_rig: Rig) -> None:
    rig = device_rig("ssd", dict(FLASH))
    assert took_ns(rig, 8, F_FUA) == 610_000
    assert rig.driver.flash.programs == 1
    assert rig.counts()["D"] == 1  # with FUA, not with a flush


def test_without_a_volatile_cache_neither_is_sent(device_rig: Rig) -> None:
    rig = device_rig("ssd", {**FLASH, "volatile_cache": False})
    assert read(rig.queue, "queue/write_cache") == "write through"
    assert read(rig.queue, "queue/fua") == 0
    assert took_ns(rig, 8, F_FUA | F_PREFLUSH) == 10_000
    rig.send([rig.bio(0, 0, OP_WRITE, F_PREFLUSH | F_SYNC)]).run()
    assert rig.counts()["D"] == 1
    assert len(rig.ended()) == 2
