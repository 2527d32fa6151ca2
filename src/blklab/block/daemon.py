"""A kernel thread of a driver that submits bios: raid1d, dm's worker, a flush's second half.

What: `Daemon` is a `Submitter` for bios that do not come from a task's own system call, but from a completion or a
timer. Why: in interrupt context nothing may sleep for a tag, so the kernel hands such bios to a worker, too.

Theory of operation
-------------------
`queue_bio` may be called anywhere; a worker of any CPU submits the bios in order, with a plug if several wait. The
bios' own `submitter` (whose I/O it is, for schedulers that ask) stays what its maker set; `self` is only who runs.
Bios that are the daemon's own must have an `end_io`, since nobody else waits for them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import cython

from blklab.block.bio import BioList
from blklab.block.submit import Submitter
from blklab.core.host import Work

if TYPE_CHECKING:
    from blklab.block.bio import Bio
    from blklab.core.host import Host

if not cython.compiled:
    from blklab.block.consts import DONE, WAIT, YIELD


class Daemon(Submitter):
    """One such thread; `name` as ps shows it."""

    def __init__(self, host: Host, name: str) -> None:
        Submitter.__init__(self)
        self.host = host
        self.name = name
        self.given = BioList()
        self.work = DaemonWork(self)
        self.sleeping = False
        self.running = False  # between two sections: it is one thread, and has a CPU

    def queue_bio(self, bio: Bio) -> int:
        """Have a bio submitted (`bio.queue` says where to)."""
        self.given.append(bio)
        return self.wake_up()

    def wake_up(self) -> int:
        """Run, unless it waits for something in the block layer."""
        if self.sleeping or self.running or self.work.pending:
            return 0
        return self.host.queue_work(self.work, -1, 0)

    def wake(self) -> int:
        """What it slept for (a tag, an unfrozen queue) has come."""
        self.sleeping = False
        return self.wake_up()

    def step(self) -> int:
        """One section of its work: DONE, or YIELD."""
        self.cpu = self.host.cpu
        if not self.plug.active and self.given.head is not None and self.given.head is not self.given.tail:
            self.plug.start(1)
        result = self.advance()
        if result == DONE:
            bio = self.given.popleft()
            if bio is not None:
                self.begin(bio)
                return YIELD
            return self.finish_plug() if self.plug.active else DONE
        if result == WAIT:
            self.sleeping = True
            return DONE
        return YIELD


class DaemonWork(Work):
    """Its turn on a CPU."""

    def __init__(self, daemon: Daemon) -> None:
        Work.__init__(self)
        self.daemon = daemon

    def step(self) -> int:
        """One section."""
        daemon = self.daemon
        daemon.running = False
        result = daemon.step()
        daemon.running = result == YIELD
        return result
