"""Whatever is sent in whatever order: what is flushed when, of each bio with PREFLUSH or FUA.

A log of what was sent, what the device got and answered, and what ended is held against what the flags promise.
"""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st
from rig import Rig, ScriptedDriver, Sender

from blklab.block.bio import Bio
from blklab.block.consts import (
    F_FUA,
    F_PREFLUSH,
    F_SYNC,
    OP_FLUSH,
    OP_READ,
    OP_WRITE,
    STS_DEV_RESOURCE,
    STS_IOERR,
    STS_OK,
    STS_RESOURCE,
)
from blklab.block.elevator import built_in_names
from blklab.block.hwqueue import HardwareQueue
from blklab.block.request import Request
from blklab.block.switch import set_elevator
from blklab.core.steps import STEPS

APART = 1000  # sectors between two bios: a sector tells which one it is
COSTS = [137 + 11 * i for i in range(len(STEPS))]


class Entry(NamedTuple):
    """A line of the log: sent and ended of bios, issued and answered of requests."""

    what: str
    number: int  # of the bio; of a flush -1
    hctx: int
    flags: int
    status: int


class LoggedDriver(ScriptedDriver):
    """Logs what it gets and answers."""

    def __init__(self, log: list[Entry], service_ns: int) -> None:
        super().__init__(service_ns)
        self.log = log

    def write(self, what: str, rq: Request) -> None:
        number = -1 if rq.op == OP_FLUSH else rq.sector // APART
        assert rq.hctx is not None
        self.log.append(Entry(what, number, rq.hctx.index, rq.flags, rq.status))

    def queue_rq(self, hctx: HardwareQueue, rq: Request, last: bool) -> int:
        status = super().queue_rq(hctx, rq, last)
        if status == STS_OK:
            self.write("issued", rq)
        return status

    def end(self, rq: Request) -> int:
        self.write("answered", rq)
        return super().end(rq)


class LoggedSender(Sender):
    """Logs what it sends and what ends."""

    log: list[Entry]

    def begin(self, bio: Bio) -> None:
        self.log.append(Entry("sent", bio.io, -1, bio.flags, STS_OK))  # type: ignore[arg-type]
        super().begin(bio)

    def bio_done(self, bio: Bio) -> int:
        self.log.append(Entry("ended", bio.io, -1, bio.flags, bio.status))  # type: ignore[arg-type]
        return super().bio_done(bio)


BIOS = st.tuples(
    st.sampled_from(["read", "write", "write", "pre", "fua", "both", "empty", "empty"]),
    st.integers(0, 2),  # CPU
    st.sampled_from([1, 8, 8, 64]),
)
FLAGS = {"pre": F_PREFLUSH, "empty": F_PREFLUSH, "fua": F_FUA, "both": F_PREFLUSH | F_FUA}


def index_of(log: list[Entry], what: str, number: int) -> int:
    (found,) = [i for i, entry in enumerate(log) if (entry.what, entry.number) == (what, number)]
    return found


def a_flush_between(log: list[Entry], hctx: int, first: int, last: int) -> bool:
    """Whether a flush of a hardware queue was issued and answered, well, between two places of the log."""
    begun = False
    for entry in log[first + 1 : last]:
        if entry.number == -1 and entry.hctx == hctx:
            if entry.what == "issued":
                begun = True
            elif begun and entry.what == "answered" and entry.status == STS_OK:
                return True
    return False


