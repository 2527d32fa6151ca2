"""Targets that wait or fail, flushes of stacked devices, and errors of their members."""

from __future__ import annotations

import pytest
from stack_rig import StackRig

from blklab.block.consts import F_FUA, F_PREFLUSH, F_SYNC, OP_READ, OP_WRITE, STS_IOERR, STS_MEDIUM, STS_OK
from blklab.block.iostat import READ
from blklab.core.errors import BlklabError
from blklab.stack.delay import wheel_expiry

MS = 1_000_000
SECOND = 1_000 * MS
SIZE = 1 << 16


def ends(rig: StackRig) -> dict[int, tuple[int, int]]:
    """Bio -> (status, when)."""
    return {io: (status, at) for sender in rig.senders for io, status, at in sender.ended}


# -- delay ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("now", "expires", "fires"),
    [
        (0, 1, 2),
        (100, 162, 163),
        (100, 163, 168),
        (100, 225, 232),
        (0, 503, 504),
        (0, 504, 512),
        (0, 512, 576),
    ],
)
def test_the_timer_wheel_is_coarser_the_further_away(now: int, expires: int, fires: int) -> None:
    # calc_index of kernel/time/timer.c: one granule is added, then the level's granule rounds down
    assert wheel_expiry(now, expires) == fires


def test_reads_writes_and_flushes_have_delays_of_their_own() -> None:
    rig = StackRig([SIZE, SIZE])
    rig.by_name["d1"].write_cache = True
    rig.stack("top", "delay", device="d0", delay=4, write_delay=12, flush_delay=0, write_device="d1")
    rig.send(
        [
            rig.bio_to("top", 0),
            rig.bio_to("top", 8, 8, OP_WRITE),
            rig.bio_to("top", 0, 0, OP_WRITE, F_PREFLUSH),
        ]
    )
    rig.run()

    status = ends(rig)
    assert [status[io][0] for io in range(3)] == [STS_OK] * 3
    # HZ=250: a jiffy is 4 ms, and the timer never fires early
    assert 8 * MS <= status[0][1] < 9 * MS
    assert 16 * MS <= status[1][1] < 17 * MS
    assert status[2][1] < MS
    assert rig.children("d0", "D") == [(0, 8)]
    assert (8, 8) in rig.children("d1", "D")
    rig.assert_all_ended()


def test_what_is_due_together_is_sent_on_in_order() -> None:
    rig = StackRig([SIZE])
    rig.stack("top", "delay", device="d0", delay=10, start="1m")
    rig.send([rig.bio_to("top", 100 * i) for i in (5, 3, 4)]).run()
    assert rig.children("d0") == [(2048 + 500, 8), (2048 + 300, 8), (2048 + 400, 8)]
    assert [(r.sector, r.extra) for r in rig.records("A")] == [(2548, 500), (2348, 300), (2448, 400)]


# -- flakey, error -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("how", "read", "write", "written"),
    [
        ({}, STS_IOERR, STS_IOERR, 0),
        ({"drop_writes": True}, STS_OK, STS_OK, 0),
        ({"error_writes": True}, STS_OK, STS_IOERR, 0),
    ],
)
def test_a_flakey_device_is_up_and_then_down(
    how: dict[str, bool], read: int, write: int, written: int
) -> None:
    rig = StackRig([SIZE])
    rig.stack("top", "flakey", device="d0", up_interval=2, down_interval=1, **how)

    def both(at_ns: int) -> list[int]:
        rig.run(at_ns)
        rig.events.now_ns = max(rig.events.now_ns, at_ns)
        first = rig.next_io
        rig.send([rig.bio_to("top", 0), rig.bio_to("top", 8, 8, OP_WRITE)]).run(at_ns + MS)
        return [rig.statuses()[first], rig.statuses()[first + 1]]

    assert both(0) == [STS_OK, STS_OK]
    before = len([n for s, n in rig.children("d0", "D") if s == 8])
    assert both(2 * SECOND + 1) == [read, write]
    assert len([n for s, n in rig.children("d0", "D") if s == 8]) - before == written
    assert both(3 * SECOND + 1) == [STS_OK, STS_OK]
    rig.assert_all_ended()


def test_an_error_device_fails_everything_and_its_stack_once() -> None:
    rig = StackRig([SIZE])
    rig.stack("bad", "error", size="32m")
    rig.stack("top", "stripe", members=["d0", "bad"], chunk="64k")
    rig.send([rig.bio_to("top", 0, 128), rig.bio_to("top", 0, 1024)]).run()
    assert rig.statuses() == {0: STS_OK, 1: STS_IOERR}
    assert rig.children("d0", "D") == [(0, 128), *[(i * 128, 128) for i in range(4)]]
    assert len(rig.children("top", "C")) == 2
    rig.assert_all_ended()


