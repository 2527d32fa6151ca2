"""What changes during a run, and what is read at its end: `--at TIME:PATH=VALUE` and `--show PATH`.

    --at 2s:queue/scheduler=kyber            every device, two seconds after the run began
    --at 500ms:nvme0n1/queue/nr_requests=64  one device
    --at '3s:cgroup/db/io.max=sda riops=100' a control file
    --show 'hctx0/sched/*'                   attributes of every device, when the run has ended

Theory of operation
-------------------
A write is an event of the clock: it happens at its time as a shell's
`echo` would, without taking CPU time. A scheduler or a number of requests is changed when the queue has
drained, so bios that come meanwhile wait between Q and G.

What the kernel would refuse ends the run with its reason: nobody wants the results of a run that did not do
what was asked. A time that the run never reached is told as a note.
"""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, NamedTuple

from blklab.block.attributes import attribute_paths, read, write
from blklab.block.elevator import find_elevator
from blklab.core.clock import Event
from blklab.core.errors import BlklabError, nearest
from blklab.sim.cgroups import ROOT_NAME, TimedFileWrite, show_files, timed_write
from blklab.sim.machine import check_scheduler
from blklab.sim.settings import split_setting
from blklab.workload.units import parse_time_us

if TYPE_CHECKING:
    from blklab.block.queue import RequestQueue
    from blklab.sim.build import BuiltMachine

AT_FORM = "TIME:PATH=VALUE, as in 2s:queue/scheduler=kyber"
# First words of the attributes of a device, where a setting names no device
ATTRIBUTE_ROOTS = ("queue", "sched")


class TimedWrite(Event):
    """An attribute of some queues that is written `at_ns` after the beginning. `written`: whether it has
    been."""

    def __init__(
        self, queues: Sequence[RequestQueue], path: str, value: str, where: str | None = None
    ) -> None:
        self.queues = queues
        self.path = path
        self.value = value
        self.where = where
        self.written = False

    def fire(self, now_ns: int) -> int:
        """Its time has come."""
        self.written = True
        for queue in self.queues:
            try:
                write(queue, self.path, self.value)
            except BlklabError as error:
                if self.where is None:
                    raise
                raise BlklabError(f"{error.where}: {error.message}", self.where) from None
        return 0


class Later(NamedTuple):
    """One `--at` in parts. `device` is empty for all devices, "cgroup" if `path` is that of a control file."""

    at_ns: int
    device: str
    path: str
    value: str
    where: str


def parse_at(text: str) -> Later:
    """Reads "2s:queue/scheduler=kyber". Raises BlklabError that says what would be accepted."""
    time, colon, setting = text.partition(":")
    if not colon or "=" not in setting or "=" in time:
        raise BlklabError(f"{text!r} is not {AT_FORM}", "--at")
    try:
        at_ns = parse_time_us(time.strip(), seconds=True) * 1000
    except BlklabError as error:
        raise BlklabError(error.message, f"--at {time}") from None
    if at_ns < 0:
        raise BlklabError(f"{time} is before the beginning", f"--at {time}")
    parts, value, _ = split_setting(setting)
    where = f"--at {time}:{'/'.join(parts)}"
    if parts[0] in ATTRIBUTE_ROOTS or parts[0].startswith("hctx"):
        return Later(at_ns, "", "/".join(parts), value, where)
    if parts[0] == ROOT_NAME and len(parts) > 1:
        return Later(at_ns, ROOT_NAME, "/".join(parts[1:]), value, where)
    if len(parts) < 3 or parts[1] not in ATTRIBUTE_ROOTS:
        raise BlklabError(
            f"{'/'.join(parts)!r} cannot be written while a run goes; accepted are attributes: "
            "queue/ATTRIBUTE of every device, DEVICE/queue/ATTRIBUTE of one, and cgroup/GROUP/FILE",
            where,
        )
    return Later(at_ns, parts[0], "/".join(parts[1:]), value, where)


def schedule(built: BuiltMachine, later: Sequence[str]) -> list[TimedWrite | TimedFileWrite]:
    """Puts the writes of `--at` options into the event queue. Raises BlklabError for what can be seen to be
    wrong."""
    writes: list[TimedWrite | TimedFileWrite] = []
    for text in later:
        one = parse_at(text)
        if one.device == ROOT_NAME:
            file = timed_write(built, one.path, one.value, one.where)
            built.events.at(one.at_ns, file)
            writes.append(file)
            continue
        queues = [built.queue(one.device, one.where)] if one.device else list(built.queues.values())
        if one.path == "queue/scheduler":
            check_scheduler(built.machine.features, one.value, one.where)
            try:
                find_elevator(one.value)
            except BlklabError as error:
                raise BlklabError(error.message, one.where) from None
        for queue in queues:
            if one.path.startswith("queue/iosched/") or one.path.startswith("sched/"):
                continue  # whose they are is known only then
            known = attribute_paths(queue)
            if one.path not in known:
                raise BlklabError(
                    f"{queue.name} has no attribute {one.path!r}{nearest(one.path, known)}", one.where
                )
        event = TimedWrite(queues, one.path, one.value, one.where)
        built.events.at(one.at_ns, event)
        writes.append(event)
    return writes


def check_patterns(
    built: BuiltMachine, patterns: Sequence[str], writes: Sequence[TimedWrite | TimedFileWrite]
) -> None:
    """Raises BlklabError for a `--show` pattern that no attribute of the machine as it is now fits.

    Those of a scheduler that comes later cannot be known yet.
    """
    switched = any(write.path == "queue/scheduler" for write in writes)
    for pattern in patterns:
        if switched and "sched" in pattern:
            continue
        if not show(built, [pattern]):
            known = [path for queue in built.queues.values() for path in attribute_paths(queue)]
            raise BlklabError(
                f"no attribute fits {pattern!r}{nearest(pattern, known)}; "
                "`blklab list attributes` shows them",
                "--show",
            )


def show(built: BuiltMachine, patterns: Sequence[str]) -> list[str]:
    """Lines "nvme0n1/queue/nr_requests: 256" of all attributes whose path, with or without the device, fits a
    pattern, and of control files ("cgroup/db/io.max: ...")."""
    lines = []
    for queue in built.queues.values():
        for path in attribute_paths(queue):
            if any(fnmatchcase(path, p) or fnmatchcase(f"{queue.name}/{path}", p) for p in patterns):
                lines.append(f"{queue.name}/{path}: {read(queue, path)}")
    return [*lines, *show_files(built, patterns)]
