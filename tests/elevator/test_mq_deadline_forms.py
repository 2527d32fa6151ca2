"""mq-deadline of other kernels, by feature; and the form that was to take its lock less."""

from __future__ import annotations

from typing import Any

import pytest
from deadline_rig import BE, IDLE, RT, DeadlineRig, endless, reads_and_writes
from hypothesis import given
from hypothesis import strategies as st
from rig import MS, Rig, ScriptedDriver

from blklab.block.attributes import read, write
from blklab.block.consts import F_SYNC, OP_WRITE
from blklab.block.switch import set_elevator
from blklab.core.errors import AttributeRefused
from blklab.core.steps import NR_STEPS, STEP_LOCK_HANDOVER, STEP_LOCK_SCHED, STEP_MQ_DEADLINE
from blklab.sim.build import build
from blklab.sim.machine import load_machine
from blklab.sim.run import Run
from blklab.workload.jobfile import parse_job_text

OLD = {"mq_deadline_prio": 0, "mq_deadline_prio_aging": 0}
NO_AGING = {"mq_deadline_prio_aging": 0}
LATEST = {"mq_deadline_latest_pos": 1, "sched_async_depth_whole": 1}
LESS_LOCKING = {"mq_deadline_less_locking": 1}
FORMS = [OLD, NO_AGING, {}, LATEST, LESS_LOCKING]


# -- before 5.14 -------------------------------------------------------------------------------


def test_before_5_14_there_are_no_classes_and_no_async_depth() -> None:
    rig = DeadlineRig(features=OLD).occupy()
    rig.queue_up(rig.read(100, ioprio=IDLE), rig.read(200, ioprio=BE), rig.read(300, ioprio=RT)).run()

    assert rig.order() == [100, 200, 300]
    assert [a.path for a in rig.deadline.attributes()] == [
        "read_expire",
        "write_expire",
        "writes_starved",
        "front_merges",
        "fifo_batch",
    ]
    assert [a.path for a in rig.deadline.debug_attributes()] == [
        "read_fifo_list",
        "read_next_rq",
        "write_fifo_list",
        "write_next_rq",
        "dispatch",
        "batching",
        "starved",
    ]
    with pytest.raises(AttributeRefused, match="ENOENT"):
        rig.tune("async_depth", 8)
    with pytest.raises(AttributeRefused, match="ENOENT"):
        rig.tune("prio_aging_expire", 8)


def test_before_5_14_writes_may_take_all_tags() -> None:
    rig = DeadlineRig(service_ns=None, features=OLD)
    write(rig.queue, "queue/nr_requests", "64")
    write(rig.queue, "queue/nr_requests", "128")
    rig.queue_up([rig.bio(i * 100, op=OP_WRITE) for i in range(200)])

    assert len(rig.records("G")) == 128


@pytest.mark.parametrize(
    ("features", "reads"),
    # Behind the writes reads go on with 400, or begin again with the oldest, 100
    [(OLD, [300, 350, 100, 400]), ({}, [300, 350, 400, 100])],
)
def test_before_5_14_a_change_of_direction_began_at_the_oldest(
    features: dict[str, int], reads: list[int]
) -> None:
    rig = DeadlineRig(features=features, tunables={"fifo_batch": 2, "writes_starved": 1}).occupy()
    rig.queue_up(rig.read(300, 100, 350, 400), rig.write(9000)).run()

    assert [sector for sector in rig.order() if sector != 9000] == reads


# -- 5.14 and 5.15 -----------------------------------------------------------------------------


def test_without_aging_a_lower_class_goes_on_whenever_no_higher_one_waits() -> None:
    rig = DeadlineRig(at_once=2, service_ns=None, features=NO_AGING)
    rig.queue_up(rig.read(100, ioprio=RT), rig.read(200, ioprio=BE))

    assert rig.order() == [100, 200]


def test_without_aging_a_high_class_starves_a_low_one() -> None:
    rig = DeadlineRig(service_ns=200 * MS, features=NO_AGING)
    endless(rig, BE, 30_000 * MS)
    rig.queue_up(rig.read(1 << 20, ioprio=IDLE)).run()

    assert rig.order()[-1] == 1 << 20
    rig.assert_clean()


# -- 6.12 --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("features", "order"), [(LATEST, [100, 200, 300]), ({}, [100, 300, 200])])
def test_6_12_goes_on_at_a_sector_and_not_with_a_request(features: dict[str, int], order: list[int]) -> None:
    rig = DeadlineRig(service_ns=None, features=features).occupy()
    rig.queue_up(rig.read(100, 300))
    rig.driver.finish(rig.driver.held[0])
    rig.wait(MS)
    # 100 is in the driver, 300 is next
    rig.queue_up(rig.read(200))
    rig.driver.service_ns = 1000
    rig.driver.finish(rig.driver.held[0])
    rig.run()

    assert rig.order() == order
    rig.assert_clean()


def test_6_12_has_one_list_for_what_is_inserted_at_the_head() -> None:
    rig = DeadlineRig(service_ns=None, features=LATEST)
    rig.queue_up(rig.read(500, ioprio=IDLE)).queue_up(rig.read(100, ioprio=RT))
    rig.give_back()
    shown = read(rig.queue, "sched/dispatch")
    rig.run()

    assert shown == 1
    assert rig.order() == [500, 500, 100]
    rig.assert_clean()


def test_6_12_gives_async_depth_as_it_is() -> None:
    rig = DeadlineRig(service_ns=None, features=LATEST, tunables={"async_depth": 16})
    write(rig.queue, "queue/nomerges", "2")
    rig.queue_up([rig.bio(i * 8, op=OP_WRITE, flags=F_SYNC) for i in range(200)])

    # 16 of each of four words, where it would have been 4
    assert len(rig.records("G")) == 64


