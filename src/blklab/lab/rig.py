"""A small machine for block-layer tests: a scripted driver, tasks that submit what they are told, and a tracer.

Nothing here is a model of anything: the driver answers as the test says, and completes when the test says or after
`service_ns`.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable

from blklab.block.bio import Bio
from blklab.block.cgroup import Cgroup, CgroupTree
from blklab.block.cgroup_files import read_file, write_file
from blklab.block.consts import (
    DONE,
    OP_READ,
    RQF_LOST,
    STS_DEV_RESOURCE,
    STS_OK,
    STS_RESOURCE,
    STS_TIMEOUT,
    TR_ALL,
    WAIT,
)
from blklab.block.driver import Driver
from blklab.block.features import Features
from blklab.block.hwqueue import HardwareQueue
from blklab.block.legacy import LegacyPath
from blklab.block.queue import RequestQueue
from blklab.block.request import Request
from blklab.block.tags import TagSet
from blklab.block.trace import Record, Tracer
from blklab.rqos.throttle import throttle_init
from blklab.sim.cpu import MachineHost, Task
from blklab.sim.events import EventQueue
from blklab.sim.task_states import STEP_CONTINUE, STEP_SLEEP

NEVER = (1 << 63) - 1
MS = 1_000_000


class ScriptedDriver(Driver):
    """Answers each queue_rq from `answers` (else STS_OK) and ends each request with the next of `endings` (else
    STS_OK), `service_ns` after it took it; with `service_ns` None only `finish` ends requests. `budgets`: how many
    requests at a time, None for no budget."""

    def __init__(self, service_ns: int | None = 10_000, budgets: int | None = None) -> None:
        super().__init__()
        self.service_ns = service_ns
        self.answers: deque[int | str] = deque()
        self.endings: deque[int] = deque()
        self.held: list[Request] = []
        self.in_service: Counter[HardwareQueue] = Counter()
        self.budgets = budgets
        self.budgets_out = 0
        self.has_budget = budgets is not None
        self.give_up = True
        self.max_sectors = 2560
        self.served: list[tuple[int, int]] = []

    def attach(self, queue: RequestQueue) -> None:
        """The queue's limits and size."""
        super().attach(queue)
        queue.limits.set_max_hw_sectors(self.max_sectors, 2560)
        queue.size_sectors = 1 << 30

    def queue_rq(self, hctx: HardwareQueue, rq: Request, last: bool) -> int:
        """The next answer."""
        answer = self.answers.popleft() if self.answers else STS_OK
        if answer == "lose":
            hctx.queue.start_request(rq)
            rq.rq_flags |= RQF_LOST
            return STS_OK
        if answer == STS_DEV_RESOURCE and self.in_service[hctx] == 0:
            answer = STS_RESOURCE  # nothing of this hardware queue will complete and restart it
        if answer != STS_OK:
            return int(answer)
        self.in_service[hctx] += 1
        hctx.queue.start_request(rq)
        rq.status = self.endings.popleft() if self.endings else STS_OK
        self.served.append((rq.sector, rq.nr_sectors))
        if self.service_ns is None:
            self.held.append(rq)
        else:
            hctx.queue.clock.at(hctx.queue.clock.now_ns + self.service_ns, rq)
        return STS_OK

    def finish(self, rq: Request) -> None:
        """End a held request now."""
        self.held.remove(rq)
        rq.fire(rq.queue.clock.now_ns)

    def get_budget(self, queue: RequestQueue) -> int:
        """One, if any is left."""
        if self.budgets is not None and self.budgets_out >= self.budgets:
            return -1
        self.budgets_out += 1
        return 0

    def put_budget(self, queue: RequestQueue, token: int) -> int:
        """One comes back."""
        self.budgets_out -= 1
        return 0

    def end(self, rq: Request) -> int:
        """The request ends; with budgets the queues are run."""
        queue = rq.queue
        if not rq.rq_flags & RQF_LOST:
            assert rq.hctx is not None
            self.in_service[rq.hctx] -= 1
        queue.put_rq_budget(rq)
        queue.end_request(rq, rq.status)
        if self.has_budget:
            # Who hands out budgets runs the queues when one comes back, as SCSI does
            for waiting in self.queues:
                waiting.run_all()
        return 0

    def timeout(self, rq: Request) -> int:
        """Give up, or wait on."""
        return STS_TIMEOUT if self.give_up else STS_OK


