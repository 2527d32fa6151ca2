"""The machine under the block layer: CPUs that charge for work, locks that spin, workers and interrupts.

`block/`, the schedulers and the devices do not know CPUs; they charge a step, take a lock, ask for a worker or for an
interrupt through `Host`. In virtual time `sim.machine_host` implements it with CPUs and a cost table; on a real clock
the work costs what it costs and the same calls do nothing.

Theory of operation
-------------------
`charge` moves the clock of the running section forward. `lock` moves it to the time at which the lock is free and
counts the difference as spinning; the section holds it until `unlock`. With `costs_on` false both do nothing, so a
machine without costs is pure queueing.

A section runs to its end before another begins, even on another CPU; that is why a lock is only the time at which
it becomes free. Code that loops over requests asks `yield_due` between two of them and returns to its CPU if someone
else should run first (design: no CPU runs ahead of another by more than a section).
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

import cython

from blklab.core.clock import Clock, Event
from blklab.core.steps import STEPS

if not cython.compiled:
    from blklab.core.steps import STEP_LOCK_HANDOVER

if TYPE_CHECKING:
    from collections.abc import Sequence


JIFFY_NS = 4_000_000  # HZ=250, Debian's


class Lock:
    """A spinlock: a serial resource. Counts how often it was taken and how long its takers spun."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.free_at_ns = 0
        self.taken = 0
        self.contended = 0
        self.spin_ns = 0
        self.held_ns = 0
        self.since_ns = 0


class Work(Event):
    """A work item of a kblockd-like worker. Queued at most once; `step` does one section of it."""

    def __init__(self) -> None:
        self.cpu = -1
        self.pending = False
        self.due_ns = -1
        self.next_work: Work | None = None

    def step(self) -> int:
        """Do one section. Returns 0 when finished, YIELD (2) when there is more to do."""
        raise NotImplementedError


class Host:
    """What the layers below ask of the machine. This base runs everything at once, on CPU 0, for free."""

    def __init__(self, clock: Clock, nr_cpus: int = 1) -> None:
        self.clock = clock
        self.nr_cpus = nr_cpus
        self.cpu = 0
        self.task_id = 0
        self.costs_on = False
        self.in_section = False
        self.jiffy_ns = JIFFY_NS
        self.cost_ns = array("q", [0] * len(STEPS))
        self.charged = array("q", [0] * len(STEPS))

    def set_costs(self, cost_ns: Sequence[int]) -> None:
        """Take a cost table: nanoseconds a step, in the order of `core.steps.STEPS`."""
        self.cost_ns = array("q", cost_ns)
        self.costs_on = any(cost_ns)

    def charge(self, step: int) -> None:
        """The running CPU has done `step` (a STEP_ constant) once."""
        if self.costs_on:
            self.clock.now_ns += self.cost_ns[step]
            self.charged[step] += 1

    def charge_n(self, step: int, count: int) -> None:
        """The running CPU has done `step` `count` times."""
        if self.costs_on:
            self.clock.now_ns += self.cost_ns[step] * count
            self.charged[step] += count

    def lock(self, lock: Lock, step: int) -> None:
        """Take `lock`, spinning until it is free; `step` is what an uncontended one costs."""
        if self.costs_on:
            clock = self.clock
            lock.taken += 1
            if lock.free_at_ns > clock.now_ns:
                lock.contended += 1
                lock.spin_ns += lock.free_at_ns - clock.now_ns
                clock.now_ns = lock.free_at_ns + self.cost_ns[STEP_LOCK_HANDOVER]
                self.charged[STEP_LOCK_HANDOVER] += 1
            clock.now_ns += self.cost_ns[step]
            self.charged[step] += 1
            lock.since_ns = clock.now_ns

    def unlock(self, lock: Lock) -> None:
        """Give `lock` back."""
        if self.costs_on:
            lock.free_at_ns = self.clock.now_ns
            lock.held_ns += lock.free_at_ns - lock.since_ns

    def yield_due(self) -> bool:
        """Whether somebody else is due before the running CPU's present time."""
        return False

    def cond_resched(self) -> bool:
        """At a place where a task in the kernel may be preempted (might_sleep): whether somebody waits for this CPU.
        Then the caller yields, and is not gone on with before it has had its turn."""
        return False

    def queue_work(self, work: Work, cpu: int, delay_ns: int) -> int:
        """Have a worker of `cpu` (-1: any) call `work.step` after `delay_ns`; a pending one is re-timed."""
        raise NotImplementedError

    def interrupt(self, cpu: int, event: Event, remote: bool) -> int:
        """Call `event.fire` in interrupt context on `cpu`; `remote`: sent there by another CPU (IPI)."""
        raise NotImplementedError

    def share_cache(self, cpu: int, other: int) -> bool:
        """Whether two CPUs share a last-level cache."""
        return True
