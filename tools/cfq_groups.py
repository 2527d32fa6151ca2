"""Four random writers and a random reader, together and in groups: the thread of the Block IO Controller (2009).

    cfq_groups.py                    prints all tables as Markdown (minutes)
    cfq_groups.py --table ways       one of them: thread, ways, blocks, today
    cfq_groups.py --seconds 10       shorter runs

The thread measured, for 30 seconds: in the root group writers 59,963 KB/s and the reader 66 KB/s; the writers in
/test1 (weight 500) and the reader in /test2 (1000) 30,587 and 23 KB/s. It tells neither block size, nor disks, nor
depth.

Here the writers write BLOCK at a time and the reader reads 4 KiB, each one at a time, on a disk of 15,000 rpm without a
write cache whose requests are at most 256 KiB: what gives the writers of the first row. The kernel is 2.6.33, with
`group_idle` as the flag it was in the thread (THREAD). Six days later came the rule that a seeking queue with
four requests at once is idled for (feature cfq_deep_queue): the tables are with it and without.

Reading the tables: of each of the reader's I/Os how long it waited in the scheduler, and how long the device took; and
how often in a second a queue was moved to the root group and back, one was preempted, and the device idled.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from blklab.block.consts import TR_ALL
from blklab.block.trace import Tracer
from blklab.sim.build import build
from blklab.sim.machine import load_machine
from blklab.sim.run import Run
from blklab.workload.jobfile import parse_job_text

BLOCK = "1m"
SECONDS = 30
THREAD_KERNEL = "2.6.33"
THREAD = ("feature/cfq_group_idle_flag=1",)
SHALLOW = (*THREAD, "feature/cfq_deep_queue=0")
PUBLISHED = {False: (59963, 66), True: (30587, 23)}

MACHINE = """
[cpu]
count = 4
costs = "xeon-2018"
[device.sda]
model = "{model}"
preset = "{preset}"
"""
GROUPS = """
[cgroup]
version = 1
[cgroup."/test1"]
{weight} = {first}
jobs = ["writers"]
[cgroup."/test2"]
{weight} = {second}
jobs = ["reader"]
"""
JOB = """
[global]
direct=1
ioengine=psync
runtime={seconds}
time_based
group_reporting
size={size}
norandommap=1
[writers]
rw=randwrite
bs={block}
offset_increment={size}
numjobs=4
{writers}
[reader]
new_group
rw=randread
bs={read_block}
offset={place}
{reader}
"""

# What is counted in the scheduler's messages, by what they contain
EVENTS = {
    "to root": "moving to root group",
    "back": "moved to origin group",
    "preempted": "preempt",
    "idled": "arm_idle",
    "turns": "set_active",
}


class Way(NamedTuple):
    """A machine and how the jobs are told apart."""

    name: str
    kernel: str = THREAD_KERNEL
    settings: tuple[str, ...] = THREAD
    weight: str = "blkio.weight"
    groups: bool = True
    scheduler: str = "cfq"
    writers: str = ""
    reader: str = ""


class Row(NamedTuple):
    """What came of it; `events`: EVENTS in a second."""

    writers_kb_s: float
    reader_kb_s: float
    waits_ms: float
    device_ms: float
    events: dict[str, float]


TOGETHER = Way("in the root group", groups=False)
APART = Way("in groups 500 and 1000")

WAYS = [
    TOGETHER,
    APART,
    Way("in the root group, no deep queues", settings=SHALLOW, groups=False),
    Way("groups, no deep queues", settings=SHALLOW),
    Way("groups, `group_isolation=1`", settings=(*THREAD, "queue/iosched/group_isolation=1")),
    Way("groups, and a group comes back at the front", settings=(*THREAD, "feature/cfq_return_to_front=1")),
    Way("groups, 2.6.33 as released (no `group_idle`)", settings=()),
    Way("groups, 2.6.37 (`group_idle`)", "2.6.37", ()),
    Way("groups, 2.6.37, `group_isolation=1`", "2.6.37", ("queue/iosched/group_isolation=1",)),
    Way("groups, 3.10", "3.10", ()),
]
TODAY = [
    Way("6.1, bfq, one group", "6.1", (), groups=False, scheduler="bfq"),
    Way("6.1, bfq, groups 500 and 1000", "6.1", (), "blkio.bfq.weight", scheduler="bfq"),
    Way("6.1, mq-deadline", "6.1", (), groups=False, scheduler="mq-deadline"),
    Way(
        "6.1, mq-deadline, reader real-time",
        "6.1",
        (),
        groups=False,
        scheduler="mq-deadline",
        reader="prioclass=1",
    ),
    Way(
        "6.1, mq-deadline, writers idle class",
        "6.1",
        (),
        groups=False,
        scheduler="mq-deadline",
        writers="prioclass=3",
    ),
    Way("6.1, none", "6.1", (), groups=False, scheduler="none"),
]


# What the thread does not tell: device, its preset and settings, the writers' block
class Device(NamedTuple):
    """A device: `size` of the area of each job, `reader`: where the reader's begins."""

    name: str
    model: str = "array"
    preset: str = "array-2009-sata"
    settings: tuple[str, ...] = ()
    size: str = "1000g"
    reader: str = "4000g"


