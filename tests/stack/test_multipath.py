"""dm-multipath in both modes: turns of the paths, paths that fail and come back, who merges, and who is busy."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any

import pytest
from contents import ContentsRig
from hypothesis import given, settings
from hypothesis import strategies as st
from stack_rig import StackRig

from blklab.block.attributes import read, write
from blklab.block.consts import (
    F_FUA,
    F_PREFLUSH,
    F_SYNC,
    OP_DISCARD,
    OP_READ,
    OP_WRITE,
    STS_DEV_RESOURCE,
    STS_IOERR,
    STS_MEDIUM,
    STS_OK,
    STS_TIMEOUT,
)
from blklab.block.switch import set_elevator
from blklab.core.errors import BlklabError

SIZE = 1 << 16
MODES = pytest.mark.parametrize("mode", ["bio", "rq"])
MS = 1_000_000


def multipath(mode: str, paths: int = 2, rig: StackRig | None = None, **more: Any) -> StackRig:
    rig = rig or StackRig([SIZE] * paths)
    rig.stack("top", "multipath", members=rig.leaf_names(), queue_mode=mode, **more)
    rig.by_name["top"].checks = True
    return rig


def served(rig: StackRig) -> list[int]:
    return [len(driver.served) for driver in rig.drivers.values()]


# -- turns ---------------------------------------------------------------------------------------------


@MODES
@pytest.mark.parametrize("paths", [2, 3])
def test_paths_are_used_equally(mode: str, paths: int) -> None:
    rig = multipath(mode, paths)
    rig.send([rig.bio_to("top", 99 * i, 8, i & 1) for i in range(60)]).run()
    assert served(rig) == [60 // paths] * paths
    assert set(rig.statuses().values()) == {STS_OK}
    rig.assert_all_ended()


@MODES
def test_rr_min_io_keeps_to_a_path(mode: str) -> None:
    rig = multipath(mode, 2, rr_min_io=3)
    rig.send([rig.bio_to("top", 99 * i) for i in range(9)]).run()
    order = [rig.queues[r.device].name for r in rig.records("A")]
    assert order == ["d0"] * 3 + ["d1"] * 3 + ["d0"] * 3


def test_requests_are_merged_before_a_path_is_chosen_and_bios_are_not() -> None:
    by_rq, by_bio = multipath("rq"), multipath("bio")
    for rig in (by_rq, by_bio):
        rig.senders[0].plug_from = 1
        rig.send([rig.bio_to("top", 8 * i) for i in range(8)]).run()
        rig.assert_all_ended()
    assert [driver.served for driver in by_rq.drivers.values()] == [[(0, 64)], []]
    # In turn, so no two of a path touch
    assert served(by_bio) == [4, 4]


@pytest.mark.parametrize("depth", [1, 4])
def test_what_the_paths_do_not_take_is_merged_in_the_scheduler_of_the_device(depth: int) -> None:
    rig = multipath("rq", rig=StackRig([SIZE] * 2, depth=depth))
    set_elevator(rig.by_name["top"], "mq-deadline")
    rig.send([rig.bio_to("top", 9000 + 99 * i) for i in range(10)]).run(1_000)
    rig.send([rig.bio_to("top", 8 * i, 8, OP_WRITE) for i in range(200)]).run()
    assert sum(served(rig)) < 30 and sum(n for d in rig.drivers.values() for _, n in d.served) == 1680
    assert rig.counts()["R"] > 0, "the device gave back what found no tag"
    assert set(rig.statuses().values()) == {STS_OK}
    rig.assert_all_ended()


def test_schedulers_of_the_paths_are_passed_by() -> None:
    rig = StackRig([SIZE] * 2)
    for name in rig.leaf_names():
        set_elevator(rig.by_name[name], "mq-deadline")
    multipath("rq", rig=rig)
    rig.send([rig.bio_to("top", 99 * i) for i in range(10)]).run()
    for name in rig.leaf_names():
        number = rig.by_name[name].number
        assert {r.action for r in rig.records("Q G P I M A D C", number)} == {"A", "D", "C"}
    assert served(rig) == [5, 5]
    rig.assert_all_ended()


def test_a_busy_path_is_resource_and_the_request_is_tried_again() -> None:
    rig = multipath("rq")
    rig.drivers["d0"].answers.extend([STS_DEV_RESOURCE] * 2)
    rig.send([rig.bio_to("top", 0)]).run(MS)
    # d0 will not: R on the path's device and here; then it is d1's turn
    top, d0 = rig.by_name["top"].number, rig.by_name["d0"].number
    assert [r.device for r in rig.records("R")][:2] == [d0, top]
    rig.run()
    assert rig.statuses() == {0: STS_OK}
    assert sum(served(rig)) == 1
    rig.assert_all_ended()


def test_counters_of_the_device_and_its_paths() -> None:
    rig = multipath("rq")
    rig.send([rig.bio_to("top", 99 * i, 16, OP_WRITE) for i in range(4)]).run()
    lines = {n: [int(x) for x in str(read(rig.by_name[n], "stat")).split()] for n in ("top", "d0", "d1")}
    assert lines["top"][4:7] == [4, 0, 64]
    assert lines["d0"][4:7] == lines["d1"][4:7] == [2, 0, 32]


def test_a_request_that_a_busy_path_gave_back_counts_there_without_sectors() -> None:
    # blk_insert_cloned_request ends the counting of what it could not issue as if it had been served
    rig = multipath("rq", 1)
    rig.drivers["d0"].answers.extend([STS_DEV_RESOURCE] * 2)
    rig.send([rig.bio_to("top", 0, 16, OP_WRITE)]).run()
    lines = {n: [int(x) for x in str(read(rig.by_name[n], "stat")).split()] for n in ("top", "d0")}
    assert rig.counts()["R"] == 4, "twice, on the path and here"
    assert lines["top"][4:7] == [1, 0, 16]
    assert lines["d0"][4:7] == [3, 0, 16]
    rig.assert_all_ended()


# -- errors -----------------------------------------------------------------------------------------------


@MODES
@pytest.mark.parametrize("status", [STS_IOERR, STS_TIMEOUT])
def test_an_error_of_a_path_fails_it_and_another_one_serves(mode: str, status: int) -> None:
    rig = multipath(mode, 3)
    rig.drivers["d1"].endings.extend([status] * 50)
    rig.send([rig.bio_to("top", 99 * i, 8, i & 1) for i in range(30)]).run()
    rig.send([rig.bio_to("top", 99 * i) for i in range(10)]).run()
    assert set(rig.statuses().values()) == {STS_OK}
    failed = Counter(
        r.extra for name in rig.leaf_names() for r in rig.records("C", rig.by_name[name].number) if r.extra
    )
    assert set(failed) == {status} and failed[status] <= 10
    assert read(rig.by_name["top"], "dm/fail_path") == "d1"
    assert read(rig.by_name["top"], "dm/reinstate_path") == "d0 d2"
    assert rig.counts()["C"] == sum(served(rig)) + 40
    rig.assert_all_ended()


@MODES
def test_an_error_of_the_medium_is_not_the_paths(mode: str) -> None:
    rig = multipath(mode)
    for name in rig.leaf_names():
        rig.drivers[name].endings.append(STS_MEDIUM)
    rig.send([rig.bio_to("top", 0)]).run()
    assert rig.statuses() == {0: STS_MEDIUM}
    assert read(rig.by_name["top"], "dm/fail_path") == ""


@MODES
def test_without_paths_it_fails_once(mode: str) -> None:
    rig = multipath(mode)
    for name in rig.leaf_names():
        rig.drivers[name].endings.append(STS_IOERR)
    rig.send([rig.bio_to("top", 0)]).run()
    rig.send([rig.bio_to("top", 8)], [rig.bio_to("top", 0, 8, OP_WRITE, F_PREFLUSH)]).run()
    assert set(rig.statuses().values()) == {STS_IOERR} and len(rig.statuses()) == 3
    assert served(rig) == [1, 1]
    rig.assert_all_ended()


@MODES
def test_queue_if_no_path_waits_until_a_path_comes_back(mode: str) -> None:
    rig = multipath(mode, queue_if_no_path=True)
    top = rig.by_name["top"]
    for name in rig.leaf_names():
        rig.drivers[name].endings.append(STS_IOERR)
    rig.send([rig.bio_to("top", 99 * i) for i in range(5)]).run(550 * MS)
    assert len(rig.statuses()) < 5
    write(top, "dm/reinstate_path", "d1")
    rig.run(rig.events.now_ns + 1000 * MS)
    assert list(rig.statuses().values()) == [STS_OK] * 5
    assert read(top, "dm/fail_path") == "d0"
    rig.assert_all_ended()


@MODES
def test_what_waits_fails_when_it_shall_not_wait_any_more(mode: str) -> None:
    rig = multipath(mode, queue_if_no_path=True)
    for path in ("d0", "/dev/d1"):
        write(rig.by_name["top"], "dm/fail_path", path)
    rig.send([rig.bio_to("top", 0)]).run(250 * MS)
    assert rig.statuses() == {}
    write(rig.by_name["top"], "dm/queue_if_no_path", "0")
    rig.run(rig.events.now_ns + 1000 * MS)
    assert rig.statuses() == {0: STS_IOERR}
    assert served(rig) == [0, 0]
    rig.assert_all_ended()


def test_a_bio_is_sent_again_as_it_was() -> None:
    # The paths cut it, and one is a partition: what ends on the failed path is only the last piece, elsewhere
    rig = StackRig([SIZE - 2048, SIZE], max_sectors=64)
    rig.stack("p1", "partition", device="d1", start="1m")
    rig.stack("top", "multipath", members=["p1", "d0"])
    rig.drivers["d1"].endings.append(STS_IOERR)
    rig.send([rig.bio_to("top", 8, 200, OP_WRITE)]).run()
    assert rig.statuses() == {0: STS_OK}
    assert sorted(rig.drivers["d0"].served) == [(8, 64), (72, 64), (136, 64), (200, 8)]
    rig.assert_all_ended()


# -- the device --------------------------------------------------------------------------------------------------


def test_flushes_and_fua_go_down_a_path() -> None:
    rig = StackRig([SIZE] * 2)
    for name in rig.leaf_names():
        rig.by_name[name].write_cache = True
    multipath("rq", rig=rig)
    rig.send([rig.bio_to("top", 0, 8, OP_WRITE, F_SYNC | F_FUA | F_PREFLUSH)]).run()
    ops = [
        (rig.queues[r.device].name, r.rwbs) for r in rig.records("D") if rig.queues[r.device].name != "top"
    ]
    assert [op[0] for _, op in ops] == ["F", "W", "F"], "no FUA: flush, data, flush"
    assert rig.statuses() == {0: STS_OK}
    rig.assert_all_ended()


@MODES
def test_discards_are_not_sent_to_every_path(mode: str) -> None:
    rig = StackRig([SIZE] * 2)
    for name in rig.leaf_names():
        rig.by_name[name].limits.set_max_discard(1 << 20)
        rig.by_name[name].limits.discard_granularity_bytes = 512
    multipath(mode, rig=rig)
    rig.send([rig.bio_to("top", 0, 4096, OP_DISCARD)]).run()
    assert sum(served(rig)) == 1 and rig.statuses() == {0: STS_OK}


def test_size_limits_and_what_is_refused() -> None:
    rig = StackRig([SIZE, SIZE, SIZE + 1], max_sectors=256)
    top = rig.stack("top", "multipath", members=["d0", "d1"], queue_mode="rq")
    assert (top.size_sectors, top.limits.max_sectors, top.nr_hw_queues) == (SIZE, 256, 1)
    with pytest.raises(BlklabError, match="paths lead to one disk"):
        rig.stack("other", "multipath", members=["d0", "d2"])
    with pytest.raises(BlklabError, match="bio or rq"):
        rig.stack("other", "multipath", members=["d0"], queue_mode="mq")
    rig.stack("line", "linear", members=["d2"])
    with pytest.raises(BlklabError, match="line takes bios"):
        rig.stack("other", "multipath", members=["line"], queue_mode="rq")
    with pytest.raises(BlklabError, match="no path of it; there are d0, d1"):
        write(top, "dm/fail_path", "d2")


@given(st.data())
@settings(max_examples=80, deadline=None)
def test_no_write_is_lost_and_each_bio_ends_once(data: st.DataObject) -> None:
    """Two paths that may fail any time, and one that does not. Each has a disk of its own here, so what is looked at
    is where bios go and how they end, and that no write is lost on its way."""
    mode = data.draw(st.sampled_from(["bio", "rq"]))
    rig = ContentsRig(
        [512] * 3,
        max_sectors=data.draw(st.sampled_from([8, 64, 2560])),
        depth=data.draw(st.sampled_from([1, 4, 64])),
    )
    queue_up = data.draw(st.booleans())
    multipath(mode, rig=rig, queue_if_no_path=queue_up)
    if mode == "rq" and data.draw(st.booleans()):
        set_elevator(rig.by_name["top"], "mq-deadline")
    for name in ("d0", "d1"):
        rig.drivers[name].endings.extend(
            data.draw(st.lists(st.sampled_from([STS_OK, STS_IOERR]), max_size=6))
        )
        if mode == "rq":
            rig.drivers[name].answers.extend(
                data.draw(st.lists(st.sampled_from([STS_OK, STS_DEV_RESOURCE]), max_size=6))
            )
    cuts = sorted(data.draw(st.sets(st.integers(0, 512), min_size=2, max_size=12)))
    bios = [
        rig.bio_to("top", begin, end - begin, data.draw(st.sampled_from([OP_READ, OP_WRITE])))
        for begin, end in pairwise(cuts)
    ]
    sizes = {bio.io: (bio.op, bio.sector, bio.nr_sectors) for bio in bios}
    rig.senders[0].plug_from = data.draw(st.sampled_from([1, 99]))
    rig.send(bios).run()
    # d2 never fails, so all end well
    assert rig.statuses() == dict.fromkeys(sizes, STS_OK)
    written: dict[int, set[str]] = {}
    for name, driver in rig.drivers.items():
        for sector in driver.contents:  # type: ignore[attr-defined]
            written.setdefault(sector, set()).add(name)
    for op, sector, n in sizes.values():
        for s in range(sector, sector + n):
            assert (s in written) == (op == OP_WRITE)
    rig.assert_all_ended()
