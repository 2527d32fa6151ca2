"""Flushes when things go wrong or change: errors, BUSY, what is lost or late, shared tags, switches, the attribute
write_cache; and the promises that hold whatever is sent."""

from __future__ import annotations

from collections import Counter

import pytest
from flush_rig import PRE_FUA, SCHEDULERS, CacheDriver, empty, rig_of, statuses, story
from hypothesis import given, settings
from hypothesis import strategies as st
from rig import MS, Rig

from blklab.block.attributes import read, write
from blklab.block.consts import (
    F_FUA,
    F_PREFLUSH,
    F_SYNC,
    OP_WRITE,
    STS_DEV_RESOURCE,
    STS_IOERR,
    STS_OK,
    STS_RESOURCE,
    STS_TIMEOUT,
)
from blklab.block.switch import set_elevator
from blklab.core.errors import AttributeRefused

# -- errors ----------------------------------------------------------------------------------


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_a_flush_that_fails_fails_all_that_wait_for_it_and_their_data_is_not_written(scheduler: str) -> None:
    rig = rig_of(scheduler=scheduler, nr_cpus=3, service_ns=100_000)
    rig.driver.endings.extend([STS_OK, STS_IOERR])
    rig.send([empty(rig)]).run(1000)
    rig.send([rig.bio(8, 8, OP_WRITE, PRE_FUA, 0, 1)], cpu=1)
    rig.send([empty(rig, 2)], cpu=2).run()
    assert statuses(rig) == {0: STS_OK, 1: STS_IOERR, 2: STS_IOERR}
    # Never issued, so its C is of all its sectors
    assert story(rig, "D") == "DFN0+0 DFN0+0"
    assert "CWS8+8" in story(rig, "C") and "CWS8+0" not in story(rig, "C")
    rig.assert_clean()


@pytest.mark.parametrize("scheduler", SCHEDULERS)
@pytest.mark.parametrize("refused", [False, True])
def test_data_that_fails_is_followed_by_no_flush(scheduler: str, refused: bool) -> None:
    rig = rig_of(scheduler=scheduler)
    if refused:
        rig.driver.answers.extend([STS_OK, STS_IOERR])
    else:
        rig.driver.endings.extend([STS_OK, STS_IOERR])
    rig.send([rig.bio(8, 8, OP_WRITE, PRE_FUA)]).run()
    assert statuses(rig) == {0: STS_IOERR}
    assert story(rig, "D C").count("DFN0+0") == 1
    assert "CWS8+8" in story(rig, "C") and "CWS8+0" in story(rig, "C")
    rig.assert_clean()


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_a_flush_that_the_driver_refuses_for_good(scheduler: str) -> None:
    rig = rig_of(scheduler=scheduler)
    rig.driver.answers.extend([STS_IOERR])
    rig.send([rig.bio(8, 8, OP_WRITE, PRE_FUA)], [empty(rig)]).run()
    assert statuses(rig)[0] == STS_IOERR
    rig.assert_clean()


@pytest.mark.parametrize("scheduler", SCHEDULERS)
@pytest.mark.parametrize("busy", [STS_RESOURCE, STS_DEV_RESOURCE])
@pytest.mark.parametrize("at", [0, 1, 2])
def test_a_busy_driver_gets_each_step_again(scheduler: str, busy: int, at: int) -> None:
    rig = rig_of(scheduler=scheduler)
    rig.driver.answers.extend([STS_OK] * at + [busy, busy])
    rig.send([rig.bio(8, 8, OP_WRITE, PRE_FUA)]).run()
    steps = ["FN0+0", "WS8+8", "FN0+0"]
    expected = []
    for i, step in enumerate(steps):
        expected += ["R" + step] * (2 if i == at else 0) + ["D" + step]
    assert story(rig, "D R").split() == expected
    assert statuses(rig) == {0: STS_OK}
    rig.assert_clean()


