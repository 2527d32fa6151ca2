"""Stories over tracepoints on a single queue: the plug of a queue (to 2.6.38), the plug of a task (2.6.39 to
4.20), the request function, what BUSY does, another scheduler. Orders of events as blk-core.c and elevator.c
of a 2.6.34 and of 3.x trees have them."""

from __future__ import annotations

from typing import Any

import pytest
from rig import MS, NEVER
from single_rig import SingleRig

from blklab.block.attributes import read, write
from blklab.block.consts import (
    DONE,
    F_FUA,
    F_PREFLUSH,
    F_SYNC,
    OP_WRITE,
    STS_DEV_RESOURCE,
    STS_IOERR,
    STS_RESOURCE,
)
from blklab.block.switch import set_elevator
from blklab.core.errors import AttributeRefused, BlklabError

# -- the plug of the queue, before 2.6.39 ---------------------------------------------------------


def test_one_bio_plugs_the_queue_and_the_task_that_waits_opens_it() -> None:
    rig = SingleRig(old=True)
    rig.send([rig.bio(0)]).run()
    assert rig.tell() == "Q0+8 G0+8 P I0+8 U1 D0+8 C0+8"
    rig.assert_clean()


def test_a_batch_is_opened_once_and_merges_meanwhile() -> None:
    rig = SingleRig(old=True)
    rig.send([rig.bio(8), rig.bio(16), rig.bio(0)]).run()
    # noop is not sorted by sector: it finds a front merge only with the request that merged last
    assert rig.tell() == "Q8+8 G8+8 P I8+8 Q16+8 M16+8 Q0+8 F0+8 U1 D0+24 C0+24"


def test_the_fourth_request_opens_the_plug_without_a_trace() -> None:
    rig = SingleRig(old=True)
    rig.send([rig.bio(i * 100) for i in range(5)]).run()
    story = rig.tell("P I U D")
    assert story == "P I0+8 I100+8 I200+8 I300+8 D0+8 D100+8 D200+8 D300+8 P I400+8 U5 D400+8"


def test_the_timer_opens_a_plug_that_nobody_waits_for() -> None:
    rig = SingleRig(old=True)
    rig.path.take()
    rig.path.queue_plug.plug()
    rig.path.give()
    rig.run()
    # 3 ms are one jiffy of 4; UT by the timer, U by kblockd
    assert [(r.action, r.time_ns) for r in rig.records("P U UT")] == [("P", 0), ("UT", 4 * MS), ("U", 4 * MS)]
    assert not rig.path.queue_plug.plugged


def test_a_completion_opens_the_plug() -> None:
    rig = SingleRig(old=True, budgets=4, nr_cpus=2)
    rig.send([rig.bio(0)])
    rig.run(1000)
    # A second task has submitted and is not yet at the point where it waits
    second = rig.senders[1]
    second.plug.start(1)
    second.begin(rig.bio(100, cpu=1))
    assert second.advance() == DONE
    assert rig.path.queue_plug.plugged
    rig.run()
    assert rig.tell("P U D C") == "P U1 D0+8 P C0+8 D100+8 C100+8"


def test_the_waiting_task_traces_u_even_if_the_plug_is_open() -> None:
    rig = SingleRig(old=True)
    rig.send([rig.bio(i * 100) for i in range(4)]).run()
    assert rig.tell("P U D") == "P D0+8 D100+8 D200+8 D300+8 U4"


def test_a_task_without_a_plug_opens_it_at_once() -> None:
    rig = SingleRig(old=True, plug_from=99)
    rig.send([rig.bio(0)]).run()
    assert rig.tell() == "Q0+8 G0+8 P I0+8 D0+8 C0+8"


# -- the plug of the task, since 2.6.39 ------------------------------------------------------------


def test_one_bio_goes_through_the_plug_of_its_task() -> None:
    rig = SingleRig()
    rig.send([rig.bio(0)]).run()
    assert rig.tell() == "Q0+8 G0+8 P I0+8 U1 D0+8 C0+8"


def test_a_plug_is_sorted_when_it_is_flushed_and_u_comes_after_the_inserts() -> None:
    rig = SingleRig()
    rig.send([rig.bio(sector) for sector in (500, 100, 300)]).run()
    assert rig.tell("P I U D") == "P I100+8 I300+8 I500+8 U3 D100+8 D300+8 D500+8"


def test_before_3_8_it_is_flushed_in_order_of_arrival() -> None:
    rig = SingleRig(features={"single_plug_sorted": 0})
    rig.send([rig.bio(sector) for sector in (500, 100, 300)]).run()
    assert rig.tell("I U D") == "I500+8 I100+8 I300+8 U3 D500+8 D100+8 D300+8"


