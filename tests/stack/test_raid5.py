"""raid5: what is read before it is written, what is written at once, and whether parity and data agree whatever
fails."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from contents import whose
from hypothesis import given, settings
from hypothesis import strategies as st
from stack_rig import LeafDriver, StackRig

from blklab.block.attributes import read
from blklab.block.bio import Bio
from blklab.block.consts import (
    F_FUA,
    F_SYNC,
    OP_DISCARD,
    OP_READ,
    OP_WRITE,
    STS_IOERR,
    STS_MEDIUM,
    STS_NOTSUPP,
    STS_OK,
)
from blklab.block.models import make_queue, settings_of
from blklab.block.queue import RequestQueue
from blklab.block.request import Request
from blklab.core.errors import BlklabError
from blklab.stack.raid5 import MODEL, Raid5
from blklab.stack.stripe_head import StripeHead

K64 = 128  # sectors
SIZE = 1 << 14


def raid5(members: int = 5, size: int = SIZE, **more: Any) -> StackRig:
    given_ = {key: more.pop(key) for key in ("chunk", "stripe_cache_size", "rmw_level") if key in more}
    rig = StackRig([size] * members, **more)
    rig.stack("top", "raid5", members=rig.leaf_names(), **{"chunk": "64k", **given_})
    return rig


def counts(rig: StackRig, action: str = "D") -> tuple[int, int]:
    """Requests of the members: reads and writes."""
    found = [r.rwbs[0] for r in rig.records(action) if rig.queues[r.device].name in rig.drivers]
    return found.count("R"), found.count("W") + found.count("F")


def write(rig: StackRig, sector: int, nr_sectors: int = 8, flags: int = F_SYNC) -> Any:
    return rig.bio_to("top", sector, nr_sectors, OP_WRITE, flags)


# -- reads and writes of a healthy array ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("members", "rmw_level", "reads", "kind"),
    [
        (3, 1, 1, "the other data"),
        (4, 1, 2, "the other data, as both ways read two"),
        (4, 2, 2, "old data and parity"),
        (5, 1, 2, "old data and parity"),
        (8, 1, 2, "old data and parity"),
        (8, 0, 6, "the other data"),
    ],
)
def test_a_small_write_reads_what_is_cheaper_and_writes_twice(
    members: int, rmw_level: int, reads: int, kind: str
) -> None:
    rig = raid5(members, rmw_level=rmw_level)
    rig.send([write(rig, 0)]).run()
    assert counts(rig) == (reads, 2), kind
    written = {
        name for name in rig.leaf_names() for r in rig.records("D", rig.by_name[name].number) if "W" in r.rwbs
    }
    read_ = {
        name for name in rig.leaf_names() for r in rig.records("D", rig.by_name[name].number) if "R" in r.rwbs
    }
    assert (read_ == written) == kind.startswith("old")
    assert rig.statuses() == {0: STS_OK}


def test_random_small_writes_are_two_reads_and_two_writes_each() -> None:
    rig = raid5(5, size=1 << 18)
    # No stripe twice
    sectors = [K64 * 4 * (7 * i % 250) + 8 * (i % 16) for i in range(250)]
    rig.send([write(rig, sector) for sector in sectors]).run()
    assert counts(rig, "Q") == (500, 500)


def test_a_whole_stripe_is_written_without_reading() -> None:
    rig = raid5(5)
    rig.send([write(rig, 0, 4 * K64)]).run()
    assert counts(rig) == (0, 5), "and pages side by side are one request"
    assert {name: rig.children(name, "D") for name in rig.leaf_names()} == {
        key: [(0, K64)] for key in rig.leaf_names()
    }
    assert counts(rig, "Q") == (0, 80), "but each is a bio"


def test_three_quarters_of_a_stripe_read_the_rest_of_the_data() -> None:
    rig = raid5(5)
    rig.send([write(rig, 0, 3 * K64)]).run()
    assert counts(rig, "Q") == (16, 64)


def test_the_parity_moves_from_row_to_row() -> None:
    rig = raid5(4)
    for row in range(5):
        rig.send([write(rig, row * 3 * K64)]).run()
    first = {
        row: {
            name
            for name in rig.leaf_names()
            for r in rig.records("D", rig.by_name[name].number)
            if "W" in r.rwbs and r.sector // K64 == row
        }
        for row in range(5)
    }
    # left-symmetric: parity on d3, d2, d1, d0, d3; data begins behind it
    assert first == {0: {"d3", "d0"}, 1: {"d2", "d3"}, 2: {"d1", "d2"}, 3: {"d0", "d1"}, 4: {"d3", "d0"}}


def test_a_read_goes_straight_to_the_members_and_is_cut_at_chunks() -> None:
    rig = raid5(4)
    rig.send([rig.bio_to("top", K64 - 8, 2 * K64)]).run()
    assert sorted(rig.children("d0") + rig.children("d1") + rig.children("d2")) == [
        (0, K64 - 8),
        (0, K64),
        (K64 - 8, 8),
    ]
    assert rig.children("top", "X") == []
    line = [int(n) for n in str(read(rig.by_name["top"], "stat")).split()]
    assert (line[0], line[2]) == (3, 2 * K64)
    rig.assert_all_ended()


def test_writes_under_a_plug_fill_their_stripe_before_it_is_looked_after() -> None:
    plugged, bare = raid5(5, chunk=4096), raid5(5, chunk=4096)
    for rig, plug_from in ((plugged, 1), (bare, 99)):
        rig.senders[0].plug_from = plug_from
        rig.send([write(rig, 8 * i) for i in range(4)]).run()
        rig.assert_all_ended()
    assert counts(plugged, "Q") == (0, 5)
    assert [r.extra for r in plugged.records("U", plugged.by_name["top"].number)] == [1]
    assert counts(bare, "Q")[0] > 0


def test_a_write_that_nobody_waits_for_waits_for_others_before_it_reads() -> None:
    rig = raid5(5, chunk=4096)
    rig.send([write(rig, 4096)]).run(5_000)  # a synchronous one is reading
    rig.send([write(rig, 8 * i, 8, 0) for i in range(4)]).run()
    # What came meanwhile has filled the stripe: two reads are those of the first
    assert counts(rig, "Q") == (2, 7)
    rig.assert_all_ended()


def test_pages_stay_in_the_cache_until_their_stripe_is_needed() -> None:
    rig = raid5(5)
    for _ in range(5):
        rig.send([write(rig, 64)]).run()
    assert counts(rig) == (2, 10)
    small = raid5(5, stripe_cache_size=17, size=1 << 16)
    for i in [0, *range(1, 20), 0]:
        small.send([write(small, 64 + i * 4 * K64)]).run(small.events.now_ns + 1_000_000)
    assert counts(small) == (2 * 21, 2 * 21)


def test_a_bio_larger_than_the_cache_waits_for_stripes() -> None:
    rig = raid5(5, stripe_cache_size=17, chunk="512k")
    rig.send([write(rig, 0, 2048), write(rig, 4096, 2048)]).run()
    assert rig.statuses() == {0: STS_OK, 1: STS_OK}
    driver = rig.by_name["top"].driver
    assert driver.cache.inactive.count == 17  # type: ignore[attr-defined]
    rig.assert_all_ended()


def test_two_writes_of_the_same_sectors_are_one_after_the_other() -> None:
    rig = StackRig([SIZE] * 5, nr_cpus=2)
    rig.stack("top", "raid5", members=rig.leaf_names(), chunk="64k")
    for cpu in range(2):
        bio = write(rig, 0)
        bio.submitter = rig.senders[cpu]
        rig.send([bio], cpu=cpu)
    rig.run()
    assert set(rig.statuses().values()) == {STS_OK}
    assert counts(rig, "Q") == (2, 4), "the second finds the pages there"
    rig.assert_all_ended()


def test_fua_reaches_data_and_parity_and_a_discard_is_not_taken() -> None:
    rig = raid5(4)
    for name in rig.leaf_names():
        rig.by_name[name].write_cache = rig.by_name[name].fua = True
    rig.send([write(rig, 0, 8, F_SYNC | F_FUA)], [rig.bio_to("top", 0, 64, OP_DISCARD)]).run()
    assert sorted(r.rwbs for r in rig.records("D") if "W" in r.rwbs) == ["WFS", "WFS"]
    assert rig.statuses() == {0: STS_OK, 1: STS_NOTSUPP}


def test_limits_and_size() -> None:
    rig = StackRig([SIZE + 100, SIZE, SIZE + 5])
    top = rig.stack("top", "raid5", members=rig.leaf_names(), chunk="64k")
    limits = top.limits
    assert top.size_sectors == 2 * SIZE
    assert (limits.io_min_bytes, limits.io_opt_bytes, limits.max_hw_sectors) == (65536, 131072, 2048)
    assert limits.raid_partial_stripes_expensive
    old = StackRig([SIZE] * 3, features={"late_bio_split": 0})
    queue = old.stack("top", "raid5", members=old.leaf_names(), chunk="64k")
    assert queue.driver.merge_bvec(queue, 8) == K64 - 8


@pytest.mark.parametrize(
    ("more", "what"), [({"chunk": 12288}, "power of two"), ({"stripe_cache_size": 16}, "17 to 32768")]
)
def test_what_is_not_built_is_refused(more: dict[str, Any], what: str) -> None:
    with pytest.raises(BlklabError, match=what):
        raid5(4, **more)
    with pytest.raises(BlklabError, match="2 or more"):
        raid5(1)


# -- errors ------------------------------------------------------------------------------------------------------


def test_a_read_that_fails_is_computed_from_all_others() -> None:
    rig = raid5(4)
    rig.drivers["d0"].endings.append(STS_MEDIUM)
    rig.send([rig.bio_to("top", 0, 16)]).run()
    assert rig.statuses() == {0: STS_OK}
    assert {name: len(rig.children(name, "Q")) for name in rig.leaf_names()} == {
        "d0": 1,
        "d1": 2,
        "d2": 2,
        "d3": 2,
    }
    before = counts(rig, "Q")
    rig.send([rig.bio_to("top", K64)]).run()
    assert counts(rig, "Q") == (before[0], before[1]), "d1's page is in the cache"
    rig.assert_all_ended()
    line = [int(n) for n in str(read(rig.by_name["top"], "stat")).split()]
    assert line[0] == 2


def test_writes_of_a_degraded_array() -> None:
    rig = raid5(4)
    rig.drivers["d0"].endings.append(STS_IOERR)
    rig.send([rig.bio_to("top", 4000, 8)]).run()  # d0 has no part in it
    rig.send([rig.bio_to("top", 0)]).run()
    assert rig.by_name["top"].driver.degraded == 1  # type: ignore[attr-defined]
    before = counts(rig, "Q")
    # To the member that is out, a whole page: the other data is read, only the parity written
    rig.send([write(rig, 8)]).run()
    after = counts(rig, "Q")
    assert (after[0] - before[0], after[1] - before[1]) == (2, 1)
    # To another one: its old data and the parity
    rig.send([write(rig, K64 + 16)]).run()
    assert (counts(rig, "Q")[0] - after[0], counts(rig, "Q")[1] - after[1]) == (2, 2)
    # In the row whose parity is out no parity is written
    row = 3 * 3 * K64
    there = counts(rig, "Q")
    rig.send([write(rig, row)]).run()
    assert counts(rig, "Q")[1] - there[1] == 1
    assert set(rig.statuses().values()) == {STS_OK}
    rig.assert_all_ended()


def test_two_members_out_are_an_error_that_surfaces_once() -> None:
    rig = raid5(4)
    for name in ("d0", "d1"):
        rig.drivers[name].endings.append(STS_IOERR)
    rig.send([write(rig, 0, 3 * K64)]).run()
    assert rig.statuses() == {0: STS_IOERR}
    # In the next row d3 has the first chunk, d0 the second
    rig.send([rig.bio_to("top", 4 * K64), rig.bio_to("top", 3 * K64), write(rig, 0)]).run()
    assert rig.statuses() == {0: STS_IOERR, 1: STS_IOERR, 2: STS_OK, 3: STS_IOERR}
    driver = rig.by_name["top"].driver
    assert [member.nr_pending for member in driver.members] == [0] * 4  # type: ignore[attr-defined]
    assert driver.cache.pending_full_writes == 0  # type: ignore[attr-defined]
    assert driver.cache.preread_active_stripes == 0  # type: ignore[attr-defined]
    rig.assert_all_ended()


# -- data and parity ---------------------------------------------------------------------------------------------------


class Disk(LeafDriver):
    """`contents`: a number for each sector, 0 where nothing was written. A page is what its stripe holds; what a read
    that went straight to the disk found is told to `array`."""

    array: TrackedRaid5

    def __init__(self, size_sectors: int, service_ns: int | None = 10_000) -> None:
        super().__init__(size_sectors, service_ns)
        self.contents = [0] * size_sectors

    def end(self, rq: Request) -> int:
        bio = rq.bio
        while bio is not None and rq.status == STS_OK:
            span = slice(bio.sector, bio.sector + bio.nr_sectors)
            stripe = bio.end_io
            if not isinstance(stripe, StripeHead):
                whole: Bio = stripe.bio  # type: ignore[union-attr]  # an AlignedRead
                self.array.found(whole, whole.sector, self.contents[span])
            elif bio.op == OP_READ:
                self.array.pages[stripe.sector, bio.start_ns] = self.contents[span]
            else:
                self.contents[span] = self.array.pages[stripe.sector, bio.start_ns]
            bio = bio.next
        return super().end(rq)


class TrackedRaid5(Raid5):
    """A raid5 whose pages hold numbers, and parity is their exclusive or."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.pages: dict[tuple[int, int], list[int]] = {}
        self.has_read: dict[tuple[int, int], int] = {}

    def found(self, bio: Bio, sector: int, numbers: list[int]) -> None:
        number = whose(bio)
        for k, value in enumerate(numbers):
            self.has_read[number, sector + k] = value

    def _part(self, stripe: StripeHead, i: int, bio: Bio) -> tuple[int, int]:
        start = stripe.devs[i].sector
        return max(bio.sector, start) - start, min(bio.sector + bio.nr_sectors, start + 8) - start

    def ops_fill(self, stripe: StripeHead, i: int, bio: Bio) -> int:
        begin, end = self._part(stripe, i, bio)
        self.found(bio, stripe.devs[i].sector + begin, self.pages[stripe.sector, i][begin:end])
        return super().ops_fill(stripe, i, bio)

    def ops_drain(self, stripe: StripeHead, i: int, bio: Bio) -> int:
        begin, end = self._part(stripe, i, bio)
        page = list(self.pages.get((stripe.sector, i), [0] * 8))
        page[begin:end] = [number_of(whose(bio))] * (end - begin)
        self.pages[stripe.sector, i] = page
        return super().ops_drain(stripe, i, bio)

    def _xor(self, stripe: StripeHead, members: list[int]) -> list[int]:
        page = [0] * 8
        for i in members:
            page = [a ^ b for a, b in zip(page, self.pages[stripe.sector, i], strict=True)]
        return page

    def ops_compute(self, stripe: StripeHead, i: int) -> int:
        self.pages[stripe.sector, i] = self._xor(stripe, [k for k in range(self.disks) if k != i])
        return super().ops_compute(stripe, i)

    def ops_prexor(self, stripe: StripeHead) -> int:
        old = [i for i, dev in enumerate(stripe.devs) if dev.want_drain]
        self.pages[stripe.sector, stripe.pd_idx] = self._xor(stripe, [*old, stripe.pd_idx])
        return super().ops_prexor(stripe)

    def ops_reconstruct(self, stripe: StripeHead, whole: bool) -> int:
        data = [i for i in range(self.disks) if i != stripe.pd_idx]
        if not whole:
            data = [i for i, dev in enumerate(stripe.devs) if dev.written] + [stripe.pd_idx]
        self.pages[stripe.sector, stripe.pd_idx] = self._xor(stripe, data)
        return super().ops_reconstruct(stripe, whole)


