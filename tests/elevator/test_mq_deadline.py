"""mq-deadline's order: batches, starvation, deadlines, classes, merges."""

from __future__ import annotations

import pytest
from deadline_rig import BE, ELSEWHERE, IDLE, RT, DeadlineRig, endless, reads_and_writes
from hypothesis import given
from hypothesis import strategies as st
from rig import MS

from blklab.block.attributes import read, write
from blklab.block.consts import F_SYNC, OP_DISCARD, OP_READ, OP_WRITE
from blklab.core.errors import AttributeRefused

# -- batches -----------------------------------------------------------------------------------


def saturated(count: int = 100, **tunables: int) -> list[tuple[str, int]]:
    """The turns of reads and writes of which many wait, once they are steady."""
    rig = DeadlineRig(tunables=tunables)
    write(rig.queue, "queue/nr_requests", "256")
    rig.tune("async_depth", 256)
    rig.occupy(OP_WRITE).queue_up(*reads_and_writes(rig, count)).run()
    assert len(rig.order()) == 2 * count
    rig.assert_clean()
    return rig.runs()


def test_two_batches_of_reads_follow_each_of_writes() -> None:
    assert saturated()[:4] == [("R", 32), ("W", 16), ("R", 32), ("W", 16)]


def test_with_batches_of_one_it_is_read_read_write() -> None:
    runs = saturated(fifo_batch=1)

    assert runs[:20] == [("R", 2), ("W", 1)] * 10


@pytest.mark.parametrize("passed_over", [1, 3])
def test_writes_starved_says_how_many_batches_of_reads(passed_over: int) -> None:
    assert saturated(writes_starved=passed_over)[:4] == [("R", 16 * passed_over), ("W", 16)] * 2


def test_writes_starved_0_makes_writes_go_first_and_a_negative_one_last() -> None:
    assert saturated(writes_starved=0) == [("W", 100), ("R", 100)]
    assert saturated(writes_starved=-1) == [("R", 100), ("W", 100)]


def test_a_batch_goes_up_by_sector_and_its_end_restarts_with_the_oldest() -> None:
    rig = DeadlineRig().occupy()
    rig.queue_up(rig.read(500, 100, 900, 200, 700)).run()

    assert rig.order() == [500, 700, 900, 100, 200]


@pytest.mark.parametrize(
    ("tunables", "order"),
    [
        ({"fifo_batch": 1}, [100, 200, 300, 400, 90_000]),
        ({"fifo_batch": 1, "read_expire": 10}, [100, 200, 90_000, 300, 400]),
        # Within a batch deadlines do not matter
        ({"read_expire": 10}, [100, 200, 300, 400, 90_000]),
    ],
)
def test_an_expired_request_is_where_the_next_batch_begins(
    tunables: dict[str, int], order: list[int]
) -> None:
    rig = DeadlineRig(service_ns=5 * MS, tunables=tunables).occupy()
    rig.queue_up(rig.read(100, 90_000, 200, 300, 400)).run()

    assert rig.order() == order


def test_reads_expire_after_half_a_second_writes_after_five() -> None:
    for op, expire_ms in ((OP_READ, 500), (OP_WRITE, 5000)):
        for late_ms in (-8, 8):
            rig = DeadlineRig(service_ns=None, tunables={"fifo_batch": 1}).occupy()
            make = rig.read if op == OP_READ else rig.write
            rig.queue_up(make(100, 90_000, 200))
            for until_ms in (1, expire_ms + late_ms):
                rig.wait(until_ms * MS).driver.finish(rig.driver.held[0])
            rig.wait((expire_ms + late_ms + 1) * MS)
            assert rig.order()[:2] == [100, 90_000 if late_ms > 0 else 200]


