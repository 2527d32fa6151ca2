"""Does a machine with many devices simulate slower? I/Os per wall second with 1, 8, 48 and 256 of them.

    devices.py [--ios N] [--rounds N] [COUNT ...]

Why: each device adds event sources, and an event queue that looks at all of them would be slow with 48 (the
machine of the direct-I/O rewrite, 18 M IOPS). The load is the same for every count: 48 CPUs with a
thread each, 32 4k reads in flight in each, on null devices that take 100 us; only how many devices they are
spread over changes. So what differs is the number of objects, and the memory they lie in.

Shape: {"devices": {COUNT: I/Os per wall second, best of the rounds}, "slowest_to_fastest": ratio}. The goal is a
ratio above 1/1.5. Rounds take turns, so that a busy moment of this machine meets all counts.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path

COUNTS = (1, 8, 48, 256)
THREADS = 48
DEPTH = 32
COSTS = "xeon-2018"

DEVICE = """
[device.nullb{number}]
model = "null"
irqmode = 2
completion_nsec = 100000
submit_queues = {threads}
hw_queue_depth = 64
"""
JOB = """\
[global]
ioengine=libaio
direct=1
rw=randread
bs=4k
norandommap
iodepth={depth}
iodepth_batch=8
iodepth_batch_complete_min=1
iodepth_batch_complete_max=8
number_ios={ios}
cpus_allowed=0-{last}
cpus_allowed_policy=split
group_reporting
"""


def machine_text(devices: int) -> str:
    """The machine file."""
    head = f'kernel = "6.1"\n[cpu]\ncount = {THREADS}\ncosts = "{COSTS}"\n'
    return head + "".join(DEVICE.format(number=i, threads=THREADS) for i in range(devices))


def job_text(devices: int, ios: int) -> str:
    """As many threads as CPUs; each has its share of the devices, or a share of one."""
    sections = []
    for thread in range(THREADS):
        mine = [i for i in range(devices) if i % THREADS == thread] or [thread % devices]
        names = ":".join(f"/dev/nullb{i}" for i in mine)
        sections.append(f"[thread{thread}]\nfilename={names}\n")
    head = JOB.format(depth=DEPTH, ios=max(1, ios // THREADS), last=THREADS - 1)
    return head + "".join(sections)


def rate(devices: int, ios: int) -> float:
    """I/Os per wall second of one simulation of about `ios`, without making the machine."""
    from blklab.sim.build import build
    from blklab.sim.machine import load_machine
    from blklab.sim.run import Run
    from blklab.workload.jobfile import parse_job_text

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "machine.toml"
        file.write_text(machine_text(devices))
        built = build(load_machine(file))
    run = Run(built, parse_job_text(job_text(devices, ios), f"{devices} devices"))
    start = time.perf_counter()
    result = run.run()
    seconds = time.perf_counter() - start
    return sum(job.stats.read.ios for job in result.jobs) / seconds


def main() -> int:
    """See the module's docstring."""
    parser = argparse.ArgumentParser(description="Speed of the simulator by number of devices.")
    parser.add_argument("counts", nargs="*", type=int, default=COUNTS, metavar="COUNT")
    parser.add_argument("--ios", type=int, default=1_000_000, help="I/Os of one simulation (%(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="simulations of each count (%(default)s)")
    given = parser.parse_args()
    best = dict.fromkeys(given.counts, 0.0)
    for _ in range(given.rounds):
        for count in best:
            best[count] = max(best[count], rate(count, given.ios))
    ratio = min(best.values()) / max(best.values())
    print(
        json.dumps(
            {
                "devices": {str(count): round(value) for count, value in best.items()},
                "slowest_to_fastest": round(ratio, 2),
            },
            indent=2,
        )
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