def number_of(write_: int) -> int:
    """What a write of that number puts into each sector: bits that do not cancel out by chance."""
    return (write_ + 1) * 0x9E3779B97F4A7C15 & 0xFFFFFFFFFFFFFFFF


class TrackedRig(StackRig):
    leaf_model = Disk


def tracked(
    members: int, size: int, nr_cpus: int, **given_: Any
) -> tuple[TrackedRig, RequestQueue, TrackedRaid5]:
    rig = TrackedRig([size] * members, nr_cpus=nr_cpus)
    values = settings_of(MODEL, None, {"members": rig.leaf_names(), **given_}, str)
    model = MODEL._replace(make=TrackedRaid5)
    queue = make_queue("top", len(rig.queues), model, values, rig.host, rig.features, 1, rig.shared)
    rig._add(queue)
    driver = queue.driver
    assert isinstance(driver, TrackedRaid5)
    for disk in rig.drivers.values():
        assert isinstance(disk, Disk)
        disk.array = driver
    return rig, queue, driver


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_data_and_parity_agree_whatever_is_written_and_whoever_fails(data: st.DataObject) -> None:
    members = data.draw(st.integers(3, 6))
    nr_cpus = data.draw(st.integers(1, 2))
    rig, queue, array = tracked(
        members,
        64,
        nr_cpus,
        chunk=data.draw(st.sampled_from([4096, 8192])),
        stripe_cache_size=17,
        rmw_level=data.draw(st.integers(0, 2)),
    )
    size = queue.size_sectors
    newest = [0] * size
    victim = data.draw(st.sampled_from([None, *rig.leaf_names()]))
    for _ in range(data.draw(st.integers(1, 6))):
        cuts = sorted(data.draw(st.sets(st.integers(0, size), min_size=2, max_size=9)))
        wanted, written = {}, []
        batches: list[list[Any]] = [[] for _ in range(nr_cpus)]
        for begin, end in itertools.pairwise(cuts):
            op = data.draw(st.sampled_from([OP_READ, OP_WRITE, OP_WRITE]))
            bio = rig.bio_to(
                "top", begin, end - begin, op, data.draw(st.sampled_from([0, F_SYNC])) if op else 0
            )
            cpu = data.draw(st.integers(0, nr_cpus - 1))
            bio.submitter = rig.senders[cpu]
            batches[cpu].append(bio)
            if op == OP_READ:
                wanted.update({(bio.io, sector): newest[sector] for sector in range(begin, end)})
            else:
                written.append((begin, end, bio.io))
        if victim is not None:
            rig.drivers[victim].endings.extend(
                data.draw(st.lists(st.sampled_from([STS_OK, STS_IOERR, STS_MEDIUM]), max_size=4))
            )
        for cpu in range(nr_cpus):
            rig.senders[cpu].plug_from = data.draw(st.sampled_from([1, 99]))
            rig.send(batches[cpu], cpu=cpu)
        rig.run()
        for begin, end, number in written:
            newest[begin:end] = [number_of(number)] * (end - begin)
        assert {key: array.has_read.get(key) for key in wanted} == wanted
        _check(rig, array, newest)
    assert set(rig.statuses().values()) <= {STS_OK}
    assert array.cache.inactive.count == 17 and array.cache.active_stripes == 0
    assert array.cache.preread_active_stripes == array.cache.pending_full_writes == 0
    assert [member.nr_pending for member in array.members] == [0] * members
    rig.assert_all_ended()


