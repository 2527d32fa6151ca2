"""Tasks that share a CPU: who has had least of it runs next (CFS)."""

from __future__ import annotations

from itertools import groupby

from blklab.core.host import Work
from blklab.core.steps import STEP_USER_IO, STEPS
from blklab.sim.cpu import FairQueue, MachineHost, Task
from blklab.sim.events import EventQueue
from blklab.sim.task_states import STEP_CONTINUE, STEP_EXIT, STEP_SLEEP

SECTION_NS = 100_000
NEVER = (1 << 63) - 1


class Burner(Task):
    """Burns CPU in sections of 0.1 ms, and notes its pid for each. Sleeps once, before section `sleep_at`."""

    def __init__(
        self, host: MachineHost, pid: int, log: list[int], sections: int, sleep_at: int = -1
    ) -> None:
        super().__init__(host, 0, pid)
        self.log = log
        self.left = sections
        self.sleep_at = sleep_at

    def step(self) -> int:
        if self.left == self.sleep_at:
            self.sleep_at = -1
            return STEP_SLEEP
        if self.left == 0:
            return STEP_EXIT
        self.left -= 1
        self.host.charge(STEP_USER_IO)
        self.log.append(self.pid)
        return STEP_CONTINUE


class Nothing(Work):
    """A worker's item that does nothing."""

    def step(self) -> int:
        return 0


class Waker(Task):
    """Not a task but a timer: wakes another one, or queues work."""

    def __init__(self, host: MachineHost, sleeper: Task | None = None, work: Work | None = None) -> None:
        super().__init__(host, 0, 0)
        self.sleeper = sleeper
        self.work = work

    def fire(self, now_ns: int) -> int:
        if self.work is not None:
            return self.host.queue_work(self.work, 0, 0)
        assert self.sleeper is not None
        return self.sleeper.wake()


def machine(nr_cpus: int = 1) -> MachineHost:
    host = MachineHost(EventQueue(), nr_cpus)
    host.set_costs([SECTION_NS if name == "user_io" else 0 for name, _ in STEPS])
    return host


def runs(log: list[int]) -> list[tuple[int, int]]:
    return [(pid, len(list(group))) for pid, group in groupby(log)]


def test_the_queue_is_in_order_of_time_had_then_of_arrival() -> None:
    host = machine()
    queue = FairQueue()
    order = [(1, 30), (2, 10), (3, 20), (4, 10), (5, 40)]
    for pid, vruntime_ns in order:
        task = Task(host, 0, pid)
        task.vruntime_ns = vruntime_ns
        queue.push(task)

    assert queue.count == 5
    assert [queue.pop().pid for _ in order] == [2, 4, 3, 1, 5]
    assert (queue.count, queue.head, queue.tail) == (0, None, None)


def test_two_tasks_take_slices_of_half_a_latency_period() -> None:
    host = machine()
    log: list[int] = []
    for pid in (1, 2):
        host.start(Burner(host, pid, log, 100), 0)
    host.events.run(NEVER, 10_000)

    # 6 ms / 2, and the section in which it is over
    assert runs(log)[:4] == [(1, 31), (2, 31), (1, 31), (2, 31)]
    assert sorted(log) == [1] * 100 + [2] * 100


def test_slices_grow_with_the_number_of_cpus() -> None:
    host = machine(nr_cpus=8)
    log: list[int] = []
    for pid in (1, 2):
        host.start(Burner(host, pid, log, 300), 0)
    host.events.run(NEVER, 10_000)

    # Linux: 1 + log2(8) = 4 times as long
    assert runs(log)[0] == (1, 121)


def test_a_task_that_slept_long_takes_the_cpu_from_one_that_ran() -> None:
    host = machine()
    log: list[int] = []
    sleeper = Burner(host, 1, log, 10, sleep_at=9)
    host.start(sleeper, 0)
    host.start(Burner(host, 2, log, 100), 0)
    host.events.at(2_050_000, Waker(host, sleeper))
    host.events.run(NEVER, 10_000)

    # It is 1.9 ms behind, more than the wakeup granularity of 1 ms
    assert runs(log) == [(1, 1), (2, 20), (1, 9), (2, 80)]


def test_a_task_that_is_hardly_behind_waits_for_the_slice_to_end() -> None:
    host = machine()
    log: list[int] = []
    sleeper = Burner(host, 1, log, 10, sleep_at=9)
    host.start(sleeper, 0)
    host.start(Burner(host, 2, log, 100), 0)
    host.events.at(550_000, Waker(host, sleeper))
    host.events.run(NEVER, 10_000)

    assert runs(log)[:3] == [(1, 1), (2, 31), (1, 9)]


def test_a_long_sleep_gives_no_more_credit_than_half_a_latency_period() -> None:
    host = machine()
    log: list[int] = []
    sleeper = Burner(host, 1, log, 200, sleep_at=199)
    host.start(sleeper, 0)
    host.start(Burner(host, 2, log, 1000), 0)
    host.events.at(50_050_000, Waker(host, sleeper))
    host.events.run(NEVER, 10_000)

    assert sleeper.vruntime_ns > 50_000_000
    # Its slice, and no more than its credit of 3 ms before the other is level
    assert runs(log)[2] == (1, 31)


def test_after_a_worker_has_run_who_has_had_least_goes_on() -> None:
    host = machine()
    log: list[int] = []
    for pid in (1, 2, 3):
        host.start(Burner(host, pid, log, 40), 0)
    for at in (250_000, 450_000):
        host.events.at(at, Waker(host, work=Nothing()))
    host.events.run(NEVER, 10_000)

    # Without workers each would have its slice of 2 ms
    assert runs(log)[:3] == [(1, 3), (2, 2), (3, 21)]
