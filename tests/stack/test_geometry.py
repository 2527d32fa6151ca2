"""Exactly which pieces a stacked device makes of a bio, and what it tells of them."""

from __future__ import annotations

import pytest
from stack_rig import StackRig

from blklab.block.attributes import read
from blklab.block.consts import F_SYNC, OP_DISCARD, OP_READ, OP_WRITE, STS_OK
from blklab.block.switch import set_elevator
from blklab.core.errors import BlklabError

K64 = 128  # sectors
SIZE = 1 << 16


def striped(members: int = 4, model: str = "stripe", chunk: str = "64k", **more: int) -> StackRig:
    rig = StackRig([SIZE] * members, **more)  # type: ignore[arg-type]
    rig.stack("top", model, members=rig.leaf_names(), chunk=chunk)
    return rig


def test_a_mebibyte_on_four_times_64k_is_16_children_four_a_member_and_contiguous_there() -> None:
    rig = striped()
    rig.send([rig.bio_to("top", 0, 2048)]).run()
    for name in rig.leaf_names():
        assert rig.children(name) == [(0, K64), (K64, K64), (2 * K64, K64), (3 * K64, K64)]
        assert rig.children(name, "D") == rig.children(name), "nothing holds them, so none is merged"
    assert len(rig.children("top", "X")) == 15
    assert rig.children("top", "C") == [(1920, K64)]


def test_they_are_merged_only_under_a_plug_or_by_a_busy_device() -> None:
    plugged = striped()
    plugged.senders[0].plug_from = 1
    plugged.send([plugged.bio_to("top", 0, 2048)]).run()
    busy = striped(depth=4)
    for name in busy.leaf_names():
        set_elevator(busy.by_name[name], "mq-deadline")
    busy.send([busy.bio_to("top", 0, 8192)]).run()

    assert {tuple(plugged.children(name, "D")) for name in plugged.leaf_names()} == {((0, 4 * K64),)}
    # Of 16 children a member four are served and one waits for a tag; then eight have the 128 segments of a request
    alone = [(i * K64, K64) for i in range(5)]
    for name in busy.leaf_names():
        assert busy.children(name, "D") == [*alone, (5 * K64, 8 * K64), (13 * K64, 3 * K64)]
    plain = striped()
    plain.send([plain.bio_to("top", 0, 2048)]).run()
    assert sum(len(plain.children(name, "M")) for name in plain.leaf_names()) == 0


@pytest.mark.parametrize(("sector", "pieces"), [(0, 1), (8, 2), (127, 2), (128, 1)])
def test_64k_that_is_not_aligned_is_two(sector: int, pieces: int) -> None:
    rig = striped()
    rig.send([rig.bio_to("top", sector, K64)]).run()
    assert sum(len(rig.children(name)) for name in rig.leaf_names()) == pieces


@pytest.mark.parametrize(("model", "pieces", "cuts"), [("stripe", 7, 6), ("raid0", 13, 6)])
def test_md_cuts_where_dm_does_not(model: str, pieces: int, cuts: int) -> None:
    # The odd captures: 777 sectors from sector 1
    rig = striped(model=model)
    rig.send([rig.bio_to("top", 1, 777)]).run()
    assert sum(len(rig.children(name)) for name in rig.leaf_names()) == pieces
    assert len(rig.children("top", "X")) == cuts
    assert len(rig.children("top", "C")) == (1 if model == "stripe" else pieces)
    assert rig.statuses() == {0: STS_OK}


@pytest.mark.parametrize(("chunk", "members", "per_mebibyte"), [("64k", 4, 16), ("8k", 3, 128)])
def test_children_per_mebibyte_of_the_commit_that_made_stripes_merge(
    chunk: str, members: int, per_mebibyte: int
) -> None:
    # Case 32 (29915202006c): 64k chunks over 4 against 8k over 3
    rig = striped(members, chunk=chunk)
    rig.send([rig.bio_to("top", 0, 2048)]).run()
    assert sum(len(rig.children(name)) for name in rig.leaf_names()) == per_mebibyte