def test_without_a_plug_the_task_inserts_and_runs() -> None:
    rig = SingleRig(plug_from=99)
    rig.send([rig.bio(0)]).run()
    assert rig.tell() == "Q0+8 G0+8 I0+8 D0+8 C0+8"


@pytest.mark.parametrize(("requests", "plugs"), [(16, 1), (17, 2), (33, 3)])
def test_a_plug_holds_16_requests(requests: int, plugs: int) -> None:
    rig = SingleRig()
    rig.send([rig.bio(i * 100) for i in range(requests)]).run()
    assert rig.counts()["P"] == rig.counts()["U"] == plugs
    assert rig.counts()["C"] == requests


def test_128_kib_flush_the_plug_when_another_request_joins() -> None:
    rig = SingleRig(features={"plug_flush_bytes": 131072})
    rig.send([rig.bio(0, 256), rig.bio(10_000), rig.bio(20_000)]).run()
    assert rig.tell("P I U") == "P I0+256 U1 P I10000+8 I20000+8 U2"


def test_a_bio_merges_with_any_request_of_the_plug() -> None:
    rig = SingleRig()
    rig.send([rig.bio(0), rig.bio(1000), rig.bio(8), rig.bio(992)]).run()
    assert rig.tell("M F I") == "M8+8 F992+8 I0+16 I992+16"


def test_a_request_of_the_plug_merges_with_one_that_the_scheduler_has() -> None:
    rig = SingleRig()
    rig.send([rig.bio(0), rig.bio(16), rig.bio(8)]).run()
    # The third bio joins the second, the latest of the plug; then the two touch. I is traced before that is
    # known
    assert rig.tell("F M I U D") == "F8+8 I0+8 I8+16 M8+16 U2 D0+24"
    rig.assert_clean()


def test_a_task_that_sleeps_for_a_request_flushes_its_plug() -> None:
    rig = SingleRig()
    write(rig.queue, "queue/nr_requests", "4")
    rig.send([rig.bio(i * 100) for i in range(8)]).run()
    # 4 and half as many for a batcher; it is woken when fewer than 4 are left
    assert rig.tell("S I UT U C").startswith(
        "S600+8 I0+8 I100+8 I200+8 I300+8 I400+8 I500+8 UT6 C0+8 C100+8 C200+8 I600+8 I700+8 U2"
    )
    rig.assert_clean()


def test_two_devices_in_one_plug_are_flushed_one_after_the_other() -> None:
    rig = SingleRig(devices=2)
    rig.send([rig.bio(300, device=1), rig.bio(0), rig.bio(100, device=1)]).run()
    inserted = [(r.device, r.sector) for r in rig.records("I")]
    assert inserted == [(0, 0), (1, 100), (1, 300)]
    assert [r.extra for r in rig.records("U")] == [1, 2]
    rig.assert_clean()


# -- request_fn ------------------------------------------------------------------------------------


def test_the_driver_sees_one_request_more_than_it_takes() -> None:
    # blk_peek_request traces D before the driver looks whether it has room
    rig = SingleRig(budgets=1)
    rig.send([rig.bio(i * 100) for i in range(3)]).run()
    assert rig.tell("D C") == "D0+8 D100+8 C0+8 D200+8 C100+8 C200+8"
    assert rig.driver.served == [(0, 8), (100, 8), (200, 8)]


def test_a_request_that_the_driver_has_seen_is_not_overtaken() -> None:
    rig = SingleRig(budgets=1, service_ns=100_000)
    rig.send([rig.bio(1000), rig.bio(2000)])
    rig.run(1000)
    rig.send([rig.bio(500)]).run()
    assert rig.tell("D") == "D1000+8 D2000+8 D500+8"


@pytest.mark.parametrize("old", [False, True])
def test_busy_puts_it_back_and_the_next_completion_goes_on(old: bool) -> None:
    rig = SingleRig(old=old)
    rig.driver.answers.extend([0, STS_DEV_RESOURCE])
    rig.send([rig.bio(0), rig.bio(100)]).run()
    assert rig.tell("D R C") == "D0+8 D100+8 R100+8 C0+8 D100+8 C100+8"
    # The requeue is an insertion of its own, at the head
    assert rig.tell("I").split().count("I100+8") == 2
    assert [r.time_ns for r in rig.records("C")] == [10_000, 20_000]
    rig.assert_clean()