def _check(rig: TrackedRig, array: TrackedRaid5, newest: list[int]) -> None:
    """Every sector is what was written last: on its member, or, if that is out, as the exclusive or of the others."""
    disks: list[Disk] = list(rig.drivers.values())  # type: ignore[arg-type]
    for sector, value in enumerate(newest):
        there = array.compute_sector(sector)
        i = array.dd_idx
        if array.members[i].faulty:
            found = 0
            for k, disk in enumerate(disks):
                if k != i:
                    found ^= disk.contents[there]
        else:
            found = disks[i].contents[there]
        assert found == value, (sector, i, there)
    if not array.degraded:
        for there in range(64):
            total = 0
            for disk in disks:
                total ^= disk.contents[there]
            assert total == 0, there


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_each_bio_ends_once_whatever_fails(data: st.DataObject) -> None:
    rig = raid5(data.draw(st.integers(3, 5)), size=64, chunk=4096, stripe_cache_size=17)
    size = rig.by_name["top"].size_sectors
    for driver in rig.drivers.values():
        driver.endings.extend(data.draw(st.lists(st.sampled_from([STS_OK, STS_IOERR]), max_size=9)))
    batch = []
    for sector in data.draw(st.lists(st.integers(0, size - 1), min_size=1, max_size=12)):
        n = data.draw(st.integers(1, min(60, size - sector)))
        batch.append(rig.bio_to("top", sector, n, data.draw(st.sampled_from([OP_READ, OP_WRITE]))))
    rig.senders[0].plug_from = data.draw(st.sampled_from([1, 99]))
    rig.send(batch).run()
    assert set(rig.statuses().values()) <= {STS_OK, STS_IOERR}
    array = rig.by_name["top"].driver
    assert isinstance(array, Raid5)
    assert [member.nr_pending for member in array.members] == [0] * array.disks
    rig.assert_all_ended()