def test_what_is_neither_read_nor_write_goes_with_writes() -> None:
    rig = DeadlineRig(tunables={"fifo_batch": 1})
    rig.queue.limits.max_discard_sectors = rig.queue.limits.max_hw_discard_sectors = 1 << 20
    rig.queue.limits.discard_granularity_bytes = 512
    rig.occupy(OP_WRITE)
    discards = [rig.bio(1000 * i + 50, op=OP_DISCARD) for i in range(3)]
    rig.queue_up(discards, rig.read(0, 100, 200, 300)).run()

    assert [r.rwbs[0] for r in rig.records("D")][1:] == list("RRDRRDD")


BIOS = st.lists(st.tuples(st.booleans(), st.integers(0, 4000)), min_size=1, max_size=60)


@given(bios=BIOS, fifo_batch=st.integers(1, 5), writes_starved=st.integers(0, 4))
def test_a_waiting_write_is_passed_over_by_writes_starved_batches_at_most(
    bios: list[tuple[bool, int]], fifo_batch: int, writes_starved: int
) -> None:
    rig = DeadlineRig(tunables={"fifo_batch": fifo_batch, "writes_starved": writes_starved})
    write(rig.queue, "queue/nomerges", "2")
    rig.occupy()
    rig.queue_up(*[rig.write(100 * s) if w else rig.read(100 * s + 50) for w, s in bios]).run()

    runs = rig.runs()
    assert sum(n for _, n in runs) == len(bios)
    # One batch may have been under way when the first write came
    longest = (writes_starved + 1) * fifo_batch
    assert all(n <= longest for way, n in runs[:-1] if way == "R")
    rig.assert_clean()


# -- classes -----------------------------------------------------------------------------------


def test_rt_goes_before_be_before_idle_and_no_class_is_be() -> None:
    rig = DeadlineRig().occupy()
    rig.queue_up(
        rig.read(100, ioprio=IDLE), rig.read(200, ioprio=BE), rig.read(300), rig.read(400, ioprio=RT + 7)
    ).run()

    assert rig.order() == [400, 200, 300, 100]


def test_a_class_waits_while_a_higher_one_is_in_the_driver() -> None:
    rig = DeadlineRig(at_once=2, service_ns=None)
    rig.queue_up(rig.read(100, ioprio=RT), rig.read(200, ioprio=BE))
    assert rig.order() == [100]
    assert rig.deadline.has_work(rig.queue.hctxs[0])
    assert read(rig.queue, "sched/queued") == "1 1 0"
    assert read(rig.queue, "sched/owned_by_driver") == "1 0 0"
    assert read(rig.queue, "sched/read1_fifo_list") == 1

    rig.driver.finish(rig.driver.held[0])
    rig.run(20 * MS)
    assert rig.order() == [100, 200]


@pytest.mark.parametrize(("waiting", "busy"), [(IDLE, BE), (IDLE, RT), (BE, RT)])
def test_a_lower_class_gets_through_when_it_has_aged_and_no_earlier(waiting: int, busy: int) -> None:
    rig = DeadlineRig(service_ns=MS, tunables={"prio_aging_expire": 100})
    endless(rig, busy, 300 * MS)
    rig.run(10 * MS)
    rig.queue_up(rig.read(1 << 20, ioprio=waiting))
    rig.run()

    issued_ns = next(r.time_ns for r in rig.records("D") if r.sector == 1 << 20)
    assert 108 * MS <= issued_ns <= 115 * MS
    rig.assert_clean()


def test_by_default_it_has_aged_after_ten_seconds() -> None:
    rig = DeadlineRig(service_ns=200 * MS)
    endless(rig, BE, 12_000 * MS)
    rig.queue_up(rig.read(1 << 20, ioprio=IDLE)).run()

    issued_ns = next(r.time_ns for r in rig.records("D") if r.sector == 1 << 20)
    assert 10_000 * MS <= issued_ns <= 10_400 * MS


# -- merges ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("front_merges", "story"), [(1, "F92+8 D700+8 D92+16"), (0, "D700+8 D100+8 D92+8")])
def test_front_merges(front_merges: int, story: str) -> None:
    rig = DeadlineRig(tunables={"front_merges": front_merges}).occupy()
    # 700 is tried first, as the one that was queued when nothing had merged
    rig.queue_up(rig.read(700, 100, 92)).run()

    assert rig.story("M F D").removeprefix(f"D{ELSEWHERE}+8 ") == story
    rig.assert_clean()


