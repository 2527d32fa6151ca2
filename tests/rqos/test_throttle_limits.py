"""Whatever the limits: no more than they allow, no less, nobody starves, everything ends once.

The kernel's own imprecision is part of what is required. I/Os are counted whole in each slice of 100 ms, so
that a limit below a multiple of ten a second gives less than it says; a group that was idle for a part of its
slice may use the whole slice's allowance at its end and the next one's right behind (two slices; one if it
always has bios waiting).
"""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from throttle_rig import AREA, MS, ThrottleRig, rate, worst_excess

from blklab.block.consts import OP_READ, OP_WRITE

SECOND = 1000 * MS
FEW = settings(max_examples=12, deadline=None)

tens = st.integers(1, 40).map(lambda n: n * 10)


@FEW
@given(
    iops=tens,
    kernel=st.sampled_from(["4.9", "5.15", "6.1", "6.12", "6.16"]),
    phase=st.integers(150 * MS, 350 * MS),
)
def test_iops_in_every_window_and_in_the_long_run(iops: int, kernel: str, phase: int) -> None:
    rig = ThrottleRig(kernel=kernel)
    rig.cgroup("/a")
    rig.limit("/a", f"riops={iops}")
    rig.keep_busy("/a", phase + 4 * SECOND, in_flight=64, start_ns=phase)
    rig.run(phase + 4 * SECOND)
    went = rig.went("/a")

    # The slice that the write to io.max began is over when the first bio comes, so that it begins one of its own.
    # Before throttle_next_slice_wait the next bio's own time is waited for, which may be that of two slices
    # A slice that began late ends late: two jiffies of 4 ms more
    assert worst_excess(went, iops) <= iops * ((0.2 if kernel == "4.9" else 0.1) + 0.008) + 1
    # Behind the first slice; whole slices, as what goes goes at their beginning
    assert rate(went, phase + 110 * MS, phase + 3910 * MS) == pytest.approx(iops, rel=0.01, abs=0.27)