@pytest.mark.parametrize("merges", [0, 1])
def test_a_stripe_over_stacked_devices_without_a_merge_function_takes_a_page(merges: int) -> None:
    # 29915202006c: before it, who built a bio for such a device was told to stop after one page
    old = {"late_bio_split": 0, "dm_stripe_merge": merges}
    rig = StackRig([SIZE] * 4, features=old)
    for i in range(2):
        rig.stack(f"inner{i}", "stripe", members=[f"d{2 * i}", f"d{2 * i + 1}"], chunk="32k")
    top = rig.stack("top", "stripe", members=["inner0", "inner1"], chunk="64k")

    assert top.driver.merge_bvec(top, 0) == (64 if merges else 8)
    assert top.limits.max_hw_sectors == (2560 if merges else 8)
    plain = StackRig([SIZE] * 2, features={"late_bio_split": 0, "dm_stripe_merge": 0})
    over_disks = plain.stack("top", "stripe", members=["d0", "d1"], chunk="64k")
    assert over_disks.driver.merge_bvec(over_disks, 8) == 120, "over plain disks only the chunk counts"


def test_raid0_and_linear_say_how_much_a_bio_may_have() -> None:
    rig = StackRig([SIZE] * 3, features={"late_bio_split": 0})
    rig.stack("inner", "stripe", members=["d0", "d1"], chunk="16k")
    top = rig.stack("top", "raid0", members=["inner", "d2"], chunk="64k")
    linear = StackRig([SIZE] * 2)
    line = linear.stack("top", "linear", members=["d0", "d1"])

    assert top.driver.merge_bvec(top, 8) == 24, "what the stripe below has left of its chunk"
    assert top.driver.merge_bvec(top, K64 + 8) == 120, "on the plain disk the chunk of the raid"
    assert line.driver.merge_bvec(line, SIZE - 5) == 5


def test_zones_of_raid0_with_members_of_different_sizes() -> None:
    # Chunks: 2, 4 and 5 of them. The first zone has 2 rows of 3, then 2 rows of 2, then one of the last member
    rig = StackRig([2 * K64, 4 * K64 + 17, 5 * K64])
    top = rig.stack("top", "raid0", members=rig.leaf_names(), chunk="64k", layout="alternate")
    assert top.size_sectors == 11 * K64
    for chunk in range(11):
        rig.send([rig.bio_to("top", chunk * K64, K64)]).run()
    assert rig.children("d0") == [(0, K64), (K64, K64)]
    assert rig.children("d1") == [(i * K64, K64) for i in range(4)]
    assert rig.children("d2") == [(i * K64, K64) for i in range(5)]
    # alternate: a zone begins with its first member; original: it goes on counting, which here is the same
    where = rig.maps["top"]
    assert [where(chunk * K64)[0] for chunk in range(6, 11)] == ["d1", "d2", "d1", "d2", "d2"]


@pytest.mark.parametrize("layout", ["original", "alternate"])
def test_discards_of_raid0_zones(layout: str) -> None:
    # 3 of 3 chunks, then 4 members less one ...: the zones begin on different members in the two layouts
    sizes = [3 * 8, 7 * 8, 8 * 8, 8 * 8]
    for first, last in [(0, 26), (12, 25), (13, 14), (95, 130), (97, 113), (100, 170), (99, 208), (150, 151)]:
        rig = StackRig(sizes)
        for name in rig.leaf_names():
            rig.by_name[name].limits.set_max_discard(1 << 20)
            rig.by_name[name].limits.discard_granularity_bytes = 512
        rig.stack("top", "raid0", members=rig.leaf_names(), chunk=4096, layout=layout)
        rig.send([rig.bio_to("top", first, last - first, OP_DISCARD)]).run()
        found = sorted(
            (name, s)
            for name in rig.leaf_names()
            for b, n in rig.children(name, "D")
            for s in range(b, b + n)
        )
        assert found == sorted(rig.maps["top"](s) for s in range(first, last)), (layout, first, last)


def test_a_discard_of_a_stripe_is_one_range_of_each_member() -> None:
    rig = StackRig([SIZE] * 4)
    for name in rig.leaf_names():
        rig.by_name[name].limits.set_max_discard(1 << 20)
        rig.by_name[name].limits.discard_granularity_bytes = 512
    rig.stack("top", "stripe", members=rig.leaf_names(), chunk="64k")
    rig.send([rig.bio_to("top", 64, 10 * K64, OP_DISCARD)]).run()  # to the middle of the third chunk of d2

    assert rig.children("d0") == [(64, 3 * K64 - 64)]
    assert rig.children("d1") == [(0, 3 * K64)]
    assert rig.children("d2") == [(0, 2 * K64 + 64)]
    assert rig.children("d3") == [(0, 2 * K64)]
    assert rig.children("top", "X") == []


