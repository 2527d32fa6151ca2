"""CPUs in virtual time: who runs, in what order, and whose clock it is.

What: `Cpu` runs sections of interrupts, workers and tasks one after another; `MachineHost` is the `Host` that
the block layer charges and asks for workers and interrupts; `Task` is a thread.

Theory of operation
-------------------
A section is a piece of work that is not interrupted: at most one bio's submission, one request's dispatch or
one completion. While a section runs, the clock's `now_ns` is its CPU's own time, moved forward by `charge` and
`lock`. After each section the CPU looks at the event queue: if something there is due earlier than its own
time, it comes back later (`yield_due`), so no CPU runs ahead of another by more than a section.

Order on one CPU: interrupts first (one entry is charged for all that wait); then the present task while it is
in the kernel, which is not preempted there (PREEMPT_VOLUNTARY, the default of server kernels; `preempt_full`
lets workers in between sections); then kblockd's workers, which run at high priority; then tasks by CFS's
rules. Each has its CPU time so far (`vruntime_ns`), and who has had least runs. Others get the CPU when the
present one has had its slice, when a woken one has had a wakeup granularity less, and after a worker has run.
A sleeper comes back with no more than half a latency period of credit. So a job whose I/Os are dispatched by a
worker takes turns with the others at every I/O (capture busy/scsi-none-qdepth2), and which of them finds a free
tag, or somebody to merge with, depends on it.

With all costs 0 a CPU's time does not move, nothing is ever due earlier, every section runs at once, and tasks
take turns in order of arrival.

Deliberate differences: a task stays on its CPU; all tasks have one weight; a slice ends when it is over and not
at the next tick; workers and interrupts count for nobody; kernels since 6.6 (EEVDF) schedule no differently; an
idle CPU wakes at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import cython

from blklab.block.submit import Submitter
from blklab.core.clock import Event
from blklab.core.host import Host, Work

if TYPE_CHECKING:
    from collections.abc import Callable

    from blklab.sim.events import EventQueue

if not cython.compiled:
    from blklab.core.charging import charge
    from blklab.core.steps import STEP_IRQ, STEP_SWITCH, STEP_WAKE_TASK, STEP_WAKE_WORKER
    from blklab.sim.task_states import (
        KWORKER_PID,
        LATENCY_NS,
        MIN_GRANULARITY_NS,
        STEP_CONTINUE,
        STEP_EXIT,
        STILL_SECTIONS,
        TASK_EXITED,
        TASK_RUNNABLE,
        TASK_RUNNING,
        TASK_SLEEPING,
        WAKEUP_GRANULARITY_NS,
    )


class Ring:
    """Objects first in, first out."""

    def __init__(self) -> None:
        self.room = 16
        self.first = 0
        self.count = 0
        self.items: list[object] = [None] * 16

    def push(self, item: object) -> None:
        """Behind the last one."""
        if self.count == self.room:
            kept = [self.items[(self.first + k) & (self.room - 1)] for k in range(self.room)]
            self.items = kept + [None] * self.room
            self.first = 0
            self.room *= 2
        self.items[(self.first + self.count) & (self.room - 1)] = item
        self.count += 1

    def pop(self) -> object:
        """The first one; there must be one."""
        item = self.items[self.first]
        self.items[self.first] = None
        self.first = (self.first + 1) & (self.room - 1)
        self.count -= 1
        return item


class FairQueue:
    """Runnable tasks, the one that has had least CPU time first; in order of arrival among equals."""

    def __init__(self) -> None:
        self.head: Task | None = None
        self.tail: Task | None = None
        self.count = 0

    def push(self, task: Task) -> None:
        """Behind all that have had no more."""
        self.count += 1
        task.following = None
        if self.tail is None:
            self.head = task
            self.tail = task
            return
        if self.tail.vruntime_ns <= task.vruntime_ns:
            self.tail.following = task
            self.tail = task
            return
        before: Task | None = None
        after = self.head
        while after is not None and after.vruntime_ns <= task.vruntime_ns:
            before = after
            after = after.following
        task.following = after
        if before is None:
            self.head = task
        else:
            before.following = task

    def pop(self) -> Task:
        """The first one; there must be one."""
        task: Task = self.head
        self.head = task.following
        if self.head is None:
            self.tail = None
        task.following = None
        self.count -= 1
        return task


class Task(Submitter):
    """A thread on one CPU. `step` does one section and says how it goes on."""

    def __init__(self, host: MachineHost, cpu: int, pid: int) -> None:
        Submitter.__init__(self)
        self.next_task: Task | None = None
        self.host = host
        self.cpu = cpu
        self.pid = pid
        self.state = TASK_SLEEPING
        self.in_kernel = False
        self.ran_since_ns = 0
        self.vruntime_ns = 0
        self.following: Task | None = None
        self.usr_ns = 0
        self.sys_ns = 0
        self.switches = 0
        self.preempted = 0

    def step(self) -> int:
        """One section: STEP_CONTINUE, STEP_SLEEP or STEP_EXIT."""
        raise NotImplementedError

    def wake(self) -> int:
        """Make it runnable on its CPU."""
        return self.host.wake(self)

    def fire(self, now_ns: int) -> int:
        """A timer the task set has come."""
        return self.host.wake(self)


class Cpu(Event):
    """One CPU. Fires when it has something to run at its own time."""

    def __init__(self, host: MachineHost, index: int) -> None:
        self.host = host
        self.index = index
        self.busy_until_ns = 0
        self.scheduled = False
        self.running = False
        self.in_irq = False
        self.irqs = Ring()
        self.works = Ring()
        self.tasks = FairQueue()
        self.current: Task | None = None
        self.least_vruntime_ns = 0
        self.resched = False
        self.gives_way = False  # its task is in the kernel, at a place where it may be preempted
        self.work: Work | None = None
        self.busy_ns = 0
        self.irq_ns = 0
        self.worker_ns = 0

    def kick(self, inline: bool) -> int:
        """There is something to run. `inline`: at once if the CPU is idle and nobody is in a section; only
        for callers that have nothing left to do, as what runs may use again what they hold. Else by an event,
        at its time."""
        if self.running or self.scheduled:
            return 0
        clock = self.host.events
        if inline and not self.host.in_section and self.busy_until_ns <= clock.now_ns:
            return self.loop(None)
        self.scheduled = True
        at = clock.now_ns
        return clock.at(at if at > self.busy_until_ns else self.busy_until_ns, self)

    def fire(self, now_ns: int) -> int:
        """It is this CPU's turn."""
        self.scheduled = False
        return self.loop(None)

    def loop(self, first: Event | None) -> int:
        """Run sections until there is nothing to run, or somebody else is due before this CPU's time. `first`: an
        interrupt that has just arrived at this CPU, which was idle."""
        host = self.host
        clock = host.events
        host.in_section = True
        host.cpu = self.index
        self.running = True
        start = clock.now_ns
        host.turns += 1
        while True:
            if first is not None:
                self._interrupt(first)
                first = None
            elif self.irqs.count:
                self._interrupt(self.irqs.pop())
            else:
                self.in_irq = False
                task = self.current
                if task is not None and task.in_kernel and not host.preempt_full and not self.gives_way:
                    self._run_task(task)
                elif self.work is not None or self.works.count:
                    self._run_work()
                elif task is not None:
                    self.gives_way = False
                    if self.resched and self.tasks.count:
                        self._put_back(task)
                    else:
                        self._run_task(task)
                elif self.tasks.count:
                    self._switch_in()
                else:
                    break
            if clock.now_ns == host.still_ns:
                host.still += 1
                if host.still > STILL_SECTIONS:
                    host.stuck = True
                    clock.stop()
                    break
            else:
                host.still_ns = clock.now_ns
                host.still = 0
            if clock.head_ns < clock.now_ns:
                if self.irqs.count or self.works.count or self.tasks.count or self.work or self.current:
                    self.scheduled = True
                    clock.at(clock.now_ns, self)
                break
        self.running = False
        host.in_section = False
        self.busy_until_ns = clock.now_ns
        self.busy_ns += clock.now_ns - start
        return 0

    def may_go_on(self, task: Task) -> bool:
        """Whether its task may do another section at once, since `loop` would choose it again."""
        clock = self.host.events
        if self.irqs.count or clock.head_ns < clock.now_ns:
            return False
        if task.in_kernel and not self.host.preempt_full and not self.gives_way:
            return True
        return self.work is None and self.works.count == 0 and self.tasks.count == 0

    def _interrupt(self, event: Event) -> int:
        host = self.host
        clock = host.events
        start = clock.now_ns
        if not self.in_irq:
            self.in_irq = True
            charge(host, STEP_IRQ)
        event.fire(clock.now_ns)
        self.irq_ns += clock.now_ns - start
        return 0

    def _run_work(self) -> int:
        host = self.host
        start = host.events.now_ns
        if self.work is None:
            work: Work = self.works.pop()
            if not work.pending or work.due_ns >= 0 or work.cpu != self.index:
                return 0  # re-timed or moved while it waited
            work.pending = False
            self.work = work
            if host.costs_on:
                # The switch is a section of its own: what other CPUs do meanwhile comes before the worker's first step
                charge(host, STEP_SWITCH)
                self.worker_ns += host.events.now_ns - start
                return 0
        host.task_id = KWORKER_PID + self.index
        if self.work.step() == 0:
            self.work = None
            task = self.current
            if task is not None and self.works.count == 0:
                if self.tasks.count and self.tasks.head.vruntime_ns < task.vruntime_ns:
                    self._put_back(task)
                else:
                    charge(host, STEP_SWITCH)  # back to the task that it interrupted
        self.worker_ns += host.events.now_ns - start
        return 0

    def _switch_in(self) -> int:
        host = self.host
        task = self.tasks.pop()
        self.current = task
        self.resched = False
        if task.vruntime_ns > self.least_vruntime_ns:
            self.least_vruntime_ns = task.vruntime_ns
        task.state = TASK_RUNNING
        task.ran_since_ns = host.events.now_ns
        charge(host, STEP_SWITCH)
        return 0

    def _run_task(self, task: Task) -> int:
        host = self.host
        clock = host.events
        host.task_id = task.pid
        start = clock.now_ns
        result = task.step()
        task.vruntime_ns += clock.now_ns - start
        if result == STEP_CONTINUE:
            if not task.in_kernel and self.tasks.count and (self.resched or self._slice_is_over(task)):
                self._put_back(task)
            return 0
        self.current = None
        if result == STEP_EXIT:
            task.state = TASK_EXITED
            host.exited(task)
        elif task.state == TASK_RUNNING:
            task.state = TASK_SLEEPING
            task.switches += 1
        else:
            # Woken before it had gone to sleep
            task.switches += 1
            self.tasks.push(task)
        return 0

    def _slice_is_over(self, task: Task) -> bool:
        # sched_slice
        host = self.host
        slice_ns = host.latency_ns // (self.tasks.count + 1)
        if slice_ns < host.min_granularity_ns:
            slice_ns = host.min_granularity_ns
        return host.events.now_ns - task.ran_since_ns > slice_ns

    def _put_back(self, task: Task) -> int:
        # The present task is preempted
        task.preempted += 1
        task.state = TASK_RUNNABLE
        self.current = None
        self.tasks.push(task)
        return 0

    def woken(self, task: Task) -> int:
        """A task becomes runnable here (place_entity), and perhaps preempts the present one
        (check_preempt_wakeup)."""
        host = self.host
        current = self.current
        if current is not None:
            # update_min_vruntime
            least = current.vruntime_ns
            if self.tasks.count and self.tasks.head.vruntime_ns < least:
                least = self.tasks.head.vruntime_ns
            if least > self.least_vruntime_ns:
                self.least_vruntime_ns = least
        least = self.least_vruntime_ns - host.latency_ns // 2
        if task.vruntime_ns < least:
            task.vruntime_ns = least
        if current is not None and current.vruntime_ns - task.vruntime_ns > host.wakeup_granularity_ns:
            self.resched = True
        self.tasks.push(task)
        return 0