class Sender(Task):
    """A task that submits batches of bios. A batch of `plug_from` or more holds a plug, as a call of io_submit does."""

    def __init__(self, host: MachineHost, cpu: int, pid: int, plug_from: int = 3) -> None:
        super().__init__(host, cpu, pid)
        self.batches: deque[list[Bio]] = deque()
        self.current_batch: deque[Bio] = deque()
        self.plug_from = plug_from
        self.busy = False
        self.ending_plug = False
        self.ended: list[tuple[int, int, int]] = []
        self.on_done: Callable[[Bio], object] | None = None

    def step(self) -> int:
        """Go on with a bio, with the plug, or with the next batch."""
        if self.busy:
            result = self.advance()
            if result != DONE:
                return STEP_SLEEP if result == WAIT else STEP_CONTINUE
            self.busy = False
        if self.current_batch:
            self.begin(self.current_batch.popleft())
            self.busy = True
            return STEP_CONTINUE
        if self.plug.active:
            return STEP_CONTINUE if self.finish_plug() != DONE else self._next()
        return self._next()

    def _next(self) -> int:
        self.in_kernel = False
        if not self.batches:
            return STEP_SLEEP
        self.current_batch = deque(self.batches.popleft())
        self.in_kernel = True
        if len(self.current_batch) >= self.plug_from:
            self.plug.start(1)
        return STEP_CONTINUE

    def bio_done(self, bio: Bio) -> int:
        """Keep which bio ended, how, and when."""
        self.ended.append((bio.io, bio.status, self.host.events.now_ns))  # type: ignore[arg-type]
        if self.on_done is not None:
            self.on_done(bio)
        return 0