@pytest.mark.parametrize("scheduler", SCHEDULERS)
@pytest.mark.parametrize("lost", [0, 1, 2])
def test_a_lost_step_ends_the_sequence_when_it_times_out(scheduler: str, lost: int) -> None:
    rig = rig_of(scheduler=scheduler)
    rig.queue.io_timeout_ns = 5_000 * MS
    rig.driver.answers.extend([STS_OK] * lost + ["lose"])
    rig.driver.flushes[rig.queue.hctxs[0]] = 0  # type: ignore[attr-defined]
    rig.send([rig.bio(8, 8, OP_WRITE, PRE_FUA)]).run()
    assert statuses(rig) == {0: STS_TIMEOUT}
    assert story(rig, "D").split() == ["DFN0+0", "DWS8+8", "DFN0+0"][: lost + 1]
    rig.assert_clean()
    rig.send([empty(rig)]).run()
    assert statuses(rig)[1] == STS_OK
    rig.assert_clean()


@pytest.mark.parametrize("scheduler", SCHEDULERS)
@pytest.mark.parametrize("give_up", [False, True])
def test_a_late_flush_is_waited_for(scheduler: str, give_up: bool) -> None:
    rig = rig_of(scheduler=scheduler, service_ns=12_000 * MS)
    rig.queue.io_timeout_ns = 5_000 * MS
    rig.driver.give_up = give_up
    rig.send([rig.bio(8, 8, OP_WRITE, PRE_FUA)]).run()
    assert statuses(rig) == {0: STS_OK}
    assert rig.senders[0].ended[0][2] == 36_000 * MS
    rig.assert_clean()


# -- sharing, and changes on the way -----------------------------------------------------------


@pytest.mark.parametrize("scheduler", SCHEDULERS)
@pytest.mark.parametrize("hctx_shared", [False, True])
def test_shared_tags_are_counted_once(scheduler: str, hctx_shared: bool) -> None:
    rig = Rig(CacheDriver(), nr_cpus=2, nr_hw_queues=2, depth=4, devices=2, hctx_shared=hctx_shared)
    for queue in rig.queues:
        set_elevator(queue, scheduler)
    for cpu in (0, 1):
        rig.send(
            *[[rig.bio(8 * i + 8, 8, OP_WRITE, flags, i & 1, cpu)]
              for i, flags in enumerate([PRE_FUA, F_FUA, F_PREFLUSH, 0] * 5)],
            cpu=cpu,
        )  # fmt: skip
        rig.send([empty(rig, cpu, 0)], [empty(rig, cpu, 1)], cpu=cpu)
    rig.run()
    assert len(rig.ended()) == 44
    rig.assert_clean()


@pytest.mark.parametrize("before", SCHEDULERS)
@pytest.mark.parametrize("after", SCHEDULERS)
def test_a_switch_waits_for_the_whole_sequence(before: str, after: str) -> None:
    rig = rig_of(scheduler=before, service_ns=100_000, nr_cpus=2)
    rig.send([rig.bio(8, 8, OP_WRITE, PRE_FUA)], [rig.bio(800, 8, OP_WRITE)])
    rig.send([empty(rig, 1)], [empty(rig, 1)], cpu=1).run(50_000)
    set_elevator(rig.queue, after)
    assert rig.queue.freeze_depth == 1 and rig.queue.elevator_name == before
    rig.run()
    assert rig.queue.elevator_name == after
    assert sorted(rig.ended()) == [0, 1, 2, 3]
    assert set(statuses(rig).values()) == {STS_OK}
    rig.assert_clean()


def test_the_cache_may_be_switched_off_while_a_flush_waits() -> None:
    rig = rig_of(service_ns=100_000, nr_cpus=2)
    rig.send([rig.bio(8, 8, OP_WRITE, PRE_FUA)]).run(50_000)
    write(rig.queue, "queue/write_cache", "write through")
    rig.send([rig.bio(800, 8, OP_WRITE, PRE_FUA, 0, 1)], [empty(rig, 1)], cpu=1).run()
    # What has begun goes on as it began
    assert story(rig, "Q D") == "QFWF8+8 DFN0+0 QW800+8 DW800+8 DWS8+8 DFN0+0"
    assert set(statuses(rig).values()) == {STS_OK}
    rig.assert_clean()