@FEW
@given(
    kib=st.integers(64, 20_000),
    nr_sectors=st.sampled_from([8, 64, 256, 2048]),
    op=st.sampled_from([OP_READ, OP_WRITE]),
)
def test_bps_in_every_window_and_in_the_long_run(kib: int, nr_sectors: int, op: int) -> None:
    limit = kib << 10
    bio_bytes = nr_sectors << 9
    rig = ThrottleRig()
    rig.cgroup("/a")
    rig.limit("/a", f"{'wbps' if op else 'rbps'}={limit}")
    seconds = max(4, 60 * bio_bytes // limit)
    rig.keep_busy(
        "/a", seconds * SECOND, in_flight=min(512, 8 + limit // 4 // bio_bytes), nr_sectors=nr_sectors, op=op
    )
    rig.run(seconds * SECOND)
    went = rig.went("/a")

    assert worst_excess(went, limit, of_bytes=True) <= limit * 0.108 + bio_bytes
    measured = rate(went, 0, seconds * SECOND, of_bytes=True)
    slack = (limit * 0.1 + 2 * bio_bytes) / seconds
    # A slice that ends takes with it what was not used of it (throtl_trim_slice), which is little while bios are small;
    # with 128 KiB at 499 KiB/s it is 3.7 %
    lost = 0.01 if limit * 0.1 >= 2 * bio_bytes else 0.05
    assert limit * (1 - lost) - slack <= measured <= limit * 1.01 + slack


@FEW
@given(
    iops=tens,
    bursts=st.lists(st.tuples(st.integers(0, 2000), st.integers(1, 60)), min_size=1, max_size=12),
    limits=st.lists(st.tuples(st.integers(1, 2000), tens), max_size=4),
)
def test_bursts_and_changed_limits(
    iops: int, bursts: list[tuple[int, int]], limits: list[tuple[int, int]]
) -> None:
    rig = ThrottleRig(kernel="6.12")
    rig.cgroup("/a")
    rig.limit("/a", f"riops={iops}")
    for at_ms, other in limits:
        rig.at(at_ms * MS, lambda other=other: rig.limit("/a", f"riops={other}"))  # type: ignore[misc]
    for at_ms, count in bursts:
        rig.at(
            at_ms * MS + 1,
            lambda count=count: [rig.send([rig.bio_of("/a")], cgroup="/a") for _ in range(count)],  # type: ignore[misc]
        )
    rig.run()
    most = max([iops, *(other for _, other in limits)])

    assert sorted(rig.ended()) == list(range(sum(count for _, count in bursts)))
    assert worst_excess(rig.went("/a"), most) <= most * 0.2 * (1 + len(limits)) + 1
    rig.assert_clean()


@FEW
@given(limits=st.lists(st.one_of(st.none(), tens), min_size=3, max_size=3).filter(any))
def test_the_tightest_ancestor_binds(limits: list[int | None]) -> None:
    rig = ThrottleRig()
    paths = ["/a", "/a/b", "/a/b/c"]
    rig.cgroup(paths[-1])
    for path, iops in zip(paths, limits, strict=True):
        if iops is not None:
            rig.limit(path, f"riops={iops}")
    rig.keep_busy(paths[-1], 3 * SECOND, in_flight=128)
    rig.run(3 * SECOND)
    tightest = min(iops for iops in limits if iops is not None)

    went = rig.went(paths[-1])
    assert rate(went, 450 * MS, 2950 * MS) == pytest.approx(tightest, rel=0.02, abs=0.5)
    assert worst_excess(went, tightest) <= tightest * 0.2 + 1


@FEW
@given(
    in_flight=st.lists(st.integers(4, 100), min_size=2, max_size=4),
    iops=st.integers(4, 20).map(lambda n: n * 10),
    own=st.booleans(),
)
def test_nobody_starves_below_a_limit(in_flight: list[int], iops: int, own: bool) -> None:
    rig = ThrottleRig()
    paths = [f"/p/{i}" for i in range(len(in_flight))]
    for path in paths:
        rig.cgroup(path)
    rig.limit("/p", f"riops={iops}")
    if own:
        rig.limit(paths[0], f"riops={iops * 10}")  # above its share: no matter
    for path, count in zip(paths, in_flight, strict=True):
        rig.keep_busy(path, 4 * SECOND, in_flight=count)
    rig.run(4 * SECOND)
    counts = [sum(SECOND <= at < 4 * SECOND for at, _ in rig.went(path)) for path in paths]

    # As long as a group always has more under way than its share of a slice, shares are equal
    fair = 3 * iops / len(paths)
    for count, mine in zip(in_flight, counts, strict=True):
        expected = min(fair, count * 30)
        assert mine >= 0.8 * expected - 2, (counts, in_flight)


@FEW
@given(
    bios=st.lists(
        st.tuples(
            st.integers(0, 2), st.sampled_from([OP_READ, OP_WRITE]), st.sampled_from([8, 64, 512, 2600])
        ),
        min_size=1,
        max_size=120,
    ),
    texts=st.lists(
        st.tuples(
            st.integers(0, 600),
            st.sampled_from(["/g", "/g/0", "/g/1", "/g/2"]),
            st.sampled_from(["rbps", "wbps", "riops", "wiops"]),
            st.sampled_from(["max", "20", "300", "100000", "3000000"]),
        ),
        max_size=8,
    ),
    kernel=st.sampled_from(["4.9", "4.19", "5.15", "6.1", "6.12", "6.16"]),
    depth=st.sampled_from([2, 64]),
)
def test_each_bio_ends_once_and_those_that_wait_keep_their_order(
    bios: list[tuple[int, int, int]], texts: list[tuple[int, str, str, str]], kernel: str, depth: int
) -> None:
    rig = ThrottleRig(kernel=kernel, depth=depth)
    paths = [f"/g/{i}" for i in range(3)]
    for path in paths:
        rig.cgroup(path)
    rig.limit("/g/1", "rbps=1000000 wiops=50")
    for at_ms, path, key, value in texts:
        if key.endswith("bps") and value != "max":
            value += "000"  # bytes
        rig.at(at_ms * MS, lambda path=path, text=f"{key}={value}": rig.limit(path, text))  # type: ignore[misc]
    for i, op, nr_sectors in bios:
        rig.send([rig.bio_of(paths[i], nr_sectors, op)], cgroup=paths[i])
    rig.run()
    # A lowest limit might keep some for hours
    for path in ("/g", *paths):
        rig.limit(path, "rbps=max wbps=max riops=max wiops=max")
    rig.run()

    assert Counter(rig.ended()) == Counter(range(len(bios)))
    rig.assert_clean()
    last: dict[tuple[int, str, bool], int] = {}
    for r in rig.records("Q"):
        key_ = (r.sector >> AREA, r.rwbs, r.pid < 200)
        assert last.get(key_, -1) < r.sector, (
            "those that waited keep their order, and so do those that did not"
        )
        last[key_] = r.sector


@FEW
@given(
    amounts=st.lists(st.tuples(st.integers(0, 1), st.integers(1, 2000)), min_size=1, max_size=60),
    iops=st.integers(100, 1000),
)
def test_the_statistics_of_v1_are_what_was_submitted(amounts: list[tuple[int, int]], iops: int) -> None:
    rig = ThrottleRig(kernel="6.12")
    rig.cgroup("/a", 1)
    rig.write_file("/a", "blkio.throttle.write_iops_device", f"dev0 {iops}")
    for op, nr_sectors in amounts:
        rig.send([rig.bio_of("/a", nr_sectors, op)], cgroup="/a")
    rig.run()
    blkg = rig.cgroup("/a").blkgs[0]

    shown = {
        name: dict(
            line.split(" ")[1:] for line in rig.read_file("/a", f"blkio.throttle.{name}").split("\n")[:-1]
        )
        for name in ("io_serviced", "io_service_bytes")
    }
    assert int(shown["io_service_bytes"]["Read"]) == sum(n << 9 for op, n in amounts if op == OP_READ)
    assert int(shown["io_service_bytes"]["Write"]) == sum(n << 9 for op, n in amounts if op == OP_WRITE)
    assert int(shown["io_serviced"]["Read"]) == blkg.stat.rios
    assert int(shown["io_serviced"]["Write"]) == blkg.stat.wios
    assert sum(getattr(blkg.stat, name) for name in ("rbytes", "wbytes")) == int(
        shown["io_service_bytes"]["Total"]
    )
