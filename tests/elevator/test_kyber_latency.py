"""kyber's heuristics: by numbers, by the clock, and the depth traces that were seen on real machines."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kyber_rig import AGES, KyberRig
from rig import MS

from blklab.block.attributes import write
from blklab.block.consts import OP_WRITE, TR_MSG
from blklab.block.trace import Tracer
from blklab.elevator.kyber.latency import (
    AWFUL,
    BAD,
    GOOD,
    GREAT,
    NO_SAMPLES,
    fair_depth,
    latency_status,
    other_depth,
    percentile_bucket,
)
from blklab.sim.build import build
from blklab.sim.machine import load_machine
from blklab.sim.run import Run
from blklab.workload.jobfile import parse_job_text

JIFFY = 4 * MS

# -- since 4.20: histograms ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target_ns", "latency_ns", "bucket"),
    [
        (2_000_000, 0, 0),
        (2_000_000, 1, 0),
        (2_000_000, 500_000, 0),
        (2_000_000, 500_001, 1),
        (2_000_000, 1_500_000, 2),
        (2_000_000, 2_000_000, 3),
        (2_000_000, 2_000_001, 4),
        (2_000_000, 3_500_000, 6),
        (2_000_000, 3_500_001, 7),
        (2_000_000, 10**12, 7),
        # No target: what took 1 ns is good, what took 5 is not
        (0, 0, 0),
        (0, 1, 0),
        (0, 4, 3),
        (0, 5, 4),
        (3, 9, 7),
        (1_000_000_000, 80_000, 0),
    ],
)
def test_a_bucket_is_a_quarter_of_the_target(target_ns: int, latency_ns: int, bucket: int) -> None:
    domain = KyberRig().kyber.domains[0]
    domain.target_ns = target_ns
    domain.sample(latency_ns, 0)
    domain.sample(0, latency_ns)

    assert domain.total_samples[bucket] == 1 + (bucket == 0)
    assert domain.io_samples[bucket] == 1 + (bucket == 0)
    assert sum(domain.total_samples) == sum(domain.io_samples) == 2


@given(buckets=st.lists(st.integers(0, 1000), min_size=8, max_size=8), percentile=st.sampled_from([90, 99]))
def test_a_percentile_is_the_first_bucket_that_reaches_it(buckets: list[int], percentile: int) -> None:
    reached = [sum(buckets[: k + 1]) * 100 >= sum(buckets) * percentile for k in range(8)]

    assert percentile_bucket(buckets, percentile) == reached.index(True)


SAMPLES = {  # p90 of the device, p99 of the whole, as buckets from 0
    "good": (0, 0),
    "half": (1, 1),
    "late": (3, 5),  # the device is good, the queue is not
    "bad": (7, 7),
    "none": None,
}


def look(rig: KyberRig, *domains: str) -> list[int]:
    """Fill the histograms of READ, WRITE and let the timer come; the depths after that."""
    kyber = rig.kyber
    for domain, name in zip(kyber.domains, domains, strict=False):
        found = SAMPLES[name]
        if found is not None:
            domain.io_samples[found[0]] += 600
            domain.total_samples[found[1]] += 600
    kyber.latencies.arm(0)
    rig.run()
    return [domain.tokens.depth for domain in kyber.domains]


@pytest.mark.parametrize(
    ("read", "write", "depths"),
    [
        ("good", "good", [256, 128]),
        ("good", "late", [256, 128]),  # up, but there is nothing above
        ("good", "bad", [64, 128]),
        ("bad", "good", [256, 32]),
        ("half", "bad", [128, 128]),
        ("bad", "bad", [256, 128]),
        ("bad", "none", [256, 128]),
        ("none", "bad", [256, 128]),
    ],
)
def test_congestion_scales_each_domain_by_its_own_latency(read: str, write: str, depths: list[int]) -> None:
    assert look(KyberRig(), read, write) == [*depths, 64, 16]


def test_a_domain_that_is_late_gets_tokens_back_without_congestion() -> None:
    rig = KyberRig(tokens=(10, 10))

    assert look(rig, "late", "good")[:2] == [15, 10]
    assert rig.messages() == [
        "kyber_latency READ I/O p90 4/4 samples=600",
        "kyber_latency WRITE I/O p90 1/4 samples=600",
        "kyber_latency READ total p99 6/4 samples=600",
        "kyber_adjust READ 15",
        "kyber_latency WRITE total p99 1/4 samples=600",
    ]


def test_a_remembered_p99_is_used_by_the_next_congestion_once() -> None:
    rig = KyberRig()
    assert look(rig, "good", "none")[:2] == [256, 128]
    assert look(rig, "none", "bad")[:2] == [64, 128]
    # Without fresh samples congestion does not throttle it again
    assert look(rig, "none", "bad")[:2] == [64, 128]
    assert look(rig, "good", "bad")[:2] == [16, 128]


def test_the_least_is_one_token() -> None:
    rig = KyberRig(tokens=(2,))
    assert look(rig, "good", "bad")[0] == 1
    assert look(rig, "good", "bad")[0] == 1
    assert rig.messages("adjust") == ["READ 1"]


def test_the_first_completion_arms_the_timer_26_jiffies_on() -> None:
    for at_ns in (0, 1, 3_999_000, 4_000_000, 50_123_456):
        rig = KyberRig(10_000)
        rig.wait(at_ns).send([rig.bio(0)]).run(at_ns + 20_000)
        ended_ns = rig.records("C")[0].time_ns
        rig.kyber.domains[0].io_samples[0] = 600
        rig.run()
        looked = [r.time_ns for r in rig.tracer if r.action == "m"]

        assert looked == [(ended_ns // JIFFY + 26) * JIFFY]


def test_few_samples_will_do_when_the_first_is_a_second_old() -> None:
    # The timer finds one sample at 104 ms, and the second counts from there. One timeout serves both kinds of latency:
    # the kind that is asked first uses it up, and the other waits for 500 samples
    rig = KyberRig(10_000)
    for k in range(60):
        rig.one(100 * k).wait(50 * MS)
    rig.run()
    said = [(r.time_ns, rig.tracer.messages[r.extra]) for r in rig.tracer if r.action == "m"]

    assert {text.split(" samples")[0] for _, text in said} == {"kyber_latency READ I/O p90 1/4"}
    assert said[0][0] >= 104 * MS + 1000 * MS
    assert 2 <= len(said) <= 3


# -- before: means -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mean_ns", "status"),
    [(0, GREAT), (500, GREAT), (501, GOOD), (1000, GOOD), (1001, BAD), (1999, BAD), (2000, AWFUL)],
)
def test_how_a_domain_does(mean_ns: int, status: int) -> None:
    assert latency_status(7, mean_ns, 1000) == status
    assert latency_status(0, mean_ns, 1000) == NO_SAMPLES


@pytest.mark.parametrize(
    ("own", "other", "depth"),
    [
        (NO_SAMPLES, AWFUL, 64),
        (GOOD, GREAT, 64),
        (BAD, AWFUL, 64),
        (AWFUL, BAD, 64),
        (GREAT, NO_SAMPLES, 65),
        (AWFUL, NO_SAMPLES, 65),
        (GOOD, BAD, 56),
        (GOOD, AWFUL, 48),
        (GREAT, BAD, 48),
        (GREAT, AWFUL, 32),
        (BAD, GOOD, 65),
        (BAD, GREAT, 65),
        (AWFUL, GOOD, 65),
        (AWFUL, GREAT, 66),
    ],
)
def test_reads_and_writes_are_to_do_equally_well(own: int, other: int, depth: int) -> None:
    assert fair_depth(64, own, other) == depth


def test_at_least_one_token_is_given_away() -> None:
    assert [fair_depth(3, own, other) for own, other in ((GOOD, BAD), (GOOD, AWFUL), (GREAT, BAD))] == [2] * 3


@pytest.mark.parametrize(
    ("read", "write", "samples", "depth"),
    [
        (NO_SAMPLES, NO_SAMPLES, 0, 34),
        (NO_SAMPLES, NO_SAMPLES, 9, 34),
        (AWFUL, AWFUL, 0, 32),
        (GREAT, AWFUL, 1, 34),
        (GOOD, BAD, 1, 33),
        (BAD, AWFUL, 1, 24),
        (AWFUL, AWFUL, 1, 16),
        (NO_SAMPLES, BAD, 1, 24),
        (AWFUL, NO_SAMPLES, 1, 16),
        (GREAT, NO_SAMPLES, 1, 34),
    ],
)
def test_others_are_held_back_while_both_do_badly(read: int, write: int, samples: int, depth: int) -> None:
    assert other_depth(32, read, write, samples) == depth


@pytest.mark.parametrize("age", ["4.12", "4.18"])
def test_a_missed_target_opens_a_window_of_10_ms_then_of_100(age: str) -> None:
    rig = KyberRig(3 * MS, tokens=(20,), features=AGES[age])
    for k in range(40):
        rig.one(100 * k).wait(10 * MS)
    looked = [(r.time_ns // JIFFY, rig.tracer.messages[r.extra]) for r in rig.tracer if r.action == "m"]

    # Completed at 3 ms, in jiffy 0: three jiffies of window and the rest of this one; then 25 and one
    assert looked == [
        (4, "kyber_adjust READ 21"),
        (30, "kyber_adjust READ 22"),
        (56, "kyber_adjust READ 23"),
    ] + [(82, "kyber_adjust READ 24")] * (len(looked) > 3)


def test_while_targets_are_met_nothing_is_measured() -> None:
    rig = KyberRig(2 * MS, features=AGES["4.18"])
    rig.one(0).run()
    assert not rig.kyber.latencies.armed
    assert rig.kyber.domains[0].nr_samples == 0


def test_the_mean_form_takes_from_who_does_well() -> None:
    # Writes take long, reads do not: reads give a half away each time, writes had all that they can have
    rig = KyberRig(None, features=AGES["4.12"])
    for k in range(30):
        rig.one(100 * k).end()
        rig.one(1_000_000 + 100 * k, OP_WRITE)
        rig.wait(25 * MS).end()
    assert rig.messages("adjust")[:5] == ["READ 128", "READ 64", "READ 32", "READ 16", "READ 8"]
    rig.end_all()


# -- what was seen on real machines ---------------------------------------------------------------


def depths(read_lat_ns: int, write_lat_ns: int, run_ms: int) -> list[tuple[float, str]]:
    """Random reads and writes, 64 of each in flight, on an SSD: (ms, new depth) as kyber logs them."""
    job = "[global]\nioengine=libaio\ndirect=1\nbs=4k\niodepth=64\nnorandommap\nsize=8g\n"
    job += f"time_based\nruntime={run_ms}ms\n[r]\nrw=randread\n[w]\nrw=randwrite\noffset=8g\n"
    settings = [f"queue/iosched/read_lat_nsec={read_lat_ns}", f"queue/iosched/write_lat_nsec={write_lat_ns}"]
    machine = load_machine("default", settings=["queue/scheduler=kyber", *settings], costs="zero")
    built = build(machine, 1)
    tracer = Tracer(built.host, TR_MSG)
    built.trace(tracer, TR_MSG)
    Run(built, parse_job_text(job, "golden.fio")).run()
    return [
        (record.time_ns / MS, tracer.messages[record.extra].removeprefix("kyber_adjust "))
        for record in tracer
        if tracer.messages[record.extra].startswith("kyber_adjust")
    ]


@pytest.mark.compiled_only
@pytest.mark.parametrize(
    ("read_lat_ns", "write_lat_ns", "seen"),
    [
        (10**9, 0, [(104, "READ 64"), (208, "READ 16"), (312, "READ 4"), (416, "READ 1")]),
        (0, 10**9, [(104, "WRITE 32"), (208, "WRITE 8"), (312, "WRITE 2"), (416, "WRITE 1")]),
        (0, 0, []),
        (10**9, 10**9, []),
    ],
)
def test_the_depths_go_as_on_a_real_machine(
    read_lat_ns: int, write_lat_ns: int, seen: list[tuple[float, str]]
) -> None:
    """The bpf logs of the ICPE'24 study of schedulers: a quarter each 104 ms, down to one token, then no change."""
    assert depths(read_lat_ns, write_lat_ns, 700) == seen


