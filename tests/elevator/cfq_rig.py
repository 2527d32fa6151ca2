"""What the tests of CFQ share: a machine with a single queue, kernels by version, and tasks that keep a queue full."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rig import MS, Rig, ScriptedDriver

from blklab.block.attributes import read, write
from blklab.block.bio import Bio
from blklab.block.cgroup import POLICY_CFQ
from blklab.block.consts import OP_READ
from blklab.block.switch import set_elevator
from blklab.core.clock import Event
from blklab.lab.rig import Sender
from blklab.sim.kernels import load_features

RT, BE, IDLE = (number << 13 for number in (1, 2, 3))
AGES = ("2.6.33", "2.6.34", "2.6.36", "2.6.38", "3.2", "3.10", "4.4", "4.14", "4.20")


class Later(Event):
    """Do something at a time."""

    def __init__(self, what: Callable[[], object]) -> None:
        self.what = what

    def fire(self, now_ns: int) -> int:
        """It is the time."""
        self.what()
        return 0


class CfqRig(Rig):
    """A disk that serves `at_once` requests at a time, each in `service_ns`, on a kernel of that version."""

    def __init__(
        self,
        kernel: str = "2.6.34",
        groups: tuple[str, ...] = (),
        at_once: int | None = 1,
        service_ns: int = 5 * MS,
        rotational: bool = True,
        nr_cpus: int = 4,
        features: dict[str, int] | None = None,
        tunables: dict[str, int] | None = None,
        version: int = 1,
        quiet: bool = False,
    ) -> None:
        values = load_features(kernel).as_dict() | (features or {})
        super().__init__(
            self.make_driver(service_ns, at_once),
            nr_cpus=nr_cpus,
            depth=128,
            features=values,
            single_queue=True,
        )
        self.queue.rotational = rotational
        if quiet:
            self.queue.set_trace(None, 0)
        for path in groups:
            self.cgroup(path, version)
        set_elevator(self.queue, "cfq")
        for name, value in (tunables or {}).items():
            self.tune(name, value)
        self.loads: list[Load] = []
        self.until_ns = 0

    def make_driver(self, service_ns: int, at_once: int | None) -> ScriptedDriver:
        """The disk."""
        return ScriptedDriver(service_ns, at_once)

    @property
    def cfq(self) -> Any:
        """The scheduler."""
        return self.queue.elevator

    @property
    def path(self) -> Any:
        """The single queue."""
        return self.queue.legacy

    @property
    def cfqd(self) -> Any:
        """Its state."""
        return self.cfq.cfqd

    def tune(self, name: str, value: int | str) -> None:
        """Write a tunable."""
        write(self.queue, f"queue/iosched/{name}", str(value))

    def tuned(self, name: str) -> int | str:
        """Read a tunable."""
        return read(self.queue, f"queue/iosched/{name}")

    def group(self, path: str) -> Any:
        """CFQ's data of a control group."""
        return self.cgroup(path).blkgs[self.queue.number].pd[POLICY_CFQ]

    def task(self, path: str | None = None) -> Sender:
        """A new task, of a control group."""
        sender = Sender(self.host, len(self.senders) % self.host.nr_cpus, 1000 + len(self.senders))
        if path is not None:
            sender.cgroup = self.cgroup(path)
        self.senders.append(sender)
        return sender

    def load(
        self,
        depth: int,
        where: Callable[[int], int],
        path: str | None = None,
        op: int = OP_READ,
        flags: int = 0,
        ioprio: int = 0,
        nr_sectors: int = 8,
        think_ns: int = 0,
        most: int = 1 << 30,
        task: Sender | None = None,
    ) -> Load:
        """A task that has `depth` I/Os out at any time, `most` in all; the n-th begins at sector where(n)."""
        sender = task or self.task(path)
        made = Load(self, sender, depth, where, op, flags, ioprio, nr_sectors, think_ns, most)
        self.loads.append(made)
        return made

    def run_for(self, duration_ns: int) -> CfqRig:
        """Let so much time pass."""
        self.until_ns = max(self.until_ns, self.events.now_ns) + duration_ns
        self.run(self.until_ns)
        return self

    def messages(self, word: str = "") -> list[str]:
        """The messages in the trace that have the word."""
        return [text for text in self.texts() if word in text]

    def texts(self) -> list[str]:
        """All messages."""
        return list(self.tracer.messages)