def test_a_front_merge_changes_the_place_by_sector() -> None:
    rig = DeadlineRig().occupy()
    # 108 grows to begin at 100, which makes it stand between 90 and 104
    rig.queue_up(rig.read(0, 108, 90, 300), rig.read(100)).run()

    assert rig.order() == [0, 90, 100, 300]


def test_a_bio_between_two_requests_makes_them_one() -> None:
    rig = DeadlineRig().occupy()
    rig.queue_up(rig.read(100), rig.read(116), rig.read(108)).run()

    # The bio, then the request behind
    assert rig.story("M F D").removeprefix(f"D{ELSEWHERE}+8 ") == "M108+8 M116+8 D100+24"
    rig.assert_clean()


def test_what_became_one_has_the_earlier_deadline_and_its_place_in_the_fifo() -> None:
    rig = DeadlineRig(service_ns=None).occupy()
    for at_ms, sectors in ((0, [116]), (10, [5000]), (20, [100]), (30, [108])):
        rig.wait(at_ms * MS).queue_up(rig.read(*sectors))
    rig.driver.service_ns = 1000
    rig.driver.finish(rig.driver.held[0])
    rig.run()

    assert rig.order() == [100, 5000]


def test_requests_merge_when_they_are_inserted() -> None:
    rig = DeadlineRig().occupy()
    # One plug: 108 is not the neighbour of its tail, and 100 is not in the scheduler yet
    rig.send(rig.read(100, 500, 108)).run()

    assert rig.story("I M D").removeprefix(f"I{ELSEWHERE}+8 D{ELSEWHERE}+8 ") == (
        "I100+8 I500+8 M108+8 D100+16 D500+8"
    )
    assert rig.deadline.be.merged == 1
    rig.assert_clean()


def test_what_a_merge_at_insertion_made_merges_on() -> None:
    rig = DeadlineRig().occupy()
    # 300 is the one that is tried first, and alone
    rig.send(rig.read(300, 92, 500, 84, 700, 100)).run()

    assert rig.story("M D").removeprefix(f"D{ELSEWHERE}+8 ") == ("M100+8 M92+16 D300+8 D500+8 D700+8 D84+24")
    assert len(rig.ended()) == 7
    rig.assert_clean()


@pytest.mark.parametrize(
    ("nomerges", "story"),
    [
        # 500 is the oldest, then 100
        (0, "M508+8 M108+8 F92+8 D500+16 D92+24"),
        (1, "M508+8 D500+16 D100+8 D108+8 D92+8"),
        (2, "D500+8 D508+8 D100+8 D108+8 D92+8"),
    ],
)
def test_nomerges_1_tries_the_last_one_only_and_2_none(nomerges: int, story: str) -> None:
    rig = DeadlineRig()
    write(rig.queue, "queue/nomerges", str(nomerges))
    rig.occupy().queue_up(rig.read(500, 100, 508, 108, 92)).run()

    assert rig.story("M F D").removeprefix(f"D{ELSEWHERE}+8 ") == story
    rig.assert_clean()


# -- at the head, and the limit ----------------------------------------------------------------


def test_what_a_driver_gives_back_goes_first() -> None:
    rig = DeadlineRig(service_ns=None).occupy()
    rig.queue_up(rig.read(300, 200))
    rig.give_back().run()

    assert [r.sector for r in rig.records("D")] == [ELSEWHERE, ELSEWHERE, 300, 200]
    assert rig.deadline.be.inserted == 3
    rig.assert_clean()


def test_async_depth_is_all_of_nr_requests_and_lags_one_write_behind() -> None:
    rig = DeadlineRig()
    shown = [read(rig.queue, "queue/iosched/async_depth")]
    for nr in (64, 8, 256):
        write(rig.queue, "queue/nr_requests", str(nr))
        shown.append(read(rig.queue, "queue/iosched/async_depth"))

    assert shown == [256, 256, 64, 8]
    assert read(rig.queue, "sched/async_depth") == 8


