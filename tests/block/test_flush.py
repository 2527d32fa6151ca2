"""Flushes, as stories: what becomes of PREFLUSH and FUA on devices with and without a write cache, which flush serves
whom, and what schedulers and counters see of it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from flush_rig import PRE_FUA, SCHEDULERS, CacheDriver, empty, rig_of, statuses, story
from rig import MS, Rig
from stack_rig import StackRig

from blklab.block.attributes import read, write
from blklab.block.bio import Bio
from blklab.block.consts import (
    F_FUA,
    F_PREFLUSH,
    F_SYNC,
    OP_FLUSH,
    OP_WRITE,
    RQF_FLUSH_SEQ,
    STS_OK,
    STS_RESOURCE,
)
from blklab.block.hwqueue import HardwareQueue
from blklab.block.queue import RequestQueue
from blklab.block.request import Request, RequestList
from blklab.block.switch import set_elevator
from blklab.core.clock import Event
from blklab.elevator.mq_deadline import MqDeadline


class Call(Event):
    """Something that happens at a time."""

    def __init__(self, call: Callable[[], object]) -> None:
        self.call = call

    def fire(self, now_ns: int) -> int:
        """It happens."""
        self.call()
        return 0


# -- the policies ---------------------------------------------------------------------


def test_without_a_cache_both_flags_are_dropped_and_an_empty_bio_leaves_no_trace() -> None:
    rig = rig_of(cache=False, fua=True)
    rig.send([rig.bio(8, 8, OP_WRITE, PRE_FUA)], [empty(rig)]).run()
    assert story(rig) == "QW8+8 GW8+8 DW8+8 CW8+8"
    assert statuses(rig) == {0: STS_OK, 1: STS_OK}
    assert rig.queue.hctxs[0].fq is None
    rig.assert_clean()


@pytest.mark.parametrize("scheduler", SCHEDULERS)
@pytest.mark.parametrize(
    ("fua", "flags", "expected"),
    [
        (False, F_PREFLUSH, "QFW8+8 GFW8+8 DFN0+0 CFN0+0 DWS8+8 CWS8+8 CWS8+0"),
        (False, F_FUA, "QWF8+8 GWF8+8 DWS8+8 CWS8+8 DFN0+0 CFN0+0 CWS8+0"),
        (False, PRE_FUA, "QFWF8+8 GFWF8+8 DFN0+0 CFN0+0 DWS8+8 CWS8+8 DFN0+0 CFN0+0 CWS8+0"),
        (True, F_PREFLUSH, "QFW8+8 GFW8+8 DFN0+0 CFN0+0 DWS8+8 CWS8+8 CWS8+0"),
        (True, F_FUA, "QWF8+8 GWF8+8 DWFS8+8 CWFS8+8"),
        (True, PRE_FUA, "QFWF8+8 GFWF8+8 DFN0+0 CFN0+0 DWFS8+8 CWFS8+8 CWFS8+0"),
    ],
)
def test_the_steps_of_each_policy(scheduler: str, fua: bool, flags: int, expected: str) -> None:
    rig = rig_of(True, fua, scheduler)
    rig.send([rig.bio(8, 8, OP_WRITE, flags)]).run()
    assert story(rig) == expected
    rig.assert_clean()


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_an_empty_flush_is_one_flush_and_ends_without_sectors(scheduler: str) -> None:
    rig = rig_of(scheduler=scheduler)
    rig.send([empty(rig)]).run()
    assert story(rig) == "QFWS0+0 GFWS0+0 DFN0+0 CFN0+0 CWS0+0"
    assert statuses(rig) == {0: STS_OK}
    rig.assert_clean()


def test_an_empty_bio_with_preflush_and_fua_flushes_twice_without_fua() -> None:
    # Nobody sends one; the kernel's rule gives a flush before and one after nothing
    rig = rig_of()
    rig.send([rig.bio(0, 0, OP_WRITE, PRE_FUA)]).run()
    assert story(rig, "D C") == "DFN0+0 CFN0+0 DFN0+0 CFN0+0 CWS0+0"


def test_a_plug_holds_neither_flushes_nor_their_data() -> None:
    rig = rig_of(service_ns=1000)
    rig.send([rig.bio(800), rig.bio(8, 8, OP_WRITE, PRE_FUA), empty(rig), rig.bio(1600)]).run()
    assert [r.extra for r in rig.records("U")] == []
    assert rig.counts()["P"] == 1
    assert story(rig, "D").split()[:2] == ["DR1600+8", "DR800+8"]
    rig.assert_clean()


def test_a_flush_bio_never_merges() -> None:
    rig = rig_of(fua=True)
    bios = [rig.bio(8 * i, 8, OP_WRITE, F_FUA if i % 2 else 0) for i in range(8)]
    rig.send(bios).run()
    assert rig.counts()["M"] + rig.counts()["F"] == 0
    assert rig.counts()["D"] == 8


def test_a_bio_that_is_cut_flushes_for_each_part() -> None:
    rig = rig_of()
    rig.queue.limits.max_sectors = 128
    rig.send([rig.bio(0, 256, OP_WRITE, PRE_FUA)]).run()
    assert rig.counts()["Q"] == 1 and rig.counts()["X"] == 1
    data = [word for word in story(rig, "D").split() if word != "DFN0+0"]
    assert data == ["DWS0+128", "DWS128+128"]
    assert statuses(rig) == {0: STS_OK}
    rig.assert_clean()


# -- one flush for many ----------------------------------------------------------------


def test_what_comes_during_a_flush_waits_for_the_next_and_shares_it() -> None:
    rig = rig_of(service_ns=100_000, nr_cpus=4)
    rig.send([empty(rig)]).run(50_000)
    assert rig.counts()["D"] == 1
    for cpu in (1, 2, 3):
        rig.send([empty(rig, cpu)], cpu=cpu)
    rig.run(60_000)
    fq = rig.queue.hctxs[0].fq
    assert fq is not None
    assert (fq.running.count, fq.pending.count) == (1, 3)
    assert rig.counts()["D"] == 1
    rig.run()
    assert fq.nr_flushes == 2
    assert [at for s in rig.senders for _, _, at in s.ended] == [100_000, 200_000, 200_000, 200_000]
    rig.assert_clean()


def test_a_flush_waits_for_data_of_sequences_and_serves_all_that_end_meanwhile() -> None:
    # FUA without FUA: two writes at once, one flush after both
    rig = rig_of(service_ns=None, nr_cpus=2)
    rig.send([rig.bio(8, 8, OP_WRITE, F_FUA)])
    rig.send([rig.bio(800, 8, OP_WRITE, F_FUA, cpu=1)], cpu=1).run(MS)
    driver = rig.driver
    assert sorted(rq.sector for rq in driver.held) == [8, 800]
    driver.finish(driver.held[0])
    rig.run(2 * MS)
    assert rig.counts()["D"] == 2, "data of another sequence is still under way"
    driver.finish(driver.held[0])
    rig.run(3 * MS)
    assert [rq.op for rq in driver.held] == [OP_FLUSH]
    driver.finish(driver.held[0])
    rig.run()
    assert sorted(rig.ended()) == [0, 1]
    rig.assert_clean()


def test_who_has_waited_for_five_seconds_waits_no_longer_for_data() -> None:
    rig = rig_of(service_ns=None, nr_cpus=3)
    rig.send([rig.bio(8, 8, OP_WRITE, F_FUA)]).run(MS)
    rig.send([empty(rig, 1)], cpu=1).run(2 * MS)
    assert rig.counts()["D"] == 1
    # Time alone starts nothing, the next one that comes does
    rig.run(6_000 * MS)
    assert rig.counts()["D"] == 1
    rig.events.at(6_000 * MS + 1, Call(lambda: rig.send([empty(rig, 2)], cpu=2)))
    rig.run(6_001 * MS)
    assert [rq.op for rq in rig.driver.held] == [OP_WRITE, OP_FLUSH]
    rig.driver.finish(rig.driver.held[1])
    rig.run(6_002 * MS)
    assert sorted(rig.ended()) == [1, 2]


def test_plain_data_does_not_hold_up_a_flush() -> None:
    rig = rig_of(service_ns=None, nr_cpus=2)
    rig.send([rig.bio(8, 8, OP_WRITE)]).run(MS)
    rig.send([empty(rig, 1)], cpu=1).run(2 * MS)
    assert [rq.op for rq in rig.driver.held] == [OP_WRITE, OP_FLUSH]


def test_each_hardware_queue_has_a_flush_of_its_own() -> None:
    rig = rig_of(service_ns=None, nr_cpus=2, nr_hw_queues=2)
    for cpu in (0, 1):
        rig.send([empty(rig, cpu)], cpu=cpu)
    rig.run(MS)
    assert [rq.op for rq in rig.driver.held] == [OP_FLUSH, OP_FLUSH]
    assert {rq.hctx for rq in rig.driver.held} == set(rig.queue.hctxs)
    for rq in list(rig.driver.held):
        rig.driver.finish(rq)
    rig.run()
    rig.assert_clean()


# -- schedulers --------------------------------------------------------------------------


class Watching(MqDeadline):
    """mq-deadline that keeps what is inserted, prepared and limited."""

    def __init__(self, queue: RequestQueue) -> None:
        super().__init__(queue)
        self.inserted: list[int] = []
        self.prepared: list[int] = []
        self.limited: list[int] = []

    def insert_requests(self, hctx: HardwareQueue, rqs: RequestList, at_head: bool) -> None:
        """Note, then insert."""
        self.inserted += [rq.sector for rq in rqs]
        super().insert_requests(hctx, rqs, at_head)

    def limit_depth(self, bio: Bio) -> int:
        """Note, and limit nothing."""
        self.limited.append(bio.flags & PRE_FUA)
        return 0

    def prepare_request(self, rq: Request) -> None:
        """Note, then prepare."""
        self.prepared.append(rq.flags)
        super().prepare_request(rq)


@pytest.mark.parametrize("fua", [False, True])
@pytest.mark.parametrize("scheduled", [0, 1])
def test_a_scheduler_sees_no_flush_and_since_6_5_its_data(fua: bool, scheduled: int) -> None:
    rig = Rig(CacheDriver(fua=fua), features={"flush_data_scheduled": scheduled})
    set_elevator(rig.queue, Watching)
    watching = rig.queue.elevator
    assert isinstance(watching, Watching)
    rig.send(
        [rig.bio(8, 8, OP_WRITE, PRE_FUA)],
        [rig.bio(800, 8, OP_WRITE, F_FUA)],
        [empty(rig)],
        [rig.bio(1600, 8, OP_WRITE)],
    ).run()
    assert sorted(watching.inserted) == ([8, 800, 1600] if scheduled else [1600])
    assert len(watching.prepared) == (4 if scheduled else 1)
    assert len(watching.limited) == (4 if scheduled else 1)
    assert sorted(rig.ended()) == [0, 1, 2, 3]
    assert rig.counts()["I"] == len(watching.inserted)
    rig.assert_clean()


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_since_6_5_data_passes_the_scheduler_and_the_sequence_is_the_same(scheduler: str) -> None:
    rig = Rig(CacheDriver(), features={"flush_data_scheduled": 1})
    set_elevator(rig.queue, scheduler)
    rig.send([rig.bio(8, 8, OP_WRITE, PRE_FUA)], [rig.bio(16, 8, OP_WRITE, F_FUA)]).run()
    # The FUA bio's data needs no flush first, and both share the one behind
    expected = (
        "DWS16+8 DFN0+0 CWS16+8 CFN0+0 DWS8+8 CWS8+8 DFN0+0 CFN0+0 CWS16+0 CWS8+0"
        if scheduler == "none"
        else "DFN0+0 DWS16+8 CFN0+0 DWS8+8 CWS16+8 CWS8+8 DFN0+0 CFN0+0 CWS16+0 CWS8+0"
    )
    assert story(rig, "D C") == expected
    assert sorted(rig.ended()) == [0, 1]
    assert rig.counts()["M"] == 0
    rig.assert_clean()


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_since_6_5_nothing_merges_with_the_data_of_a_sequence(scheduler: str) -> None:
    # FUA is gone from the request, so only its sequence tells it from others
    rig = Rig(CacheDriver(), features={"flush_data_scheduled": 1})
    set_elevator(rig.queue, scheduler)
    rig.send(
        [rig.bio(8, 8, OP_WRITE, F_FUA), *(rig.bio(8 * i, 8, OP_WRITE, F_SYNC) for i in (2, 3, 4))]
    ).run()
    assert sorted(rig.driver.served) == [(0, 0), (8, 8), (16, 24)]
    assert statuses(rig) == dict.fromkeys(range(4), STS_OK)
    rig.assert_clean()


def test_a_flush_goes_before_what_the_driver_did_not_take() -> None:
    rig = rig_of(nr_cpus=2)
    rig.driver.answers.extend([STS_RESOURCE] * 2)
    rig.send([rig.bio(800, 8, OP_WRITE)]).run(100)
    assert rig.queue.hctxs[0].dispatch_list.count == 1
    rig.send([empty(rig, 1)], cpu=1).run()
    assert story(rig, "R D") == "RW800+8 RW800+8 DFN0+0 DW800+8"


def test_with_a_scheduler_of_the_whole_device_a_flush_runs_only_its_own_hardware_queue() -> None:
    driver = CacheDriver(service_ns=None)
    driver.budgets, driver.has_budget = 1, True
    rig = Rig(driver, nr_cpus=2, nr_hw_queues=2)
    set_elevator(rig.queue, "bfq")
    # One is in service, the other waits in bfq for its budget, which has both queues look as if they had work
    rig.send([rig.bio(800, 8, OP_WRITE)], [rig.bio(8000, 8, OP_WRITE)]).run(MS)
    before = rig.queue.hctxs[1].run_count
    assert rig.queue.hctxs[1].has_pending()
    rig.send([empty(rig)]).run(2 * MS)
    assert rig.queue.hctxs[1].run_count == before


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_a_sequence_holds_a_driver_tag_only_where_it_must(scheduler: str) -> None:
    rig = rig_of(scheduler=scheduler, service_ns=None, depth=4)
    rig.send([rig.bio(8, 8, OP_WRITE, PRE_FUA)]).run(MS)
    hctx = rig.queue.hctxs[0]
    for op in (OP_FLUSH, OP_WRITE, OP_FLUSH):
        (held,) = rig.driver.held
        assert held.op == op
        assert hctx.tags.nr_in_use == 1
        assert hctx.sched_tags is None or hctx.sched_tags.nr_in_use == 1
        rig.driver.finish(held)
        rig.run(rig.events.now_ns + MS)
    rig.assert_clean()


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_one_tag_is_enough(scheduler: str) -> None:
    # The flush borrows the tag of who waits for it
    rig = rig_of(scheduler=scheduler, depth=1, nr_cpus=3)
    for cpu in range(3):
        rig.send(*[[rig.bio(8 * (cpu + 1), 8, OP_WRITE, PRE_FUA, 0, cpu)] for _ in range(4)], cpu=cpu)
    rig.run()
    assert sorted(rig.ended()) == list(range(12))
    rig.assert_clean()


@pytest.mark.parametrize("scheduler", ["mq-deadline", "bfq"])
def test_schedulers_that_use_driver_tags_lose_none(scheduler: str) -> None:
    rig = Rig(CacheDriver(), nr_cpus=2, depth=512, features={"sched_use_hw_tag": 1})
    set_elevator(rig.queue, scheduler)
    assert rig.queue.hw_tag
    for cpu in (0, 1):
        for _ in range(2):
            rig.send([rig.bio(8, 8, OP_WRITE, PRE_FUA, 0, cpu)], [empty(rig, cpu)], cpu=cpu)
    rig.run()
    assert len(rig.ended()) == 8
    rig.assert_clean()


# -- counters ------------------------------------------------------------------------------


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_the_columns_of_stat(scheduler: str) -> None:
    rig = rig_of(scheduler=scheduler, service_ns=3 * MS)
    rig.send([rig.bio(8, 8, OP_WRITE, PRE_FUA)], [empty(rig)]).run()
    stat = [int(word) for word in str(read(rig.queue, "stat")).split()]
    # The sequence is one write of all its time, an empty flush a write of no sectors, and each flush counts as one
    flushes = rig.counts()["D"] - 1
    assert stat[4:7] == [2, 0, 8]
    assert stat[15] == flushes == 2
    assert 6 <= stat[16] <= 6 + 6
    assert stat[0] == stat[2] == stat[8] == 0


def test_a_device_without_iostats_counts_flushes_all_the_same() -> None:
    # kernel: blk_account_io_flush asks nobody
    rig = rig_of()
    write(rig.queue, "queue/iostats", "0")
    rig.send([empty(rig)]).run()
    stat = [int(word) for word in str(read(rig.queue, "stat")).split()]
    assert stat[4:7] == [0, 0, 0]
    assert stat[15] == 1


def test_the_flag_of_a_sequence_is_gone_when_it_ends() -> None:
    rig = rig_of(service_ns=None)
    rig.send([rig.bio(8, 8, OP_WRITE, F_FUA)]).run(MS)
    (rq,) = rig.driver.held
    assert rq.rq_flags & RQF_FLUSH_SEQ
    rig.driver.finish(rq)
    rig.run(2 * MS)
    rig.driver.finish(rig.driver.held[0])
    rig.run(3 * MS)
    assert rq.rq_flags == 0 and rq.state_name == "free"


def test_a_flush_of_a_partition_is_one_of_its_disk_and_goes_nowhere_on_it() -> None:
    rig = StackRig([1 << 20])
    disk = rig.queues[0]
    disk.write_cache = True
    rig.stack("p1", "partition", device="d0", start="1m", size="1m")
    rig.send(
        [rig.bio_to("p1", 0, 0, OP_WRITE, F_PREFLUSH)], [rig.bio_to("p1", 8, 8, OP_WRITE, F_PREFLUSH)]
    ).run()
    # kernel: blk_partition_remap leaves a bio of no sectors as it is, and traces nothing
    assert story(rig, "A Q D C").split() == [
        *["QFW0+0", "AFW2056+8", "QFW2056+8"],
        *["DFN0+0", "CFN0+0", "CWS0+0", "DFN0+0", "CFN0+0", "DWS2056+8", "CWS2056+8", "CWS2056+0"],
    ]
    rig.assert_all_ended()