@pytest.mark.compiled_only
def test_the_latencies_of_a_capture() -> None:
    """merge/kyber-randread-slow: 704 reads each 220 ms, since 64 at a time take 20 ms and 100 ms have too few."""
    job = "[a]\nioengine=libaio\ndirect=1\nbs=4k\nrw=randread\niodepth=64\nnumjobs=8\nsize=16m\nnumber_ios=500\n"
    job += "offset_increment=16m\n"
    settings = [
        "device/irqmode=2",
        "device/completion_nsec=20000000",
        "device/hw_queue_depth=64",
        "device/gb=1",
    ]
    machine = load_machine("null", settings=[*settings, "cpu/count=1"], costs="lab-guest")
    built = build(machine, 1, "kyber")
    write(next(iter(built.queues.values())), "queue/nr_requests", "128")
    tracer = Tracer(built.host, TR_MSG)
    built.trace(tracer, TR_MSG)
    Run(built, parse_job_text(job, "slow.fio")).run()

    said = [(record.time_ns, tracer.messages[record.extra]) for record in tracer]
    # How far into a jiffy the job began is not known, so the first look is left out
    texts = [text.rsplit("=", 1) for _, text in said][2:]
    assert [text for text, _ in texts] == [
        "kyber_latency READ I/O p90 8/4 samples",
        "kyber_latency READ total p99 8/4 samples",
    ] * 4
    # 11 times 64, but for those of a batch that complete behind the look
    assert all(abs(int(samples) - 704) < 8 for _, samples in texts)
    times = [at_ns for at_ns, text in said if "I/O" in text][1:]
    assert [b - a for a, b in pairwise(times)] == [220 * MS] * 3
