"""raid1: which member is read, how writes go out, and what is on the members whatever fails."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import pytest
from contents import ContentsRig
from hypothesis import given, settings
from hypothesis import strategies as st
from stack_rig import StackRig

from blklab.block.attributes import read
from blklab.block.consts import (
    F_FUA,
    F_PREFLUSH,
    F_SYNC,
    OP_DISCARD,
    OP_READ,
    OP_WRITE,
    OP_WRITE_ZEROES,
    STS_IOERR,
    STS_MEDIUM,
    STS_NOTSUPP,
    STS_OK,
)

SIZE = 1 << 16


def raid1(members: int = 2, rotational: bool = False, **more: Any) -> StackRig:
    rig = StackRig([SIZE] * members, **more)
    for queue in rig.queues:
        queue.rotational = rotational
    rig.stack("top", "raid1", members=rig.leaf_names())
    return rig


def reads(rig: StackRig) -> list[str]:
    """Which member each read went to, in order."""
    return [rig.queues[r.device].name for r in rig.records("Q") if r.device < 9 and _is_leaf(rig, r.device)]


def _is_leaf(rig: StackRig, device: int) -> bool:
    return rig.queues[device].name in rig.drivers


# -- reads ----------------------------------------------------------------------------------------


def test_a_sequential_reader_stays_where_it_is() -> None:
    rig = raid1()
    for i in range(6):
        rig.send([rig.bio_to("top", 1000 + 8 * i)]).run()
    assert reads(rig) == ["d0"] * 6


@pytest.mark.parametrize("rotational", [False, True])
def test_two_sequential_streams_at_a_time_end_on_two_disks(rotational: bool) -> None:
    rig = raid1(rotational=rotational)
    for i in range(8):
        rig.send([rig.bio_to("top", 8 + 8 * i), rig.bio_to("top", 30000 + 8 * i)]).run()
    places = Counter(
        (name, sector // 30000) for name in rig.leaf_names() for sector, _ in rig.children(name, "Q")
    )
    assert sorted(places.values()) == [8, 8]
    assert len({name for name, _ in places}) == 2


def test_solid_state_members_share_random_reads_by_what_is_under_way() -> None:
    rig = raid1(3)
    rig.send([rig.bio_to("top", 8 + 999 * i) for i in range(30)]).run()
    assert Counter(reads(rig)) == {"d0": 10, "d1": 10, "d2": 10}


def test_disks_read_where_the_head_is_nearest_if_both_have_something_to_do() -> None:
    rig = raid1(rotational=True, service_ns=1_000_000)
    for sector in (100, 60000):
        rig.send([rig.bio_to("top", sector)]).run(rig.events.now_ns + 1)
    rig.run(10_000_000)
    assert reads(rig) == ["d0", "d1"], "the one that is idle; now the heads are at 108 and 60008"
    for sector in (30000, 31000, 59000, 500, 58000):
        rig.send([rig.bio_to("top", sector)]).run(rig.events.now_ns + 1)
    assert reads(rig)[2:] == ["d0", "d1", "d1", "d0", "d1"]
    rig.run()
    rig.assert_all_ended()


def test_a_mixed_array_counts_as_solid_state() -> None:
    rig = StackRig([SIZE] * 2)
    rig.by_name["d0"].rotational = True
    rig.stack("top", "raid1", members=["d0", "d1"])
    rig.send([rig.bio_to("top", 8 + 777 * i) for i in range(10)]).run()
    assert Counter(reads(rig)) == {"d0": 5, "d1": 5}


# -- writes --------------------------------------------------------------------------------------------


def test_a_write_is_as_many_clones_and_one_end() -> None:
    rig = raid1(3)
    rig.send([rig.bio_to("top", 64, 16, OP_WRITE, F_SYNC | F_FUA)]).run()
    assert rig.story("Q A D C").split() == (
        ["Q64+16"] + ["A64+16", "Q64+16"] * 3 + ["D64+16"] * 3 + ["C64+16"] * 4
    )
    line = [int(n) for n in str(read(rig.by_name["top"], "stat")).split()]
    assert line[4:7] == [1, 0, 16]


@pytest.mark.parametrize("plugged", [False, True])
def test_before_md_direct_writes_the_thread_sends_them_and_a_plug_holds_them(plugged: bool) -> None:
    rig = raid1(features={"md_direct_writes": 0})
    rig.senders[0].plug_from = 1 if plugged else 99
    rig.send([rig.bio_to("top", 8 * i, 8, OP_WRITE) for i in range(4)]).run()
    served = {name: driver.served for name, driver in rig.drivers.items()}
    # Under the thread's plug what lies side by side is one request
    if plugged:
        assert served == {"d0": [(0, 32)], "d1": [(0, 32)]}
    assert {name: sum(n for _, n in found) for name, found in served.items()} == {"d0": 32, "d1": 32}
    assert all(r.pid != 100 for r in rig.records("D")), "the task itself sends none"
    direct = raid1()
    direct.send([direct.bio_to("top", 8 * i, 8, OP_WRITE) for i in range(4)]).run()
    assert all(r.pid == 100 for r in direct.records("D"))
    rig.assert_all_ended()


def test_a_bio_is_cut_where_64_mib_end() -> None:
    rig = StackRig([1 << 18] * 2)
    rig.stack("top", "raid1", members=["d0", "d1"])
    rig.send([rig.bio_to("top", (1 << 17) - 8, 24, OP_WRITE)]).run()
    assert sorted(rig.children("d0", "Q")) == [((1 << 17) - 8, 8), (1 << 17, 16)]
    assert rig.children("top", "X") == []
    rig.assert_all_ended()


def test_a_flush_goes_to_every_member_that_works_before_the_data() -> None:
    rig = raid1(3)
    for name in rig.leaf_names():
        rig.by_name[name].write_cache = True
    rig.drivers["d2"].endings.append(STS_IOERR)
    rig.send([rig.bio_to("top", 0, 8, OP_WRITE)]).run()
    rig.send([rig.bio_to("top", 8, 8, OP_WRITE, F_PREFLUSH)]).run()
    for name, flushes in (("d0", 1), ("d1", 1), ("d2", 0)):
        found = [r.rwbs for r in rig.records("D", rig.by_name[name].number) if r.rwbs.startswith("F")]
        assert len(found) == flushes, name
    assert set(rig.statuses().values()) == {STS_OK}
    rig.assert_all_ended()


def test_a_discard_goes_to_the_members_that_take_it() -> None:
    rig = StackRig([SIZE] * 2)
    limits = rig.by_name["d0"].limits
    limits.set_max_discard(1 << 20)
    limits.discard_granularity_bytes = 512
    rig.stack("top", "raid1", members=["d0", "d1"])
    rig.send([rig.bio_to("top", 0, 4096, OP_DISCARD)], [rig.bio_to("top", 0, 8, OP_WRITE_ZEROES)]).run()
    assert rig.children("d0") == [(0, 4096)] and rig.children("d1") == []
    assert rig.statuses() == {0: STS_OK, 1: STS_NOTSUPP}
    plain = raid1()
    plain.send([plain.bio_to("top", 0, 4096, OP_DISCARD)]).run()
    assert plain.statuses() == {0: STS_NOTSUPP}


def test_limits_and_size_are_those_of_the_members() -> None:
    rig = StackRig([SIZE, SIZE + 99])
    top = rig.stack("top", "raid1", members=["d0", "d1"], data_offset="1m")
    assert top.size_sectors == SIZE - 2048
    assert (top.limits.max_sectors, top.limits.io_opt_bytes) == (2560, 0)
    rig.send([rig.bio_to("top", 0, 8, OP_WRITE)]).run()
    assert rig.children("d0", "D") == rig.children("d1", "D") == [(2048, 8)]


def test_before_late_splitting_every_member_is_asked() -> None:
    rig = StackRig([SIZE] * 3, features={"late_bio_split": 0})
    rig.stack("inner", "stripe", members=["d0", "d1"], chunk="16k")
    top = rig.stack("top", "raid1", members=["inner", "d2"])
    assert top.driver.merge_bvec(top, 8) == 24
    plain = StackRig([SIZE] * 2, features={"late_bio_split": 0})
    over_disks = plain.stack("top", "raid1", members=["d0", "d1"])
    assert not over_disks.driver.asks_to_merge()  # type: ignore[attr-defined]


# -- errors -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("op", [OP_READ, OP_WRITE])
def test_a_member_that_fails_is_out_and_the_other_serves(op: int) -> None:
    rig = raid1()
    rig.drivers["d0"].endings.append(STS_MEDIUM)
    rig.send([rig.bio_to("top", 0, 8, op)]).run()
    rig.send([rig.bio_to("top", 0), rig.bio_to("top", 5000, 8, OP_WRITE)]).run()
    assert set(rig.statuses().values()) == {STS_OK}
    assert rig.drivers["d0"].served == [(0, 8)], "nothing more is sent to it"
    assert [member.faulty for member in rig.by_name["top"].driver.members] == [True, False]  # type: ignore[attr-defined]


@pytest.mark.parametrize("op", [OP_READ, OP_WRITE])
def test_if_all_fail_the_bio_fails_once_and_the_last_member_stays(op: int) -> None:
    rig = raid1(3)
    for name in rig.leaf_names():
        rig.drivers[name].endings.append(STS_MEDIUM)
    rig.send([rig.bio_to("top", 0, 8, op)]).run()
    assert rig.statuses() == {0: STS_IOERR}
    members = rig.by_name["top"].driver.members  # type: ignore[attr-defined]
    assert sum(member.faulty for member in members) == 2
    rig.send([rig.bio_to("top", 8, 8, op)]).run()
    assert rig.statuses()[1] == (STS_OK if op == OP_READ else STS_IOERR), "a broken array is only read"
    assert [member.nr_pending for member in members] == [0, 0, 0]
    rig.assert_all_ended()


def test_many_reads_of_a_member_that_has_gone_are_all_sent_again() -> None:
    rig = raid1()
    rig.drivers["d0"].endings.extend([STS_IOERR] * 99)
    rig.send([rig.bio_to("top", 8 + 99 * i) for i in range(40)]).run()
    assert set(rig.statuses().values()) == {STS_OK}
    assert len(rig.drivers["d1"].served) == 40
    rig.assert_all_ended()


# -- what is on the members -----------------------------------------------------------------------------------

TOPS: list[tuple[str, dict[str, Any]]] = [
    ("raid1", {}),
    ("raid10", {"chunk": 4096}),
    ("raid10", {"chunk": 8192, "layout": "f2"}),
    ("raid10", {"chunk": 4096, "layout": "o2"}),
]


@st.composite
def arrays(draw: st.DrawFn) -> tuple[ContentsRig, list[str]]:
    """An array with copies, over leaves or partitions or linear devices or stripes of them, or a stripe over two; and
    the leaves that may fail all at once."""
    below = draw(st.sampled_from(["leaf", "partition", "linear", "stripe", "stripe over raid1"]))
    features = {"md_direct_writes": draw(st.integers(0, 1))}
    if below == "stripe over raid1":
        rig = ContentsRig([512] * 4, features=features)
        rig.stack("m0", "raid1", members=["d0", "d1"])
        rig.stack("m1", "raid1", members=["d2", "d3"])
        rig.stack("top", "stripe", members=["m0", "m1"], chunk=4096)
        return rig, [draw(st.sampled_from(["d0", "d1"])), draw(st.sampled_from(["d2", "d3"]))]
    model, more = draw(st.sampled_from(TOPS))
    count = draw(st.integers(2, 4))
    each = 2 if below in ("linear", "stripe") else 1
    rig = ContentsRig([512] * count * each, features=features)
    for queue in rig.queues:
        queue.rotational = draw(st.booleans())
    members = []
    for i in range(count):
        lower = [f"d{i * each + k}" for k in range(each)]
        if below == "partition":
            rig.stack(f"m{i}", "partition", device=lower[0], start=4096)
        elif below in ("linear", "stripe"):
            rig.stack(f"m{i}", below, members=lower, **({"chunk": 4096} if below == "stripe" else {}))
        members.append(lower[0] if below == "leaf" else f"m{i}")
    rig.stack("top", model, members=members, **more)
    victim = draw(st.integers(0, count - 1))
    return rig, [f"d{victim * each + k}" for k in range(each)]


@given(st.data())
@settings(max_examples=120, deadline=None)
def test_what_is_read_is_what_was_written_last_whatever_fails(data: st.DataObject) -> None:
    rig, victims = data.draw(arrays())
    size = min(rig.by_name["top"].size_sectors, 300)
    newest = [-1] * size
    for _ in range(data.draw(st.integers(1, 6))):
        # A batch of bios that do not touch each other
        cuts = sorted(data.draw(st.sets(st.integers(0, size), min_size=2, max_size=9)))
        batch, wanted, written = [], {}, []
        for begin, end in itertools.pairwise(cuts):
            op = data.draw(st.sampled_from([OP_READ, OP_WRITE]))
            bio = rig.bio_to("top", begin, end - begin, op)
            batch.append(bio)
            if op == OP_READ:
                wanted[bio.io] = Counter(newest[begin:end])
            else:
                written.append((begin, end, bio.io))
        for name in victims:
            rig.drivers[name].endings.extend(
                data.draw(st.lists(st.sampled_from([STS_OK, STS_IOERR, STS_MEDIUM]), max_size=4))
            )
        rig.senders[0].plug_from = data.draw(st.sampled_from([1, 99]))
        rig.send(batch).run()
        for begin, end, number in written:
            newest[begin:end] = [number] * (end - begin)
        for number, expected in wanted.items():
            # More often, where a part had been read before another part failed
            found = rig.found(number)
            assert found >= expected and set(found) == set(expected)
    assert set(rig.statuses().values()) <= {STS_OK}
    for queue in rig.queues:
        for member in getattr(queue.driver, "members", []):
            assert getattr(member, "nr_pending", 0) == 0
    rig.assert_all_ended()


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_each_bio_ends_once_even_if_everything_fails(data: st.DataObject) -> None:
    rig, _ = data.draw(arrays())
    size = rig.by_name["top"].size_sectors
    for driver in rig.drivers.values():
        driver.endings.extend(data.draw(st.lists(st.sampled_from([STS_OK, STS_IOERR]), max_size=12)))
    batch = [
        rig.bio_to("top", sector, min(20, size - sector), data.draw(st.sampled_from([OP_READ, OP_WRITE])))
        for sector in data.draw(st.lists(st.integers(0, size - 1), min_size=1, max_size=12))
    ]
    rig.send(batch).run()
    assert set(rig.statuses().values()) <= {STS_OK, STS_IOERR}
    rig.assert_all_ended()
