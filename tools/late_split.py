"""What late splitting changed for a file on a stripe: bios, cuts, requests, CPU and bandwidth of large direct I/O.

    late_split.py              prints the tables of STRIPES below as Markdown
    late_split.py --costs X    with another cost table

The thread of May 2015 asked for it: "use a setup like: XFS on a DM striped target". One thread reads a file in pieces
of 1 MiB; the file lies on XFS with the stripe's own unit and width, on four (three) null devices, in one piece or in
pieces of 40 KiB.

Reading the table: `bios` go to the stripe and `pieces` to its members, `cuts` are made by the members' queues, `asked`
is how often a device was asked how much fits, all for each MiB; CPU is what all steps of all CPUs add up to.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from blklab.block.consts import TR_ALL
from blklab.block.trace import Tracer
from blklab.core.steps import STEP_MERGE_BVEC
from blklab.sim.build import build
from blklab.sim.machine import load_machine
from blklab.sim.run import Run
from blklab.workload.jobfile import parse_job_text

COSTS = "icpe24"
MIB = 1 << 20
NR_IOS = 64

# What is compared: name, kernel, features
WAYS: list[tuple[str, str, tuple[str, ...]]] = [
    ("4.2: bios are built to fit", "4.2", ()),
    ("4.3: cut late, each cut copies segments", "4.3", ()),
    ("4.4: cut late", "4.4", ()),
    ("4.10: large bios without fs/direct-io.c", "4.10", ()),
]
# members, chunk, max_extent of the file
STRIPES: list[tuple[int, str, str]] = [
    (4, "64k", "0"),
    (4, "64k", "40k"),
    (3, "8k", "0"),
]

JOB = f"""
[file]
ioengine=libaio
iodepth=4
direct=1
rw=read
bs=1m
filename=/mnt/data/file
size=256m
number_ios={NR_IOS}
"""

MACHINE = """
[cpu]
count = 2
costs = "{costs}"
{devices}
[device.dm-0]
model = "stripe"
members = [{members}]
chunk = "{chunk}"
[volume.data]
device = "dm-0"
max_extent = "{max_extent}"
"""
DEVICE = (
    '[device.nullb{}]\nmodel = "null"\ngb = 2\nirqmode = 2\nmax_sectors = 2560\nqueue.scheduler = "none"\n'
)


class Row(NamedTuple):
    """One way to send a file's I/O through a stripe. All but the last are for each MiB."""

    way: str
    bios: float
    pieces: float
    cuts: float
    merges: float
    requests: float
    asked: float
    cpu_us: float
    mib_per_s: float


def machine_text(members: int, chunk: str, max_extent: str, costs: str) -> str:
    """The machine file."""
    return MACHINE.format(
        costs=costs,
        devices="".join(DEVICE.format(i) for i in range(members)),
        members=", ".join(f'"nullb{i}"' for i in range(members)),
        chunk=chunk,
        max_extent=max_extent,
    )


def measure(
    way: tuple[str, str, tuple[str, ...]], stripe: tuple[int, str, str], costs: str = COSTS, text: str = ""
) -> Row:
    """Runs the job one way. `text`: another machine file than MACHINE, whose top device is dm-0."""
    name, kernel, features = way
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "stripe.toml")
        path.write_text(text or machine_text(*stripe, costs))
        machine = load_machine(path, features, kernel=kernel)
    built = build(machine)
    run = Run(built, parse_job_text(JOB, "job"))
    tracer = Tracer(built.host, TR_ALL)
    built.trace(tracer, TR_ALL)
    result = run.run()
    top = built.queues["dm-0"].number
    leaves = [queue.number for queue in built.queues.values() if not queue.bio_based]
    counts: Counter[tuple[str, bool]] = Counter()
    for record in tracer:
        if record.device == top or record.device in leaves:
            counts[record.action, record.device == top] += 1
    read = result.jobs[0].stats.read
    cpu_ns = sum(int(n) * ns for n, ns in zip(built.host.charged, machine.cpus.costs.ns, strict=True) if ns)
    return Row(
        name,
        counts["Q", True] / NR_IOS,
        counts["Q", False] / NR_IOS,
        counts["X", False] / NR_IOS,
        (counts["M", False] + counts["F", False]) / NR_IOS,
        counts["D", False] / NR_IOS,
        int(built.host.charged[STEP_MERGE_BVEC]) / NR_IOS,
        cpu_ns / NR_IOS / 1000,
        read.bytes / MIB * 1e9 / read.runtime_ns,
    )


def table(rows: Sequence[Row]) -> str:
    """As Markdown."""
    lines = [
        "| way | bios | pieces | cuts | merges | requests | asked | CPU, us a MiB | MiB/s |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in rows:
        figures = [f"{value:g}" if value == round(value) else f"{value:.1f}" for value in row[1:7]]
        lines.append(f"| {row.way} | {' | '.join(figures)} | {row.cpu_us:.0f} | {row.mib_per_s:.0f} |")
    return "\n".join(lines)


def main(argv: Sequence[str]) -> int:
    """See the module's docstring."""
    parser = argparse.ArgumentParser(description="what late splitting changed for a file on a stripe")
    parser.add_argument("--costs", default=COSTS)
    costs = parser.parse_args(argv).costs
    for members, chunk, max_extent in STRIPES:
        lies = "in one piece" if max_extent == "0" else f"in pieces of {max_extent}"
        print(f"\n{members} members, chunk {chunk}, file {lies}:\n")
        print(table([measure(way, (members, chunk, max_extent), costs) for way in WAYS]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
