"""Merging with what a sorted scheduler holds: last_merge, the hash, neighbours that come to touch."""

from __future__ import annotations

import bisect
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rig import MS, Rig, ScriptedDriver

from blklab.block.consts import OP_READ
from blklab.block.elevator import Elevator
from blklab.block.switch import set_elevator


class Sorted(Elevator):
    """By sector, with every kind of merge."""

    def __init__(self, queue: Any) -> None:
        super().__init__(queue)
        self.rqs: list[Any] = []

    def bio_merge(self, bio: Any, segments: int, submitter: Any) -> bool:
        merged = self.queue.elv_merge.try_merge(bio, segments)
        if self.queue.elv_merge.freed is not None:
            self.queue.free_request(self.queue.elv_merge.freed)
        return bool(merged)

    def _at(self, rq: Any) -> int:
        return next(i for i, other in enumerate(self.rqs) if other is rq)

    def request_merge(self, bio: Any) -> Any:
        end = bio.sector + bio.nr_sectors
        return next((rq for rq in self.rqs if rq.sector == end), None)

    def latter_request(self, rq: Any) -> Any:
        i = self._at(rq) + 1
        return self.rqs[i] if i < len(self.rqs) else None

    def former_request(self, rq: Any) -> Any:
        i = self._at(rq)
        return self.rqs[i - 1] if i else None

    def request_merged(self, rq: Any, kind: int) -> None:
        del self.rqs[self._at(rq)]
        self._put(rq)

    def requests_merged(self, rq: Any, following: Any) -> None:
        self.rqs = [other for other in self.rqs if other is not following]

    def _put(self, rq: Any) -> None:
        bisect.insort(self.rqs, rq, key=lambda r: r.sector)

    def insert_requests(self, hctx: Any, rqs: Any, at_head: bool) -> None:
        while rqs.count:
            rq = rqs.popleft()
            emptied = self.queue.elv_merge.insert_merge(rq)
            for empty in emptied:
                self.queue.free_request(empty)
            if not emptied:
                self.queue.trace_insert(rq)
                self._put(rq)
                self.queue.elv_merge.add(rq)

    def dispatch_request(self, hctx: Any) -> Any:
        if not self.rqs:
            return None
        rq = self.rqs.pop(0)
        self.queue.elv_merge.remove(rq)
        return rq

    def has_work(self, hctx: Any) -> bool:
        return bool(self.rqs)


def held(nomerges: int = 0) -> tuple[Rig, ScriptedDriver]:
    """A rig whose driver is full, so that everything stays with the scheduler."""
    driver = ScriptedDriver(service_ns=None)
    rig = Rig(driver, depth=1)
    set_elevator(rig.queue, Sorted)
    rig.queue.nr_requests = 256
    tags = rig.queue.hctxs[0].sched_tags
    assert tags is not None
    tags.resize(256)
    rig.queue.hctxs[0].sched_rqs.extend([None] * 256)
    rig.queue.nomerges = nomerges
    rig.send([rig.bio(100_000)], [rig.bio(200_000)]).run(MS)
    return rig, driver


def release(rig: Rig, driver: ScriptedDriver) -> None:
    driver.service_ns = 1000
    for rq in list(driver.held):
        driver.finish(rq)
    rig.run()
    assert sorted(rig.ended()) == list(range(rig.next_io))
    rig.assert_clean()


def test_back_and_front_merges_and_neighbours_that_touch() -> None:
    rig, driver = held()
    rig.send([rig.bio(0)], [rig.bio(16)], [rig.bio(8)]).run(2 * MS)
    # 8+8 continues 0+8, and then reaches 16: the two requests become one
    assert rig.story("M F").endswith("M8+8 M16+8")
    rig.send([rig.bio(1008)], [rig.bio(1000)]).run(3 * MS)
    assert rig.story("F").endswith("F1000+8")
    release(rig, driver)
    assert ("D0+24" in rig.story("D")) and ("D1000+16" in rig.story("D"))


@pytest.mark.parametrize(("nomerges", "merges"), [(0, 3), (1, 2), (2, 0)])
def test_nomerges_1_tries_only_the_last_merge(nomerges: int, merges: int) -> None:
    rig, driver = held(nomerges)
    # The third starts another run; the fourth continues the first again
    rig.send([rig.bio(0)]).run(2 * MS)
    elevator = rig.queue.elevator
    assert isinstance(elevator, Sorted)
    rig.queue.last_merge = next(rq for rq in elevator.rqs if rq.sector == 0)
    rig.send([rig.bio(8)], [rig.bio(16)], [rig.bio(5000)], [rig.bio(24)]).run(3 * MS)
    if nomerges == 1:
        merges += 1  # last_merge is still the first run
    assert rig.counts()["M"] == merges
    release(rig, driver)


def test_a_request_merges_at_insert() -> None:
    rig, driver = held()
    rig.send([rig.bio(0)]).run(2 * MS)
    rig.send([rig.bio(8), rig.bio(5000), rig.bio(6000)]).run(
        3 * MS
    )  # plugged: not seen by bio_merge's request
    release(rig, driver)
    assert rig.counts()["M"] == 1


@given(
    sectors=st.lists(st.integers(0, 40), min_size=1, max_size=60),
    nomerges=st.integers(0, 2),
    plugged=st.booleans(),
)
def test_whatever_merges_every_sector_is_read_once(sectors: list[int], nomerges: int, plugged: bool) -> None:
    rig, driver = held(nomerges)
    batch = [rig.bio(s * 8, 8, OP_READ) for s in sectors]
    rig.send(*([batch] if plugged else [[bio] for bio in batch])).run(5 * MS)
    release(rig, driver)
    assert sum(r.nr_sectors for r in rig.records("C")) == 8 * (len(sectors) + 2)
    assert rig.counts()["M"] + rig.counts()["F"] + rig.counts()["D"] == len(sectors) + 2
