"""Schedulers and nr_requests changed while I/O runs: nothing is lost, whatever the order and the load."""

from __future__ import annotations

import random

import pytest
from rig import MS, Rig, ScriptedDriver

from blklab.block.attributes import write
from blklab.block.consts import F_SYNC, OP_READ, OP_WRITE, STS_DEV_RESOURCE, STS_IOERR, STS_OK, STS_RESOURCE
from blklab.block.elevator import built_in_names
from blklab.core.errors import AttributeRefused
from blklab.core.steps import STEPS

NAMES = ["none", *built_in_names(False)]
# 8 x 1,250 = 10,000 switches and resizes
RUNS = 8
CHANGES = 1_250


def make(seed: int, source: random.Random) -> Rig:
    features = {
        "sched_use_hw_tag": seed % 2,
        "kyber_ctx_queue": source.choice([0, 1, 1]),
        "kyber_histogram": source.choice([0, 1, 1]),
        "mq_deadline_prio": source.choice([0, 1]),
        "mq_deadline_less_locking": source.choice([0, 0, 1]),
        "shared_sched_tags": source.choice([0, 1]),
    }
    driver = ScriptedDriver(service_ns=50_000, budgets=source.choice([None, None, 2]))
    return Rig(
        driver,
        nr_cpus=3,
        nr_hw_queues=source.choice([1, 3]),
        depth=256 if seed % 2 else source.choice([1, 4, 64]),
        hctx_shared=not seed % 2 and source.random() < 0.5,
        features=features,
        costs=[100] * len(STEPS) if source.random() < 0.5 else None,
    )


@pytest.mark.parametrize("seed", range(RUNS))
def test_ten_thousand_switches_and_resizes_under_load_lose_nothing(seed: int, compiled: bool) -> None:
    source = random.Random(seed)
    rig = make(seed, source)
    driver = rig.driver
    sent = 0
    refused = 0
    changes = CHANGES if compiled else CHANGES // 20
    switched: set[str] = set()
    for _ in range(changes):
        for cpu in range(3):
            batch = []
            at = source.randrange(5000)
            for k in range(source.choice([0, 1, 1, 4])):
                op = source.choice([OP_READ, OP_WRITE])
                batch.append(rig.bio((at + k) * 8, 8, op, source.choice([0, F_SYNC]), cpu=cpu))
            if batch:
                sent += len(batch)
                rig.send(batch, cpu=cpu)
        if source.random() < 0.1:
            driver.answers.extend(source.choice([STS_RESOURCE, STS_DEV_RESOURCE, STS_OK]) for _ in range(4))
        if source.random() < 0.05:
            driver.endings.append(STS_IOERR)
        try:
            if source.random() < 0.5:
                name = source.choice(NAMES)
                write(rig.queue, "queue/scheduler", name)
                switched.add(name)
            else:
                write(rig.queue, "queue/nr_requests", str(source.choice([1, 4, 7, 64, 256, 1000, 3000])))
        except AttributeRefused as error:
            assert error.errno == "EINVAL"
            refused += 1
        rig.run(rig.events.now_ns + source.choice([0, 1_000, 60_000, 200_000]))
        rig.tracer.blocks.clear()
    rig.run(rig.events.now_ns + 600_000 * MS)
    assert sorted(rig.ended()) == list(range(sent)), rig.describe()
    assert refused < changes * 2 // 3
    if compiled:
        assert switched == set(NAMES)
    for queue in rig.queues:
        assert queue.freeze_depth == 0 and not queue.quiesced
    rig.assert_clean()


@pytest.mark.parametrize("name", built_in_names(False))
def test_a_switch_waits_for_what_is_in_flight_and_bios_wait_between_q_and_g(name: str) -> None:
    driver = ScriptedDriver(service_ns=5 * MS)
    rig = Rig(driver, nr_cpus=2)
    rig.send([rig.bio(i * 100) for i in range(8)]).run(1 * MS)
    write(rig.queue, "queue/scheduler", name)
    assert rig.queue.elevator is None
    rig.send([rig.bio(5000, cpu=1)], cpu=1).run(2 * MS)
    assert rig.story("Q G").endswith("Q5000+8")
    rig.run(20 * MS)
    queued, got = (next(r for r in rig.records(a) if r.sector == 5000) for a in ("Q", "G"))
    assert got.time_ns == 5 * MS and queued.time_ns <= 1 * MS
    assert rig.queue.elevator_name == name
    write(rig.queue, "queue/scheduler", "none")
    rig.run()
    assert len(rig.ended()) == 9
    rig.assert_clean()
