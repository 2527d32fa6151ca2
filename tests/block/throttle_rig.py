"""A rig for blk-throttle: groups that always have bios waiting, and when those went on (their Q)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rig import MS, Rig, ScriptedDriver

from blklab.block.bio import Bio
from blklab.block.consts import OP_READ
from blklab.core.clock import Event
from blklab.sim.kernels import load_features

AREA = 24  # bits of a sector below the number of the group it is of


class At(Event):
    """Something that a test does at a time."""

    def __init__(self, do: Callable[[], object]) -> None:
        self.do = do

    def fire(self, now_ns: int) -> int:
        """Now."""
        self.do()
        return 0


class ThrottleRig(Rig):
    """`keep_busy` has a group send bios until a time."""

    def __init__(self, depth: int = 512, kernel: str = "6.1", service_ns: int = 10_000, **more: Any) -> None:
        found = load_features(kernel)
        features = {name: getattr(found, name) for name in dir(found) if name.startswith("throttle_")}
        features.update(more.pop("features", {}))
        super().__init__(ScriptedDriver(service_ns), depth=depth, features=features, **more)
        self.groups: list[str] = []
        self.next_sector: list[int] = []

    def at(self, time_ns: int, do: Callable[[], object]) -> None:
        """Have `do` called at a time."""
        self.events.at(time_ns, At(do))

    def limit(self, path: str, text: str) -> None:
        """Write io.max for the device."""
        self.write_file(path, "io.max", f"dev0 {text}")

    def bio_of(self, path: str, nr_sectors: int = 8, op: int = OP_READ) -> Bio:
        """The next bio of a group, whose sector says which."""
        if path not in self.groups:
            self.groups.append(path)
            self.next_sector.append(0)
        number = self.groups.index(path)
        sector = number << AREA | self.next_sector[number]
        self.next_sector[number] += nr_sectors + 8
        return self.bio(sector, nr_sectors, op)

    def keep_busy(
        self,
        path: str,
        until_ns: int,
        in_flight: int = 32,
        nr_sectors: int = 8,
        op: int = OP_READ,
        start_ns: int = 0,
    ) -> None:
        """From `start_ns` on a task of the group has `in_flight` bios under way, until a time."""

        def send_one() -> None:
            self.send([self.bio_of(path, nr_sectors, op)], cgroup=path)

        def done(bio: Bio) -> None:
            if self.events.now_ns < until_ns:
                send_one()

        def begin() -> None:
            for _ in range(in_flight):
                send_one()
            self.members[path, 0].on_done = done

        if start_ns:
            self.at(start_ns, begin)
        else:
            begin()

    def went(self, path: str, op: str | None = None) -> list[tuple[int, int]]:
        """When bios of a group went on, and how many sectors each had."""
        number = self.groups.index(path)
        return [
            (r.time_ns, r.nr_sectors)
            for r in self.records("Q")
            if r.sector >> AREA == number and (op is None or r.rwbs == op)
        ]

    def messages(self) -> list[str]:
        """What blk-throttle said."""
        return [self.tracer.messages[r.extra] for r in self.records("m")]


def rate(went: list[tuple[int, int]], start_ns: int, end_ns: int, of_bytes: bool = False) -> float:
    """I/Os or bytes a second in a window."""
    amount = sum((n << 9) if of_bytes else 1 for at, n in went if start_ns <= at < end_ns)
    return amount * 1e9 / (end_ns - start_ns)


def worst_excess(went: list[tuple[int, int]], limit: float, of_bytes: bool = False) -> float:
    """By how much the busiest window is above limit * its length: the largest burst."""
    # max over i <= j of (sum of i..j) - limit * (t_j - t_i), in one pass
    worst = best_start = 0.0
    total = 0.0
    for number, (at, nr_sectors) in enumerate(went):
        here = total - limit * at / 1e9
        best_start = here if number == 0 else min(best_start, here)
        total += (nr_sectors << 9) if of_bytes else 1
        worst = max(worst, total - limit * at / 1e9 - best_start)
    return worst


__all__ = ["AREA", "MS", "ThrottleRig", "rate", "worst_excess"]
