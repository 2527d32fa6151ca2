"""Any interleaving of submission, flushes, BUSY, completion, error, timeout, elevator switch and attribute change: no
bio is lost or ends twice, no tag leaks, sectors are conserved, and every request moves only along its table of
transitions."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

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
from blklab.block.elevator import built_in_names
from blklab.block.switch import set_elevator, why_no_hw_tag
from blklab.core.errors import AttributeRefused
from blklab.core.steps import STEPS

FIFO = f"{Path(__file__).parents[2] / 'examples' / 'schedulers' / 'fifo.py'}:Fifo"
SECTORS = st.one_of(st.integers(0, 64).map(lambda n: n * 8), st.integers(0, 5000))
SIZES = st.sampled_from([1, 8, 8, 8, 64, 255, 777, 2560, 4096])
COSTS = [137 + 11 * i for i in range(len(STEPS))]


class Everything(RuleBasedStateMachine):
    """The rig, and what was asked of it."""

    @initialize(
        nr_cpus=st.integers(1, 4),
        nr_hw_queues=st.integers(1, 4),
        depth=st.sampled_from([1, 2, 5, 32]),
        devices=st.integers(1, 2),
        hctx_shared=st.booleans(),
        budgets=st.sampled_from([None, None, 1, 3]),
        costs=st.booleans(),
        features=st.fixed_dictionaries(
            {},
            optional={
                "plug_lifo": st.integers(0, 1),
                "plug_issue_direct": st.integers(0, 1),
                "plug_max": st.sampled_from([2, 16, 32]),
                "plug_limited_multiqueue": st.integers(0, 2),
                "dispatch_busy": st.integers(0, 1),
                "dispatch_busy_with_elevator": st.integers(0, 1),
                "dequeue_one_by_one_with_budget": st.integers(0, 1),
                "direct_issue_if_idle": st.integers(0, 1),
                "list_splice_insert": st.integers(0, 1),
                "merge_only_if_queued": st.integers(0, 1),
                "async_dispatch_from_worker": st.integers(0, 2),
                "sched_use_hw_tag": st.integers(0, 1),
                "shared_sched_tags": st.integers(0, 1),
                "kyber_ctx_queue": st.integers(0, 1),
                "kyber_histogram": st.integers(0, 1),
                "mq_deadline_prio": st.integers(0, 1),
                "mq_deadline_less_locking": st.integers(0, 1),
                "sched_async_depth_whole": st.integers(0, 1),
                "flush_data_scheduled": st.integers(0, 1),
            },
        ),
    )
    def begin(self, nr_cpus, nr_hw_queues, depth, devices, hctx_shared, budgets, costs, features):  # type: ignore[no-untyped-def]
        self.driver = ScriptedDriver(service_ns=50_000, budgets=budgets)
        self.rig = Rig(
            self.driver,
            nr_cpus,
            nr_hw_queues,
            depth,
            devices=devices,
            hctx_shared=hctx_shared,
            features=features,
            costs=COSTS if costs else None,
        )
        self.sent: dict[int, int] = {}
        self.batched = False

    @rule(data=st.data(), count=st.integers(1, 40))
    def submit(self, data, count):  # type: ignore[no-untyped-def]
        rig = self.rig
        cpu = data.draw(st.integers(0, rig.host.nr_cpus - 1))
        device = data.draw(st.integers(0, len(rig.queues) - 1))
        op = data.draw(st.sampled_from([OP_READ, OP_WRITE]))
        flags = data.draw(st.sampled_from([0, F_SYNC, F_NOWAIT]))
        sector = data.draw(SECTORS)
        step = data.draw(st.sampled_from([1, 1, -1, 7]))
        size = data.draw(SIZES)
        batch = []
        for i in range(count):
            at = max(0, sector + step * i * size)
            bio = rig.bio(at, size, op, flags, device, cpu)
            self.sent[rig.next_io - 1] = size
            batch.append(bio)
        if data.draw(st.booleans()):
            rig.send(batch, cpu=cpu)
        else:
            rig.send(*[[bio] for bio in batch], cpu=cpu)

    @rule(data=st.data(), count=st.integers(1, 10))
    def submit_flushes(self, data, count):  # type: ignore[no-untyped-def]
        rig = self.rig
        cpu = data.draw(st.integers(0, rig.host.nr_cpus - 1))
        device = data.draw(st.integers(0, len(rig.queues) - 1))
        batch = []
        for _ in range(count):
            flags = data.draw(st.sampled_from([F_PREFLUSH, F_FUA, F_PREFLUSH | F_FUA]))
            size = data.draw(st.sampled_from([0, 8, 777])) if flags & F_PREFLUSH else 8
            batch.append(
                rig.bio(data.draw(SECTORS) if size else 0, size, OP_WRITE, flags | F_SYNC, device, cpu)
            )
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

    @rule(data=st.data(), name=st.sampled_from(["none", FIFO, *built_in_names(False)]))
    def switch_elevator(self, data, name):  # type: ignore[no-untyped-def]
        queue = data.draw(st.sampled_from(self.rig.queues))
        try:
            set_elevator(queue, name)
        except AttributeRefused as refused:
            assert name != "none" and why_no_hw_tag(queue), refused

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
            assert queue.freeze_depth == 0 and not queue.quiesced
        rig.assert_clean()

    def teardown(self) -> None:
        if hasattr(self, "rig"):
            self.finish()
            self.sectors_are_conserved()

    def sectors_are_conserved(self) -> None:
        """What was queued (Q) has completed (C): the same sectors, device by device, but for bios that got EAGAIN."""
        rig = self.rig
        again = {io for s in rig.senders for io, status, _ in s.ended if status == 12}
        for device in range(len(rig.queues)):
            queued = sum(r.nr_sectors for r in rig.records("Q", device))
            completed = sum(r.nr_sectors for r in rig.records("C", device))
            assert completed <= queued
            if not again:
                assert completed == queued


Everything.TestCase.settings = settings(max_examples=60, stateful_step_count=25)
TestEverything = Everything.TestCase
