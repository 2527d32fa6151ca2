"""What every scheduler must do, whoever wrote it: the contract. Here the example, in each way a user can bring it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rig import Rig, ScriptedDriver

from blklab import Elevator, RequestList, register
from blklab.block.consts import F_SYNC, OP_READ, OP_WRITE, STS_DEV_RESOURCE, STS_RESOURCE
from blklab.block.elevator import ELEVATORS, find_elevator
from blklab.block.switch import set_elevator

ROOT = Path(__file__).parents[2]
FIFO = f"{ROOT / 'examples' / 'schedulers' / 'fifo.py'}:Fifo"
# Every scheduler that can be chosen by name is held to the contract, and the example by its file
CHOICES = [FIFO, *sorted(ELEVATORS)]

BIOS = st.lists(
    st.tuples(st.integers(0, 200), st.sampled_from([8, 8, 64, 300]), st.sampled_from([OP_READ, OP_WRITE])),
    min_size=1,
    max_size=60,
)


@pytest.mark.parametrize("choice", CHOICES)
class TestContract:
    """Each test is one sentence of the contract."""

    @given(
        bios=BIOS,
        plugged=st.booleans(),
        depth=st.sampled_from([1, 4, 64]),
        answers=st.lists(st.sampled_from([STS_RESOURCE, STS_DEV_RESOURCE, 0]), max_size=10),
    )
    def test_every_bio_completes_exactly_once_and_nothing_leaks(self, choice, bios, plugged, depth, answers):  # type: ignore[no-untyped-def]
        driver = ScriptedDriver(service_ns=20_000)
        driver.answers.extend(answers)
        rig = Rig(driver, nr_cpus=2, depth=depth)
        set_elevator(rig.queue, choice)
        made = [rig.bio(s * 8, n, op, F_SYNC, cpu=i % 2) for i, (s, n, op) in enumerate(bios)]
        for cpu in range(2):
            mine = made[cpu::2]
            rig.send(*([mine] if plugged else [[bio] for bio in mine]), cpu=cpu)
        rig.run()
        assert sorted(rig.ended()) == list(range(len(bios)))
        assert sum(r.nr_sectors for r in rig.records("C")) == sum(n for _, n, _ in bios)
        rig.assert_clean()

    @given(bios=BIOS)
    def test_has_work_is_true_while_it_holds_requests(self, choice, bios):  # type: ignore[no-untyped-def]
        driver = ScriptedDriver(service_ns=None)
        rig = Rig(driver, depth=1)
        set_elevator(rig.queue, choice)
        rig.send(*[[rig.bio(s * 8, n, op, F_SYNC)] for s, n, op in bios]).run(1_000_000)
        elevator = rig.queue.elevator
        assert elevator is not None
        inserted = len(rig.records("I"))
        issued = len(rig.records("D"))
        if inserted > issued + rig.queue.hctxs[0].dispatch_list.count:
            assert elevator.has_work(rig.queue.hctxs[0])
        driver.service_ns = 1000
        for rq in list(driver.held):
            driver.finish(rq)
        rig.run()
        assert not elevator.has_work(rig.queue.hctxs[0])
        rig.assert_clean()

    def test_it_can_be_taken_off_under_load(self, choice: str) -> None:
        rig = Rig(ScriptedDriver(service_ns=500_000), depth=4)
        for i in range(6):
            set_elevator(rig.queue, choice if i % 2 == 0 else "none")
            rig.send(*[[rig.bio(i * 1000 + k * 16)] for k in range(10)]).run(rig.events.now_ns + 700_000)
        rig.run()
        assert len(rig.ended()) == 60
        rig.assert_clean()


def test_a_registered_class_is_found_by_name() -> None:
    @register("test-lifo")
    class Lifo(Elevator):  # type: ignore[misc, unused-ignore]
        def __init__(self, queue):  # type: ignore[no-untyped-def]
            super().__init__(queue)
            self.rqs = RequestList()

        def insert_requests(self, hctx, rqs, at_head):  # type: ignore[no-untyped-def]
            while rqs.count:
                rq = rqs.popleft()
                self.queue.trace_insert(rq)
                self.rqs.append(rq)

        def dispatch_request(self, hctx):  # type: ignore[no-untyped-def]
            return self.rqs.pop()

        def has_work(self, hctx):  # type: ignore[no-untyped-def]
            return self.rqs.count > 0

    try:
        rig = Rig()
        set_elevator(rig.queue, "test-lifo")
        rig.send([rig.bio(i * 100) for i in range(4)]).run()
        assert rig.story("D") == "D300+8 D200+8 D100+8 D0+8"
    finally:
        del ELEVATORS["test-lifo"]


def test_an_installed_package_brings_a_scheduler(tmp_path: Path) -> None:
    source = (ROOT / "examples" / "schedulers" / "fifo.py").read_text()
    (tmp_path / "their_fifo.py").write_text(source)
    info = tmp_path / "their_fifo-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: their-fifo\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[blklab.elevators]\ntheir-fifo = their_fifo:Fifo\n")
    job = tmp_path / "job.fio"
    job.write_text("[a]\nioengine=libaio\ndirect=1\nrw=randread\nbs=4k\niodepth=8\nnumber_ios=50\n")
    script = (
        "import sys; from blklab import simulate;"
        f"r = simulate({str(job)!r}, machine='null', scheduler='their-fifo');"
        "print(r.jobs[0].stats.read.done_ios)"
    )
    path = [str(tmp_path), *[p for p in sys.path if p]]
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        timeout=120,
        env={"PYTHONPATH": ":".join(path), "PATH": "/usr/bin:/bin"},
    )
    assert done.stdout.strip() == "50", done.stderr


def test_hooks_that_are_not_defined_are_not_called() -> None:
    factory = find_elevator(FIFO)
    assert factory is not None
    rig = Rig()
    assert factory(rig.queue).hooks == 0
