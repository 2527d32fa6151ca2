"""What holds for every stacked device, nested as deep as one likes: random stacks, random bios."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from stack_rig import StackRig

from blklab.block.consts import OP_DISCARD, OP_READ, OP_WRITE, STS_IOERR, STS_MEDIUM, STS_OK

MODELS = ("linear", "stripe", "raid0", "partition", "delay", "flakey")


@st.composite
def stacks(draw: st.DrawFn) -> tuple[StackRig, str]:
    """A machine of two to four leaves and one to four devices on top of them; the name of the topmost."""
    sizes = draw(st.lists(st.integers(300, 900).map(lambda n: n * 8), min_size=2, max_size=4))
    rig = StackRig(sizes, max_sectors=draw(st.sampled_from([2560, 256, 64, 8])))
    free = rig.leaf_names()
    top = free[0]
    for level in range(draw(st.integers(1, 4))):
        name = f"s{level}"
        model = draw(st.sampled_from(MODELS))
        others = [leaf for leaf in free if leaf != top]
        wanted = draw(st.integers(1, 1 + len(others)))
        members = [top, *others[: wanted - 1]]
        given_: dict[str, Any] = {}
        if model in ("linear", "stripe", "raid0"):
            given_["members"] = members
            if model != "linear":
                given_["chunk"] = draw(st.sampled_from([4096, 8192, 24576, 65536]))
            if model == "raid0":
                given_["layout"] = draw(st.sampled_from(["original", "alternate"]))
        else:
            members = [top]
            given_["device"] = top
            given_["start"] = draw(st.sampled_from([0, 512, 4096, 12 * 512]))
            if model == "delay":
                given_["delay"] = draw(st.sampled_from([0, 1, 9]))
        if model == "partition" and rig.by_name[top].whole is not None:
            continue
        rig.stack(name, model, **given_)
        free = [leaf for leaf in free if leaf not in members]
        top = name
    return rig, top


@st.composite
def ranges(draw: st.DrawFn, size: int) -> list[tuple[int, int, int]]:
    """Reads, writes and discards of a device of that size: (op, sector, sectors)."""
    found = []
    for _ in range(draw(st.integers(1, 6))):
        sector = draw(st.integers(0, size - 1))
        nr_sectors = draw(st.integers(1, min(700, size - sector)))
        found.append((draw(st.sampled_from([OP_READ, OP_WRITE])), sector, nr_sectors))
    return found


def expected(rig: StackRig, top: str, bios: list[tuple[int, int, int]]) -> Counter[tuple[str, int, int]]:
    where = rig.maps[top]
    return Counter((*where(s), op & 1) for op, sector, n in bios for s in range(sector, sector + n))


def reached(rig: StackRig) -> Counter[tuple[str, int, int]]:
    found: Counter[tuple[str, int, int]] = Counter()
    for name in rig.leaf_names():
        for r in rig.records("D", rig.by_name[name].number):
            for sector in range(r.sector, r.sector + r.nr_sectors):
                found[name, sector, 0 if r.rwbs.startswith("R") else 1] += 1
    return found


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_children_tile_the_bios_and_obey_the_limits(data: st.DataObject) -> None:
    rig, top = data.draw(stacks())
    bios = data.draw(ranges(rig.by_name[top].size_sectors))
    plugged = data.draw(st.booleans())

    batch = [rig.bio_to(top, sector, n, op) for op, sector, n in bios]
    rig.senders[0].plug_from = 1 if plugged else 99
    rig.send(batch).run()

    assert reached(rig) == expected(rig, top, bios)
    for name, driver in rig.drivers.items():
        most = rig.by_name[name].limits.max_sectors
        assert all(n <= most for _, n in driver.served), name
    assert set(rig.statuses().values()) == {STS_OK}
    rig.assert_all_ended()


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_an_error_of_a_member_ends_its_bio_once_with_an_error(data: st.DataObject) -> None:
    rig, top = data.draw(stacks())
    bios = data.draw(ranges(rig.by_name[top].size_sectors))
    for driver in rig.drivers.values():
        driver.endings.extend(
            data.draw(st.lists(st.sampled_from([STS_OK, STS_OK, STS_IOERR, STS_MEDIUM]), max_size=8))
        )
    rig.senders[0].plug_from = 99

    batch = [rig.bio_to(top, sector, n, op) for op, sector, n in bios]
    rig.send(batch).run()

    rig.assert_all_ended()
    # Which sectors of which leaf failed, and with what
    failed: dict[tuple[str, int, int], set[int]] = {}
    for name in rig.leaf_names():
        for r in rig.records("C", rig.by_name[name].number):
            if r.extra:
                for sector in range(r.sector, r.sector + r.nr_sectors):
                    failed.setdefault((name, sector, 0 if r.rwbs.startswith("R") else 1), set()).add(r.extra)
    overlap = (
        max(Counter((s, op & 1) for op, sector, n in bios for s in range(sector, sector + n)).values()) > 1
    )
    for (op, sector, n), status in zip(bios, dict(sorted(rig.statuses().items())).values(), strict=True):
        errors = {e for s in range(sector, sector + n) for e in failed.get((*rig.maps[top](s), op & 1), ())}
        if status:
            assert status in errors
        elif not overlap:
            assert not errors


@given(st.data())
@settings(max_examples=30, deadline=None)
def test_a_stack_has_no_more_than_its_members_allow(data: st.DataObject) -> None:
    rig, top = data.draw(stacks())
    limits = rig.by_name[top].limits

    assert limits.max_sectors <= max(queue.limits.max_sectors for queue in rig.queues)
    assert limits.max_segments <= min(rig.by_name[name].limits.max_segments for name in _below(rig, top))


def _below(rig: StackRig, name: str) -> set[str]:
    queue = rig.by_name[name]
    found: set[str] = set()
    for lower in [*getattr(queue.driver, "slaves", []), *([queue.whole] if queue.whole else [])]:
        found |= {lower.name} | _below(rig, lower.name)
    return found


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_discards_reach_every_sector_once(data: st.DataObject) -> None:
    sizes = data.draw(st.lists(st.integers(40, 90).map(lambda n: n * 8), min_size=1, max_size=4))
    rig = StackRig(sizes)
    for name in rig.leaf_names():
        limits = rig.by_name[name].limits
        limits.set_max_discard(data.draw(st.sampled_from([1 << 22, 64, 24])))
        limits.discard_granularity_bytes = 512
    model = data.draw(st.sampled_from(["stripe", "raid0", "linear"]))
    extra: dict[str, Any] = {} if model == "linear" else {"chunk": data.draw(st.sampled_from([4096, 12288]))}
    if model == "raid0":
        extra["layout"] = data.draw(st.sampled_from(["original", "alternate"]))
    top = rig.stack("s0", model, members=rig.leaf_names(), **extra)
    sector = data.draw(st.integers(0, top.size_sectors - 1))
    n = data.draw(st.integers(1, top.size_sectors - sector))

    rig.send([rig.bio_to("s0", sector, n, OP_DISCARD)]).run()

    assert reached(rig) == expected(rig, "s0", [(OP_DISCARD, sector, n)])
    assert rig.statuses() == {0: STS_OK}
    rig.assert_all_ended()
