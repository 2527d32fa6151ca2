"""CFQ under whatever comes: tasks in groups, priorities, tunables and weights that change, switches; on each age."""

from __future__ import annotations

from functools import partial

import pytest
from cfq_rig import AGES, BE, IDLE, RT, CfqRig, check_state, random_sectors
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from rig import MS

from blklab.block.consts import F_FUA, F_IDLE, F_META, F_SYNC, OP_READ, OP_WRITE
from blklab.block.switch import set_elevator
from blklab.lab.rig import Sender

GROUPS = (None, "/a", "/b", "/a/c")
KINDS = (
    (OP_READ, 0),
    (OP_READ, F_META),
    (OP_WRITE, 0),
    (OP_WRITE, F_SYNC),
    (OP_WRITE, F_SYNC | F_IDLE),
    (OP_WRITE, F_SYNC | F_IDLE | F_FUA),
)


def _strided(start: int, stride: int, n: int) -> int:
    return start + n * stride


class CfqMachine(RuleBasedStateMachine):
    """Anything, in any order; `check_state` holds after each, and in the end every bio has ended once."""

    rig: CfqRig

    @initialize(
        kernel=st.sampled_from(AGES),
        grouped=st.booleans(),
        rotational=st.booleans(),
        at_once=st.sampled_from([1, 2, 8, None]),
        to_front=st.booleans(),
        idle_flag=st.booleans(),
    )
    def begin(
        self,
        kernel: str,
        grouped: bool,
        rotational: bool,
        at_once: int | None,
        to_front: bool,
        idle_flag: bool,
    ) -> None:
        groups = tuple(path for path in GROUPS if path) if grouped else ()
        features = {"cfq_return_to_front": int(to_front)}
        if kernel == "2.6.33":
            features["cfq_group_idle_flag"] = int(idle_flag)
        self.rig = CfqRig(kernel, groups, at_once, 2 * MS, rotational, features=features)
        self.grouped = grouped
        self.tasks: list[Sender] = [self.rig.task(GROUPS[i % 4] if grouped else None) for i in range(6)]

    @rule(
        task=st.integers(0, 5),
        sectors=st.lists(
            st.integers(0, 15).map(lambda n: n * 8 + n // 10 * 1_000_000), min_size=1, max_size=6
        ),
        kind=st.sampled_from(KINDS),
        size=st.sampled_from([8, 8, 16, 256]),
        ioprio=st.sampled_from([0, 0, BE | 4, BE | 7, RT | 2, IDLE | 7]),
    )
    def send(self, task: int, sectors: list[int], kind: tuple[int, int], size: int, ioprio: int) -> None:
        bios = []
        for sector in sectors:
            bio = self.rig.bio(sector, size, kind[0], kind[1])
            bio.submitter = self.tasks[task]
            bio.ioprio = ioprio
            bios.append(bio)
        self.tasks[task].batches.append(bios)
        self.rig.host.wake(self.tasks[task])

    @rule(
        tasks=st.lists(st.integers(0, 5), min_size=1, max_size=4, unique=True),
        depth=st.sampled_from([1, 1, 3, 8]),
        together=st.booleans(),
        seeks=st.booleans(),
        kind=st.sampled_from(KINDS),
        think_ms=st.sampled_from([0, 0, 1, 12]),
    )
    def work(
        self, tasks: list[int], depth: int, together: bool, seeks: bool, kind: tuple[int, int], think_ms: int
    ) -> None:
        # Some tasks each do 60 I/Os: all over the disk, one behind the other, or taking turns in one file
        for place, task in enumerate(tasks):
            if seeks:
                where = random_sectors(task)
            elif together:
                where = partial(_strided, place * 8, len(tasks) * 8)
            else:
                where = partial(_strided, (1 + task) << 22, 8)
            sender = self.tasks[task]
            if sender.on_done is None:
                self.rig.load(depth, where, None, *kind, think_ns=think_ms * MS, most=60, task=sender)

    @rule(ms=st.sampled_from([0, 1, 3, 9, 40, 200, 2000]))
    def wait(self, ms: int) -> None:
        self.rig.run_for(ms * MS + 1)

    @rule(
        name=st.sampled_from(
            [
                "slice_idle",
                "group_idle",
                "group_isolation",
                "low_latency",
                "quantum",
                "slice_sync",
                "back_seek_max",
            ]
        ),
        value=st.sampled_from([0, 1, 8, 100]),
    )
    def tune(self, name: str, value: int) -> None:
        if self.rig.queue.elevator_name == "cfq" and name in [a.path for a in self.rig.cfq.attributes()]:
            self.rig.tune(name, value)

    @precondition(lambda self: self.grouped)
    @rule(path=st.sampled_from(["/a", "/b", "/a/c"]), weight=st.sampled_from([100, 500, 1000]))
    def weigh(self, path: str, weight: int) -> None:
        self.rig.write_file(path, "blkio.weight", str(weight))

    @precondition(lambda self: self.grouped)
    @rule(task=st.integers(0, 5), path=st.sampled_from(["/", "/a", "/b", "/a/c"]))
    def move(self, task: int, path: str) -> None:
        self.tasks[task].cgroup = self.rig.cgroup(path)

    @rule(task=st.integers(0, 5))
    def leave(self, task: int) -> None:
        # A task ends when its I/O has ended
        sender = self.tasks[task]
        if self.rig.queue.elevator_name != "cfq":
            return
        out = self.rig.next_io - len(self.rig.ended())
        if out == 0:
            self.rig.cfq.exit_icq(sender)
            self.tasks[task] = self.rig.task(GROUPS[task % 4] if self.grouped else None)

    @rule(name=st.sampled_from(["noop", "cfq"]))
    def switch(self, name: str) -> None:
        if self.rig.queue.elevator_name != name:
            set_elevator(self.rig.queue, name)

    @invariant()
    def holds(self) -> None:
        if hasattr(self, "rig") and self.rig.queue.elevator_name == "cfq":
            check_state(self.rig)

    def teardown(self) -> None:
        if not hasattr(self, "rig"):
            return
        self.rig.run()
        if self.rig.queue.elevator_name == "cfq":
            check_state(self.rig)
        ended = self.rig.ended()
        assert len(ended) == len(set(ended)) == self.rig.next_io, self.rig.describe()
        assert self.rig.queue.usage == 0


TestCfqMachine = CfqMachine.TestCase
TestCfqMachine.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)


@pytest.mark.parametrize("kernel", AGES)
def test_a_switch_under_load_loses_nothing(kernel: str) -> None:
    rig = CfqRig(kernel, ("/a", "/b"), at_once=4)
    loads = [rig.load(8, random_sectors(n), path) for n, path in enumerate(("/a", "/b"))]
    for name in ("noop", "cfq", "deadline", "cfq"):
        rig.run_for(300 * MS)
        set_elevator(rig.queue, name)
    rig.run_for(300 * MS)
    check_state(rig)
    for load in loads:
        load.stopped = True
    rig.run()
    assert len(rig.ended()) == len(set(rig.ended())) == rig.next_io
    assert rig.cfqd.busy_queues == 0
