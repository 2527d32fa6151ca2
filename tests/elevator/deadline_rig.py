"""What the tests of mq-deadline share: a machine with one request in the driver, behind which others queue up."""

from __future__ import annotations

from itertools import groupby
from typing import Any

from rig import Rig, ScriptedDriver

from blklab.block.attributes import write
from blklab.block.bio import Bio
from blklab.block.consts import F_SYNC, OP_READ, OP_WRITE
from blklab.block.switch import set_elevator
from blklab.core.clock import Event

RT, BE, IDLE = (number << 13 for number in (1, 2, 3))
# Far from whatever a test queues
ELSEWHERE = 1 << 24


class Nothing(Event):
    """Time passes."""

    def fire(self, now_ns: int) -> int:
        return 0


class DeadlineRig(Rig):
    """A device that takes `at_once` requests at a time and asks the scheduler only when it has room for one."""

    def __init__(
        self,
        at_once: int = 1,
        service_ns: int | None = 10_000,
        nr_cpus: int = 1,
        features: dict[str, int] | None = None,
        tunables: dict[str, int] | None = None,
    ) -> None:
        super().__init__(ScriptedDriver(service_ns, at_once), nr_cpus=nr_cpus, depth=128, features=features)
        set_elevator(self.queue, "mq-deadline")
        for name, value in (tunables or {}).items():
            self.tune(name, value)

    @property
    def deadline(self) -> Any:
        """The scheduler."""
        return self.queue.elevator

    def tune(self, name: str, value: int | str) -> None:
        """Write a tunable."""
        write(self.queue, f"queue/iosched/{name}", str(value))

    def read(self, *sectors: int, ioprio: int = 0) -> list[Bio]:
        """Reads of 4 KiB."""
        return [self._with(self.bio(sector), ioprio) for sector in sectors]

    def write(self, *sectors: int, ioprio: int = 0) -> list[Bio]:
        """Synchronous writes of 4 KiB."""
        return [self._with(self.bio(sector, op=OP_WRITE, flags=F_SYNC), ioprio) for sector in sectors]

    def _with(self, bio: Bio, ioprio: int) -> Bio:
        bio.ioprio = ioprio
        return bio

    def occupy(self, op: int = OP_READ) -> DeadlineRig:
        """One request in the driver, far behind all others, so that what comes now queues up."""
        self.send([self.bio(ELSEWHERE, op=op, flags=F_SYNC)]).run(self.events.now_ns + 1000)
        return self

    def queue_up(self, *batches: list[Bio]) -> DeadlineRig:
        """Send bios one by one, and stop before the driver has served anything."""
        self.send(*[[bio] for batch in batches for bio in batch]).run(self.events.now_ns + 1000)
        return self

    def wait(self, until_ns: int) -> DeadlineRig:
        """Be at a time, whether anything happens then or not."""
        self.events.at(until_ns, Nothing())
        self.run(until_ns)
        return self

    def give_back(self) -> DeadlineRig:
        """The driver does not take the request it holds after all: it is inserted again."""
        rq = self.driver.held.pop()
        assert rq.hctx is not None
        self.driver.in_service[rq.hctx] -= 1
        self.driver.service_ns = 1000
        self.queue.requeue(rq)
        return self

    def order(self) -> list[int]:
        """The sectors in the order in which they were issued, without the request that occupied the driver."""
        return [r.sector for r in self.records("D") if r.sector != ELSEWHERE]

    def runs(self) -> list[tuple[str, int]]:
        """How the directions took turns: ("R", 32), ("W", 16), ..."""
        issued = [r.rwbs[0] for r in self.records("D") if r.sector != ELSEWHERE]
        return [(way, len(list(group))) for way, group in groupby(issued)]


def reads_and_writes(rig: DeadlineRig, count: int) -> tuple[list[Bio], list[Bio]]:
    """`count` of each, none of which touch."""
    return rig.read(*[i * 100 for i in range(count)]), rig.write(*[i * 100 + 50 for i in range(count)])


def endless(rig: DeadlineRig, ioprio: int, until_ns: int) -> None:
    """Two reads of a class are always there."""
    sender = rig.senders[0]

    def again(bio: Bio) -> None:
        if rig.events.now_ns < until_ns:
            rig.send(rig.read(100 * rig.next_io, ioprio=ioprio))

    sender.on_done = again
    rig.send(rig.read(100 * rig.next_io, ioprio=ioprio), rig.read(100 * (rig.next_io + 1), ioprio=ioprio))