@settings(max_examples=120)
@given(
    cache=st.booleans(),
    fua=st.booleans(),
    nr_hw_queues=st.integers(1, 3),
    depth=st.sampled_from([1, 2, 8]),
    name=st.sampled_from(["none", "none", *built_in_names(False)]),
    scheduled=st.integers(0, 1),
    costs=st.booleans(),
    service_ns=st.sampled_from([1000, 50_000, 3_000_000]),
    answers=st.lists(st.sampled_from([STS_RESOURCE, STS_DEV_RESOURCE, STS_OK, STS_OK]), max_size=12),
    endings=st.lists(st.sampled_from([STS_IOERR, STS_OK, STS_OK]), max_size=12),
    bios=st.lists(BIOS, min_size=1, max_size=40),
    batch=st.sampled_from([1, 4, 16]),
)
def test_flags_are_kept(  # type: ignore[no-untyped-def]
    cache, fua, nr_hw_queues, depth, name, scheduled, costs, service_ns, answers, endings, bios, batch
) -> None:
    log: list[Entry] = []
    driver = LoggedDriver(log, service_ns)
    driver.answers.extend(answers)
    driver.endings.extend(endings)
    rig = Rig(
        driver,
        3,
        nr_hw_queues,
        depth,
        features={"flush_data_scheduled": scheduled},
        costs=COSTS if costs else None,
    )
    queue = rig.queue
    queue.write_cache = cache
    queue.fua = cache and fua
    rig.senders = [LoggedSender(rig.host, cpu, 100 + cpu) for cpu in range(3)]
    for sender in rig.senders:
        sender.log = log  # type: ignore[attr-defined]
    set_elevator(queue, name)
    batches: list[list[list[Bio]]] = [[[]], [[]], [[]]]
    cpus = []
    for number, (kind, cpu, size) in enumerate(bios):
        flags = FLAGS.get(kind, 0) | F_SYNC
        size = 0 if kind == "empty" else size
        op = OP_READ if kind == "read" else OP_WRITE
        if len(batches[cpu][-1]) == batch:
            batches[cpu].append([])
        batches[cpu][-1].append(rig.bio(number * APART, size, op, flags, 0, cpu))
        cpus.append(cpu)
    for cpu in range(3):
        rig.send(*batches[cpu], cpu=cpu)
    rig.run()

    text = f"{rig.describe()}\n{rig.story()}\n{log}"
    assert sorted(rig.ended()) == list(range(len(bios))), text
    rig.assert_clean()
    for number, (kind, cpu, _) in enumerate(bios):
        check(log, number, kind, queue.hctx_of(cpu).index, cache, cache and fua)
    check_one_flush_at_a_time(log, nr_hw_queues)
    assert cache or not any(entry.number == -1 for entry in log)
    inserted = {(r.rwbs, r.sector // APART) for r in rig.records("I")}
    assert not any("FN" in rwbs for rwbs, _ in inserted)
    if cache and not scheduled:
        assert not any(FLAGS.get(bios[number][0]) for _, number in inserted)


def check(log: list[Entry], number: int, kind: str, hctx: int, cache: bool, fua: bool) -> None:
    """One bio: issued once, with what it needs before and after."""
    flags = FLAGS.get(kind, 0)
    pre = cache and bool(flags & F_PREFLUSH)
    post = cache and bool(flags & F_FUA) and not fua
    sent, ended = index_of(log, "sent", number), index_of(log, "ended", number)
    well = log[ended].status == STS_OK
    issued = [i for i, entry in enumerate(log) if (entry.what, entry.number) == ("issued", number)]
    if kind == "empty":
        assert not issued
        assert not pre or not well or a_flush_between(log, hctx, sent, ended)
        return
    if not issued:
        assert pre and not well, "only a flush that failed keeps data from the device"
        return
    (at,) = issued
    answered = index_of(log, "answered", number)
    assert sent < at < answered < ended
    assert not log[at].flags & F_PREFLUSH
    assert bool(log[at].flags & F_FUA) == (cache and fua and bool(flags & F_FUA))
    assert not pre or a_flush_between(log, hctx, sent, at)
    assert not post or not well or a_flush_between(log, hctx, answered, ended)


def check_one_flush_at_a_time(log: list[Entry], nr_hw_queues: int) -> None:
    in_flight = [0] * nr_hw_queues
    for entry in log:
        if entry.number == -1:
            in_flight[entry.hctx] += 1 if entry.what == "issued" else -1
            assert 0 <= in_flight[entry.hctx] <= 1
    assert not any(in_flight)
