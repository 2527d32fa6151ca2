"""What every scheduler must do, whoever wrote it: the contract of `lab/contract.py`, on loads that hypothesis
thinks of.

The built-in ones are held to it twice: as they are, and copied out of the package, renamed and loaded by
path, as somebody would who wants to change one.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from copies import copy_of
from hypothesis import given, settings
from hypothesis import strategies as st
from rig import MS, Rig

from blklab import Elevator, RequestList, register
from blklab.block.consts import (
    OP_DISCARD,
    OP_READ,
    OP_WRITE,
    STS_DEV_RESOURCE,
    STS_IOERR,
    STS_OK,
    STS_RESOURCE,
)
from blklab.block.elevator import ELEVATORS, built_in_names, find_elevator
from blklab.block.switch import set_elevator
from blklab.core.errors import BlklabError
from blklab.lab.contract import SENTENCES, Load, check_scheduler, starves_nobody

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples" / "schedulers").glob("*.py"))
FIFO = f"{ROOT / 'examples' / 'schedulers' / 'fifo.py'}:Fifo"
# Every scheduler that can be chosen by name is held to the contract, and the examples by their files
CHOICES = [*built_in_names(), *(f"{path}:{path.stem.capitalize()}" for path in EXAMPLES)]

BIOS = st.lists(
    st.tuples(
        st.integers(0, 200),
        st.sampled_from([8, 8, 64, 300]),
        st.sampled_from([OP_READ, OP_READ, OP_WRITE, OP_WRITE, OP_DISCARD]),
        st.booleans(),
        st.integers(0, 1),
        st.sampled_from([0, 0, 1, 2, 3]),
    ),
    min_size=1,
    max_size=60,
)
LOADS = st.builds(
    Load,
    BIOS,
    batch=st.sampled_from([1, 2, 3, 40]),
    nr_cpus=st.just(2),
    nr_hw_queues=st.integers(1, 2),
    depth=st.sampled_from([1, 4, 64]),
    answers=st.lists(st.sampled_from([STS_RESOURCE, STS_DEV_RESOURCE, STS_OK]), max_size=10),
    endings=st.lists(st.sampled_from([STS_OK, STS_IOERR]), max_size=4),
    budgets=st.sampled_from([None, None, 1, 3]),
    service_ns=st.sampled_from([1000, 20_000, 3 * MS]),
    nomerges=st.sampled_from([0, 0, 0, 1, 2]),
)


@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize("sentence", SENTENCES, ids=lambda sentence: sentence.__name__)
@given(load=LOADS)
@settings(max_examples=40)
def test_the_contract(sentence, choice, load):  # type: ignore[no-untyped-def]
    sentence(choice, load)


@pytest.mark.parametrize("name", built_in_names())
def test_a_copy_outside_of_the_package_keeps_the_contract(name: str, tmp_path: Path) -> None:
    assert check_scheduler(copy_of(name, tmp_path), loads=15) > 0


# Far above what each promises on this rig: mq-deadline a write after two batches of reads, kyber tokens of
# each domain in turn, bfq a budget at a time, the examples their own rules
PROMISED_NS = 1000 * MS


@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize("op", [OP_READ, OP_WRITE])
def test_nobody_starves_for_longer_than_promised(choice: str, op: int) -> None:
    starves_nobody(choice, PROMISED_NS, op)


# -- the contract can be broken: each of these breaks one sentence ------------------------------------


class Plain(Elevator):  # type: ignore[misc, unused-ignore]
    """First in, first out: keeps the contract."""

    def __init__(self, queue):  # type: ignore[no-untyped-def]
        super().__init__(queue)
        self.rqs = RequestList()

    def insert_requests(self, hctx, rqs, at_head):  # type: ignore[no-untyped-def]
        while rqs.count:
            rq = rqs.popleft()
            self.queue.trace_insert(rq)
            self.rqs.append(rq)

    def dispatch_request(self, hctx):  # type: ignore[no-untyped-def]
        return self.rqs.popleft()

    def has_work(self, hctx):  # type: ignore[no-untyped-def]
        return self.rqs.count > 0


class Forgets(Plain):
    """Keeps the fifth request for ever."""

    def dispatch_request(self, hctx):  # type: ignore[no-untyped-def]
        self.given = getattr(self, "given", 0) + 1
        return None if self.given == 5 and self.rqs.popleft() else self.rqs.popleft()


class Lies(Plain):
    """Says that there is no work while one request waits."""

    def has_work(self, hctx):  # type: ignore[no-untyped-def]
        return self.rqs.count > 1


class AlwaysBusy(Plain):
    """Says that there is work when there is none."""

    def has_work(self, hctx):  # type: ignore[no-untyped-def]
        return True


class MergesAlways(Plain):
    """Merges whatever nomerges says."""

    def insert_requests(self, hctx, rqs, at_head):  # type: ignore[no-untyped-def]
        while rqs.count:
            rq = rqs.popleft()
            if self.rqs.tail is not None and self.queue.merger.merge_requests(self.rqs.tail, rq):
                self.queue.free_request(rq)
                continue
            self.queue.trace_insert(rq)
            self.rqs.append(rq)


@pytest.mark.parametrize("broken", [Forgets, Lies, AlwaysBusy, MergesAlways])
def test_the_contract_finds_who_breaks_it(broken: type[Elevator]) -> None:
    assert check_scheduler(Plain, loads=10) > 0
    with pytest.raises(AssertionError, match="Not on load"):
        check_scheduler(broken)


def test_who_starves_others_is_found() -> None:
    class ReadsFirst(Plain):
        def dispatch_request(self, hctx):  # type: ignore[no-untyped-def]
            for rq in self.rqs:
                if rq.op == OP_READ:
                    self.rqs.remove(rq)
                    return rq
            return self.rqs.popleft()  # type: ignore[no-untyped-call, unused-ignore]

    with pytest.raises(AssertionError, match="1000 ms were promised"):
        starves_nobody(ReadsFirst, 1000 * MS, OP_WRITE)
    assert starves_nobody(ReadsFirst, 1000 * MS, OP_READ) > 0


# -- the ways to bring one ----------------------------------------------------------------------------


def test_a_registered_class_is_found_by_name() -> None:
    @register("test-lifo")
    class Lifo(Plain):
        def dispatch_request(self, hctx):  # type: ignore[no-untyped-def]
            return self.rqs.pop()

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


def test_a_package_that_is_another_is_not_mistaken_for_it(tmp_path: Path) -> None:
    for folder in ("one", "two"):
        package = tmp_path / folder / "same_name"
        package.mkdir(parents=True)
        (package / "__init__.py").write_text("")
        (package / "policy.py").write_text("from blklab import Elevator\nclass Mine(Elevator):\n    pass\n")
    assert find_elevator(f"{tmp_path / 'one' / 'same_name' / 'policy.py'}:Mine") is not None
    with pytest.raises(BlklabError, match="another package is loaded under the name same_name"):
        find_elevator(f"{tmp_path / 'two' / 'same_name' / 'policy.py'}:Mine")