@pytest.mark.parametrize("model", ["stripe", "raid0"])
def test_the_first_error_of_the_members_is_the_bios(model: str) -> None:
    rig = StackRig([SIZE] * 4, service_ns=None)
    rig.stack("top", model, members=rig.leaf_names(), chunk="64k")
    rig.send([rig.bio_to("top", 0, 512)]).run(MS)
    answers = [("d2", STS_OK), ("d1", STS_MEDIUM), ("d3", STS_IOERR), ("d0", STS_OK)]
    for name, status in answers:
        assert rig.statuses() == {}, "it ends with the last of them"
        (rq,) = rig.drivers[name].held
        rq.status = status
        rig.drivers[name].finish(rq)
        rig.run(rig.events.now_ns + MS)
    assert rig.statuses() == {0: STS_MEDIUM}
    rig.assert_all_ended()


# -- flushes ----------------------------------------------------------------------------------------------


def flushing(model: str, caches: int = 2) -> StackRig:
    rig = StackRig([SIZE] * 2)
    for i in range(caches):
        rig.by_name[f"d{i}"].write_cache = True
    rig.stack("top", model, members=["d0", "d1"], **({} if model == "linear" else {"chunk": "64k"}))
    return rig


@pytest.mark.parametrize("model", ["linear", "stripe", "raid0"])
def test_a_preflush_goes_to_every_member_before_the_data(model: str) -> None:
    rig = flushing(model)
    rig.send([rig.bio_to("top", 0, 8, OP_WRITE, F_PREFLUSH | F_SYNC)]).run()

    by_time = [
        (r.action, rig.queues[r.device].name, r.nr_sectors) for r in rig.records("D C") if r.device < 2
    ]
    flushed = [i for i, (action, _, n) in enumerate(by_time) if action == "C" and n == 0]
    data = [i for i, (action, _, n) in enumerate(by_time) if action == "D" and n == 8]
    assert {by_time[i][1] for i in flushed} == {"d0", "d1"}
    assert len(data) == 1 and data[0] > max(flushed)
    assert rig.statuses() == {0: STS_OK}
    rig.assert_all_ended()


@pytest.mark.parametrize("model", ["linear", "stripe", "raid0"])
def test_an_empty_flush_ends_once_when_all_have(model: str) -> None:
    rig = flushing(model)
    rig.send([rig.bio_to("top", 0, 0, OP_WRITE, F_PREFLUSH)]).run()
    assert rig.statuses() == {0: STS_OK}
    ended = max(r.time_ns for r in rig.records("C") if r.device < 2)
    assert ends(rig)[0][1] >= ended
    assert len(rig.children("top", "C")) == 1


def test_without_any_cache_dm_has_none_and_md_still_takes_flushes() -> None:
    dm, md = flushing("stripe", caches=0), flushing("raid0", caches=0)
    assert not dm.by_name["top"].write_cache
    assert md.by_name["top"].write_cache and md.by_name["top"].fua
    for rig in (dm, md):
        rig.send(
            [rig.bio_to("top", 0, 0, OP_WRITE, F_PREFLUSH), rig.bio_to("top", 0, 8, OP_WRITE, F_FUA)]
        ).run()
        assert rig.statuses() == {0: STS_OK, 1: STS_OK}
        assert rig.children("d0", "D") == [(0, 8)]


def test_one_flush_of_md_serves_all_that_came_before_it() -> None:
    rig = StackRig([SIZE] * 2, nr_cpus=4)
    for name in rig.leaf_names():
        rig.by_name[name].write_cache = True
    rig.stack("top", "raid0", members=["d0", "d1"], chunk="64k")
    for cpu in range(4):
        bio = rig.bio_to("top", 0, 0, OP_WRITE, F_PREFLUSH)
        bio.submitter = rig.senders[cpu]
        rig.events.now_ns += 100  # the first begins; the others come while it runs
        rig.send([bio], cpu=cpu).run(rig.events.now_ns)
    rig.run()
    assert set(rig.statuses().values()) == {STS_OK}
    # The first, then one for the three that waited
    assert rig.children("d0", "D") == [(0, 0), (0, 0)]
    rig.assert_all_ended()


# -- what a task and its counters see ----------------------------------------------------------------------


def test_counters_of_a_device_that_holds_bios_include_the_time_they_are_held() -> None:
    rig = StackRig([SIZE])
    top = rig.stack("top", "delay", device="d0", delay=100)
    rig.send([rig.bio_to("top", 0, 8, OP_READ)]).run()
    assert top.stat.ios[READ] == 1 and top.stat.sectors[READ] == 8
    assert top.stat.time_ns[READ] >= 100 * MS
    assert rig.by_name["d0"].stat.time_ns[READ] < MS


def test_partitions_lie_on_disks() -> None:
    rig = StackRig([SIZE])
    rig.stack("p1", "partition", device="d0", start="1m")
    with pytest.raises(BlklabError, match="p1 is a partition itself"):
        rig.stack("p2", "partition", device="p1")
    with pytest.raises(BlklabError, match="d0 is too small"):
        rig.stack("p3", "partition", device="d0", start="31m", size="2m")
