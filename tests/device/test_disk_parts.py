"""The parts of a disk that turns: geometry, seek curve, arm, read-ahead buffer, cached runs."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blklab.core.errors import BlklabError
from blklab.device.disk_buffer import ReadBuffer
from blklab.device.disk_extents import Extents
from blklab.device.disk_geometry import Geometry
from blklab.device.disk_mechanics import Mechanics
from blklab.device.disk_seek import EXACT, SeekCurve, fit_curve, seek_tables

REV_NS = 8_333_333


def small(heads: int = 2, zones: int = 3, size_sectors: int = 20_000) -> Geometry:
    """A disk of some hundred tracks."""
    return Geometry(size_sectors, heads, zones, 60, 30, REV_NS, 1_000_000, 1_500_000)


# -- geometry --------------------------------------------------------------------------


@settings(max_examples=40)
@given(st.integers(1, 6), st.integers(1, 8), st.integers(2_000, 60_000))
def test_sectors_follow_each_other_over_tracks_cylinders_and_zones(
    heads: int, zones: int, size_sectors: int
) -> None:
    disk = small(heads, zones, size_sectors)
    seen: dict[tuple[int, int], int] = {}
    before = (0, 0)
    for sector in range(0, size_sectors, 7):
        disk.locate(sector)
        place = (disk.cylinder, disk.head)
        assert place >= before
        assert 0 <= disk.angle_ns < REV_NS
        assert 0 < disk.left <= disk.track_sectors
        assert disk.head < heads
        assert seen.setdefault(place, disk.track_sectors) == disk.track_sectors
        before = place
    # Outside there are at least as many sectors a track as inside
    tracks = [seen[place] for place in sorted(seen)]
    assert tracks == sorted(tracks, reverse=True)
    assert disk.cylinders > before[0]


@settings(max_examples=40)
@given(st.integers(0, 19_000), st.integers(1, 900))
def test_a_transfer_ends_at_the_angle_of_the_sector_behind_it(sector: int, nr_sectors: int) -> None:
    disk = small()
    begin = disk.locate(sector)
    taken = disk.transfer_ns(sector, nr_sectors)
    disk.locate(sector + nr_sectors - 1)
    one_ns = REV_NS // disk.track_sectors
    end = (disk.angle_ns + one_ns) % REV_NS
    # Rounding: one nanosecond for each track, and the sector
    off = ((begin + taken) % REV_NS - end) % REV_NS
    assert min(off, REV_NS - off) <= nr_sectors // 30 + 3


@settings(max_examples=60)
@given(st.integers(0, 19_000), st.integers(1, 900), st.integers(1, 500))
def test_two_transfers_are_one_but_for_the_switch_between(sector: int, first: int, second: int) -> None:
    disk = small()
    whole = disk.transfer_ns(sector, first + second)
    parts = disk.transfer_ns(sector, first) + disk.transfer_ns(sector + first, second)
    disk.locate(sector + first - 1)
    switch = 0 if disk.left > 1 else (1_000_000 if disk.head + 1 < disk.heads else 1_500_000)
    assert abs(whole - parts - switch) <= first // 30 + second // 30 + 3


def test_the_sustained_rate_is_the_specifications_formula() -> None:
    """Hitachi: sustained = A / (B + C + D): sectors of a cylinder over head switches, cylinder switch, turns."""
    disk = Geometry(4_000_000, 10, 1, 1242, 1242, REV_NS, 1_450_000, 1_740_000)
    cylinder_ns = 9 * 1_450_000 + 1_740_000 + 10 * REV_NS
    assert disk.transfer_ns(0, 12_420 * 100) == pytest.approx(cylinder_ns * 100, rel=1e-3)


def test_a_disk_that_grows_inwards_is_refused() -> None:
    with pytest.raises(BlklabError, match="a track inside has 70 sectors, more than one outside, 60"):
        Geometry(1000, 1, 3, 60, 70, REV_NS, 0, 0)


# -- seek curve ------------------------------------------------------------------------


@settings(max_examples=50)
@given(st.integers(10_000, 2_000_000), st.integers(100_000, 9_000_000), st.floats(1.9, 2.95))
def test_the_curve_meets_its_three_figures(track_ns: int, more_ns: int, ratio: float) -> None:
    average_ns = track_ns + more_ns
    full_ns = track_ns + round(more_ns * ratio)
    curve = fit_curve(track_ns, average_ns, full_ns)
    assert curve.mean() == pytest.approx(average_ns, rel=1e-6)
    assert curve.at(1.0) == pytest.approx(full_ns, rel=1e-6)
    # The mean is that of the curve: 2 (1 - x) dx, by the rule of the middle
    steps = 2000
    mean = sum(2 * (1 - (i + 0.5) / steps) * curve.at((i + 0.5) / steps) for i in range(steps)) / steps
    assert mean == pytest.approx(average_ns, rel=2e-3)


@pytest.mark.parametrize(("ratio", "bend"), [(1.5, 1.0), (15 / 8, 1.0), (3.5, 1e-6)])
def test_figures_that_no_curve_of_the_form_has_are_met_in_the_average(ratio: float, bend: float) -> None:
    curve = fit_curve(1_000_000, 5_000_000, 1_000_000 + round(4_000_000 * ratio))
    assert curve.bend == pytest.approx(bend, rel=1e-3)
    assert curve.mean() == pytest.approx(5_000_000, rel=1e-6)


@pytest.mark.parametrize("cylinders", [2, 900, 50_000, 400_000])
def test_the_table_is_the_curve_and_never_falls(cylinders: int) -> None:
    curve = fit_curve(800_000, 8_500_000, 16_000_000)
    geometry = Geometry(cylinders, 1, 1, 1, 1, REV_NS, 0, 0)
    arm = Mechanics(geometry, curve, 0)
    distances = sorted(
        {0, 1, 2, 3, EXACT - 1, EXACT, EXACT + 1, *range(1, cylinders, max(cylinders // 997, 1))}
    )
    times = [arm.seek_ns(d) for d in distances if d < cylinders]
    assert times == sorted(times)
    assert times[:2] == [0, 800_000]
    for distance, time_ns in zip(distances[2:], times[2:], strict=False):
        x = (distance - 1) / max(cylinders - 2, 1)
        assert time_ns == pytest.approx(curve.at(x) if x else 800_000, rel=3e-3)


def test_tables_are_small() -> None:
    near, far, shift = seek_tables(SeekCurve(1e6, 1e7, 0.5), 500_000)
    assert len(near) == EXACT
    assert 1024 < len(far) <= 2048
    assert (500_000 >> shift) < len(far)


@pytest.mark.parametrize("figures", [(5, 5, 9), (0, 5, 9), (5, 9, 9), (5, 9, 7)])
def test_seeks_that_do_not_grow_are_refused(figures: tuple[int, int, int]) -> None:
    with pytest.raises(BlklabError, match="seeks must grow with the distance"):
        fit_curve(*figures)


# -- arm -------------------------------------------------------------------------------


def test_the_arm_moves_settles_and_waits_for_the_angle() -> None:
    disk = small(heads=3)
    arm = Mechanics(disk, fit_curve(500_000, 3_000_000, 6_000_000), 700_000)
    arm.stand_at(0)
    disk.locate(59)
    # The same track: only waiting, also for a write
    assert arm.position_ns(0, 0, disk.angle_ns, False, 0) == disk.angle_ns
    assert arm.position_ns(0, 0, disk.angle_ns, True, 0) == disk.angle_ns
    # Just missed: all but a turn
    assert arm.position_ns(0, 0, disk.angle_ns, False, disk.angle_ns + 1) == REV_NS - 1
    # Another head of the cylinder; a write settles in addition
    assert arm.move_ns(0, 1, False) == 1_000_000
    assert arm.move_ns(0, 2, True) == 1_700_000
    # Another cylinder: a seek, but at least as long as changing the head
    assert arm.move_ns(1, 0, False) == 500_000
    assert arm.move_ns(1, 1, False) == 1_000_000
    far = arm.move_ns(100, 0, False)
    assert far == arm.seek_ns(100)
    at = arm.position_ns(100, 0, 1234, False, 777)
    assert at >= far
    assert (777 + at) % REV_NS == 1234
    arm.stand_at(12_000)
    disk.locate(12_000)
    assert (arm.cylinder, arm.head) == (disk.cylinder, disk.head)


# -- read-ahead ------------------------------------------------------------------------


def test_read_ahead_comes_as_far_as_the_disk_has_turned() -> None:
    disk = small()
    buffer = ReadBuffer(disk, 2, 1000, 400)
    buffer.filled(0, 8, 1_000)
    assert buffer.running
    assert buffer.advance(1_000) == 8
    assert buffer.advance(1_000 + disk.transfer_ns(8, 10) + 10) == 18
    # Over ends of tracks
    assert buffer.advance(1_000 + disk.transfer_ns(8, 200) + 10) == 208
    assert buffer.hit(0, 208)
    assert not buffer.hit(0, 209)
    # The end: 400 sectors behind what was asked for
    assert buffer.advance(10**12) == 408
    assert not buffer.running
    # Half of it has been used: read on
    assert not buffer.asked(200)
    assert buffer.asked(250)
    buffer.resume(2 * 10**12)
    assert buffer.advance(3 * 10**12) == 650


def test_a_read_joins_where_the_head_is_and_not_beyond() -> None:
    disk = small()
    buffer = ReadBuffer(disk, 2, 1000, 400)
    buffer.filled(0, 8, 0)
    now = disk.transfer_ns(8, 20) + 10
    assert buffer.joins(28, now)
    assert buffer.joins(10, now)
    assert not buffer.joins(40, now)
    assert buffer.joined_ns(48) == disk.transfer_ns(8, 40)
    buffer.stop(now)
    assert not buffer.joins(28, now)
    assert buffer.hit(0, 28)


def test_segments_are_used_again_the_oldest_first_and_writes_empty_them() -> None:
    disk = small()
    buffer = ReadBuffer(disk, 2, 64, 0)
    buffer.filled(0, 8, 0)
    buffer.filled(1000, 1008, 0)
    assert buffer.hit(0, 8)
    buffer.filled(2000, 2008, 0)
    assert buffer.hit(0, 8)
    assert not buffer.hit(1000, 1008)
    buffer.filled(8, 80, 0)
    # A segment keeps its last 64 sectors
    assert not buffer.hit(0, 8)
    assert buffer.hit(16, 80)
    buffer.forget(40, 48)
    assert buffer.hit(16, 40)
    assert not buffer.hit(32, 48)
    buffer.forget(0, 24)
    assert buffer.hit(24, 40)
    buffer.forget(0, 5000)
    assert not buffer.hit(24, 32)


# -- cached runs -----------------------------------------------------------------------

PIECES = st.lists(
    st.tuples(st.sampled_from(["add", "remove", "take"]), st.integers(0, 120), st.integers(1, 30)),
    max_size=40,
)


@settings(max_examples=200)
@given(PIECES)
def test_runs_are_a_set_of_sectors(pieces: list[tuple[str, int, int]]) -> None:
    runs = Extents()
    held: set[int] = set()
    for what, start, length in pieces:
        sectors = set(range(start, start + length))
        if what == "add":
            assert runs.add(start, start + length) == len(sectors - held)
            held |= sectors
        elif what == "remove":
            assert runs.remove(start, start + length) == len(sectors & held)
            held -= sectors
        elif runs.count:
            i = runs.first_from(start)
            wanted = min((s for s in held if s >= start), default=min(held))
            assert runs.start_of(i) <= wanted < runs.ends[i]
            first = runs.start_of(i)
            taken = runs.take(i, length)
            assert (runs.taken_start, runs.taken_end) == (first, first + taken)
            assert taken <= length
            held -= set(range(first, first + taken))
        assert runs.sectors == len(held)
        assert runs.count == len(runs.starts) == len(runs.ends)
        flat = list(itertools.chain.from_iterable(zip(runs.starts, runs.ends, strict=True)))
        # Sorted, none empty, none touching its neighbour
        assert flat == sorted(set(flat))
        assert runs.covers(start, start + length) == (sectors <= held)
        assert runs.overlaps(start, start + length) == bool(sectors & held)
