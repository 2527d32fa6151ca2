"""raid1, raid10 and multipath: where copies are, which one is read, and what a failing member means."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stack_rig import StackRig

from blklab.block.consts import F_PREFLUSH, OP_READ, OP_WRITE, STS_IOERR, STS_MEDIUM, STS_OK
from blklab.core.errors import BlklabError
from blklab.stack.multipath import Multipath

SIZE = 4096


def array(model: str, members: int, **given: object) -> StackRig:
    rig = StackRig([SIZE] * members)
    rig.stack("top", model, members=[f"d{i}" for i in range(members)], **given)
    return rig


def served(rig: StackRig) -> dict[str, list[tuple[int, int]]]:
    return {name: driver.served for name, driver in rig.drivers.items()}


def test_a_write_goes_to_every_member_of_raid1_and_a_read_to_one() -> None:
    rig = array("raid1", 2)

    rig.send([rig.bio_to("top", 64, 8, OP_WRITE)]).run()
    assert served(rig) == {"d0": [(64, 8)], "d1": [(64, 8)]}

    rig.send([rig.bio_to("top", 512, 8)]).run()
    assert sum(len(found) for found in served(rig).values()) == 3
    assert rig.statuses() == {0: STS_OK, 1: STS_OK}
    rig.assert_all_ended()


def test_two_sequential_streams_end_on_two_disks() -> None:
    rig = StackRig([SIZE] * 2, nr_cpus=2)
    rig.stack("top", "raid1", members=["d0", "d1"])
    for i in range(16):
        for cpu, start in ((0, 0), (1, 2048)):
            bio = rig.bio_to("top", start + 8 * i)
            bio.submitter = rig.senders[cpu]
            rig.send([bio], cpu=cpu)
        rig.run()

    one, two = served(rig).values()
    # Each member has one of the streams, whole, but for where they began
    assert sorted([len(one), len(two)]) == [16, 16]
    assert {sector // 2048 for sector, _ in one[1:]} != {sector // 2048 for sector, _ in two[1:]}
    assert len({sector // 2048 for sector, _ in one[1:]}) == 1


def test_a_read_error_is_tried_on_the_other_member() -> None:
    rig = array("raid1", 2)
    rig.drivers["d0"].endings.append(STS_MEDIUM)

    rig.send([rig.bio_to("top", 0)]).run()

    assert served(rig) == {"d0": [(0, 8)], "d1": [(0, 8)]}
    assert rig.statuses() == {0: STS_OK}


def test_an_error_of_all_members_surfaces_once() -> None:
    rig = array("raid1", 2)
    rig.drivers["d0"].endings.append(STS_MEDIUM)
    rig.drivers["d1"].endings.append(STS_IOERR)

    rig.send([rig.bio_to("top", 0)]).run()

    assert rig.statuses() == {0: STS_IOERR}  # call_bio_endio tells no other
    rig.assert_all_ended()


def test_a_member_that_fails_a_write_gets_nothing_more() -> None:
    rig = array("raid1", 2)
    rig.drivers["d1"].endings.append(STS_IOERR)

    rig.send([rig.bio_to("top", 0, 8, OP_WRITE)]).run()
    rig.send([rig.bio_to("top", 8, 8, OP_WRITE)], [rig.bio_to("top", 16)]).run()

    assert served(rig)["d1"] == [(0, 8)]
    assert served(rig)["d0"] == [(0, 8), (8, 8), (16, 8)]
    assert set(rig.statuses().values()) == {STS_OK}

    # The last one is not put out, but the array takes no more writes (MD_BROKEN: raid1_error, md_submit_bio of 6.1)
    rig.drivers["d0"].endings.append(STS_IOERR)
    rig.send([rig.bio_to("top", 24, 8, OP_WRITE)]).run()
    rig.send([rig.bio_to("top", 32, 8, OP_WRITE), rig.bio_to("top", 40)]).run()
    assert rig.statuses()[3] == STS_IOERR
    assert rig.statuses()[4] == STS_IOERR
    assert rig.statuses()[5] == STS_OK
    assert served(rig)["d0"] == [(0, 8), (8, 8), (16, 8), (24, 8), (40, 8)]


def test_a_broken_raid5_is_sent_no_writes_and_what_waits_in_it_ends_once() -> None:
    rig = array("raid5", 3, chunk="64k")
    rig.send([rig.bio_to("top", 0, 8, OP_WRITE)]).run()
    members = rig.by_name["top"].driver.members  # type: ignore[attr-defined]
    device = rig.by_name["top"].driver
    for member in members[:2]:
        device.fail_member(member)  # type: ignore[attr-defined]
    before = served(rig)
    rig.send([rig.bio_to("top", 8, 8, OP_WRITE)]).run()

    assert rig.statuses()[1] == STS_IOERR
    assert served(rig) == before

    # Bios that waited for a flush when the array broke: each ends, with one status
    rig = array("raid1", 2)
    device = rig.by_name["top"].driver
    flushes = [rig.bio_to("top", 8 * i, 8, OP_WRITE, F_PREFLUSH) for i in range(4)]
    rig.send(*[[bio] for bio in flushes])
    rig.run(1_000)
    device.broken = True  # type: ignore[attr-defined]
    rig.run()
    rig.send([rig.bio_to("top", 100, 8, OP_WRITE)]).run()
    assert sorted(rig.ended()) == [0, 1, 2, 3, 4]
    assert rig.statuses()[0] == STS_OK
    assert rig.statuses()[4] == STS_IOERR


@pytest.mark.parametrize(
    ("members", "near", "sector", "places"),
    [
        (4, 2, 0, {"d0": 0, "d1": 0}),
        (4, 2, 128, {"d2": 0, "d3": 0}),
        (4, 2, 256, {"d0": 128, "d1": 128}),
        (3, 2, 128, {"d2": 0, "d0": 128}),
        (3, 3, 130, {"d0": 130, "d1": 130, "d2": 130}),
    ],
)
def test_near_copies_lie_on_members_that_follow_each_other(
    members: int, near: int, sector: int, places: dict[str, int]
) -> None:
    rig = array("raid10", members, chunk="64k", layout=f"n{near}")

    rig.send([rig.bio_to("top", sector, 8, OP_WRITE)]).run()

    assert {name: found[0][0] for name, found in served(rig).items() if found} == places


def test_a_bio_of_raid10_is_cut_at_chunks_and_its_limits_say_so() -> None:
    rig = array("raid10", 4, chunk="64k")
    top = rig.by_name["top"]
    assert (top.limits.io_min_bytes, top.limits.io_opt_bytes) == (65536, 131072)
    assert top.size_sectors == 2 * SIZE

    rig.send([rig.bio_to("top", 100, 128, OP_WRITE)]).run()

    assert served(rig) == {"d0": [(100, 28)], "d1": [(100, 28)], "d2": [(0, 100)], "d3": [(0, 100)]}
    assert rig.statuses() == {0: STS_OK}


def test_what_cannot_be_an_array_is_refused() -> None:
    with pytest.raises(BlklabError, match="raid1 has 2 or more members"):
        array("raid1", 1)
    with pytest.raises(BlklabError, match="copies"):
        array("raid10", 2, layout="n3")
    with pytest.raises(BlklabError, match="paths lead to one disk"):
        StackRig([SIZE, 2 * SIZE]).stack("top", "multipath", members=["d0", "d1"])


def test_paths_are_used_in_turn_and_given_up() -> None:
    rig = array("multipath", 3, rr_min_io=2)
    rig.send([rig.bio_to("top", 1024 + 16 * i) for i in range(12)]).run()
    assert [len(found) for found in served(rig).values()] == [4, 4, 4]

    rig.drivers["d1"].endings.extend([STS_IOERR] * 9)
    for i in range(6):
        rig.send([rig.bio_to("top", 8 * i, 8, OP_WRITE)]).run()
    target = rig.by_name["top"].driver.first  # type: ignore[attr-defined]
    assert isinstance(target, Multipath)
    assert target.paths.failed == [False, True, False]
    assert set(rig.statuses().values()) == {STS_OK}
    assert len(rig.drivers["d1"].served) == 5  # the one that failed, and no other

    for name in ("d0", "d2"):
        rig.drivers[name].endings.extend([STS_IOERR] * 9)
    rig.send([rig.bio_to("top", 0)], [rig.bio_to("top", 8)]).run()
    assert list(rig.statuses().values())[-2:] == [STS_IOERR] * 2
    rig.assert_all_ended()


def test_a_medium_error_is_not_the_paths() -> None:
    rig = array("multipath", 2)
    rig.drivers["d0"].endings.append(STS_MEDIUM)
    rig.drivers["d1"].endings.append(STS_MEDIUM)

    rig.send([rig.bio_to("top", 0)]).run()

    assert rig.statuses() == {0: STS_MEDIUM}


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_reads_come_from_a_copy_that_has_the_newest_write(data: st.DataObject) -> None:
    model, members, more = data.draw(
        st.sampled_from(
            [
                ("raid1", 2, {}),
                ("raid1", 3, {}),
                ("raid10", 4, {"chunk": "4k"}),
                ("raid10", 3, {"chunk": "8k"}),
                ("raid10", 5, {"chunk": "4k", "layout": "n3"}),
            ]
        )
    )
    rig = array(str(model), int(members), **more)
    size = min(rig.by_name["top"].size_sectors, 256)
    faulty = data.draw(st.integers(0, 1))  # one member may fail, which every array here can bear
    newest: dict[tuple[str, int], int] = {}  # leaf, sector -> number of the last write that ended well there
    wanted: dict[int, int] = {}
    for number in range(data.draw(st.integers(1, 12))):
        op = data.draw(st.sampled_from([OP_READ, OP_WRITE]))
        sector = data.draw(st.integers(0, size - 1))
        count = data.draw(st.integers(1, min(24, size - sector)))
        if faulty and data.draw(st.booleans()):
            rig.drivers["d1"].endings.append(STS_IOERR)
        before = len(rig.records("C"))
        rig.send([rig.bio_to("top", sector, count, op)]).run()
        done = Counter[int]()
        for r in rig.records("C")[before:]:
            leaf = rig.queues[r.device].name
            if leaf == "top" or r.extra != STS_OK:
                continue
            for place in range(r.sector, r.sector + r.nr_sectors):
                if op == OP_WRITE:
                    newest[leaf, place] = number
                else:
                    done[newest.get((leaf, place), -1)] += 1
        if op == OP_WRITE:
            wanted.update(dict.fromkeys(range(sector, sector + count), number))
        else:
            assert done == Counter(wanted.get(s, -1) for s in range(sector, sector + count))
        for driver in rig.drivers.values():
            driver.endings.clear()
    assert set(rig.statuses().values()) == {STS_OK}
    rig.assert_all_ended()
