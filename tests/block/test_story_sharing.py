"""Stories with several CPUs, hardware queues, devices, and a scheduler that is switched under load."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from rig import MS, Rig, ScriptedDriver

from blklab.block.attributes import attribute_paths, read, write
from blklab.block.consts import F_NOWAIT, F_SYNC, OP_WRITE
from blklab.block.elevator import find_elevator
from blklab.block.switch import set_elevator
from blklab.core.errors import AttributeRefused, BlklabError
from blklab.core.steps import STEPS

FIFO = f"{Path(__file__).parents[2] / 'examples' / 'schedulers' / 'fifo.py'}:Fifo"


def test_cpus_map_to_hardware_queues_in_turn() -> None:
    rig = Rig(nr_cpus=4, nr_hw_queues=2)
    assert [hctx.cpus for hctx in rig.queue.hctxs] == [[0, 2], [1, 3]]  # capture smp4/none-2queues
    assert Rig(nr_cpus=2, nr_hw_queues=8).queue.nr_hw_queues == 2


def test_two_devices_share_tags_fairly() -> None:
    driver = ScriptedDriver(service_ns=None)
    rig = Rig(driver, nr_cpus=2, depth=32, devices=2)
    rig.send(*[[rig.bio(i * 100, device=0, cpu=0)] for i in range(40)], cpu=0).run(MS)
    assert rig.queues[0].hctxs[0].user.nr_active == 32  # alone it may have them all
    rig.send(*[[rig.bio(i * 100, device=1, cpu=1)] for i in range(40)], cpu=1).run(2 * MS)
    while driver.held and rig.queues[1].hctxs[0].user.nr_active < 16:
        driver.finish(driver.held[0])
        rig.run(rig.events.now_ns + MS)
        if rig.queues[1].hctxs[0].user.active:
            assert rig.tag_set.tags[0].active_queues == 2
    assert rig.queues[0].hctxs[0].user.nr_active <= 17
    driver.service_ns = 1000
    for rq in list(driver.held):
        driver.finish(rq)
    rig.run()
    assert len(rig.ended()) == 80
    rig.assert_clean()


def test_a_share_is_at_least_four() -> None:
    driver = ScriptedDriver(service_ns=None)
    rig = Rig(driver, depth=8, devices=8, nr_cpus=8)
    for cpu in range(8):
        rig.send(*[[rig.bio(i * 100, device=cpu, cpu=cpu)] for i in range(8)], cpu=cpu)
    rig.run(MS)
    assert max(q.hctxs[0].user.nr_active for q in rig.queues) <= 8
    driver.service_ns = 1000
    for rq in list(driver.held):
        driver.finish(rq)
    rig.run()
    assert len(rig.ended()) == 64
    rig.assert_clean()


def test_reserved_tags_are_not_given_to_ordinary_requests() -> None:
    driver = ScriptedDriver(service_ns=None)
    rig = Rig(driver, depth=8, reserved=3)
    rig.send(*[[rig.bio(i * 100)] for i in range(8)]).run(MS)
    assert len(driver.held) == 5
    assert {rq.tag for rq in driver.held} == {3, 4, 5, 6, 7}


def test_host_wide_tags_are_one_bitmap() -> None:
    driver = ScriptedDriver(service_ns=None)
    rig = Rig(driver, nr_cpus=4, nr_hw_queues=4, depth=6, hctx_shared=True)
    for cpu in range(4):
        rig.send(*[[rig.bio(1000 * cpu + i * 100, cpu=cpu)] for i in range(4)], cpu=cpu)
    rig.run(MS)
    assert len(driver.held) == 6
    driver.service_ns = 1000
    for rq in list(driver.held):
        driver.finish(rq)
    rig.run()
    assert len(rig.ended()) == 16
    rig.assert_clean()


@pytest.mark.parametrize(("affinity", "cpu"), [(0, 0), (1, 0), (2, 1)])
def test_rq_affinity(affinity: int, cpu: int) -> None:
    class FirstCpu(ScriptedDriver):
        def irq_cpu(self, rq):  # type: ignore[no-untyped-def]
            return 0

    rig = Rig(FirstCpu(), nr_cpus=2)
    rig.queue.rq_affinity = affinity
    rig.send([rig.bio(0, cpu=1)], cpu=1).run()
    assert [r.cpu for r in rig.records("C")] == [cpu]


def test_rq_affinity_1_goes_home_when_no_cache_is_shared() -> None:
    class FirstCpu(ScriptedDriver):
        def irq_cpu(self, rq):  # type: ignore[no-untyped-def]
            return 0

    rig = Rig(FirstCpu(), nr_cpus=2)
    rig.host.llc_cpus = 1
    rig.send([rig.bio(0, cpu=1)], cpu=1).run()
    assert [r.cpu for r in rig.records("C")] == [1]


def test_nowait_ends_with_eagain_instead_of_sleeping() -> None:
    rig = Rig(ScriptedDriver(service_ns=MS), depth=1)
    rig.send([rig.bio(0)], [rig.bio(100, flags=F_NOWAIT)]).run()
    assert [(io, status) for io, status, _ in rig.senders[0].ended] == [(1, 12), (0, 0)]
    rig.assert_clean()


# -- a user's scheduler ------------------------------------------------------------


def test_a_scheduler_from_a_file_keeps_the_order() -> None:
    rig = Rig(ScriptedDriver(service_ns=10_000))
    set_elevator(rig.queue, FIFO)
    rig.send([rig.bio(i * 100) for i in range(5)]).run()
    assert rig.story("P U I D") == ("P U5 I0+8 I100+8 I200+8 I300+8 I400+8 D0+8 D100+8 D200+8 D300+8 D400+8")
    rig.assert_clean()


def test_with_a_scheduler_a_single_request_is_dispatched_by_a_worker() -> None:
    rig = Rig()
    set_elevator(rig.queue, FIFO)
    rig.send([rig.bio(0)]).run()
    records = rig.records()
    assert [r.action for r in records] == ["Q", "G", "I", "D", "C"]
    assert records[2].pid == 100 and records[3].pid == 1000
    rig = Rig(features={"async_dispatch_from_worker": 0})
    set_elevator(rig.queue, FIFO)
    rig.send([rig.bio(0)]).run()
    assert [r.pid for r in rig.records("D")] == [100]


def test_a_scheduler_has_its_own_tags_and_takes_driver_tags_at_dispatch() -> None:
    driver = ScriptedDriver(service_ns=None)
    rig = Rig(driver, depth=4)
    set_elevator(rig.queue, FIFO)
    assert read(rig.queue, "queue/nr_requests") == 8
    rig.send(*[[rig.bio(i * 100)] for i in range(10)]).run(MS)
    assert read(rig.queue, "hctx0/sched_tags_busy") == 8
    assert read(rig.queue, "hctx0/tags_busy") == 4
    driver.service_ns = 1000
    for rq in list(driver.held):
        driver.finish(rq)
    rig.run()
    assert len(rig.ended()) == 10
    rig.assert_clean()


FLAG = {"sched_use_hw_tag": 1}


def test_hw_tags_are_one_allocation() -> None:
    rig = Rig(depth=256, features=FLAG)
    set_elevator(rig.queue, FIFO)
    assert rig.queue.hw_tag and rig.queue.hctxs[0].sched_tags is None
    rig.send([rig.bio(i * 100) for i in range(5)]).run()
    assert len(rig.ended()) == 5
    rig.assert_clean()
    shallow = Rig(depth=32, features=FLAG)
    why = r"has 32 driver tags a hardware queue, a scheduler wants 64 \(EINVAL"
    with pytest.raises(AttributeRefused, match=why):
        set_elevator(shallow.queue, FIFO)
    assert shallow.queue.elevator is None
    two_devices = Rig(depth=256, devices=2, features=FLAG)
    for shared in (two_devices, Rig(depth=256, nr_cpus=2, nr_hw_queues=2, hctx_shared=True, features=FLAG)):
        with pytest.raises(AttributeRefused, match="shared by"):
            set_elevator(shared.queue, FIFO)


def test_switching_under_load_stalls_between_q_and_g() -> None:
    driver = ScriptedDriver(service_ns=5 * MS)
    rig = Rig(driver, nr_cpus=2)
    rig.send([rig.bio(i * 100) for i in range(8)]).run(MS)
    set_elevator(rig.queue, FIFO)
    assert rig.queue.elevator is None and rig.queue.freeze_depth == 1
    rig.send([rig.bio(5000, cpu=1)], cpu=1).run(2 * MS)
    assert rig.story("Q G").endswith("Q5000+8")
    rig.run()
    q, g = (next(r for r in rig.records(a) if r.sector == 5000) for a in ("Q", "G"))
    assert g.time_ns >= 5 * MS > q.time_ns
    assert rig.queue.elevator_name == FIFO and len(rig.ended()) == 9
    rig.assert_clean()


def test_changes_are_made_in_the_order_they_were_asked_for() -> None:
    driver = ScriptedDriver(service_ns=5 * MS)
    rig = Rig(driver)
    rig.send([rig.bio(0)]).run(MS)
    set_elevator(rig.queue, FIFO)
    set_elevator(rig.queue, "none")
    rig.run()
    assert rig.queue.elevator is None and rig.queue.freeze_depth == 0
    rig.send([rig.bio(0)]).run()
    assert len(rig.ended()) == 2


# -- attributes ---------------------------------------------------------------------


def test_attributes_read_as_the_kernel_shows_them() -> None:
    rig = Rig()
    q = rig.queue
    assert str(read(q, "queue/scheduler")).startswith("[none]")
    assert read(q, "queue/nr_requests") == 64
    assert read(q, "queue/max_sectors_kb") == 1280
    assert read(q, "hctx0/dispatch_busy") == 0
    assert "queue/nomerges" in attribute_paths(q)


@pytest.mark.parametrize(
    ("path", "value", "errno", "reason"),
    [
        ("queue/max_sectors_kb", "4096", "EINVAL", "above max_hw_sectors_kb, which is 1280"),
        ("queue/max_sectors_kb", "2", "EINVAL", "below a page"),
        ("queue/max_sectors_kb", "many", "EINVAL", "not a decimal number"),
        ("queue/nr_requests", "65", "EINVAL", "above the 64 tags of the driver"),
        ("queue/max_hw_sectors_kb", "128", "EACCES", "read-only"),
        ("queue/io_timeout", "0", "EINVAL", "out of range"),
        ("queue/write_cache", "write back", "EINVAL", "no write cache"),
        ("queue/nomerge", "1", "ENOENT", "did you mean 'queue/nomerges'"),
        ("queue/iosched/read_expire", "1", "ENOENT", "the scheduler none has no 'read_expire'"),
        ("queue/scheduler", "kybr", "EINVAL", "no scheduler 'kybr'"),
    ],
)
def test_what_the_kernel_refuses_is_refused_with_its_reason(
    path: str, value: str, errno: str, reason: str
) -> None:
    rig = Rig()
    with pytest.raises(AttributeRefused, match=reason) as caught:
        write(rig.queue, path, value)
    assert caught.value.errno == errno
    assert str(caught.value).startswith(f"dev0: {path}")


def test_nr_requests_below_four_becomes_four() -> None:
    rig = Rig()
    write(rig.queue, "queue/nr_requests", "1")
    assert rig.queue.nr_requests == 4
    rig.send([rig.bio(i * 100) for i in range(10)]).run()
    assert len(rig.ended()) == 10
    rig.assert_clean()


def test_io_timeout_is_in_jiffies() -> None:
    rig = Rig()
    write(rig.queue, "queue/io_timeout", "5001")
    assert read(rig.queue, "queue/io_timeout") == 5004


def test_a_file_without_the_class_says_which_it_has() -> None:
    with pytest.raises(BlklabError, match="it has: Fifo"):
        find_elevator(FIFO.replace(":Fifo", ":Lifo"))
    with pytest.raises(BlklabError, match="no such file"):
        find_elevator("nowhere.py:Fifo")


def test_a_file_that_fails_says_why(tmp_path: Path) -> None:
    path = tmp_path / "broken.py"
    path.write_text("import nothing_of_that_name\n")
    with pytest.raises(BlklabError, match="ModuleNotFoundError"):
        find_elevator(f"{path}:X")
    sys.modules.pop("blklab_user_broken", None)


# -- seed 002's patches are three flags ------------------------------------------------


def test_one_by_one_under_a_budget_before_dispatch_busy() -> None:
    # Dequeued one by one, requests stay where bios can merge with them; flushed, they wait on the dispatch
    # list
    old = {"dispatch_busy": 0, "dispatch_busy_with_elevator": 0, "direct_issue_if_idle": 0}
    merges = {}
    for one_by_one in (0, 1):
        driver = ScriptedDriver(service_ns=None, budgets=1)
        rig = Rig(driver, features={**old, "dequeue_one_by_one_with_budget": one_by_one})
        rig.send([rig.bio(0)], [rig.bio(100)], [rig.bio(200)]).run(MS)
        rig.send([rig.bio(208)]).run(2 * MS)
        merges[one_by_one] = rig.counts()["M"]
        driver.service_ns = 1000
        for rq in list(driver.held):
            driver.finish(rq)
        rig.run()
        assert len(rig.ended()) == 4
        rig.assert_clean()
    assert merges == {0: 0, 1: 1}


def test_splice_or_one_by_one_gives_the_same_trace_and_holds_the_lock_longer() -> None:
    cost = [100 if name in ("insert", "lock_ctx") else 0 for name, _ in STEPS]
    held = {}
    stories = {}
    for splice in (0, 1):
        rig = Rig(features={"list_splice_insert": splice, "plug_issue_direct": 0}, costs=cost)
        rig.queue.hctxs[0].dispatch_busy = 9
        rig.send([rig.bio(i * 100, op=OP_WRITE, flags=F_SYNC) for i in range(8)]).run()
        held[splice] = rig.queue.ctxs[0].lock.held_ns
        stories[splice] = rig.story("I D")
        assert rig.counts()["I"] == 8
    assert stories[0] == stories[1]
    assert held[0] >= held[1] + 800


def test_merging_is_only_tried_where_something_is_queued() -> None:
    cost = [1] * len(STEPS)
    taken = {}
    for only in (0, 1):
        rig = Rig(features={"merge_only_if_queued": only}, costs=cost)
        rig.send([rig.bio(0)], [rig.bio(100)], [rig.bio(200)]).run()
        taken[only] = rig.queue.ctxs[0].lock.taken
    assert taken == {0: 3, 1: 0}
