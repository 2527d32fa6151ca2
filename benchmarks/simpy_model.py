"""A minimal SimPy model of the benchmark's queue, for the ratio of speeds in one run.

The same queue as the `random-4k` workload of throughput.py, with as little as SimPy lets one write: 8 closed
jobs of 64 outstanding random 4 KiB reads, a device of 32 channels that each serve one I/O at a time, and
fio's log-linear latency histogram. No block layer: no plug, no tags, no software queues, no CPUs. So the
ratio flatters SimPy.

Each outstanding I/O is one process, which is the fastest form that was found (a process for each I/O, or a
Store between jobs and channels, is slower). Needs `simpy` from the project's development requirements.
"""

from __future__ import annotations

import random
import time
from collections.abc import Generator
from typing import Any

import simpy

JOBS = 8
IODEPTH = 64
CHANNELS = 32
BLOCK_BYTES = 4096
DEVICE_BYTES = 128 << 30
SERVICE_NS = 17_500
JITTER_NS = 1024


def plat_index(ns: int) -> int:
    """fio's histogram bucket of a latency: 64 buckets for each power of two."""
    if ns < 128:
        return ns
    shift = ns.bit_length() - 7
    return ((shift + 1) << 6) + ((ns >> shift) & 63)


def simulate(ios: int, seed: int = 1) -> list[int]:
    """Runs the model until about `ios` I/Os are done; returns the histogram's 1,856 counts, whose sum is
    exact."""
    env = simpy.Environment()
    channels = simpy.Resource(env, capacity=CHANNELS)
    counts = [0] * 1856
    stream = random.Random(seed)
    blocks = DEVICE_BYTES // BLOCK_BYTES

    def one_of_the_queue_depth(share: int) -> Generator[simpy.Event, Any, None]:
        for _ in range(share):
            offset_bytes = stream.randrange(blocks) * BLOCK_BYTES
            submitted = env.now
            with channels.request() as channel:
                yield channel
                yield env.timeout(SERVICE_NS + (offset_bytes // BLOCK_BYTES) % JITTER_NS)
            counts[plat_index(int(env.now - submitted))] += 1

    outstanding = JOBS * IODEPTH
    for _ in range(outstanding):
        env.process(one_of_the_queue_depth(-(-ios // outstanding)))
    env.run()
    return counts


def ios_per_wall_second(ios: int = 100_000) -> float:
    """I/Os that the model completes in a second of wall time on one core, over a run of `ios`."""
    start = time.perf_counter()
    done = sum(simulate(ios))
    return done / (time.perf_counter() - start)


if __name__ == "__main__":
    print(f"{ios_per_wall_second():.0f}")
