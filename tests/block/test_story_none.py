"""Stories over tracepoints without a scheduler: what happens to bios, in order, on Linux 6.1 and its neighbours."""

from __future__ import annotations

import pytest
from rig import Rig, ScriptedDriver

from blklab.block.consts import F_SYNC, OP_WRITE, STS_DEV_RESOURCE, STS_RESOURCE


def test_one_bio_is_issued_directly() -> None:
    rig = Rig()
    rig.send([rig.bio(0)]).run()
    assert rig.story() == "Q0+8 G0+8 D0+8 C0+8"
    rig.assert_clean()


def test_a_batch_of_two_is_not_plugged_and_of_three_is() -> None:
    rig = Rig()
    rig.send([rig.bio(0), rig.bio(100)]).run()
    assert "P" not in rig.counts()
    rig = Rig()
    rig.send([rig.bio(0), rig.bio(100), rig.bio(200)]).run()
    assert rig.story("Q P U D") == "Q0+8 P Q100+8 Q200+8 D200+8 D100+8 D0+8"


def test_a_plug_is_issued_first_in_first_out_and_traced_later() -> None:
    # 6.12: rq_list is a FIFO again and blk_mq_plug_issue_direct traces U
    rig = Rig(features={"plug_lifo": 0, "plug_unplug_traced_without_elevator": 1})
    rig.send([rig.bio(0), rig.bio(100), rig.bio(200)]).run()
    assert rig.story("P U D") == "P U3 D0+8 D100+8 D200+8"


@pytest.mark.parametrize(
    ("plug_max", "requests", "plugs"), [(32, 32, 1), (32, 33, 2), (32, 64, 2), (16, 64, 4)]
)
def test_a_plug_holds_as_many_requests_as_its_kernel_lets_it(
    plug_max: int, requests: int, plugs: int
) -> None:
    rig = Rig(features={"plug_max": plug_max})
    rig.send([rig.bio(i * 100) for i in range(requests)]).run()
    assert rig.counts()["P"] == plugs
    assert rig.counts()["D"] == requests


def test_128_kib_flush_the_plug_only_when_another_request_joins() -> None:
    rig = Rig()
    rig.send([rig.bio(i * 8) for i in range(64)]).run()  # 256 KiB merge into one
    assert rig.story("P D") == "P D0+512"
    rig = Rig()
    rig.send([rig.bio(0, 256), rig.bio(10_000), rig.bio(20_000)]).run()
    assert rig.story("P D") == "P D0+256 P D20000+8 D10000+8"


def test_front_merges_of_descending_bios() -> None:
    rig = Rig()
    rig.send([rig.bio(800 - i * 8, op=OP_WRITE, flags=F_SYNC) for i in range(16)]).run()
    assert rig.counts()["F"] == 15
    assert rig.story("D") == "D680+128"


@pytest.mark.parametrize(("nomerges", "merges"), [(0, 15), (1, 15), (2, 0)])
def test_nomerges(nomerges: int, merges: int) -> None:
    # 1 stops only looking beyond last_merge, which the plug does not do (captures merge/*-nomerges*)
    rig = Rig()
    rig.queue.nomerges = nomerges
    rig.send([rig.bio(i * 8) for i in range(16)]).run()
    assert rig.counts()["M"] == merges


def test_a_bio_larger_than_max_sectors_is_split_from_the_front() -> None:
    rig = Rig()
    rig.queue.limits.max_sectors = 256
    rig.send([rig.bio(1, 777)]).run()
    assert rig.story() == (
        "Q1+777 X1+256 G1+256 D1+256 X257+256 G257+256 D257+256 X513+256 G513+256 D513+256 G769+9 D769+9 "
        "C1+256 C257+256 C513+256 C769+9"
    )
    assert rig.ended() == [0]
    rig.assert_clean()


def test_parts_of_a_split_bio_do_not_merge_again() -> None:
    rig = Rig()
    rig.queue.limits.max_sectors = 256
    rig.send([rig.bio(0, 512), rig.bio(512, 512), rig.bio(1024, 512)]).run()
    # Only the rest of a bio may take another one, and that would be too long
    assert rig.counts()["M"] == 0


def test_out_of_tags_the_task_sleeps_and_its_plug_is_flushed() -> None:
    rig = Rig(depth=2)
    rig.send([rig.bio(i * 100) for i in range(4)]).run()
    story = rig.story("P UT I D")
    assert story.startswith("P UT2 I0+8 I100+8 D0+8 D100+8")
    assert sorted(rig.ended()) == [0, 1, 2, 3]
    rig.assert_clean()


def test_without_a_tag_a_sequential_stream_cannot_merge() -> None:
    # captures busy/null-none-depth*: tasks sleep for a tag, nothing merges
    rig = Rig(depth=1, nr_cpus=1)
    rig.send(*[[rig.bio(i * 8)] for i in range(20)]).run()
    assert rig.counts()["M"] == 0
    assert rig.counts()["D"] == 20