class Rig:
    """One machine with one device (or several on one tag set), all tracepoints on, checks on."""

    def __init__(
        self,
        driver: ScriptedDriver | None = None,
        nr_cpus: int = 1,
        nr_hw_queues: int = 1,
        depth: int = 64,
        reserved: int = 0,
        devices: int = 1,
        hctx_shared: bool = False,
        features: dict[str, int] | None = None,
        costs: list[int] | None = None,
        single_queue: bool = False,
    ) -> None:
        self.events = EventQueue()
        self.host = MachineHost(self.events, nr_cpus)
        if costs is not None:
            self.host.set_costs(costs)
        self.driver = driver or ScriptedDriver()
        self.features = Features()
        for name, value in (features or {}).items():
            assert hasattr(self.features, name)
            setattr(self.features, name, value)
        self.tag_set = TagSet(nr_hw_queues, depth, nr_cpus, reserved, hctx_shared)
        self.queues = [
            RequestQueue(f"dev{i}", i, self.host, self.driver, self.tag_set, self.features)
            for i in range(devices)
        ]
        self.queue = self.queues[0]
        self.tracer = Tracer(self.host)
        for queue in self.queues:
            queue.checks = True
            if single_queue:
                LegacyPath(queue)
            queue.set_trace(self.tracer, TR_ALL)
        self.senders = [Sender(self.host, cpu, 100 + cpu) for cpu in range(nr_cpus)]
        self.cgroups: CgroupTree | None = None
        self.members: dict[tuple[str, int], Sender] = {}
        self.next_io = 0

    def cgroup(self, path: str, version: int = 2) -> Cgroup:
        """The control group of that path, made with its parents if it is not there. The first call gives the machine
        control groups: before any bio."""
        if self.cgroups is None:
            self.cgroups = CgroupTree(version)
            for queue in self.queues:
                self.cgroups.add_queue(queue)
                throttle_init(queue)
        return self.cgroups.make(path)

    def write_file(self, path: str, name: str, text: str) -> None:
        """`echo TEXT > PATH/NAME` of a control group."""
        group = self.cgroup(path)
        assert self.cgroups is not None
        write_file(group, self.cgroups, name, text, self.features)

    def read_file(self, path: str, name: str) -> str:
        """`cat PATH/NAME` of a control group."""
        group = self.cgroup(path)
        assert self.cgroups is not None
        return read_file(group, self.cgroups, name, self.features)

    def _member(self, path: str, cpu: int) -> Sender:
        # The task of a control group on a CPU
        if (path, cpu) not in self.members:
            sender = Sender(self.host, cpu, 200 + len(self.members))
            sender.cgroup = self.cgroup(path)
            self.members[path, cpu] = sender
            self.senders.append(sender)
        return self.members[path, cpu]

    def bio(
        self,
        sector: int,
        nr_sectors: int = 8,
        op: int = OP_READ,
        flags: int = 0,
        device: int = 0,
        cpu: int = 0,
    ) -> Bio:
        """A bio, numbered in order."""
        bio = Bio()
        bio.queue = self.queues[device]
        bio.submitter = self.senders[cpu]
        bio.io = self.next_io
        bio.op = op
        bio.flags = flags
        bio.sector = sector
        bio.nr_sectors = nr_sectors
        self.next_io += 1
        return bio

    def send(self, *batches: Iterable[Bio], cpu: int = 0, cgroup: str | None = None) -> Rig:
        """Have a task submit batches (lists of bios) one after the other, from now on; with `cgroup` ("/a") another
        task, of that control group."""
        sender = self.senders[cpu] if cgroup is None else self._member(cgroup, cpu)
        for batch in batches:
            bios = list(batch)
            for bio in bios if cgroup is not None else ():
                bio.submitter = sender
            sender.batches.append(bios)
        self.host.wake(sender)
        return self

    def run(self, until_ns: int = 600_000 * MS) -> Rig:
        """Let time pass until nothing is left to happen, or to a time."""
        while self.events.run(until_ns, 100_000) and self.events.head_ns <= until_ns:
            pass
        return self

    def records(self, actions: str = "Q G P U UT I M F X D R C", device: int | None = None) -> list[Record]:
        """The trace so far, of some actions."""
        wanted = set(actions.split())
        return [r for r in self.tracer if r.action in wanted and (device is None or r.device == device)]

    def story(self, actions: str = "Q G P U UT I M F X D R C") -> str:
        """The trace as 'Q0+8 G0+8 D0+8': action, sector, sectors; U and UT with their number of requests."""
        words = []
        for r in self.records(actions):
            if r.action in ("U", "UT"):
                words.append(f"{r.action}{r.extra}")
            elif r.action == "P":
                words.append("P")
            else:
                words.append(f"{r.action}{r.sector}+{r.nr_sectors}")
        return " ".join(words)

    def counts(self) -> Counter[str]:
        """How often each action was traced."""
        return Counter(r.action for r in self.tracer)

    def ended(self) -> list[int]:
        """The numbers of all bios that have ended, in order of their end."""
        return [io for _, io in sorted((at, io) for s in self.senders for io, _, at in s.ended)]

    def describe(self) -> str:
        """Where everything stands, for the message of a failed test."""
        lines = [f"{len(self.ended())} of {self.next_io} bios ended at {self.events.now_ns} ns"]
        for q in self.queues:
            lines.append(
                f"{q.name} {q.elevator_name} usage {q.usage} freeze {q.freeze_depth} halted {q.halted}"
            )
            for h in q.hctxs:
                sched = h.sched_tags and (h.sched_tags.nr_in_use, h.sched_tags.bitmap.waiting)
                lines.append(
                    f"  hctx{h.index} tags {h.tags.bitmap.in_use()} waiting {h.tags.bitmap.waiting} "
                    f"active {h.user.active} {h.user.nr_active} of {h.tags.active_queues} queues, sched {sched} "
                    f"dispatch {h.dispatch_list.count} pending {h.nr_pending} restart {h.restart} "
                    f"waits for tag {h.dispatch_wait.wait_queue is not None} has_pending {h.has_pending()} "
                    f"work {h.work and (h.work.pending, h.work.due_ns, h.work.run.active)}"
                )
        for s in self.senders:
            lines.append(
                f"task {s.pid} state {s.state} stage {s.stage} waits {s.wait_queue is not None} "
                f"batches {len(s.batches)} busy {s.busy} run {s.run.active} "
                f"plug {s.plug.count} {s.plug.requests.count} {s.plug.cached.count}"
            )
        lines.append(f"budgets out {self.driver.budgets_out}")
        return "\n".join(lines)

    def assert_clean(self) -> None:
        """Nothing is in flight, nothing leaked."""
        for queue in self.queues:
            assert queue.usage == 0, f"{queue.name}: {queue.usage} requests in use"
            for hctx in queue.hctxs:
                assert hctx.tags.nr_in_use == 0, (
                    f"{queue.name} leaked driver tags {hctx.tags.bitmap.in_use()}"
                )
                assert hctx.sched_tags is None or hctx.sched_tags.nr_in_use == 0, (
                    f"{queue.name} leaked scheduler tags"
                )
                assert hctx.dispatch_list.count == 0 and hctx.nr_pending == 0
                assert hctx.user.nr_active == 0
                assert hctx.tags.bitmap.waiting == 0
            legacy = queue.legacy
            if legacy is not None:
                assert (legacy.in_driver, legacy.nr_sorted, legacy.elvpriv, legacy.room.total()) == (
                    0,
                    0,
                    0,
                    0,
                )
                for side in (legacy.room.synchronous, legacy.room.asynchronous):
                    assert side.sleepers.count == 0
            assert queue.stat.in_flight_read == 0 and queue.stat.in_flight_write == 0
        assert self.driver.budgets_out == 0
