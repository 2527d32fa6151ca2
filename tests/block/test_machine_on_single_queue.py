"""Any interleaving of submission, BUSY, completion, error, timeout, flush, scheduler switch and attribute change on a
single queue, in the plug of either age: every bio ends once, sectors are conserved, no request leaks, and all counts
are zero at the end."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from rig import MS, Rig, ScriptedDriver

from blklab.block.attributes import write
from blklab.block.consts import (
    F_FUA,
    F_NOWAIT,
    F_PREFLUSH,
    F_SYNC,
    OP_READ,
    OP_WRITE,
    STS_DEV_RESOURCE,
    STS_IOERR,
    STS_RESOURCE,
)
from blklab.block.switch import set_elevator
from blklab.core.errors import AttributeRefused
from blklab.core.steps import STEPS

SECTORS = st.one_of(st.integers(0, 64).map(lambda n: n * 8), st.integers(0, 5000))
SIZES = st.sampled_from([1, 8, 8, 8, 64, 255, 777, 2560, 4096])
SCHEDULERS = st.sampled_from(["noop", "deadline"])
COSTS = [137 + 11 * i for i in range(len(STEPS))]


class SingleQueues(RuleBasedStateMachine):
    """One or two devices with a single queue each, and what was asked of them."""

    @initialize(
        nr_cpus=st.integers(1, 4),
        depth=st.sampled_from([1, 2, 5, 32]),
        devices=st.integers(1, 2),
        budgets=st.sampled_from([None, None, 1, 3]),
        costs=st.booleans(),
        queue_plug=st.integers(0, 1),
        plug_max=st.sampled_from([2, 16]),
        rotational=st.booleans(),
        plug_from=st.sampled_from([1, 3]),
        first=SCHEDULERS,
    )
    def begin(self, **drawn: Any) -> None:
        self.driver = ScriptedDriver(service_ns=50_000, budgets=drawn["budgets"])
        self.rig = Rig(
            self.driver,
            drawn["nr_cpus"],
            depth=drawn["depth"],
            devices=drawn["devices"],
            features={"queue_plug": drawn["queue_plug"], "plug_max": drawn["plug_max"]},
            costs=COSTS if drawn["costs"] else None,
            single_queue=True,
        )
        for queue in self.rig.queues:
            queue.rotational = drawn["rotational"]
            set_elevator(queue, drawn["first"])
        for sender in self.rig.senders:
            sender.plug_from = drawn["plug_from"]
        self.sent: dict[int, int] = {}

    @rule(data=st.data(), count=st.integers(1, 40))
    def submit(self, data, count):  # type: ignore[no-untyped-def]
        rig = self.rig
        cpu = data.draw(st.integers(0, rig.host.nr_cpus - 1))
        batch = []
        for _ in range(count):
            op = data.draw(st.sampled_from([OP_READ, OP_WRITE]))
            flags = data.draw(st.sampled_from([0, F_SYNC, F_SYNC, F_NOWAIT]))
            size = data.draw(SIZES)
            device = data.draw(st.integers(0, len(rig.queues) - 1))
            batch.append(rig.bio(data.draw(SECTORS), size, op, flags, device, cpu))
            self.sent[rig.next_io - 1] = size
        if data.draw(st.booleans()):
            rig.send(batch, cpu=cpu)
        else:
            rig.send(*[[bio] for bio in batch], cpu=cpu)

    @rule(data=st.data(), count=st.integers(1, 8))
    def submit_flushes(self, data, count):  # type: ignore[no-untyped-def]
        rig = self.rig
        cpu = data.draw(st.integers(0, rig.host.nr_cpus - 1))
        device = data.draw(st.integers(0, len(rig.queues) - 1))
        batch = []
        for _ in range(count):
            flags = data.draw(st.sampled_from([F_PREFLUSH, F_FUA, F_PREFLUSH | F_FUA]))
            size = data.draw(st.sampled_from([0, 8, 777])) if flags & F_PREFLUSH else 8
            sector = data.draw(SECTORS) if size else 0
            batch.append(rig.bio(sector, size, OP_WRITE, flags | F_SYNC, device, cpu))
            self.sent[rig.next_io - 1] = size
        rig.send(batch, cpu=cpu)

    @rule(data=st.data(), cache=st.integers(0, 2))
    def change_cache(self, data, cache):  # type: ignore[no-untyped-def]
        queue = data.draw(st.sampled_from(self.rig.queues))
        queue.write_cache = cache > 0
        queue.fua = cache > 1

    @rule(us=st.integers(1, 400))
    def let_time_pass(self, us):  # type: ignore[no-untyped-def]
        self.rig.run(self.rig.events.now_ns + us * 1000)

    @rule(answers=st.lists(st.sampled_from([STS_RESOURCE, STS_DEV_RESOURCE, STS_IOERR, 0, 0]), max_size=8))
    def driver_answers(self, answers):  # type: ignore[no-untyped-def]
        self.driver.answers.extend(answers)

    @rule(endings=st.lists(st.sampled_from([STS_IOERR, 0]), max_size=4))
    def driver_ends_with(self, endings):  # type: ignore[no-untyped-def]
        self.driver.endings.extend(endings)

    @rule()
    def driver_loses_one(self):  # type: ignore[no-untyped-def]
        self.driver.answers.append("lose")

    @rule(us=st.sampled_from([0, 1, 50, 2000]))
    def driver_speed(self, us):  # type: ignore[no-untyped-def]
        self.driver.service_ns = us * 1000

    @rule(data=st.data(), name=SCHEDULERS)
    def switch_elevator(self, data, name):  # type: ignore[no-untyped-def]
        set_elevator(data.draw(st.sampled_from(self.rig.queues)), name)

    @rule(
        data=st.data(),
        change=st.one_of(
            st.tuples(st.just("queue/nr_requests"), st.integers(1, 300)),
            st.tuples(st.just("queue/nomerges"), st.integers(0, 2)),
            st.tuples(st.just("queue/rq_affinity"), st.integers(0, 2)),
            st.tuples(st.just("queue/max_sectors_kb"), st.sampled_from([4, 64, 1280])),
            st.tuples(st.just("queue/iostats"), st.integers(0, 1)),
            st.tuples(st.just("queue/io_timeout"), st.sampled_from([40, 30_000])),
        ),
    )
    def write_attribute(self, data, change):  # type: ignore[no-untyped-def]
        queue = data.draw(st.sampled_from(self.rig.queues))
        try:
            write(queue, change[0], str(change[1]))
        except AttributeRefused as refused:
            assert refused.errno == "EINVAL"

    @invariant()
    def no_bio_ends_twice(self) -> None:
        if hasattr(self, "rig"):
            counts = Counter(io for s in self.rig.senders for io, _, _ in s.ended)
            assert not counts or max(counts.values()) == 1

    @invariant()
    def a_side_has_no_more_than_it_may(self) -> None:
        # One and a half times nr_requests, unless that was lowered since
        for queue in self.rig.queues if hasattr(self, "rig") else ():
            path: Any = queue.legacy
            for side in (path.room.synchronous, path.room.asynchronous):
                assert 0 <= side.count <= 450
            assert 0 <= path.in_driver <= queue.tag_set.queue_depth

    @precondition(lambda self: hasattr(self, "rig"))
    @rule()
    def drain(self) -> None:
        self.finish()

    def finish(self) -> None:
        rig = self.rig
        self.driver.answers.clear()
        if self.driver.service_ns == 0:
            self.driver.service_ns = 1000
        rig.run(rig.events.now_ns + 300_000 * MS)
        ended = [io for s in rig.senders for io, _, _ in s.ended]
        assert sorted(ended) == sorted(self.sent), rig.describe() + "\n" + rig.story()[-600:]
        for queue in rig.queues:
            path: Any = queue.legacy
            assert not path.bypass and not path.queue_plug.plugged
        rig.assert_clean()

    def teardown(self) -> None:
        if hasattr(self, "rig"):
            self.finish()
            self.sectors_are_conserved()

    def sectors_are_conserved(self) -> None:
        """What was queued (Q) has completed (C): the same sectors, but for bios that got EAGAIN."""
        rig = self.rig
        again = any(status == 12 for s in rig.senders for _, status, _ in s.ended)
        for device in range(len(rig.queues)):
            queued = sum(r.nr_sectors for r in rig.records("Q", device))
            completed = sum(r.nr_sectors for r in rig.records("C", device))
            assert completed <= queued
            if not again:
                assert completed == queued


SingleQueues.TestCase.settings = settings(max_examples=60, stateful_step_count=25)
TestSingleQueues = SingleQueues.TestCase