# -- the attribute ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("write through", "write through"),
        ("write through\n", "write through"),
        ("write throughout", "write through"),
        ("none", "write through"),
        ("nonexistent", "write through"),
        ("write back", "write back"),
        ("write backwards\n", "write back"),
    ],
)
def test_write_cache_compares_how_a_text_begins(text: str, after: str) -> None:
    rig = rig_of()
    write(rig.queue, "queue/write_cache", text)
    assert read(rig.queue, "queue/write_cache") == after


@pytest.mark.parametrize(
    "text", [" write back", "Write back", "write", "1", "", "writeback", "\n", "writethrough"]
)
@pytest.mark.parametrize("cache", [False, True])
def test_write_cache_refuses_anything_else(text: str, cache: bool) -> None:
    rig = rig_of(cache=cache)
    with pytest.raises(AttributeRefused, match="EINVAL"):
        write(rig.queue, "queue/write_cache", text)
    assert read(rig.queue, "queue/write_cache") == ("write back" if cache else "write through")


def test_write_back_is_for_a_device_that_has_a_cache_and_only_for_that() -> None:
    # captures flush/*-writeback-refused-*
    without = rig_of(cache=False, fua=True)
    with pytest.raises(AttributeRefused, match="EINVAL"):
        write(without.queue, "queue/write_cache", "write back")
    rig = rig_of()
    write(rig.queue, "queue/write_cache", "none")
    rig.send([empty(rig)]).run()
    assert story(rig) == ""
    write(rig.queue, "queue/write_cache", "write back")
    rig.send([empty(rig)]).run()
    assert rig.counts()["D"] == 1


def test_fua_stays_what_the_driver_has() -> None:
    rig = rig_of(fua=True)
    write(rig.queue, "queue/write_cache", "write through")
    assert read(rig.queue, "queue/fua") == 1
    with pytest.raises(AttributeRefused, match="EACCES"):
        write(rig.queue, "queue/fua", "0")


# -- rules -----------------------------------------------------------------------------------------


KINDS = {
    "plain": (8, 0),
    "sync": (8, F_SYNC),
    "preflush": (8, F_PREFLUSH),
    "fua": (8, F_FUA),
    "both": (8, PRE_FUA),
    "empty": (0, F_PREFLUSH | F_SYNC),
    "long": (300, PRE_FUA),
}