def test_what_the_members_do_not_take_the_device_does_not_take() -> None:
    rig = striped()
    top = rig.by_name["top"]
    assert read(top, "queue/discard_max_bytes") == 0
    assert read(top, "queue/write_zeroes_max_bytes") == 0
    mixed = StackRig([SIZE] * 2)
    mixed.by_name["d0"].limits.set_max_discard(1 << 20)
    mixed.by_name["d0"].limits.discard_granularity_bytes = 512
    assert read(mixed.stack("dm", "stripe", members=["d0", "d1"]), "queue/discard_max_bytes") == 0
    assert int(read(mixed.stack("md", "raid0", members=["d0", "d1"]), "queue/discard_max_bytes")) > 0


@pytest.mark.parametrize(
    ("model", "more", "what"),
    [
        ("stripe", {"chunk": 1000}, "whole sectors"),
        ("stripe", {"chunk": "64m"}, "d1 is too small"),
        ("raid0", {"chunk": "64m"}, "d0 is too small"),
        ("linear", {"starts": "0, 1g"}, "d1 is too small"),
        ("linear", {"sizes": "1g"}, "d0 is too small"),
        ("linear", {"sizes": "1m 2m 3m"}, "3 sizes for 2 members"),
        ("linear", {"starts": "many"}, "are sizes like"),
        ("raid0", {"layout": "left"}, "original or alternate"),
    ],
)
def test_what_cannot_be_made_is_refused(model: str, more: dict[str, object], what: str) -> None:
    rig = StackRig([SIZE, SIZE // 2])
    with pytest.raises(BlklabError, match=what):
        rig.stack("top", model, members=["d0", "d1"], **more)


def test_a_chunk_is_whole_blocks_of_every_member() -> None:
    rig = StackRig([SIZE, SIZE])
    rig.by_name["d1"].limits.set_logical_block(4096)
    with pytest.raises(BlklabError, match="no multiple of the 4096 byte blocks of d1"):
        rig.stack("top", "stripe", members=["d0", "d1"], chunk=6144)


def test_linear_is_cut_where_a_part_ends() -> None:
    rig = StackRig([SIZE, SIZE])
    rig.stack("top", "linear", members=["d0", "d1"], starts="1m, 2m", sizes="4m, 8m")
    assert rig.by_name["top"].size_sectors == 12 << 11
    rig.send([rig.bio_to("top", (4 << 11) - 8, 24, OP_WRITE, F_SYNC)]).run()
    assert rig.children("d0") == [((5 << 11) - 8, 8)]
    assert rig.children("d1") == [(2 << 11, 16)]
    assert [r.sector for r in rig.records("X")] == [4 << 11]


def test_a_partition_is_a_place_on_its_disk_with_counters_of_its_own() -> None:
    rig = StackRig([SIZE])
    rig.stack("p1", "partition", device="d0", start="1m", size="1m")
    rig.stack("p2", "partition", device="d0", start="2m")
    rig.senders[0].plug_from = 1
    rig.send([rig.bio_to("p1", 0), rig.bio_to("p1", 8), rig.bio_to("p2", 100, 16, OP_WRITE)]).run()

    assert [(r.action, r.sector, r.extra) for r in rig.records("A")] == [
        ("A", 2048, 0),
        ("A", 2056, 8),
        ("A", 4196, 100),
    ]
    assert rig.children("d0", "D") == [(4196, 16), (2048, 16)] or rig.children("d0", "D") == [
        (2048, 16),
        (4196, 16),
    ]
    lines = {
        name: [int(n) for n in str(read(rig.by_name[name], "stat")).split()] for name in ("d0", "p1", "p2")
    }
    assert lines["p1"][:3] == [1, 1, 16] and lines["p1"][4] == 0
    assert lines["p2"][0] == 0 and lines["p2"][4:7] == [1, 0, 16]
    assert lines["d0"][:3] == [1, 1, 16] and lines["d0"][4:7] == [1, 0, 16]
    rig.assert_all_ended()


def test_counters_of_stacked_devices() -> None:
    dm, md = striped(), striped(model="raid0")
    for rig in (dm, md):
        rig.send([rig.bio_to("top", 0, 2048), rig.bio_to("top", 8, K64, OP_WRITE)]).run()
        line = [int(n) for n in str(read(rig.by_name["top"], "stat")).split()]
        assert line[0] == 16 and line[2] == 2048
        assert line[4] == 2 and line[6] == K64
    uncounted = striped(model="raid0")
    uncounted.by_name["top"].iostats = False
    uncounted.send([uncounted.bio_to("top", 0, 2048, OP_READ)]).run()
    # Then the bio itself goes to the member, and has no C on the raid
    assert uncounted.children("top", "C") == []
    assert uncounted.statuses() == {0: STS_OK}
