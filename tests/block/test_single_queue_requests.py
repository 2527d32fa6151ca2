"""Who gets a request of a single queue: nr_requests a side, batches, sleepers, what a scheduler says (get_request,
freed_request)."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rig import MS
from single_rig import SingleRig

from blklab import Elevator, RequestList
from blklab.block.attributes import write
from blklab.block.consts import F_SYNC, MAY_QUEUE, MUST_QUEUE, NO_QUEUE, OP_WRITE
from blklab.block.legacy_requests import IoContext, RequestRoom
from blklab.block.sbitmap import Waiter
from blklab.block.switch import set_elevator

JIFFY_NS = 4 * MS


class Sleeper(Waiter):  # type: ignore[misc, unused-ignore]
    """Counts how often it was woken."""

    def __init__(self) -> None:
        super().__init__()
        self.woken = 0

    def wake(self) -> int:
        self.woken += 1
        return 0


def room_of(nr: int = 8, counts_all: bool = True) -> RequestRoom:
    room = RequestRoom(JIFFY_NS, counts_all)
    room.resize(nr)
    return room


def fill(room: RequestRoom, ioc: IoContext, sync: bool = True, now_ns: int = 0) -> int:
    """Takes as many as it gets."""
    count = 0
    while room.take(ioc, sync, MAY_QUEUE, now_ns):
        count += 1
    return count


def test_who_takes_the_last_one_may_go_on_to_one_and_a_half_times() -> None:
    room, first, second = room_of(8), IoContext(), IoContext()
    assert fill(room, first) == 12
    assert room.synchronous.full
    # Another task gets none, as it is no batcher
    room.give(True)
    assert not room.take(second, True, MAY_QUEUE, 0)


def test_a_batch_ends_after_32_requests() -> None:
    # The one that marks the side full is the first of the 32, and the request that fills it counts
    room, ioc = room_of(100), IoContext()
    assert fill(room, ioc) == 99 + 32


def test_a_batch_ends_after_20_ms() -> None:
    room, ioc = room_of(8), IoContext()
    for _ in range(8):
        assert room.take(ioc, True, MAY_QUEUE, 0)
    assert room.take(ioc, True, MAY_QUEUE, 20 * MS - 1)
    assert not room.take(ioc, True, MAY_QUEUE, 20 * MS)


def test_the_sides_are_counted_apart() -> None:
    room = room_of(8)
    assert fill(room, IoContext(), sync=True) == 12
    assert fill(room, IoContext(), sync=False) == 12
    assert room.total() == 24


def test_congestion_goes_on_above_seven_eighths_and_off_below_thirteen_sixteenths() -> None:
    room, ioc = room_of(128), IoContext()
    assert (room.congestion_on, room.congestion_off) == (113, 103)
    for _ in range(112):
        room.take(ioc, True, MAY_QUEUE, 0)
    assert not room.synchronous.congested
    room.take(ioc, True, MAY_QUEUE, 0)
    assert room.synchronous.congested
    while room.synchronous.count > 103:
        room.give(True)
    assert room.synchronous.congested
    room.give(True)
    assert not room.synchronous.congested


def test_each_freed_request_wakes_one_sleeper_in_turn_once_below_nr_requests() -> None:
    room = room_of(8)
    fill(room, IoContext())
    sleepers = [Sleeper() for _ in range(3)]
    for sleeper in sleepers:
        room.sleep(sleeper, True)
    for _ in range(4):
        room.give(True)
    assert [s.woken for s in sleepers] == [0, 0, 0] and room.synchronous.full
    room.give(True)
    assert [s.woken for s in sleepers] == [1, 0, 0] and not room.synchronous.full
    room.give(True)
    assert [s.woken for s in sleepers] == [1, 1, 0]


def test_what_the_scheduler_says() -> None:
    room, ioc = room_of(8), IoContext()
    batcher = IoContext()
    for _ in range(8):
        room.take(batcher, True, MAY_QUEUE, 0)
    assert not room.take(ioc, True, MAY_QUEUE, 0)
    assert room.take(ioc, True, MUST_QUEUE, 0)
    fill(room, batcher)
    assert room.synchronous.count == 12
    assert not room.take(ioc, True, MUST_QUEUE, 0)


def test_a_side_without_any_request_is_woken_by_the_other() -> None:
    room, sleeper = room_of(8), Sleeper()
    room.take(IoContext(), True, MAY_QUEUE, 0)
    room.refused(False)
    room.sleep(sleeper, False)
    room.give(True)
    assert sleeper.woken == 1


@pytest.mark.parametrize(("counts_all", "left"), [(False, 32), (True, 31)])
def test_before_2_6_39_a_batcher_s_requests_counted_only_at_a_full_queue(counts_all: bool, left: int) -> None:
    room, ioc = room_of(8, counts_all), IoContext()
    ioc.set_batching(0, JIFFY_NS)
    room.take(ioc, True, MAY_QUEUE, 0)
    assert ioc.nr_batch_requests == left


@given(
    st.lists(
        st.tuples(st.sampled_from(["take", "give", "resize", "wait"]), st.integers(0, 40), st.booleans())
    ),
)
def test_counts_never_leave_their_bounds(moves: list[tuple[str, int, bool]]) -> None:
    room, tasks = room_of(8), [IoContext() for _ in range(3)]
    most = 8
    for now, (what, number, sync) in enumerate(moves):
        side = room.side(sync)
        if what == "take":
            before = side.count
            got = room.take(tasks[number % 3], sync, MAY_QUEUE, now * 3 * MS)
            assert side.count == before + got
            assert not got or side.count <= max(3 * room.nr_requests // 2, 1)
        elif what == "give" and side.count:
            room.give(sync)
        elif what == "resize":
            most = max(number, 4)
            room.resize(most)
        else:
            room.sleep(Sleeper(), sync)
        assert room.nr_requests == most
        assert not side.full or side.count + 1 >= room.nr_requests or what != "give"


# -- on a device ---------------------------------------------------------------------------------


def test_a_task_that_fills_the_queue_keeps_it_for_a_batch_and_then_they_take_turns() -> None:
    rig = SingleRig(budgets=1, nr_cpus=2, plug_from=999)
    write(rig.queue, "queue/nr_requests", "4")
    for cpu in (0, 1):
        rig.send([rig.bio(i * 100 + cpu * 1_000_000, cpu=cpu) for i in range(60)], cpu=cpu)
    rig.run()
    tasks = [r.sector >= 1_000_000 for r in rig.records("G")]
    turns = sum(a != b for a, b in pairwise(tasks))
    # Not one by one: 119 turns, nor one after the other: 1
    assert 3 <= turns <= 60
    assert rig.counts()["S"] > 0
    rig.assert_clean()


@pytest.mark.parametrize("old", [False, True])
def test_s_is_traced_and_the_request_comes_when_one_has_ended(old: bool) -> None:
    rig = SingleRig(old=old, plug_from=999)
    write(rig.queue, "queue/nr_requests", "4")
    rig.send([rig.bio(i * 100) for i in range(7)]).run()
    assert rig.tell("S C G").endswith("G500+8 S600+8 C0+8 C100+8 C200+8 G600+8 C300+8 C400+8 C500+8 C600+8")
    rig.assert_clean()


class Particular(Elevator):  # type: ignore[misc, unused-ignore]
    """Lets no more than two writes in, and any number of reads."""

    single_queue = True

    def __init__(self, queue) -> None:  # type: ignore[no-untyped-def]
        super().__init__(queue)
        self.rqs = RequestList()
        self.writes = 0
        self.hooks_seen: list[str] = []

    def may_queue(self, submitter, op, flags):  # type: ignore[no-untyped-def]
        if op == OP_WRITE:
            return NO_QUEUE if self.writes >= 2 else MAY_QUEUE
        return MUST_QUEUE

    def set_request(self, rq, bio):  # type: ignore[no-untyped-def]
        assert rq.submitter is bio.submitter and rq.op == bio.op and rq.sector == bio.sector
        self.writes += rq.op == OP_WRITE
        self.hooks_seen.append("set")

    def finish_request(self, rq):  # type: ignore[no-untyped-def]
        self.writes -= rq.op == OP_WRITE
        self.hooks_seen.append("finish")

    def add_request(self, rq):  # type: ignore[no-untyped-def]
        self.rqs.append(rq)
        self.hooks_seen.append("add")

    def dispatch_requests(self, force):  # type: ignore[no-untyped-def]
        rq = self.rqs.popleft()
        if rq is None:
            return 0
        self.queue.legacy.dispatch_add_tail(rq)
        return 1

    def activate_request(self, rq):  # type: ignore[no-untyped-def]
        self.hooks_seen.append("activate")

    def deactivate_request(self, rq):  # type: ignore[no-untyped-def]
        self.hooks_seen.append("deactivate")

    def completed_request(self, rq, now_ns):  # type: ignore[no-untyped-def]
        self.hooks_seen.append("completed")


def test_the_hooks_of_a_request_in_order_with_busy_between() -> None:
    rig = SingleRig()
    set_elevator(rig.queue, Particular)
    rig.driver.answers.append(9)
    rig.send([rig.bio(0)]).run()
    scheduler: Any = rig.queue.elevator
    assert scheduler.hooks_seen == ["set", "add", "activate", "deactivate", "activate", "completed", "finish"]


def test_a_scheduler_that_wants_no_more_writes_lets_them_sleep() -> None:
    rig = SingleRig(plug_from=999)
    set_elevator(rig.queue, Particular)
    rig.send([rig.bio(i * 100, op=OP_WRITE, flags=F_SYNC) for i in range(4)] + [rig.bio(9000)]).run()
    assert rig.tell("S G C").startswith("G0+8 G100+8 S200+8 C0+8 G200+8")
    rig.assert_clean()