def test_busy_with_nothing_under_way_is_tried_again_after_3_ms() -> None:
    rig = SingleRig()
    rig.driver.answers.append(STS_RESOURCE)
    rig.send([rig.bio(0)]).run()
    assert rig.tell("D R C") == "D0+8 R0+8 D0+8 C0+8"
    assert 3 * MS <= rig.records("C")[0].time_ns <= 9 * MS


def test_before_2_6_39_that_is_a_plug_whose_timer_opens_it() -> None:
    rig = SingleRig(old=True)
    rig.driver.answers.append(STS_RESOURCE)
    rig.send([rig.bio(0)]).run()
    assert rig.tell("P U UT D R C") == "P U1 D0+8 R0+8 P UT1 U1 D0+8 C0+8"
    assert rig.records("C")[0].time_ns == 4 * MS + 10_000


def test_an_error_of_the_driver_ends_the_request() -> None:
    rig = SingleRig()
    rig.driver.answers.append(STS_IOERR)
    rig.send([rig.bio(0), rig.bio(100)]).run()
    assert sorted((io, status) for io, status, _ in rig.senders[0].ended) == [(0, STS_IOERR), (1, 0)]
    rig.assert_clean()


def test_the_dispatch_list_goes_round_as_a_disk_does() -> None:
    # elv_dispatch_sort: up from where the last one ended, then from the start
    rig = SingleRig(budgets=1, service_ns=100_000)
    rig.send([rig.bio(5000), rig.bio(6000)])
    rig.run(1000)  # 5000 is served, 6000 has been seen
    rig.send([rig.bio(sector) for sector in (100, 7000, 200, 9000)])
    rig.run(2000)
    rig.path.take()
    scheduler: Any = rig.queue.elevator
    while scheduler.dispatch_requests(True):
        pass
    rig.path.give()
    assert [rq.sector for rq in rig.path.dispatch_list] == [6000, 7000, 9000, 100, 200]
    rig.run()
    rig.assert_clean()


def test_flushes_pass_the_scheduler() -> None:
    rig = SingleRig()
    rig.queue.write_cache = True
    rig.send([rig.bio(0, 8, OP_WRITE, F_SYNC | F_PREFLUSH | F_FUA)]).run()
    kinds = [(r.action, r.rwbs) for r in rig.records("I D C")]
    assert [rwbs for action, rwbs in kinds if action == "D"] == ["FN", "WS", "FN"]
    assert not [action for action, _ in kinds if action == "I"]
    rig.assert_clean()


# -- another scheduler --------------------------------------------------------------------------------


def test_a_switch_drains_the_old_scheduler_while_new_bios_bypass_it() -> None:
    rig = SingleRig(budgets=1, service_ns=100_000)
    rig.send([rig.bio(sector) for sector in (1000, 300, 200, 100)])
    rig.run(1000)
    set_elevator(rig.queue, "deadline")
    assert rig.queue.elevator_name == "noop" and rig.path.bypass
    rig.send([rig.bio(50)])
    rig.run(2000)
    assert rig.records("I")[-1].sector == 50 and rig.path.nr_sorted == 0
    assert rig.path.dispatch_list.tail.sector == 50
    rig.run()
    assert rig.queue.elevator_name == "deadline" and not rig.path.bypass
    assert rig.tracer.messages == ["elv switch: noop", "elv switch: deadline"]
    assert rig.driver.served[-1] == (50, 8)
    rig.assert_clean()


def test_a_single_queue_takes_only_its_own_schedulers() -> None:
    rig = SingleRig(features={"sched_noop": 1, "sched_deadline": 1, "sched_cfq": 1, "sched_none_mq": 0})
    shown = str(read(rig.queue, "queue/scheduler")).split()
    assert shown[:2] == ["[noop]", "deadline"]
    with pytest.raises(BlklabError, match="no 'none' on a single queue"):
        set_elevator(rig.queue, "none")
    with pytest.raises(
        AttributeRefused, match=r"mq-deadline is no scheduler of a single queue.*noop, deadline"
    ):
        set_elevator(rig.queue, "mq-deadline")


def test_nr_requests_is_of_each_side_and_has_a_least() -> None:
    rig = SingleRig()
    assert read(rig.queue, "queue/nr_requests") == 128
    write(rig.queue, "queue/nr_requests", "1")
    assert read(rig.queue, "queue/nr_requests") == 4
    write(rig.queue, "queue/nr_requests", "100000")
    assert rig.path.room.nr_requests == 100_000


def test_nothing_is_under_way_for_ever() -> None:
    rig = SingleRig(service_ns=None)
    rig.send([rig.bio(0)]).run(MS)
    assert rig.path.in_driver == 1 and rig.events.head_ns < NEVER  # the timeout
