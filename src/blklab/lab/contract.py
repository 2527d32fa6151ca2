"""The contract of schedulers: what each one must do, whoever wrote it.

    from blklab.lab.contract import check_scheduler
    check_scheduler("my_scheduler.py:Mine")

What: SENTENCES is the contract, one function a sentence. Each is given a scheduler (a name, 'file.py:Class'
or a class) and a `Load`, runs it on the small machine of `lab/rig.py`, and raises AssertionError if the
sentence is not true of it. `check_scheduler` tries them all on random loads; the test suite gives them loads
of its own, and every scheduler that is shipped must pass.

Theory of operation
-------------------
A load is what can go wrong at once: several tasks on several CPUs
with and without plugs, requests of every size that touch each other or do not, few tags or many, one hardware
queue or more, a driver that says BUSY or hands out budgets, I/O that fails, attributes written meanwhile.
Time is virtual, so a load that hangs is found at once: bios are left over.

`starves_nobody` is not part of SENTENCES: a scheduler may starve on purpose, if its documentation says so.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import NamedTuple

from blklab.block.attributes import attribute_paths, read, write
from blklab.block.consts import (
    F_SYNC,
    OP_DISCARD,
    OP_READ,
    OP_WRITE,
    STS_DEV_RESOURCE,
    STS_IOERR,
    STS_OK,
    STS_RESOURCE,
)
from blklab.block.elevator import Elevator, find_elevator
from blklab.block.hwqueue import HardwareQueue
from blklab.block.switch import set_elevator
from blklab.core.errors import AttributeRefused
from blklab.lab.rig import MS, Rig, ScriptedDriver

Choice = str | type[Elevator]

# sector / 8, sectors, operation, synchronous, CPU, ioprio class
LoadBio = tuple[int, int, int, bool, int, int]

CLASS_SHIFT = 13  # IOPRIO_CLASS_SHIFT
NOT_A_NUMBER = "not-a-number"


class Load(NamedTuple):
    """What a scheduler is tried on. `batch`: bios a task submits at once (three or more are plugged). `queue_plug`: a
    single queue has the plug of before 2.6.39."""

    bios: Sequence[LoadBio]
    batch: int = 1
    nr_cpus: int = 2
    nr_hw_queues: int = 1
    depth: int = 64
    answers: Sequence[int] = ()
    endings: Sequence[int] = ()
    budgets: int | None = None
    service_ns: int = 20_000
    nomerges: int = 0
    queue_plug: bool = False


def single_queue(choice: Choice) -> bool:
    """Whether the scheduler is one of the single queue: then it is tried on that."""
    return bool(getattr(find_elevator(choice), "single_queue", False))


def random_load(source: random.Random) -> Load:
    """One load; the same source in the same state gives the same one."""
    nr_cpus = source.choice([1, 2, 4])
    span = source.choice([20, 200, 5000])
    ops = source.choice([[OP_READ], [OP_WRITE], [OP_READ, OP_WRITE], [OP_READ, OP_WRITE, OP_DISCARD]])
    classes = source.choice([[0], [0], [0, 1, 2, 3]])
    bios: list[LoadBio] = []
    for _ in range(source.randint(1, 60)):
        at = source.randrange(span)
        size = source.choice([8, 8, 8, 64, 300])
        run = source.choice([1, 1, 5])
        step = source.choice([size // 8 or 1, size // 8 or 1, -(size // 8)])
        op, cpu, io_class = source.choice(ops), source.randrange(nr_cpus), source.choice(classes)
        for k in range(run):
            bios.append((max(at + k * step, 0), size, op, source.random() < 0.7, cpu, io_class))
    return Load(
        bios,
        source.choice([1, 1, 3, 16]),
        nr_cpus,
        source.choice([1, 1, nr_cpus]),
        source.choice([1, 2, 4, 64]),
        [source.choice([STS_RESOURCE, STS_DEV_RESOURCE, STS_OK]) for _ in range(source.choice([0, 0, 12]))],
        [source.choice([STS_OK, STS_IOERR]) for _ in range(source.choice([0, 0, 6]))],
        source.choice([None, None, 1, 3]),
        source.choice([0, 1_000, 20_000, 3 * MS]),
        source.choice([0, 0, 0, 1, 2]),
        source.random() < 0.5,
    )


def make_machine(choice: Choice, load: Load) -> Rig:
    """The machine of a load, with the scheduler on its device."""
    driver = ScriptedDriver(service_ns=load.service_ns or 1, budgets=load.budgets)
    driver.answers.extend(load.answers)
    driver.endings.extend(load.endings)
    single = single_queue(choice)
    rig = Rig(
        driver,
        load.nr_cpus,
        1 if single else load.nr_hw_queues,
        load.depth,
        features={"queue_plug": int(single and load.queue_plug)},
        single_queue=single,
    )
    rig.queue.limits.max_hw_discard_sectors = 2560
    rig.queue.limits.max_discard_sectors = 2560
    rig.queue.limits.discard_granularity_bytes = 512
    set_elevator(rig.queue, choice)
    rig.queue.nomerges = load.nomerges
    return rig


def send(rig: Rig, load: Load) -> None:
    """Have the tasks submit the bios of a load."""
    waiting: dict[int, list[list[object]]] = {}
    for number, (at, size, op, sync, cpu, io_class) in enumerate(load.bios):
        bio = rig.bio(at * 8, size, op, F_SYNC if sync else 0, cpu=cpu % load.nr_cpus)
        bio.ioprio = io_class << CLASS_SHIFT
        bio.io = number
        batches = waiting.setdefault(cpu % load.nr_cpus, [])
        if not batches or len(batches[-1]) == load.batch:
            batches.append([])
        batches[-1].append(bio)
    for cpu, batches in waiting.items():
        rig.send(*batches, cpu=cpu)  # type: ignore[arg-type]


def assert_finished(rig: Rig, load: Load) -> None:
    """Every bio has ended, and nothing is left of them."""
    assert sorted(rig.ended()) == list(range(len(load.bios))), rig.describe()
    queued = sum(r.nr_sectors for r in rig.records("Q"))
    completed = sum(r.nr_sectors for r in rig.records("C"))
    assert queued == completed, f"{queued} sectors were queued, {completed} completed"
    counts = rig.counts()
    assert counts["D"] - counts["R"] <= counts["C"] <= counts["G"], dict(counts)
    elevator = rig.queue.elevator
    if elevator is not None:
        for hctx in rig.queue.hctxs:
            assert not _holds(elevator, hctx), f"has_work of hardware queue {hctx.index} with nothing left"
    rig.assert_clean()


def _holds(elevator: Elevator, hctx: HardwareQueue) -> bool:
    # On a single queue the path counts what the scheduler has; has_work is not asked
    if elevator.queue.legacy is not None:
        return elevator.queue.legacy.nr_sorted > 0
    return elevator.has_work(hctx)


# -- the contract ----------------------------------------------------------------------


def completes_every_bio_once(choice: Choice, load: Load) -> None:
    """Every bio ends exactly once, no sector is lost or made, nothing leaks."""
    rig = make_machine(choice, load)
    send(rig, load)
    rig.run()
    assert_finished(rig, load)


def is_the_same_again(choice: Choice, load: Load) -> None:
    """The same load gives the same trace."""
    stories = []
    for _ in range(2):
        rig = make_machine(choice, load)
        send(rig, load)
        stories.append([tuple(r) for r in rig.run().records()])
    assert stories[0] == stories[1]


def says_whether_it_has_work(choice: Choice, load: Load) -> None:
    """has_work is true while it holds a request, and false when it holds none."""
    load = load._replace(budgets=None, answers=(), service_ns=1000)
    rig = make_machine(choice, load)
    driver = rig.driver
    driver.service_ns = None
    send(rig, load)
    # Long enough for any idling to be over
    rig.run(2_000 * MS)
    elevator = rig.queue.elevator
    assert elevator is not None
    held = rig.counts()["I"] - rig.counts()["D"] - sum(h.dispatch_list.count for h in rig.queue.hctxs)
    merged = sum(1 for r in rig.records("M") if r.nr_sectors) if load.nomerges < 2 else 0
    if held > merged:
        assert any(_holds(elevator, hctx) for hctx in rig.queue.hctxs), f"it holds {held} requests"
    driver.service_ns = load.service_ns
    for rq in list(driver.held):
        driver.finish(rq)
    rig.run()
    assert_finished(rig, load)


def can_be_taken_off_under_load(choice: Choice, load: Load) -> None:
    """Switched on, off and resized again and again while I/O runs, it loses nothing."""
    rig = make_machine(choice, load)
    other = "noop" if single_queue(choice) else "none"
    send(rig, load)
    for step, depth in enumerate((4, 64, 7, 300)):
        rig.run(rig.events.now_ns + load.service_ns * 2 + 10_000)
        set_elevator(rig.queue, other if step % 2 == 0 else choice)
        try:
            write(rig.queue, "queue/nr_requests", str(depth))
        except AttributeRefused as refused:
            assert refused.errno == "EINVAL"
    rig.run()
    assert_finished(rig, load)


def obeys_nomerges(choice: Choice, load: Load) -> None:
    """With nomerges=2 nothing is merged."""
    rig = make_machine(choice, load._replace(nomerges=2))
    send(rig, load)
    rig.run()
    counts = rig.counts()
    assert counts["M"] + counts["F"] == 0
    assert_finished(rig, load)


def keeps_apart_what_must_not_merge(choice: Choice, load: Load) -> None:
    """A request has one operation and one priority, and is no larger than the limits allow."""
    rig = make_machine(choice, load)
    send(rig, load)
    rig.run()
    ops: dict[int, set[str]] = {}
    for at, size, op, _, _, _ in load.bios:
        for sector in range(at * 8, at * 8 + size, 8):
            ops.setdefault(sector, set()).add({OP_READ: "R", OP_WRITE: "W", OP_DISCARD: "D"}[op])
    for record in rig.records("D"):
        assert record.nr_sectors <= rig.queue.limits.max_sectors
        assert record.rwbs[0] in ops[record.sector], f"{record} has sectors that no such bio had"
    assert_finished(rig, load)


def has_tunables_that_can_be_set(choice: Choice, load: Load) -> None:
    """Each tunable reads, takes back what it reads, and refuses what is no number with EINVAL."""
    rig = make_machine(choice, load)
    for path in attribute_paths(rig.queue):
        if not path.startswith(("queue/iosched/", "sched/", "hctx0/sched/")):
            continue
        value = read(rig.queue, path)
        assert isinstance(value, int | str), f"{path} reads as {value!r}"
        try:
            write(rig.queue, path, str(value))
        except AttributeRefused as refused:
            assert refused.errno == "EACCES", f"{path} refuses its own value: {refused}"
            continue
        assert read(rig.queue, path) == value, f"{path} was {value}, and is another after writing that"
        try:
            write(rig.queue, path, NOT_A_NUMBER)
        except AttributeRefused as refused:
            assert refused.errno == "EINVAL"
        else:
            raise AssertionError(f"{path} takes {NOT_A_NUMBER!r}")
        assert read(rig.queue, path) == value, f"{path} is another after a refused write"
    send(rig, load)
    rig.run()
    assert_finished(rig, load)


SENTENCES: tuple[Callable[[Choice, Load], None], ...] = (
    completes_every_bio_once,
    is_the_same_again,
    says_whether_it_has_work,
    can_be_taken_off_under_load,
    obeys_nomerges,
    keeps_apart_what_must_not_merge,
    has_tunables_that_can_be_set,
)


def starves_nobody(choice: Choice, within_ns: int, op: int = OP_WRITE, depth: int = 8) -> int:
    """One bio of `op` amid a stream of the other direction, always `depth` deep, ends within `within_ns`:
    returns after how long. Both at their default priorities, and the lonely one at the far end of the
    disk."""
    driver = ScriptedDriver(service_ns=MS)
    rig = Rig(driver, nr_cpus=2, depth=2, single_queue=single_queue(choice))
    set_elevator(rig.queue, choice)
    write(rig.queue, "queue/nr_requests", "64")  # nobody waits for a tag: what waits, waits in the scheduler
    stream, lonely = rig.senders
    other = OP_WRITE if op == OP_READ else OP_READ
    position = 0
    ended_at: list[int] = []

    def following(_: object) -> None:
        nonlocal position
        if not ended_at and rig.events.now_ns < within_ns * 2:
            position += 1000
            rig.send([rig.bio(position % 1_000_000, 8, other, F_SYNC)])

    stream.on_done = following
    lonely.on_done = lambda _: ended_at.append(rig.events.now_ns)
    for _ in range(depth):
        following(None)
    rig.run(5 * MS)
    begun = rig.events.now_ns
    rig.send([rig.bio(1 << 29, 8, op, F_SYNC, cpu=1)], cpu=1)
    rig.run()
    waited = ended_at[0] - begun
    assert waited <= within_ns, f"it waited {waited / MS:.0f} ms, {within_ns / MS:.0f} ms were promised"
    rig.assert_clean()
    return waited


def check_scheduler(choice: Choice, loads: int = 40, seed: int = 1) -> int:
    """Holds a scheduler to every sentence of the contract, each on `loads` random loads. Returns the number
    of bios that it has served; raises AssertionError that names the sentence and the load."""
    bios = 0
    for sentence in SENTENCES:
        source = random.Random(seed)
        for number in range(loads):
            load = random_load(source)
            try:
                sentence(choice, load)
            except AssertionError as error:
                about = (sentence.__doc__ or "").split("\n", 1)[0]
                raise AssertionError(
                    f"{about} Not on load {number} of seed {seed}: {error}\n{load}"
                ) from error
            bios += len(load.bios)
    return bios