FAST = Device(
    "15k disk, no write cache",
    "hdd",
    "seagate-cheetah-15k7-450gb",
    ("device/write_cache=false", "queue/max_sectors_kb=256"),
    "80g",
    "320g",
)
DISK = Device("one disk", "hdd", "hitachi-7k500-500gb", (), "80g", "320g")
DEVICES = [
    FAST,
    Device("array of 14"),
    DISK,
    DISK._replace(name="one disk, no write cache", settings=("device/write_cache=false",)),
]
BLOCKS = ["4k", "256k", "1m", "4m"]


def measure(
    way: Way,
    seconds: int = SECONDS,
    block: str = BLOCK,
    device: Device = DEVICES[0],
    read_block: str = "4k",
) -> Row:
    """Runs the job one way."""
    text = MACHINE.format(model=device.model, preset=device.preset)
    if way.groups:
        text += GROUPS.format(weight=f'"{way.weight}"', first=500, second=1000)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "machine.toml")
        path.write_text(text)
        machine = load_machine(
            path, (f"queue/scheduler={way.scheduler}", *device.settings, *way.settings), kernel=way.kernel
        )
    built = build(machine)
    job = JOB.format(
        seconds=seconds,
        block=block,
        read_block=read_block,
        writers=way.writers,
        reader=way.reader,
        size=device.size,
        place=device.reader,
    )
    run = Run(built, parse_job_text(job, "job"))
    tracer = Tracer(built.host, TR_ALL)
    built.trace(tracer, TR_ALL)
    result = run.run()
    written = sum(job.stats.write.bytes for job in result.jobs)
    read = sum(job.stats.read.bytes for job in result.jobs)
    waits_ms, device_ms = reads(tracer)
    events = {name: sum(part in text for text in tracer.messages) / seconds for name, part in EVENTS.items()}
    return Row(written / seconds / 1000, read / seconds / 1000, waits_ms, device_ms, events)


def reads(tracer: Tracer) -> tuple[float, float]:
    """Mean time of a read in the scheduler (Q to D) and in the device (D to C), in ms."""
    queued: dict[int, int] = {}
    issued: dict[int, int] = {}
    waits: list[int] = []
    served: list[int] = []
    for record in tracer:
        if not record.rwbs.startswith("R"):
            continue
        if record.action == "Q":
            queued[record.sector] = record.time_ns
        elif record.action == "D" and record.sector in queued:
            issued[record.sector] = record.time_ns
            waits.append(record.time_ns - queued.pop(record.sector))
        elif record.action == "C" and record.sector in issued:
            served.append(record.time_ns - issued.pop(record.sector))
    return tuple(sum(times) / max(len(times), 1) / 1e6 for times in (waits, served))  # type: ignore[return-value]


def table(rows: Sequence[tuple[str, Row]]) -> str:
    """As Markdown."""
    lines = [
        f"| | writers KB/s | reader KB/s | a read waits | is served | {' | '.join(EVENTS)} |",
        f"| --- |{' --- |' * (4 + len(EVENTS))}",
    ]
    for name, row in rows:
        events = " | ".join(f"{value:.1f}" for value in row.events.values())
        lines.append(
            f"| {name} | {row.writers_kb_s:,.0f} | {row.reader_kb_s:,.0f} | {row.waits_ms:.1f} ms | "
            f"{row.device_ms:.1f} ms | {events} |"
        )
    return "\n".join(lines)


def published() -> str:
    """The thread's own rows."""
    return "\n".join(
        f"- {'in groups 500 and 1000' if groups else 'in the root group'}: {writers:,} and {reader} KB/s"
        for groups, (writers, reader) in PUBLISHED.items()
    )


def print_blocks(seconds: int) -> None:
    """The table of what the thread does not tell."""
    print("| device | block | deep | root group | groups | writers | reader |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for device, block, deep in itertools.product(DEVICES, BLOCKS, (1, 0)):
        ways = (way._replace(settings=THREAD if deep else SHALLOW) for way in (TOGETHER, APART))
        one, other = (measure(way, seconds, block, device) for way in ways)
        pairs = [f"{row.writers_kb_s:,.0f} / {row.reader_kb_s:,.0f}" for row in (one, other)]
        ratios = (other.writers_kb_s / one.writers_kb_s, other.reader_kb_s / max(one.reader_kb_s, 0.1))
        print(
            f"| {device.name} | {block} | {deep} | {' | '.join(pairs)} | {' | '.join(f'{r:.2f}' for r in ratios)} |",
            flush=True,
        )


def main(argv: Sequence[str]) -> int:
    """See the module's docstring."""
    parser = argparse.ArgumentParser(description="writers and a reader, together and in groups of cfq")
    parser.add_argument("--seconds", type=int, default=SECONDS)
    parser.add_argument("--table", choices=["thread", "ways", "blocks", "today"])
    options = parser.parse_args(argv)
    if options.table in (None, "thread"):
        print(f"\nThe thread:\n\n{published()}\n")
        print(table([(way.name, measure(way, options.seconds)) for way in (TOGETHER, APART)]))
    if options.table in (None, "ways"):
        print("\nWhat would have changed it:\n")
        print(table([(way.name, measure(way, options.seconds)) for way in WAYS]))
    if options.table in (None, "blocks"):
        print("\nWhat the thread does not tell:\n")
        print_blocks(options.seconds)
    if options.table in (None, "today"):
        print("\nToday:\n")
        print(table([(way.name, measure(way, options.seconds)) for way in TODAY]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
