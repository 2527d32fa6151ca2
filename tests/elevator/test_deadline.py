"""deadline on a single queue: batches by sector, starvation of writes, deadlines, merges, tunables; noop's
order. Values as deadline-iosched.c of 2.6.34 to 4.20 computes them."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from deadline_rig import Nothing
from hypothesis import given
from hypothesis import strategies as st
from rig import MS, Rig, ScriptedDriver

from blklab.block.attributes import attribute_paths, read, write
from blklab.block.bio import Bio
from blklab.block.consts import F_SYNC, OP_READ, OP_WRITE
from blklab.block.switch import set_elevator
from blklab.core.errors import AttributeRefused, BlklabError
from blklab.lab.contract import starves_nobody

ELSEWHERE = 1 << 24


class OneAtATime(Rig):
    """A disk that serves one request at a time. It has one in service and has seen the next one (two writes
    far away), so that all that a test queues up is in the scheduler before the next choice."""

    def __init__(self, scheduler: str = "deadline", service_ns: int = 100_000, **tunables: int) -> None:
        super().__init__(
            ScriptedDriver(service_ns, 1), depth=32, features={"plug_max": 1000}, single_queue=True
        )
        set_elevator(self.queue, scheduler)
        write(self.queue, "queue/nr_requests", "1000")
        for name, value in tunables.items():
            write(self.queue, f"queue/iosched/{name}", str(value))
        self.send([self.bio(ELSEWHERE, op=OP_WRITE)], [self.bio(ELSEWHERE + 1000, op=OP_WRITE)])
        self.run(1000)

    @property
    def deadline(self) -> Any:
        """The scheduler."""
        return self.queue.elevator

    def read(self, *sectors: int) -> list[Bio]:
        """Reads of 4 KiB."""
        return [self.bio(sector) for sector in sectors]

    def write(self, *sectors: int) -> list[Bio]:
        """Synchronous writes of 4 KiB."""
        return [self.bio(sector, op=OP_WRITE, flags=F_SYNC) for sector in sectors]

    def queue_up(self, *bios: Bio) -> OneAtATime:
        """One after the other, each without a plug."""
        self.send(*[[bio] for bio in bios])
        self.run(self.events.now_ns + 1)
        return self

    def order(self) -> list[int]:
        """Sectors in the order in which the driver saw them, behind the first two."""
        return [r.sector for r in self.records("D")][2:]

    def runs(self) -> list[tuple[str, int]]:
        """The same as runs of a direction: ("R", 16)."""
        directions = [r.rwbs[0] for r in self.records("D")][2:]
        return [(way, len(list(group))) for way, group in groupby(directions)]


def saturated(count: int = 100, **tunables: Any) -> list[tuple[str, int]]:
    rig = OneAtATime(**tunables)
    bios = []
    for i in range(count):
        bios += rig.read(i * 1000)
        bios += rig.write(500_000 + i * 1000)
    rig.queue_up(*bios).run()
    assert len(rig.order()) == 2 * count
    rig.assert_clean()
    return rig.runs()


def test_two_batches_of_reads_follow_each_of_writes() -> None:
    assert saturated()[:5] == [("R", 32), ("W", 16), ("R", 32), ("W", 16), ("R", 32)]


def test_with_batches_of_one_it_is_read_read_write() -> None:
    assert saturated(fifo_batch=1)[:20] == [("R", 2), ("W", 1)] * 10


@pytest.mark.parametrize("passed_over", [1, 3])
def test_writes_starved_says_how_many_batches_of_reads(passed_over: int) -> None:
    assert saturated(writes_starved=passed_over)[:4] == [("R", 16 * passed_over), ("W", 16)] * 2


def test_writes_starved_0_makes_writes_go_first_and_a_negative_one_last() -> None:
    assert saturated(writes_starved=0) == [("W", 100), ("R", 100)]
    assert saturated(writes_starved=-1) == [("R", 100), ("W", 100)]


def test_a_batch_begins_with_the_oldest_and_goes_up_by_sector() -> None:
    rig = OneAtATime()
    rig.queue_up(*rig.read(500, 100, 900, 200, 700)).run()
    assert rig.order() == [500, 700, 900, 100, 200]


def test_the_same_direction_goes_on_after_a_batch_where_it_was() -> None:
    rig = OneAtATime(fifo_batch=2)
    rig.queue_up(*rig.read(300, 100, 400, 500, 600)).run()
    # 100 is older than 500, but its deadline has not passed
    assert rig.order() == [300, 400, 500, 600, 100]


def test_after_its_deadline_the_oldest_is_where_the_next_batch_begins() -> None:
    rig = OneAtATime(service_ns=2 * MS, fifo_batch=2, read_expire=4)
    rig.queue_up(*rig.read(300, 100, 400, 500, 600)).run()
    # Without it 500 would follow; the batch that begins with 100 goes on upwards
    assert rig.order() == [300, 400, 100, 500, 600]


def test_a_deadline_does_not_interrupt_a_batch() -> None:
    rig = OneAtATime(service_ns=10 * MS, read_expire=4)
    rig.queue_up(*rig.read(300, 100, 400, 500, 600)).run()
    assert rig.order() == [300, 400, 500, 600, 100]


def test_a_change_of_direction_begins_with_the_oldest() -> None:
    rig = OneAtATime(fifo_batch=2, writes_starved=1)
    rig.queue_up(*rig.read(100, 200, 300, 400), *rig.write(9000, 8000, 9500, 8500)).run()
    assert rig.order() == [100, 200, 9000, 9500, 300, 400, 8000, 8500]


def test_front_merges_are_looked_for_unless_switched_off() -> None:
    # The first of them is last_merge, which is tried whatever the tunable says
    for front_merges, order in ((1, [3000, 5000, 992]), (0, [3000, 5000, 1000, 992])):
        rig = OneAtATime(front_merges=front_merges)
        rig.queue_up(*rig.read(3000, 1000, 5000, 992)).run()
        assert rig.order() == order
        assert rig.counts()["F"] == front_merges


def test_two_requests_that_come_to_touch_are_one_with_the_earlier_deadline() -> None:
    rig = OneAtATime(service_ns=50 * MS)
    rig.queue_up(*rig.read(1016))
    rig.events.at(10 * MS, Nothing())
    rig.run(10 * MS)
    rig.queue_up(*rig.read(4000, 1000, 1008)).run()
    assert rig.story("M F") == "F1008+8 M1008+16"
    assert [(r.sector, r.nr_sectors) for r in rig.records("D")][2:] == [(1000, 24), (4000, 8)]
    rig.assert_clean()


def test_tunables_are_those_of_the_kernel_and_read_in_ms() -> None:
    rig = OneAtATime()
    names = [p.removeprefix("queue/iosched/") for p in attribute_paths(rig.queue) if "iosched" in p]
    assert names == ["read_expire", "write_expire", "writes_starved", "front_merges", "fifo_batch"]
    assert [read(rig.queue, f"queue/iosched/{name}") for name in names] == [500, 5000, 2, 1, 16]
    write(rig.queue, "queue/iosched/read_expire", "5")
    assert read(rig.queue, "queue/iosched/read_expire") == 8  # whole jiffies of 4 ms
    with pytest.raises(AttributeRefused):
        write(rig.queue, "queue/iosched/fifo_batch", "many")


@pytest.mark.parametrize("op", [OP_READ, OP_WRITE])
def test_nobody_waits_longer_than_a_few_batches(op: int) -> None:
    assert starves_nobody("deadline", 200 * MS, op) > 0


def test_noop_keeps_the_order_of_arrival() -> None:
    rig = OneAtATime("noop")
    rig.queue_up(*rig.read(500, 100), *rig.write(50), *rig.read(900)).run()
    assert rig.order() == [500, 100, 50, 900]


@pytest.mark.parametrize("name", ["noop", "deadline"])
def test_they_are_refused_on_blk_mq(name: str) -> None:
    rig = Rig()
    with pytest.raises(BlklabError, match=f"{name} is no scheduler of a blk-mq queue"):
        set_elevator(rig.queue, name)


@given(
    st.lists(st.tuples(st.booleans(), st.integers(0, 300)), min_size=1, max_size=60),
    st.integers(1, 20),
    st.integers(0, 4),
)
def test_a_run_of_one_direction_is_no_longer_than_its_batches_while_the_other_waits(
    bios: list[tuple[bool, int]], fifo_batch: int, writes_starved: int
) -> None:
    rig = OneAtATime(fifo_batch=fifo_batch, writes_starved=writes_starved)
    rig.queue.nomerges = 2
    rig.queue_up(*[(rig.write if is_write else rig.read)(at * 8)[0] for is_write, at in bios]).run()
    rig.assert_clean()
    runs = rig.runs()
    assert sum(length for _, length in runs) == len(bios)
    for index, (way, length) in enumerate(runs[:-1]):
        if way == "R":
            assert length <= fifo_batch * max(writes_starved, 1), runs[: index + 2]


def test_the_module_is_compiled_when_the_package_is(compiled: bool) -> None:
    from blklab.elevator import deadline

    assert Path(str(deadline.__file__)).suffix == (".so" if compiled else ".py")