def test_without_a_budget_requests_are_inserted_and_merge() -> None:
    driver = ScriptedDriver(service_ns=100_000, budgets=2)
    rig = Rig(driver)
    rig.send(*[[rig.bio(i * 8)] for i in range(40)]).run()
    assert rig.story("I").startswith("I16+8")
    assert rig.counts()["M"] > 30
    assert rig.counts()["M"] + rig.counts()["D"] == 40
    rig.assert_clean()


def test_dispatch_busy_is_the_documented_average() -> None:
    rig = Rig()
    hctx = rig.queue.hctxs[0]
    seen = []
    for _ in range(10):
        hctx.update_busy(True)
        seen.append(hctx.dispatch_busy)
    assert seen == [2, 3, 4, 5, 6, 7, 8, 9, 9, 9]
    seen = []
    for _ in range(9):
        hctx.update_busy(False)
        seen.append(hctx.dispatch_busy)
    assert seen == [7, 6, 5, 4, 3, 2, 1, 0, 0]


def test_resource_is_retried_by_itself_and_device_resource_by_a_completion() -> None:
    driver = ScriptedDriver()
    driver.answers.extend([STS_RESOURCE])
    rig = Rig(driver)
    rig.send([rig.bio(0)]).run()
    assert rig.story() == "Q0+8 G0+8 R0+8 D0+8 C0+8"
    rig.assert_clean()
    driver = ScriptedDriver(service_ns=50_000)
    driver.answers.extend([0, STS_DEV_RESOURCE, STS_DEV_RESOURCE])
    rig = Rig(driver)
    rig.send([rig.bio(0)], [rig.bio(100)]).run()
    assert rig.story("D R C") == "D0+8 R100+8 R100+8 C0+8 D100+8 C100+8"
    rig.assert_clean()


def test_while_the_driver_is_busy_requests_are_inserted_not_issued() -> None:
    driver = ScriptedDriver(service_ns=50_000)
    rig = Rig(driver)
    rig.queue.hctxs[0].dispatch_busy = 9
    rig.send([rig.bio(0)]).run()
    assert rig.story() == "Q0+8 G0+8 I0+8 D0+8 C0+8"


def test_several_hardware_queues_issue_synchronous_requests_directly_though_busy() -> None:
    rig = Rig(nr_cpus=2, nr_hw_queues=2)
    for hctx in rig.queue.hctxs:
        hctx.dispatch_busy = 9
    rig.send([rig.bio(0)]).run()
    assert rig.counts()["I"] == 0
    rig.queue.hctxs[0].dispatch_busy = 9
    rig.send([rig.bio(100, op=OP_WRITE)]).run()  # asynchronous
    assert rig.counts()["I"] == 1


def test_busy_software_queues_are_emptied_one_by_one_in_turn() -> None:
    driver = ScriptedDriver(service_ns=100_000, budgets=1)
    rig = Rig(driver, nr_cpus=3)
    rig.queue.hctxs[0].dispatch_busy = 9
    for cpu in range(3):
        rig.send(*[[rig.bio(1000 * cpu + 100 * i, cpu=cpu)] for i in range(3)], cpu=cpu)
    rig.run()
    cpus = [sector // 1000 for sector, _ in driver.served]
    assert cpus[:3] != [cpus[0]] * 3
    assert sorted(cpus) == [0] * 3 + [1] * 3 + [2] * 3
    assert cpus[3:6] in ([0, 1, 2], [1, 2, 0], [2, 0, 1])


def test_a_device_error_reaches_the_bio_once() -> None:
    driver = ScriptedDriver()
    driver.endings.extend([0, 10])
    rig = Rig(driver)
    rig.queue.limits.max_sectors = 256
    rig.send([rig.bio(0, 512)]).run()
    assert [(io, status) for io, status, _ in rig.senders[0].ended] == [(0, 10)]
    rig.assert_clean()


def test_a_lost_request_times_out() -> None:
    driver = ScriptedDriver()
    driver.answers.append("lose")
    rig = Rig(driver)
    rig.queue.io_timeout_ns = 5_000_000_000
    rig.send([rig.bio(0)]).run()
    assert [(status, at) for _, status, at in rig.senders[0].ended] == [(2, 5_000_000_000)]
    rig.assert_clean()


def test_a_late_request_that_is_given_up_keeps_its_tag_until_the_answer() -> None:
    driver = ScriptedDriver(service_ns=9_000_000_000)
    rig = Rig(driver, depth=4)
    rig.queue.io_timeout_ns = 5_000_000_000
    rig.send([rig.bio(0)]).run(6_000_000_000)
    assert [status for _, status, _ in rig.senders[0].ended] == [2]
    assert rig.queue.hctxs[0].tags.nr_in_use == 1
    rig.run()
    rig.assert_clean()
    assert len(rig.senders[0].ended) == 1


def test_a_late_request_that_is_waited_for_ends_well() -> None:
    driver = ScriptedDriver(service_ns=9_000_000_000)
    driver.give_up = False
    rig = Rig(driver)
    rig.queue.io_timeout_ns = 5_000_000_000
    rig.send([rig.bio(0)]).run()
    assert [status for _, status, _ in rig.senders[0].ended] == [0]
