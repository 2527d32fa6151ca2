"""Processes on bfq for its tests: each on a CPU of its own, closed loops of I/O with or without thinking."""

from __future__ import annotations

from collections.abc import Iterator

from rig import MS, Rig, ScriptedDriver

from blklab.block.attributes import write
from blklab.block.bio import Bio
from blklab.block.consts import F_SYNC, OP_READ
from blklab.block.switch import set_elevator
from blklab.core.clock import Event
from blklab.elevator.bfq.bfqq import BfqQueue
from blklab.elevator.bfq.policy import Bfq

RT, BE, IDLE = 1 << 13, 2 << 13, 3 << 13


def bfq_rig(
    processes: int = 2,
    service_ns: int | None = MS,
    depth: int = 1,
    rotational: bool = False,
    **tunables: int,
) -> Rig:
    """A device that serves `depth` requests at a time, with bfq; messages are traced."""
    rig = Rig(ScriptedDriver(service_ns, budgets=depth), nr_cpus=processes, depth=64)
    rig.queue.rotational = rotational
    set_elevator(rig.queue, "bfq")
    for name, value in tunables.items():
        write(rig.queue, f"queue/iosched/{name}", str(value))
    return rig


def bfq_of(rig: Rig) -> Bfq:
    """The scheduler."""
    elevator = rig.queue.elevator
    assert isinstance(elevator, Bfq)
    return elevator


def queue_of(rig: Rig, cpu: int) -> BfqQueue:
    """The synchronous queue of a process."""
    bic = bfq_of(rig).processes.find(rig.senders[cpu])
    assert bic is not None and bic.sync_bfqq is not None
    return bic.sync_bfqq


class _Nothing(Event):
    """So that time passes though nothing happens."""

    def fire(self, now_ns: int) -> int:
        return 0


def later(rig: Rig, ns: int = 200 * MS) -> None:
    """Let time pass. On flash, queues that are created within 180 ms with one priority become one."""
    until_ns = rig.events.now_ns + ns
    rig.events.at(until_ns, _Nothing())
    rig.run(until_ns)


class Process(Event):
    """Sends one I/O of `sectors` after another, at most `count`, `think_ns` after the one before has ended, `in_flight`
    at a time."""

    def __init__(
        self,
        rig: Rig,
        cpu: int,
        sectors: Iterator[int],
        count: int = 1 << 30,
        think_ns: int = 0,
        in_flight: int = 1,
        nr_sectors: int = 8,
        op: int = OP_READ,
        flags: int = F_SYNC,
        ioprio: int = 0,
    ) -> None:
        self.rig = rig
        self.cpu = cpu
        self.sectors = sectors
        self.left = count
        self.think_ns = think_ns
        self.nr_sectors = nr_sectors
        self.op = op
        self.flags = flags
        self.ioprio = ioprio
        self.sent_ns: dict[object, int] = {}
        self.latencies_ns: list[int] = []
        rig.senders[cpu].on_done = self._done
        for _ in range(in_flight):
            self._send()

    def _send(self) -> None:
        if self.left == 0:
            return
        self.left -= 1
        bio = self.rig.bio(next(self.sectors), self.nr_sectors, self.op, self.flags, cpu=self.cpu)
        bio.ioprio = self.ioprio
        self.sent_ns[bio.io] = self.rig.events.now_ns
        self.rig.send([bio], cpu=self.cpu)

    def _done(self, bio: Bio) -> None:
        if bio.io not in self.sent_ns:
            return
        now_ns = self.rig.events.now_ns
        self.latencies_ns.append(now_ns - self.sent_ns.pop(bio.io))
        if self.think_ns:
            self.rig.events.at(now_ns + self.think_ns, self)
        else:
            self._send()

    def fire(self, now_ns: int) -> int:
        """It has thought long enough."""
        self._send()
        return 0

    @property
    def done(self) -> int:
        """How many have ended."""
        return len(self.latencies_ns)


def from_sector(first: int, step: int = 8) -> Iterator[int]:
    """A sequential stream; with a large step one that seeks."""
    while True:
        yield first
        first += step
