"""raid10: where the copies of a chunk are in each layout, where bios are cut, which copy is read, what may be lost."""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stack_rig import StackRig

from blklab.block.consts import OP_READ, OP_WRITE, STS_IOERR, STS_OK
from blklab.core.errors import BlklabError

K64 = 128  # sectors
SIZE = 64 * K64


def raid10(members: int = 4, rotational: bool = False, **more: Any) -> StackRig:
    rig = StackRig([SIZE] * members)
    for queue in rig.queues:
        queue.rotational = rotational
    rig.stack("top", "raid10", members=rig.leaf_names(), **{"chunk": "64k", **more})
    return rig


def copies(rig: StackRig) -> list[list[tuple[str, int]]]:
    """For each of the first chunks, where a write to it went."""
    found = []
    for chunk in range(6):
        before = len(rig.records("D"))
        rig.send([rig.bio_to("top", chunk * K64, K64, OP_WRITE)]).run()
        found.append(
            [(rig.queues[r.device].name, r.sector // K64) for r in rig.records("D")[before:] if r.nr_sectors]
        )
    return found


@pytest.mark.parametrize(
    ("members", "layout", "expected"),
    [
        # As the tables of md(4) have them: each line one chunk
        (4, "n2", ["d0 0, d1 0", "d2 0, d3 0", "d0 1, d1 1", "d2 1, d3 1", "d0 2, d1 2", "d2 2, d3 2"]),
        (3, "n2", ["d0 0, d1 0", "d2 0, d0 1", "d1 1, d2 1", "d0 2, d1 2", "d2 2, d0 3", "d1 3, d2 3"]),
        (3, "f2", ["d0 0, d1 32", "d1 0, d2 32", "d2 0, d0 32", "d0 1, d1 33", "d1 1, d2 33", "d2 1, d0 33"]),
        (3, "o2", ["d0 0, d1 1", "d1 0, d2 1", "d2 0, d0 1", "d0 2, d1 3", "d1 2, d2 3", "d2 2, d0 3"]),
        (4, "n1", ["d0 0", "d1 0", "d2 0", "d3 0", "d0 1", "d1 1"]),
    ],
)
def test_where_the_copies_are(members: int, layout: str, expected: list[str]) -> None:
    rig = raid10(members, layout=layout)
    assert [", ".join(f"{name} {row}" for name, row in places) for places in copies(rig)] == expected
    rig.assert_all_ended()


@pytest.mark.parametrize(
    ("members", "layout", "chunks"),
    [(4, "n2", 128), (3, "n2", 96), (5, "n3", 106), (4, "f2", 128), (3, "o2", 96)],
)
def test_size_and_limits(members: int, layout: str, chunks: int) -> None:
    rig = raid10(members, layout=layout)
    top = rig.by_name["top"]
    assert top.size_sectors == chunks * K64
    near = int(layout[1]) if layout[0] == "n" else 1
    wide = members // near if members % near == 0 else members
    assert (top.limits.io_min_bytes, top.limits.io_opt_bytes) == (65536, 65536 * wide)
    # The last sector has its copies on the members, too
    rig.send([rig.bio_to("top", top.size_sectors - 8, 8, OP_WRITE)]).run()
    assert all(s + n <= SIZE for name in rig.leaf_names() for s, n in rig.children(name, "D"))
    assert rig.statuses() == {0: STS_OK}


def test_bios_are_cut_at_chunks_unless_every_member_has_everything() -> None:
    striped, mirrored = raid10(4), raid10(2)
    for rig, pieces in ((striped, 3), (mirrored, 1)):
        rig.send([rig.bio_to("top", K64 - 8, 2 * K64, OP_READ)]).run()
        assert sum(len(rig.children(name)) for name in rig.leaf_names()) == pieces
        assert rig.children("top", "X") == []
        rig.assert_all_ended()


@pytest.mark.parametrize(
    ("layout", "rotational", "expected"),
    [
        ("n2", False, {"d0": 3, "d1": 3}),  # what is under way
        (
            "n2",
            True,
            {"d0": 1, "d1": 5},
        ),  # who has nothing to do, then the nearest head: both at sector 0, and so on
        ("f2", True, {"d0": 6}),  # the copy that lies first
    ],
)
def test_which_copy_is_read(layout: str, rotational: bool, expected: dict[str, int]) -> None:
    rig = raid10(2, rotational, layout=layout)
    rig.send([rig.bio_to("top", 16 * i) for i in range(6)]).run()
    if rotational and layout == "n2":
        # Which of two busy disks is nearer is decided by heads; only that the first two are on both is certain
        assert [rig.queues[r.device].name for r in rig.records("Q") if r.device < 2][:2] == ["d0", "d1"]
        return
    assert {name: len(rig.children(name)) for name in expected} == expected


def test_every_pair_may_lose_one_but_not_both() -> None:
    for lost in combinations(range(4), 2):
        rig = raid10(4)
        for i in lost:
            rig.drivers[f"d{i}"].endings.append(STS_IOERR)
        rig.send([rig.bio_to("top", chunk * K64, 8, OP_WRITE) for chunk in range(2)]).run()
        ended = rig.statuses()
        same = lost in ((0, 1), (2, 3))
        assert sorted(ended.values()) == [STS_OK, STS_IOERR if same else STS_OK]
        faulty = [member.faulty for member in rig.by_name["top"].driver.members]  # type: ignore[attr-defined]
        assert sum(faulty) == (1 if same else 2), "the last copy is never put out"
        rig.assert_all_ended()


def test_a_read_of_the_last_copy_fails_once() -> None:
    rig = raid10(4)
    for name in ("d0", "d1"):
        rig.drivers[name].endings.append(STS_IOERR)
    rig.send([rig.bio_to("top", 0)]).run()
    rig.send([rig.bio_to("top", 0), rig.bio_to("top", K64)]).run()
    assert rig.statuses() == {0: STS_IOERR, 1: STS_OK, 2: STS_OK}


def test_before_late_splitting_a_bio_ends_with_its_chunk() -> None:
    rig = StackRig([SIZE] * 5, features={"late_bio_split": 0})
    rig.stack("inner", "stripe", members=["d0", "d1"], chunk="16k")
    top = rig.stack("top", "raid10", members=["inner", "d2", "d3", "d4"], chunk="64k")
    assert top.driver.merge_bvec(top, 8) == 24
    assert top.driver.merge_bvec(top, K64 + 8) == K64 - 8


@pytest.mark.parametrize(
    ("more", "what"),
    [
        ({"layout": "x2"}, "n2, f2 or o2"),
        ({"layout": "n"}, "n2, f2 or o2"),
        ({"layout": "n5"}, "5 copies are too many for 4 members"),
        ({"layout": "n2f2"}, "n2, f2 or o2"),
        ({"chunk": 12288}, "power of two"),
        ({"chunk": "64m"}, "too small"),
    ],
)
def test_what_is_not_built_is_refused(more: dict[str, Any], what: str) -> None:
    with pytest.raises(BlklabError, match=what):
        raid10(4, **more)


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_the_copies_of_all_chunks_lie_on_different_members_and_never_on_each_other(
    data: st.DataObject,
) -> None:
    members = data.draw(st.integers(2, 6))
    layout = f"{data.draw(st.sampled_from('nfo'))}{data.draw(st.integers(1, members))}"
    chunks = data.draw(st.integers(6, 20))
    rig = StackRig([chunks * 8 + data.draw(st.integers(0, 7)) for _ in range(members)])
    top = rig.stack("top", "raid10", members=rig.leaf_names(), chunk=4096, layout=layout)
    used: Counter[tuple[str, int]] = Counter()
    for chunk in range(top.size_sectors // 8):
        legs: list[Any] = []
        sectors: list[int] = []
        top.driver.find_phys(chunk * 8, legs, sectors)  # type: ignore[attr-defined]
        names = [leg.member.queue.name for leg in legs]
        assert len(set(names)) == len(names) == int(layout[1:])
        used.update(zip(names, sectors, strict=True))
        assert all(
            sector + 8 <= rig.by_name[name].size_sectors for name, sector in zip(names, sectors, strict=True)
        )
    assert set(used.values()) == {1}