@st.composite
def nested(draw: st.DrawFn) -> StackRig:
    """A raid5 over or under other devices, or over others of its kind, each with a small cache."""
    rig = StackRig([512] * 9, nr_cpus=draw(st.integers(1, 2)), depth=draw(st.sampled_from([2, 64])))
    small = {"chunk": 4096, "stripe_cache_size": 17}
    kind = draw(
        st.sampled_from(["partition", "linear", "raid1", "raid10", "stripe", "under raid1", "under raid0"])
    )
    names = rig.leaf_names()
    if kind == "partition":
        below = [rig.stack(f"m{i}", "partition", device=names[i], start=4096).name for i in range(4)]
        rig.stack("top", "raid5", members=below, **small)
    elif not kind.startswith("under"):
        more = {"chunk": 4096} if kind in ("raid10", "stripe") else {}
        below = [rig.stack(f"m{i}", kind, members=names[2 * i : 2 * i + 2], **more).name for i in range(4)]
        rig.stack("top", "raid5", members=below, **small)
    else:
        below = [
            rig.stack(f"m{i}", "raid5", members=names[3 * i : 3 * i + 3], **small).name for i in range(3)
        ]
        upper = kind.removeprefix("under ")
        rig.stack("top", upper, members=below, **({"chunk": 8192} if upper == "raid0" else {}))
    return rig


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_nothing_waits_for_ever_in_nested_arrays(data: st.DataObject) -> None:
    rig = data.draw(nested())
    size = rig.by_name["top"].size_sectors
    victim = data.draw(st.sampled_from(rig.leaf_names()))
    rig.drivers[victim].endings.extend(data.draw(st.lists(st.sampled_from([STS_OK, STS_IOERR]), max_size=5)))
    for cpu, sender in enumerate(rig.senders):
        sender.plug_from = data.draw(st.sampled_from([1, 99]))
        batch = []
        for sector in data.draw(st.lists(st.integers(0, size - 1), max_size=9)):
            n = data.draw(st.integers(1, min(400, size - sector)))
            bio = rig.bio_to("top", sector, n, data.draw(st.sampled_from([OP_READ, OP_WRITE])), F_SYNC)
            bio.submitter = sender
            batch.append(bio)
        rig.send(batch, cpu=cpu)
    rig.run()
    # One disk is lost, which every one of these arrays can bear
    assert set(rig.statuses().values()) <= {STS_OK}
    rig.assert_all_ended()
