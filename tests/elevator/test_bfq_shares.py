"""BFQ on a whole machine: the device is shared by the weights of I/O priorities, when all have requests waiting.

What it takes for that: a device that takes one request at a time, so that it is BFQ that decides; budgets that are
small against the run (a queue may be one or two of them off its share, see test_bfq_lags); and enough requests for all,
as no queue may hold more of nr_requests than its share either: it would run dry.
"""

from __future__ import annotations

import pytest

from blklab.metrics.result import RunResult
from blklab.sim.api import simulate
from blklab.sim.machine import load_machine
from blklab.workload.jobfile import parse_job_text

LEVELS = range(8)
WEIGHTS = [80, 70, 60, 50, 40, 30, 20, 10]


BFQ = ("queue/scheduler=bfq", "queue/iosched/low_latency=0", "queue/iosched/max_budget=2048")


def run(levels: list[int], job: str, iodepth: int, *settings: str) -> RunResult:
    device = ("device/irqmode=2", "device/completion_nsec=100000", "device/hw_queue_depth=1", "device/gb=8")
    machine = load_machine("null", settings=[*device, *settings], costs="zero")
    text = (
        f"[global]\ndirect=1\nioengine=libaio\nprioclass=2\niodepth={iodepth}\nruntime=3\ntime_based\n{job}\n"
    )
    for level in levels:
        text += f"[level{level}]\nprio={level}\nsize=1g\noffset={level}g\n"
    return simulate(parse_job_text(text, "test.fio"), machine)


def shares(result: RunResult) -> list[float]:
    sizes = [job.stats.read.bytes + job.stats.write.bytes for job in result.jobs]
    return [size / sum(sizes) for size in sizes]


@pytest.mark.parametrize(
    ("job", "iodepth", "nr_requests"),
    [
        ("rw=read\nbs=64k", 4, 256),
        ("rw=randread\nbs=64k", 4, 256),
        ("rw=write\nbs=64k", 4, 256),
        ("rw=read\nbs=64k", 16, 1024),
        ("rw=randread\nbs=16k", 16, 1024),
    ],
)
def test_the_eight_levels_get_their_weights(job: str, iodepth: int, nr_requests: int) -> None:
    result = run(list(LEVELS), job, iodepth, *BFQ, f"queue/nr_requests={nr_requests}")
    wanted = [weight / sum(WEIGHTS) for weight in WEIGHTS]
    assert shares(result) == pytest.approx(wanted, rel=0.05)


@pytest.mark.parametrize("levels", [[0, 7], [0, 4, 7], [6, 7]])
def test_so_do_some_of_them(levels: list[int]) -> None:
    weights = [WEIGHTS[level] for level in levels]
    wanted = [weight / sum(weights) for weight in weights]
    result = run(levels, "rw=read\nbs=64k", 4, *BFQ, "queue/nr_requests=256")
    assert shares(result) == pytest.approx(wanted, rel=0.05)


def test_without_bfq_the_levels_count_for_nothing() -> None:
    result = run(list(LEVELS), "rw=read\nbs=64k", 4, "queue/scheduler=none")
    assert shares(result) == pytest.approx([1 / 8] * 8, rel=0.05)