@pytest.mark.parametrize("flags", [0, F_SYNC])
def test_async_depth_limits_all_but_reads(flags: int) -> None:
    rig = DeadlineRig(service_ns=None, tunables={"async_depth": 64})
    write(rig.queue, "queue/nomerges", "2")
    writes = [rig.bio(i * 8, op=OP_WRITE, flags=flags) for i in range(200)]
    rig.queue_up(writes)
    # 256 tags are four words of 64, of which writes may use 16 each
    assert len(rig.records("G")) == 64

    rig = DeadlineRig(service_ns=None, tunables={"async_depth": 64})
    write(rig.queue, "queue/nomerges", "2")
    rig.queue_up([rig.bio(i * 8, flags=flags) for i in range(300)])
    assert len(rig.records("G")) == 256


def test_the_limit_is_rounded_up_in_each_word() -> None:
    rig = DeadlineRig(service_ns=None, tunables={"async_depth": 1})
    write(rig.queue, "queue/nomerges", "2")
    rig.queue_up([rig.bio(i * 8, op=OP_WRITE) for i in range(20)])

    assert len(rig.records("G")) == 4


# -- tunables ----------------------------------------------------------------------------------


def test_tunables_and_their_defaults() -> None:
    rig = DeadlineRig()

    assert {a.path: a.get(rig.deadline) for a in rig.deadline.attributes()} == {
        "read_expire": 500,
        "write_expire": 5000,
        "writes_starved": 2,
        "front_merges": 1,
        "async_depth": 256,
        "fifo_batch": 16,
        "prio_aging_expire": 10_000,
    }


@pytest.mark.parametrize(
    ("name", "text", "shown"),
    [
        ("read_expire", "10", 12),  # whole jiffies of 4 ms
        ("read_expire", "-5", 0),
        ("write_expire", "4000\n", 4000),
        ("prio_aging_expire", "1", 4),
        ("writes_starved", "-3", -3),
        ("front_merges", "7", 1),
        ("front_merges", "-7", 0),
        ("async_depth", "0", 1),
        ("async_depth", "100000", 100_000),
        ("fifo_batch", "-1", 0),
    ],
)
def test_what_is_out_of_range_becomes_the_nearest_that_is_not(name: str, text: str, shown: int) -> None:
    rig = DeadlineRig()
    rig.tune(name, text)

    assert read(rig.queue, f"queue/iosched/{name}") == shown


@pytest.mark.parametrize("text", ["", "many", "1.5", "5 ms", "99999999999", "-99999999999"])
@pytest.mark.parametrize("name", ["read_expire", "fifo_batch", "front_merges", "async_depth"])
def test_nonsense_is_refused_and_changes_nothing(name: str, text: str) -> None:
    rig = DeadlineRig()
    before = read(rig.queue, f"queue/iosched/{name}")

    with pytest.raises(AttributeRefused, match="EINVAL"):
        rig.tune(name, text)
    assert read(rig.queue, f"queue/iosched/{name}") == before


def test_what_debugfs_shows() -> None:
    rig = DeadlineRig(service_ns=None).occupy()
    rig.queue_up(rig.read(100, 200, ioprio=RT), rig.write(300))
    shown = {a.path: a.get(rig.deadline) for a in rig.deadline.debug_attributes()}

    assert shown["read0_fifo_list"] == 2
    assert shown["write1_fifo_list"] == 1
    assert shown["dispatch1"] == 0
    assert shown["queued"] == "2 2 0"
    assert shown["owned_by_driver"] == "0 1 0"
    assert shown["batching"] == 1
    assert shown["read1_next_rq"] == ""
    assert {
        f"{way}{i}_{what}" for way in ("read", "write") for i in range(3) for what in ("fifo_list", "next_rq")
    } | {
        "batching",
        "starved",
        "async_depth",
        "dispatch0",
        "dispatch1",
        "dispatch2",
        "owned_by_driver",
        "queued",
    } == set(shown)