class MachineHost(Host):
    """The CPUs of a machine. `llc_cpus`: how many neighbouring CPUs share a last-level cache."""

    def __init__(
        self, events: EventQueue, nr_cpus: int, llc_cpus: int = 0, preempt_full: bool = False
    ) -> None:
        Host.__init__(self, events, nr_cpus)
        self.events = events
        self.preempt_full = preempt_full
        self.llc_cpus = llc_cpus or nr_cpus
        self.cpus = [Cpu(self, i) for i in range(nr_cpus)]
        # sysctl_sched_latency and its fellows grow with the number of CPUs, up to 8: by 1 + log2
        factor = min(nr_cpus, 8).bit_length()
        self.latency_ns = LATENCY_NS * factor
        self.min_granularity_ns = MIN_GRANULARITY_NS * factor
        self.wakeup_granularity_ns = WAKEUP_GRANULARITY_NS * factor
        self.live_tasks = 0
        self.work_timers: dict[Work, WorkTimer] = {}
        self.turns = 0
        # Sections in a row at one and the same time: a run that does not get on
        self.still = 0
        self.still_ns = -1
        self.stuck = False
        self.when_exited: Callable[[Task], object] | None = None

    def yield_due(self) -> bool:
        """Whether somebody else is due before the running CPU's present time, or an interrupt waits for
        it."""
        if self.events.head_ns < self.events.now_ns:
            return True
        cpu: Cpu = self.cpus[self.cpu]
        return cpu.irqs.count > 0

    def cond_resched(self) -> bool:
        """Whether a worker, or a task that was woken, waits for the running CPU, whose task is in the kernel."""
        cpu: Cpu = self.cpus[self.cpu]
        if cpu.current is None or cpu.in_irq or cpu.work is not None:
            return False
        if cpu.works.count or (cpu.resched and cpu.tasks.count):
            cpu.gives_way = True
            return True
        return False

    def interrupt(self, cpu: int, event: Event, remote: bool) -> int:
        """Interrupt a CPU: `event.fire` runs there before anything else."""
        target: Cpu = self.cpus[cpu]
        if not (self.in_section or target.scheduled or target.busy_until_ns > self.events.now_ns):
            return target.loop(event)
        target.irqs.push(event)
        return target.kick(False)

    def queue_work(self, work: Work, cpu: int, delay_ns: int) -> int:
        """kblockd_mod_delayed_work_on: queued once; a waiting one is moved to the new time."""
        if delay_ns > 0:
            work.pending = True
            work.cpu = self.cpu if cpu < 0 else cpu
            work.due_ns = self.events.now_ns + delay_ns
            timer: WorkTimer | None = self.work_timers.get(work)
            if timer is None:
                timer = WorkTimer(self, work)
                self.work_timers[work] = timer
            if 0 <= timer.at_ns <= work.due_ns:
                return 0  # it comes before, and then looks again
            timer.at_ns = work.due_ns
            return self.events.at(work.due_ns, timer)
        if work.pending and work.due_ns < 0:
            return 0
        work.pending = True
        work.due_ns = -1
        work.cpu = self.cpu if cpu < 0 else cpu
        charge(self, STEP_WAKE_WORKER)
        target: Cpu = self.cpus[work.cpu]
        target.works.push(work)
        return target.kick(False)

    def share_cache(self, cpu: int, other: int) -> bool:
        """Whether both are of the same group of `llc_cpus`."""
        return cpu // self.llc_cpus == other // self.llc_cpus

    # -- tasks -------------------------------------------------------------------

    def start(self, task: Task, at_ns: int) -> int:
        """A new task becomes runnable at a time."""
        self.live_tasks += 1
        return self.events.at(at_ns, task)

    def wake(self, task: Task) -> int:
        """Make a sleeping task runnable."""
        if task.state == TASK_RUNNING:
            # It has not gone to sleep yet: its section ends with STEP_SLEEP and finds this
            task.state = TASK_RUNNABLE
            return 0
        if task.state != TASK_SLEEPING:
            return 0
        task.state = TASK_RUNNABLE
        cpu: Cpu = self.cpus[task.cpu]
        charge(self, STEP_WAKE_TASK)
        cpu.woken(task)
        return cpu.kick(False)

    def exited(self, task: Task) -> int:
        """A task has ended: tell who wants to know, and stop with the last one."""
        self.live_tasks -= 1
        if self.when_exited is not None:
            self.when_exited(task)
        if self.live_tasks == 0:
            self.events.stop()
        return 0


class WorkTimer(Event):
    """The timer of a work item; one waits in the clock's queue, also if the item is re-timed again and again."""

    def __init__(self, host: MachineHost, work: Work) -> None:
        self.host = host
        self.work = work
        self.at_ns = -1

    def fire(self, now_ns: int) -> int:
        """Its time has come, or that of an earlier request."""
        work = self.work
        if now_ns == self.at_ns:
            self.at_ns = -1
        if not work.pending or work.due_ns < 0:
            return 0
        if work.due_ns > now_ns:
            if self.at_ns < 0:
                self.at_ns = work.due_ns
                return self.host.events.at(work.due_ns, self)
            return 0
        work.due_ns = -1
        cpu: Cpu = self.host.cpus[work.cpu]
        cpu.works.push(work)
        return cpu.kick(True)
