"""A machine for tests of stacked devices: leaves with scripted drivers, and any devices on top of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from blklab.block.features import Features
from blklab.block.models import Shared, find_model, make_queue, settings_of
from blklab.block.queue import RequestQueue
from blklab.block.tags import TagSet
from blklab.block.trace import Tracer
from blklab.lab.rig import Rig, ScriptedDriver, Sender
from blklab.sim.cpu import MachineHost
from blklab.sim.events import EventQueue

TR_ALL = (1 << 14) - 1
# Where a sector of a device is: the name of a leaf and the sector there
Map = Callable[[int], tuple[str, int]]


class LeafDriver(ScriptedDriver):
    """A disk of a size."""

    def __init__(self, size_sectors: int, service_ns: int | None = 10_000) -> None:
        super().__init__(service_ns)
        self.size_sectors = size_sectors

    def attach(self, queue: RequestQueue) -> None:
        super().attach(queue)
        queue.size_sectors = self.size_sectors


def _itself(name: str, sector: int) -> tuple[str, int]:
    return name, sector


class StackRig(Rig):
    """Leaves `d0`, `d1`, ... of the given sizes in sectors, each with a driver of its own, and what is stacked on them.
    `maps` says for every device, by plain arithmetic, where its sectors are."""

    leaf_model: type[LeafDriver] = LeafDriver

    def __init__(
        self,
        sizes: list[int],
        features: dict[str, int] | None = None,
        service_ns: int | None = 10_000,
        max_sectors: int = 2560,
        depth: int = 64,
        costs: list[int] | None = None,
        nr_cpus: int = 1,
    ) -> None:
        self.events = EventQueue()
        self.host = MachineHost(self.events, nr_cpus)
        if costs is not None:
            self.host.set_costs(costs)
        self.features = Features()
        for name, value in (features or {}).items():
            setattr(self.features, name, value)
        self.shared = Shared()
        self.tracer = Tracer(self.host)
        self.drivers: dict[str, LeafDriver] = {}
        self.maps: dict[str, Map] = {}
        self.queues: list[RequestQueue] = []
        self.by_name = self.shared.queues
        for i, size in enumerate(sizes):
            driver = self.leaf_model(size, service_ns)
            driver.max_sectors = max_sectors
            name = f"d{i}"
            queue = RequestQueue(
                name, i, self.host, driver, TagSet(1, depth, nr_cpus), self.features, self.shared.bios
            )
            queue.checks = True
            self.drivers[name] = driver
            self.maps[name] = partial(_itself, name)
            self._add(queue)
        self.driver = self.drivers["d0"]
        self.senders = [Sender(self.host, cpu, 100 + cpu) for cpu in range(nr_cpus)]
        self.next_io = 0

    def _add(self, queue: RequestQueue) -> None:
        queue.set_trace(self.tracer, TR_ALL)
        self.shared.queues[queue.name] = queue
        self.queues.append(queue)

    def stack(self, name: str, model: str, **given: Any) -> RequestQueue:
        """Make a device of others."""
        found = find_model(model)
        settings = settings_of(found, None, given, lambda key: f"{name}.{key}")
        queue = make_queue(name, len(self.queues), found, settings, self.host, self.features, 1, self.shared)
        self._add(queue)
        if model in MAPS:  # a device whose sectors have copies has no such map
            self.maps[name] = MAPS[model](self, settings, queue.size_sectors)
        return queue

    def bio_to(self, name: str, sector: int, nr_sectors: int = 8, op: int = 0, flags: int = 0) -> Any:
        """A bio for a device by name."""
        return self.bio(sector, nr_sectors, op, flags, self.queues.index(self.by_name[name]))

    def children(self, name: str, actions: str = "Q") -> list[tuple[int, int]]:
        """(sector, sectors) of the events of a device."""
        device = self.by_name[name].number
        return [(r.sector, r.nr_sectors) for r in self.records(actions, device)]

    def leaf_names(self) -> list[str]:
        return list(self.drivers)

    def statuses(self) -> dict[int, int]:
        """How each bio ended; each once."""
        found: dict[int, int] = {}
        for sender in self.senders:
            for io, status, _ in sender.ended:
                assert io not in found, f"bio {io} ended twice"
                found[io] = status
        return found

    def assert_all_ended(self) -> None:
        """Every bio has ended, once, and nothing is left anywhere."""
        assert len(self.statuses()) == self.next_io
        for queue in self.queues:
            assert queue.usage == 0, queue.name
            assert queue.stat.in_flight_read == 0 and queue.stat.in_flight_write == 0, queue.name


# -- plain arithmetic ---------------------------------------------------------------------------


def _linear(rig: StackRig, settings: dict[str, Any], size: int) -> Map:
    parts = [
        (queue.name, sector)
        for queue in settings_members(rig, settings)
        for sector in range(queue.size_sectors)
    ]
    return lambda sector: rig.maps[parts[sector][0]](parts[sector][1])


def _stripe(rig: StackRig, settings: dict[str, Any], size: int) -> Map:
    members, chunk = settings["members"], settings["chunk"] // 512

    def where(sector: int) -> tuple[str, int]:
        row, column = divmod(sector // chunk, len(members))
        return rig.maps[members[column]](row * chunk + sector % chunk)

    return where


def _raid0(rig: StackRig, settings: dict[str, Any], size: int) -> Map:
    # Deal out chunk after chunk: each zone goes over the members that still have something
    chunk = settings["chunk"] // 512
    sizes = {name: rig.by_name[name].size_sectors // chunk for name in settings["members"]}
    table: list[tuple[str, int]] = []
    row = 0
    while any(have > row for have in sizes.values()):
        zone = [name for name in settings["members"] if sizes[name] > row]
        end = min(sizes[name] for name in zone)
        begin = len(table)
        for index in range((end - row) * len(zone)):
            turn = index if settings["layout"] == "alternate" else begin + index
            table.append((zone[turn % len(zone)], row + index // len(zone)))
        row = end

    def where(sector: int) -> tuple[str, int]:
        name, place = table[sector // chunk]
        return rig.maps[name](place * chunk + sector % chunk)

    return where


def _shifted(rig: StackRig, settings: dict[str, Any], size: int) -> Map:
    start = settings["start"] // 512
    return lambda sector: rig.maps[settings["device"]](start + sector)


def settings_members(rig: StackRig, settings: dict[str, Any]) -> list[RequestQueue]:
    return [rig.by_name[name] for name in settings["members"]]


MAPS: dict[str, Callable[[StackRig, dict[str, Any], int], Map]] = {
    "linear": _linear,
    "stripe": _stripe,
    "raid0": _raid0,
    "partition": _shifted,
    "delay": _shifted,
    "flakey": _shifted,
    "error": lambda rig, settings, size: lambda sector: ("", sector),
}
