"""The workloads that are measured (throughput.py) and counted (instructions.py): fio jobs on a machine each.

All go through `blklab.sim.api.simulate`, as `blklab run` does: one code path, nothing that only a benchmark
takes.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import NamedTuple

MACHINE = str(Path(__file__).with_name("machine.toml"))

RANDOM_JOB = """\
[global]
filename=/dev/nvme0n1
ioengine=libaio
direct=1
rw=randread
bs=4k
norandommap
numjobs=8
group_reporting
number_ios={ios_of_a_job}

[random]
iodepth={iodepth}
iodepth_batch=16
iodepth_batch_complete_min=1
iodepth_batch_complete_max=16
"""

SEQUENTIAL_JOB = """\
[global]
filename=/dev/nvme0n1
ioengine=libaio
direct=1
rw=read
bs=4k
numjobs=8
offset_increment=1g
group_reporting
number_ios={ios_of_a_job}

[sequential]
iodepth={iodepth}
iodepth_batch=32
iodepth_batch_complete_min=32
"""


class Workload(NamedTuple):
    """A job's text, its queue depth, the settings on top of machine.toml, and how many I/Os a measurement
    takes."""

    job: str
    iodepth: int
    settings: tuple[str, ...]
    costs: str
    ios: int


JOBS = 8
SCHEDULERS = ("mq-deadline", "kyber", "bfq")  # random-4k is with none

WORKLOADS = {
    "random-4k": Workload(RANDOM_JOB, 64, (), "zero", 4_000_000),
    "random-4k-cpu-model": Workload(RANDOM_JOB, 64, (), "xeon-2018", 2_000_000),
    "random-4k-qd512": Workload(RANDOM_JOB, 512, (), "zero", 2_000_000),
    "sequential-merge": Workload(SEQUENTIAL_JOB, 64, (), "zero", 8_000_000),
    **{
        f"random-4k-{scheduler}": Workload(
            RANDOM_JOB, 64, (f"queue/scheduler={scheduler}",), "zero", 2_000_000
        )
        for scheduler in SCHEDULERS
    },
}

# What instructions.py counts, over how many I/Os.
COUNTED = ("random-4k", "random-4k-cpu-model", "sequential-merge")
COUNTED_IOS = 20_000


def run(name: str, ios: int) -> tuple[int, float]:
    """Simulates about `ios` I/Os (a multiple of the number of jobs); returns how many were done, and the
    seconds."""
    from blklab.sim.api import simulate
    from blklab.sim.machine import load_machine
    from blklab.workload.jobfile import parse_job_text

    workload = WORKLOADS[name]
    text = workload.job.format(iodepth=workload.iodepth, ios_of_a_job=max(1, ios // JOBS))
    job_file = parse_job_text(text, name)
    machine = load_machine(MACHINE, workload.settings, costs=workload.costs)
    start = time.perf_counter()
    result = simulate(job_file, machine=machine, seed=1)
    seconds = time.perf_counter() - start
    done = sum(job.stats.read.ios + job.stats.write.ios for job in result.jobs)
    return done, seconds