@settings(max_examples=120)
@given(data=st.data())
def test_whatever_is_sent_the_promises_hold(data: st.DataObject) -> None:
    cpus = data.draw(st.integers(1, 3), "CPUs")
    cache, fua = data.draw(st.sampled_from([(True, False), (True, True), (False, False)]), "cache, FUA")
    driver = CacheDriver(cache, fua, data.draw(st.sampled_from([0, 3000, 40_000]), "service_ns") or 1)
    driver.max_sectors = 128
    rig = Rig(
        driver,
        nr_cpus=cpus,
        nr_hw_queues=data.draw(st.integers(1, 3), "hardware queues"),
        depth=data.draw(st.sampled_from([1, 2, 5, 32]), "depth"),
        devices=data.draw(st.integers(1, 2), "devices"),
        hctx_shared=data.draw(st.booleans(), "hctx_shared"),
        features={"flush_data_scheduled": data.draw(st.integers(0, 1), "flush_data_scheduled")},
    )
    for queue in rig.queues:
        set_elevator(queue, data.draw(st.sampled_from(SCHEDULERS), "scheduler"))
    driver.answers.extend(
        data.draw(
            st.lists(st.sampled_from([STS_OK, STS_OK, STS_RESOURCE, STS_DEV_RESOURCE]), max_size=30),
            "answers",
        )
    )
    kinds: dict[int, tuple[str, int, int]] = {}
    place = 8
    for cpu in range(cpus):
        for _ in range(data.draw(st.integers(0, 4), "batches")):
            batch = []
            for kind in data.draw(st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=5), "batch"):
                sectors, flags = KINDS[kind]
                device = data.draw(st.integers(0, len(rig.queues) - 1), "device")
                at = place if sectors else 0
                place += 1024  # no two of them touch, so that a sector names its bio
                bio = rig.bio(at, sectors, OP_WRITE, flags, device, cpu)
                kinds[rig.next_io - 1] = (kind, at, device)
                batch.append(bio)
            rig.send(batch, cpu=cpu)
    switch_at = data.draw(st.sampled_from([0, 0, 5000, 60_000]), "switch at")
    if switch_at:
        rig.run(switch_at)
        set_elevator(rig.queue, data.draw(st.sampled_from(SCHEDULERS), "next scheduler"))
    rig.run(rig.events.now_ns + 300_000 * MS)

    ended = {io: (status, at) for sender in rig.senders for io, status, at in sender.ended}
    assert sum(len(sender.ended) for sender in rig.senders) == len(kinds), rig.describe()
    assert sorted(ended) == sorted(kinds), rig.describe()
    assert {status for status, _ in ended.values()} <= {STS_OK}
    rig.assert_clean()
    assert all(
        h.fq is None or h.fq.pending.count + h.fq.running.count == 0 for q in rig.queues for h in q.hctxs
    )
    keep_promises(rig, kinds, cache, fua)


def keep_promises(rig: Rig, kinds: dict[int, tuple[str, int, int]], cache: bool, fua: bool) -> None:
    """Order on the device, by the trace: positions in it, so that equal times say nothing."""
    records = list(rig.tracer)
    ends = {io: at for sender in rig.senders for io, _, at in sender.ended}
    flushes: dict[int, list[tuple[int, int]]] = {}  # device -> (position of D, position of C) of each flush
    began: dict[int, list[int]] = {}
    under_way: Counter[int] = Counter()
    for position, r in enumerate(records):
        if r.rwbs != "FN":
            continue
        if r.action == "D":
            began.setdefault(r.device, []).append(position)
            under_way[r.device] += 1
            assert under_way[r.device] <= len(rig.queues[r.device].hctxs)
        elif r.action == "C":
            # With several hardware queues this may be any of those under way
            flushes.setdefault(r.device, []).extend((d, position) for d in began[r.device])
            under_way[r.device] -= 1
            if not under_way[r.device]:
                began[r.device] = []
    assert not any(under_way.values())
    assert rig.driver.most_flushes <= 1  # type: ignore[attr-defined]
    if not cache:
        assert not flushes
        return
    for io, (kind, sector, device) in kinds.items():
        flags = KINDS[kind][1]
        if kind == "empty" or not flags & (F_PREFLUSH | F_FUA):
            continue
        end = sector + KINDS[kind][0]
        mine = [(i, r) for i, r in enumerate(records) if r.device == device and sector <= r.sector < end]
        queued = next(i for i, r in mine if r.action == "Q")
        issued = next(i for i, r in mine if r.action == "D")
        written = max(i for i, r in mine if r.action == "C" and r.nr_sectors)
        if flags & F_PREFLUSH:
            assert any(queued < d and c < issued for d, c in flushes.get(device, [])), (io, kind)
        if flags & F_FUA and not fua:
            over = max(i for i, r in mine if r.action == "C")
            assert records[over].time_ns <= ends[io]
            assert any(written < d and c < over for d, c in flushes.get(device, [])), (io, kind)
        if flags & F_FUA and fua:
            assert all("F" in r.rwbs[1:] for _, r in mine if r.action == "D"), (io, kind)