# -- less locking ------------------------------------------------------------------------------


def test_less_locking_sorts_in_at_dispatch() -> None:
    rig = DeadlineRig(service_ns=None, features=LESS_LOCKING).occupy()
    rig.queue_up(rig.read(300, 100, 200))
    assert [r.sector for r in rig.records("I")] == [1 << 24]
    assert rig.deadline.has_work(rig.queue.hctxs[0])
    assert read(rig.queue, "sched/read1_fifo_list") == 0

    rig.driver.service_ns = 1000
    rig.driver.finish(rig.driver.held[0])
    rig.run()
    assert rig.order() == [300, 100, 200]
    assert not rig.deadline.has_work(rig.queue.hctxs[0])
    rig.assert_clean()


def test_less_locking_merges_requests_when_it_sorts_them_in() -> None:
    rig = DeadlineRig(features=LESS_LOCKING).occupy()
    rig.queue_up(rig.read(100, 108, 116, 300)).run()

    assert rig.story("M D").split(" ", 1)[1] == "M108+8 M116+8 D100+24 D300+8"
    assert len(rig.ended()) == 5
    rig.assert_clean()


def contended(features: dict[str, int], nr_cpus: int = 8) -> tuple[Any, list[int]]:
    """Many CPUs send to one hardware queue, with locks that cost: the scheduler, and the bios that ended."""
    costs = [100] * NR_STEPS
    costs[STEP_MQ_DEADLINE] = 600
    costs[STEP_LOCK_SCHED] = 20
    costs[STEP_LOCK_HANDOVER] = 300
    rig = Rig(ScriptedDriver(5000), nr_cpus=nr_cpus, depth=256, features=features, costs=costs)
    set_elevator(rig.queue, "mq-deadline")
    for cpu in range(nr_cpus):
        rig.send(*[[rig.bio(1000 * (40 * cpu + i), cpu=cpu)] for i in range(40)], cpu=cpu)
    rig.run()
    rig.assert_clean()
    return rig.queue.elevator, rig.ended()


def test_less_locking_spins_less_and_loses_nothing() -> None:
    locked, locked_ended = contended({})
    less, less_ended = contended(LESS_LOCKING)

    assert sorted(less_ended) == sorted(locked_ended) == list(range(320))
    assert less.lock.contended < locked.lock.contended // 3
    assert less.lock.spin_ns + less.insert_lock.spin_ns < locked.lock.spin_ns // 2


# The series' own test: reads of 512 bytes by 32 threads, each four at a time, on a null_blk with one hardware queue
SCALE_JOB = """
[scale]
ioengine=io_uring
direct=1
rw=randread
bs=512
norandommap
thread
numjobs=32
iodepth=4
iodepth_batch_submit=4
iodepth_batch_complete_min=4
number_ios=60
"""


def scale(less_locking: int) -> tuple[float, float]:
    """IOPS, and the share of all CPU time that goes into waiting for the scheduler's locks."""
    machine = load_machine(
        "null",
        settings=[
            "cpu/count=32",
            "queue/scheduler=mq-deadline",
            f"feature/mq_deadline_less_locking={less_locking}",
        ],
        costs="icpe24",
    )
    built = build(machine, 1)
    result = Run(built, parse_job_text(SCALE_JOB, "scale.fio")).run()
    elevator: Any = built.queue("nullb0").elevator
    ios = sum(job.stats.read.done_ios for job in result.jobs)
    spun = elevator.lock.spin_ns + elevator.insert_lock.spin_ns
    return ios / built.events.now_ns * 1e9, spun / sum(cpu.busy_ns for cpu in built.host.cpus)


def test_less_locking_scales() -> None:
    """Published: 879K IOPS with 93.6% of the time waiting for locks, and 2867K with 6%. The cost table is of another
    machine, so the figures are not these; but most of the time goes into waiting, and little does afterwards."""
    (before, waiting_before), (after, waiting_after) = scale(0), scale(1)

    assert after > 2 * before
    assert waiting_before > 0.8
    assert waiting_after < 0.1


# -- all of them -------------------------------------------------------------------------------


@given(
    form=st.sampled_from(FORMS),
    bios=st.lists(
        st.tuples(st.integers(0, 60), st.booleans(), st.sampled_from([0, RT, BE, IDLE])),
        min_size=1,
        max_size=60,
    ),
    at_once=st.integers(1, 3),
)
def test_every_form_issues_all_that_it_is_given(
    form: dict[str, int], bios: list[tuple[int, bool, int]], at_once: int
) -> None:
    rig = DeadlineRig(at_once, features=form, tunables={"fifo_batch": 3}).occupy()
    batches = [
        rig.write(8 * at, ioprio=ioprio) if is_write else rig.read(8 * at, ioprio=ioprio)
        for at, is_write, ioprio in bios
    ]
    rig.queue_up(*batches).run()

    assert sorted(rig.ended()) == list(range(len(bios) + 1))
    assert rig.deadline.held == 0
    for io_class in (rig.deadline.rt, rig.deadline.be, rig.deadline.idle):
        assert io_class.inserted == io_class.completed == io_class.dispatched + io_class.merged
        for line in (io_class.reads, io_class.writes):
            assert line.fifo.count == line.tree.count == 0
    rig.assert_clean()


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_two_reads_for_a_write(form: dict[str, int]) -> None:
    rig = DeadlineRig(features=form, tunables={"fifo_batch": 4})
    rig.occupy(OP_WRITE).queue_up(*reads_and_writes(rig, 60)).run()

    assert rig.runs()[:6] == [("R", 8), ("W", 4)] * 3
