"""With all costs 0 the model is pure queueing: it must give what theory gives.

The devices are the real ones. One unit of an SSD with exponential or constant times is a single server;
null_blk's tags and a SCSI disk's queue_depth make c servers with one queue, which is then the block layer's;
the units of an SSD under a closed loop are a closed network of queues.

Arrivals are Poisson from a task that never waits for its I/Os, so tests of waiting times have no loop to hide
in. Runs are long enough for the sampling error to stay below the tolerance; a seed is a number, not a lucky
one: each test holds for several.
"""

from __future__ import annotations

import heapq
import math
from typing import Any

import pytest

from blklab.block.attributes import write
from blklab.block.bio import Bio
from blklab.block.consts import DONE, WAIT
from blklab.block.features import Features
from blklab.block.models import Shared, find_model, make_queue, settings_of
from blklab.block.queue import RequestQueue
from blklab.core.clock import Event
from blklab.core.rand import RandomStream
from blklab.metrics.groups import summarize
from blklab.sim.api import simulate
from blklab.sim.cpu import MachineHost, Task
from blklab.sim.events import EventQueue
from blklab.sim.machine import load_machine
from blklab.sim.task_states import STEP_CONTINUE, STEP_SLEEP
from blklab.workload.jobfile import parse_job_text

NEVER = (1 << 63) - 1
SERVICE_NS = 50_000