class Load:
    """One task of `CfqRig.load`: `done` I/Os have ended, `latencies_ns` says after how long."""

    def __init__(
        self,
        rig: CfqRig,
        sender: Sender,
        depth: int,
        where: Callable[[int], int],
        op: int,
        flags: int,
        ioprio: int,
        nr_sectors: int,
        think_ns: int,
        most: int,
    ) -> None:
        self.rig = rig
        self.sender = sender
        self.most = most
        self.where = where
        self.op = op
        self.flags = flags
        self.ioprio = ioprio
        self.nr_sectors = nr_sectors
        self.think_ns = think_ns
        self.sent = 0
        self.done = 0
        self.stopped = False
        self.began: dict[object, int] = {}
        self.latencies_ns: list[int] = []
        sender.on_done = self._one_done
        sender.batches.append([self._bio() for _ in range(depth)])
        rig.host.wake(sender)

    def _bio(self) -> Bio:
        bio = self.rig.bio(self.where(self.sent), self.nr_sectors, self.op, self.flags)
        bio.submitter = self.sender
        bio.ioprio = self.ioprio
        self.sent += 1
        self.began[bio.io] = self.rig.events.now_ns
        return bio

    def _one_done(self, bio: Bio) -> None:
        if bio.io not in self.began:
            return  # sent by the test itself
        self.done += 1
        self.latencies_ns.append(self.rig.events.now_ns - self.began.pop(bio.io))
        if self.stopped or self.sent >= self.most:
            return
        if self.think_ns:
            self.rig.events.at(self.rig.events.now_ns + self.think_ns, Later(self._send))
        else:
            self._send()

    def _send(self) -> None:
        if not self.stopped and self.sent < self.most:
            self.sender.batches.append([self._bio()])
            self.rig.host.wake(self.sender)


def random_sectors(seed: int, span: int = 1 << 29) -> Callable[[int], int]:
    """Sectors all over the disk, 8 aligned."""
    return lambda n: ((n * 2654435761 + seed * 40503 + 12345) % span) // 8 * 8


def sequential(start: int, nr_sectors: int = 8) -> Callable[[int], int]:
    """One behind the other."""
    return lambda n: start + n * nr_sectors


def all_groups(rig: CfqRig) -> list[Any]:
    """CFQ's groups on the device."""
    if rig.queue.blkcg is None:
        return [rig.cfqd.root_group]
    return [blkg.pd[POLICY_CFQ] for blkg in rig.queue.blkcg.root.walk()]


def chain(first: Any, link: str) -> list[Any]:
    """What hangs together from `first` on."""
    found = []
    while first is not None:
        found.append(first)
        first = getattr(first, link)
    return found


def trees_of(group: Any) -> list[Any]:
    """Its seven service trees."""
    return [*group.service_trees, group.service_tree_idle]


def check_state(rig: CfqRig) -> None:
    """What is true of CFQ between any two events: raises AssertionError if it is not."""
    cfqd = rig.cfqd
    groups = all_groups(rig)
    busy: list[Any] = []
    for group in groups:
        mine = []
        for tree in trees_of(group):
            queues = chain(tree.first, "tree_next")
            assert len(queues) == tree.count
            assert queues == list(reversed(chain(tree.last, "tree_prev")))
            assert [q.rb_key for q in queues] == sorted(q.rb_key for q in queues)
            for cfqq in queues:
                assert cfqq.on_rr
                assert cfqq.cfqg is group
                assert cfqq.service_tree is tree
            mine += queues
        assert len(mine) == group.nr_cfqq
        assert group.on_st == (group.nr_cfqq > 0)
        busy += mine
    assert len(busy) == len(set(map(id, busy))) == cfqd.busy_queues
    assert sum(q.sync for q in busy) == cfqd.busy_sync_queues
    on_tree = chain(cfqd.groups.first, "st_next")
    assert sorted(map(id, on_tree)) == sorted(id(g) for g in groups if g.on_st)
    assert [g.vdisktime for g in on_tree] == sorted(g.vdisktime for g in on_tree)
    if rig.cfq.groups.hierarchy:
        for group in groups:
            children = [g for g in groups if g.parent is group and g.nr_active]
            assert group.nr_active == len(children) + group.on_st
            assert group.children_weight == sum(g.weight for g in children) + group.leaf_weight * group.on_st
    else:
        assert cfqd.groups.total_weight == sum(g.weight for g in on_tree)
    known = {id(q): q for q in busy}
    for cic in rig.cfq.processes.contexts.values():
        known |= {id(q): q for q in (cic.sync_cfqq, cic.async_cfqq) if q is not None}
    for group in groups:
        known |= {id(q): q for q in group.async_cfqqs if q is not None}
    for cfqq in known.values():
        assert cfqq.sort_list.count == cfqq.fifo.count == cfqq.nr_queued()
        assert (cfqq.next_rq is None) == (cfqq.sort_list.count == 0)
        assert cfqq.next_rq is None or cfqq.next_rq.elv1 is cfqq
        assert cfqq.sort_list.count == 0 or cfqq.on_rr, "a queue with requests is on no tree: it is lost"
        assert cfqq.process_refs() >= 0
    assert cfqd.rq_queued == sum(q.sort_list.count for q in known.values()) == rig.path.nr_sorted
    active = cfqd.active_queue
    assert active is None or id(active) in {id(q) for q in busy}
    assert active is None or not active.wait_request or cfqd.timer.pending() or active.must_dispatch
    for level in range(8):
        positions = rig.cfq.cooperators.positions[level]
        queues = rig.cfq.cooperators.queues[level]
        assert positions == sorted(set(positions)) == [q.prio_sector for q in queues]
        assert all(q.prio_level == level and q.next_rq is not None for q in queues)
