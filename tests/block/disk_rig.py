"""Closed loops of tasks on one disk, without CPU costs: what the tests of disks measure with."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

SECOND_NS = 1_000_000_000

Places = Callable[[], int]


def random_places(nr_sectors: int, block_sectors: int = 8, seed: int = 1) -> Places:
    """Sectors of blocks anywhere in the first `nr_sectors`."""
    source = random.Random(seed)
    blocks = nr_sectors // block_sectors
    return lambda: source.randrange(blocks) * block_sectors


def sequential_places(start: int, block_sectors: int) -> Places:
    """Blocks one after the other."""
    sector = start - block_sectors

    def following() -> int:
        nonlocal sector
        sector += block_sectors
        return sector

    return following


class Loop:
    """A task on its own CPU that keeps `depth` I/Os in flight until `ios` have been sent or `until_ns` is past.
    `latencies_ns`: of each I/O."""

    def __init__(
        self,
        rig: Any,
        places: Places,
        depth: int = 1,
        ios: int = 1 << 60,
        until_ns: int = 1 << 60,
        op: int = 0,
        nr_sectors: int = 8,
        cpu: int = 0,
        flags: int = 0,
    ) -> None:
        self.rig = rig
        self.places = places
        self.ios = ios
        self.until_ns = until_ns
        self.op = op
        self.nr_sectors = nr_sectors
        self.cpu = cpu
        self.flags = flags
        self.sent = 0
        self.done = 0
        self.last_ns = 0
        self.began: dict[int, int] = {}
        self.latencies_ns: list[int] = []
        rig.senders[cpu].on_done = self._done
        for _ in range(depth):
            self._send()

    def _send(self) -> None:
        if self.sent < self.ios and self.rig.events.now_ns < self.until_ns:
            self.sent += 1
            bio = self.rig.bio(self.places(), self.nr_sectors, self.op, self.flags, cpu=self.cpu)
            self.began[bio.io] = self.rig.events.now_ns
            self.rig.send([bio], cpu=self.cpu)

    def _done(self, bio: Any) -> None:
        self.done += 1
        self.last_ns = self.rig.events.now_ns
        self.latencies_ns.append(self.last_ns - self.began.pop(bio.io))
        self._send()

    def iops(self) -> float:
        """I/Os a second."""
        return self.done * SECOND_NS / self.last_ns

    def bytes_per_s(self) -> float:
        """Bytes a second."""
        return self.iops() * self.nr_sectors * 512


def quiet(rig: Any) -> Any:
    """The same machine without tracepoints: for runs of many I/Os."""
    for queue in rig.queues:
        queue.set_trace(None, 0)
    return rig


def random_iops(
    rig: Any, span_bytes: int = 0, depth: int = 1, ios: int = 1000, op: int = 0, nr_sectors: int = 8
) -> float:
    """Random I/Os a second over the first `span_bytes` (0: all)."""
    span = min(span_bytes >> 9 or rig.queue.size_sectors, rig.queue.size_sectors)
    loop = Loop(quiet(rig), random_places(span, nr_sectors), depth, ios, op=op, nr_sectors=nr_sectors)
    rig.run()
    return loop.iops()
