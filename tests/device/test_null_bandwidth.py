"""null_blk's bandwidth limit, beat by beat (captures busy/*-mbps)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

TICK_NS = 20_000_000
TICK_BYTES = (1 << 20) // 50 * 4  # mbps=4


def test_the_first_request_is_free_and_the_budget_is_filled_with_the_second(
    device_rig: Callable[..., Any],
) -> None:
    rig = device_rig("null", {"irqmode": 2, "completion_nsec": 1000, "mbps": 4})
    rig.send(*[[rig.bio(64 * i, 8)] for i in range(30)]).run(TICK_NS - 1)

    # 1 and then 20 of 4 KiB out of 83,884 bytes; the next one is refused after it was started
    assert TICK_BYTES // 4096 == 20
    assert rig.counts()["D"] == 22
    assert rig.counts()["R"] == 1


def test_the_rest_goes_at_the_next_beat(device_rig: Callable[..., Any]) -> None:
    rig = device_rig("null", {"irqmode": 2, "completion_nsec": 1000, "mbps": 4})
    rig.send(*[[rig.bio(64 * i, 8)] for i in range(30)]).run()

    assert set(rig.times("D")[22:]) == {TICK_NS}
    assert len(rig.statuses()) == 30
    rig.assert_clean()


def test_a_request_of_more_than_a_budget_waits_until_it_is_the_first(device_rig: Callable[..., Any]) -> None:
    # 64 KiB each: one a beat, and each is refused once before
    rig = device_rig("null", {"irqmode": 2, "completion_nsec": 1000, "mbps": 4, "max_sectors": 128})
    rig.send(*[[rig.bio(128 * i, 128)] for i in range(4)]).run()

    assert sorted(set(rig.times("C"))) == [1000, TICK_NS + 1000, 2 * TICK_NS + 1000]
    assert rig.counts()["R"] == 2


def test_the_beat_goes_on_while_the_device_rests(device_rig: Callable[..., Any]) -> None:
    rig = device_rig("null", {"irqmode": 2, "completion_nsec": 1000, "mbps": 4})
    rig.send([rig.bio(0, 8)], [rig.bio(8, 8)]).run()
    rested = rig.events.now_ns
    rig.send(*[[rig.bio(64 * i, 8)] for i in range(30)]).run()

    refused = rig.times("R")
    assert len(refused) == 1
    assert rested <= refused[0]
    assert rig.times("D")[-1] % TICK_NS == 0