class Source(Task):
    """Submits a read at each of its arrivals; what the block layer makes it wait for delays the later ones,
    in order."""

    def __init__(
        self, host: MachineHost, queue: RequestQueue, arrivals_ns: list[int], stream: RandomStream
    ) -> None:
        super().__init__(host, 0, 100)
        self.target = queue
        self.arrivals_ns = arrivals_ns
        self.stream = stream
        self.arrived = 0
        self.submitted = 0
        self.busy = False
        self.done_ns = [0] * len(arrivals_ns)

    def step(self) -> int:
        if self.busy or self.submitted < self.arrived:
            if not self.busy:
                self.submit_next()
            result = self.advance()
            self.busy = result != DONE
            if result == WAIT:
                return STEP_SLEEP
            return STEP_CONTINUE
        return STEP_SLEEP

    def submit_next(self) -> None:
        """The next read that has arrived, anywhere on the device."""
        bio = Bio()
        bio.queue = self.target
        bio.submitter = self
        bio.io = self.submitted
        bio.sector = self.stream.below(self.target.size_sectors // 16) * 16
        bio.nr_sectors = 8
        self.submitted += 1
        self.begin(bio)

    def bio_done(self, bio: Bio) -> int:
        self.done_ns[bio.io] = self.host.events.now_ns  # type: ignore[call-overload]
        return 0


class Arrival(Event):
    """The next I/O arrives, and the one after it is awaited."""

    def __init__(self, source: Source) -> None:
        self.source = source

    def fire(self, now_ns: int) -> int:
        source = self.source
        source.arrived += 1
        if source.arrived < len(source.arrivals_ns):
            source.host.events.at(source.arrivals_ns[source.arrived], self)
        source.wake()
        return 0


def open_run(
    model: str, settings: dict[str, Any], rate_per_s: float, ios: int, seed: int, queue_depth: int = 0
) -> tuple[list[int], list[int]]:
    """Poisson arrivals at a device: when each I/O came, and how long it stayed (ns). `queue_depth`: that of a
    SCSI disk."""
    stream = RandomStream(seed, "arrivals")
    gaps = [stream.exponential_ns(round(1e9 / rate_per_s)) for _ in range(ios)]
    arrivals = []
    now = 0
    for gap in gaps:
        now += gap
        arrivals.append(now)
    events = EventQueue()
    host = MachineHost(events, 1)
    found = find_model(model)
    checked = settings_of(found, None, settings, lambda name: name)
    queue = make_queue("dev0", 0, found, checked, host, Features(), seed, Shared())
    if queue_depth:
        write(queue, "device/queue_depth", str(queue_depth))
    source = Source(host, queue, arrivals, RandomStream(seed, "places"))
    events.at(arrivals[0], Arrival(source))
    while source.submitted < ios or queue.usage:
        events.run(NEVER, 100_000)
    assert queue.usage == 0
    return arrivals, [done - came for came, done in zip(arrivals, source.done_ns, strict=True)]


def mean(values: list[int]) -> float:
    return sum(values) / len(values)


# Three servers' worth of formulas, each in seconds of its own


def erlang_c(servers: int, load: float) -> float:
    """The chance that an arrival waits in M/M/c; `load` is rate times service."""
    total = sum(load**k / math.factorial(k) for k in range(servers))
    last = load**servers / math.factorial(servers) * servers / (servers - load)
    return last / (total + last)


def mdc_wait(servers: int, load: float) -> float:
    """Mean wait of M/D/c in service times: from the chain of how many are there, one service time apart."""
    size = 400
    poisson = [math.exp(-load)]
    for k in range(1, size):
        poisson.append(poisson[-1] * load / k)
    there = [1.0] + [0.0] * (size - 1)
    for _ in range(3000):
        after = [0.0] * size
        left = [sum(there[: servers + 1]), *there[servers + 1 :]]
        for k, share in enumerate(left):
            if share > 1e-13:
                for j in range(min(60, size - k)):
                    after[k + j] += share * poisson[j]
        change = sum(abs(a - b) for a, b in zip(after, there, strict=True))
        there = after
        if change < 1e-10:
            break
    queued = sum(max(0, k - servers) * share for k, share in enumerate(there))
    return queued / load


def closed_network(units: int, customers: int, service: float, delay: float) -> float:
    """Throughput of `customers` over `units` exponential queues chosen at random, and a pure delay: mean
    value analysis."""
    queued = 0.0
    throughput = 0.0
    for n in range(1, customers + 1):
        response = service * (1 + queued / units)
        throughput = n / (response + delay)
        queued = throughput * response
    return throughput


# -- open arrivals -----------------------------------------------------------------


@pytest.mark.compiled_only
@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("load", [0.3, 0.7])
def test_one_unit_with_exponential_times_is_m_m_1(load: float, seed: int) -> None:
    settings = {"units": 1, "read_ns": SERVICE_NS, "read_shape": "exponential", "latency_ns": 0}
    _, stays = open_run("ssd", settings, load * 1e9 / SERVICE_NS, 120_000, seed)
    assert mean(stays) == pytest.approx(SERVICE_NS / (1 - load), rel=0.05)
    # The time in an M/M/1 system is exponential itself
    stays.sort()
    for share in (0.5, 0.9, 0.99):
        expected = -math.log(1 - share) * SERVICE_NS / (1 - load)
        assert stays[int(share * len(stays))] == pytest.approx(expected, rel=0.08)


@pytest.mark.compiled_only
@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("load", [0.3, 0.8])
def test_one_unit_with_constant_times_is_m_d_1(load: float, seed: int) -> None:
    settings = {"units": 1, "read_ns": SERVICE_NS, "latency_ns": 0}
    _, stays = open_run("ssd", settings, load * 1e9 / SERVICE_NS, 100_000, seed)
    # Pollaczek and Khinchine
    assert mean(stays) == pytest.approx(SERVICE_NS * (1 + load / (2 * (1 - load))), rel=0.04)


@pytest.mark.compiled_only
@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize(
    ("model", "settings", "queue_depth"),
    [
        ("null", {"irqmode": 2, "completion_nsec": SERVICE_NS, "hw_queue_depth": 8}, 0),
        ("scsi", {"ndelay": SERVICE_NS, "max_queue": 8}, 0),
        ("scsi", {"ndelay": SERVICE_NS}, 8),
        ("ssd", {"units": 4096, "read_ns": 1, "latency_ns": SERVICE_NS - 1, "queue_depth": 8}, 0),
        ("ssd", {"units": 4096, "read_ns": 1, "latency_ns": SERVICE_NS - 1, "slots": 8}, 0),
    ],
    ids=["null-tags", "scsi-tags", "scsi-budget", "ssd-tags", "ssd-slots"],
)
def test_tags_budgets_and_slots_are_servers_of_m_d_c(
    model: str, settings: dict[str, Any], queue_depth: int, seed: int
) -> None:
    load = 6.8
    arrivals, stays = open_run(model, settings, load * 1e9 / SERVICE_NS, 80_000, seed, queue_depth)
    assert mean(stays) == pytest.approx(SERVICE_NS * (1 + mdc_wait(8, load)), rel=0.02)
    # And to the nanosecond what eight servers with one line do with these very arrivals
    free = [0] * 8
    expected = []
    for came in arrivals:
        done = max(came, heapq.heappop(free)) + SERVICE_NS
        heapq.heappush(free, done)
        expected.append(done - came)
    # Two reads of one unit of the SSD may be a nanosecond apart
    assert max(abs(a - b) for a, b in zip(stays, expected, strict=True)) <= 2


@pytest.mark.compiled_only
@pytest.mark.parametrize("seed", [1, 2])
def test_eight_tags_before_units_with_exponential_times_are_m_m_c(seed: int) -> None:
    # So many units that the eight that are at work hardly ever meet
    settings = {
        "units": 4096,
        "read_ns": SERVICE_NS,
        "read_shape": "exponential",
        "latency_ns": 0,
        "queue_depth": 8,
    }
    load = 6.4
    _, stays = open_run("ssd", settings, load * 1e9 / SERVICE_NS, 150_000, seed)
    assert mean(stays) == pytest.approx(SERVICE_NS * (1 + erlang_c(8, load) / (8 - load)), rel=0.02)


def test_the_formulas_agree_where_they_meet() -> None:
    assert mdc_wait(1, 0.8) == pytest.approx(0.8 / (2 * 0.2), rel=1e-6)
    assert erlang_c(1, 0.7) == pytest.approx(0.7)
    # Deterministic service waits about half as long as exponential service
    assert mdc_wait(8, 6.8) == pytest.approx(0.5 * erlang_c(8, 6.8) / (8 - 6.8), rel=0.1)
    # A closed network of one queue is always busy; with many customers every queue is
    assert closed_network(1, 5, 2.0, 0.0) == pytest.approx(0.5)
    assert closed_network(4, 4000, 2.0, 0.0) == pytest.approx(2.0, rel=1e-3)


@pytest.mark.compiled_only
def test_many_units_with_exponential_times_are_m_m_1_each() -> None:
    # A random unit for each read splits a Poisson stream into Poisson streams: no M/M/c, whose line would be
    # shared
    settings = {"units": 16, "read_ns": SERVICE_NS, "read_shape": "exponential", "latency_ns": 0}
    load = 0.6
    _, stays = open_run("ssd", settings, 16 * load * 1e9 / SERVICE_NS, 150_000, 1)
    assert mean(stays) == pytest.approx(SERVICE_NS / (1 - load), rel=0.04)


# -- closed loops, and Little's law -----------------------------------------------------

JOB = """\
[job]
ioengine=libaio
direct=1
rw=randread
bs=4k
norandommap
iodepth={iodepth}
numjobs={numjobs}
group_reporting
ramp_time=50ms
runtime={runtime}ms
time_based
"""


def closed_run(settings: dict[str, Any], iodepth: int, numjobs: int, runtime_ms: int, seed: int = 1) -> Any:
    """Jobs on a device without any CPU cost; fio's statistics of all of them together, and the whole
    result."""
    changes = [
        f"device/{name}={value}" for name, value in {"preset": "bench-32-channels", **settings}.items()
    ]
    machine = load_machine("default", settings=changes, costs="zero")
    text = JOB.format(iodepth=iodepth, numjobs=numjobs, runtime=runtime_ms)
    result = simulate(parse_job_text(text, "theory"), machine=machine, seed=seed)
    return summarize(result)[0][0].stats.read, result


@pytest.mark.compiled_only
@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize(("numjobs", "iodepth"), [(1, 1), (1, 16), (8, 4), (8, 16), (8, 64)])
def test_a_closed_loop_over_exponential_units_is_a_closed_network(
    numjobs: int, iodepth: int, seed: int
) -> None:
    settings = {"units": 32, "read_ns": SERVICE_NS, "read_shape": "exponential", "latency_ns": 20_000}
    stats, _ = closed_run(settings, iodepth, numjobs, 1500 if numjobs * iodepth == 1 else 300, seed)
    rate = stats.done_ios * 1e9 / stats.runtime_ns
    expected = closed_network(32, numjobs * iodepth, SERVICE_NS / 1e9, 20_000 / 1e9)
    assert rate == pytest.approx(expected, rel=0.015)


@pytest.mark.compiled_only
@pytest.mark.parametrize(("numjobs", "iodepth"), [(1, 1), (2, 8), (8, 64)])
def test_littles_law_holds_for_fios_figures_and_for_the_queues_counters(numjobs: int, iodepth: int) -> None:
    stats, result = closed_run({"read_shape": "exponential", "latency_ns": 5000}, iodepth, numjobs, 300)
    rate = stats.done_ios / stats.runtime_ns
    assert rate * stats.lat.mean == pytest.approx(numjobs * iodepth, rel=0.005)
    # in_queue is all requests' time added up; over the whole run, ramp included, `elapsed` of it
    disk = result.disk_util[0]
    elapsed_ms = 350
    assert disk.in_queue_ms / elapsed_ms == pytest.approx(numjobs * iodepth, rel=0.01)
    assert disk.read_ticks_ms == pytest.approx(disk.read_ios * stats.lat.mean / 1e6, rel=0.01)
