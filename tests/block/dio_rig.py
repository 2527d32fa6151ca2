"""Stacked devices for tests of direct I/O: members in chunks, or one shifted, in any depth; and a thread that does I/Os
of any offsets and lengths on the top one.

Written for the tests and not the package's own devices: what a bio may be is computed here a second time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from blklab.block.bio import Bio, BioPool
from blklab.block.consts import DONE, F_TRACED, PAGE_BYTES, TR_ALL
from blklab.block.driver import Driver
from blklab.block.features import Features
from blklab.block.queue import RequestQueue
from blklab.block.submit import Submitter
from blklab.block.tags import TagSet
from blklab.block.trace import Record, Tracer
from blklab.lab.rig import ScriptedDriver
from blklab.metrics.stats import JobStats
from blklab.sim.cpu import MachineHost
from blklab.sim.events import EventQueue
from blklab.sim.fio_phases import ENGINE_LIBAIO
from blklab.sim.fio_thread import FioThread
from blklab.workload.replay import ReplayStream

NEVER = (1 << 63) - 1


class Striped(Driver):
    """Members in turn, chunk by chunk (chunk_sectors 0: one member, shifted by 2048 sectors). Bios are cut at
    chunks."""

    def __init__(self, members: Sequence[RequestQueue], chunk_sectors: int) -> None:
        super().__init__()
        self.bio_based = True
        self.members = list(members)
        self.chunk = chunk_sectors
        self.asked = 0
        self.pieces = 0

    def attach(self, queue: RequestQueue) -> None:
        """Limits of the members."""
        super().attach(queue)
        queue.limits.set_stacking_defaults()
        for member in self.members:
            queue.limits.stack(member.limits, 0)
        queue.size_sectors = 1 << 22

    def place(self, sector: int) -> tuple[RequestQueue, int, int]:
        """(member, its sector, how many sectors lie there)."""
        if not self.chunk:
            return self.members[0], sector + 2048, 1 << 30
        chunk, inside = divmod(sector, self.chunk)
        row, number = divmod(chunk, len(self.members))
        return self.members[number], row * self.chunk + inside, self.chunk - inside

    def merge_bvec(self, queue: RequestQueue, sector: int) -> int:
        """What is left of the chunk, if the member takes it."""
        self.asked += 1
        member, below, left = self.place(sector)
        if member.bio_based:
            left = min(left, member.driver.merge_bvec(member, below))
        return left

    def submit_bio(self, submitter: Submitter, bio: Bio) -> int:
        """Cut and sent on."""
        queue = bio.queue
        assert queue is not None
        sector, end = bio.sector, bio.sector + bio.nr_sectors
        offset = bio.buffer_offset_bytes
        while sector < end:
            member, below, left = self.place(sector)
            part = queue.bios.get()
            part.parent = bio
            bio.remaining += 1
            part.queue = member
            part.submitter = bio.submitter
            part.op = bio.op
            part.flags = bio.flags & ~F_TRACED
            part.sector = below
            part.nr_sectors = min(left, end - sector)
            part.buffer_offset_bytes = offset + ((sector - bio.sector) << 9)
            part.run_bytes = bio.run_bytes
            sector += part.nr_sectors
            self.pieces += 1
            submitter.submit_noacct(part)
        queue.end_bio(bio, 0)
        return DONE


@dataclass
class Stack:
    """A machine with leaves and stacked devices (`levels`, top last), all tracepoints on."""

    features: Features = field(default_factory=Features)
    levels: list[RequestQueue] = field(default_factory=list)
    leaves: list[RequestQueue] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.events = EventQueue()
        self.host = MachineHost(self.events, 1)
        self.bios = BioPool()
        self.tracer = Tracer(self.host)

    def leaf(self, max_sectors: int, max_segments: int, physical_bytes: int = 512) -> RequestQueue:
        """A device with these limits."""
        queue = self._queue(ScriptedDriver(), TagSet(1, 64, 1))
        queue.limits.set_physical_block(physical_bytes)
        queue.limits.max_hw_sectors = max_sectors
        queue.limits.max_sectors = max_sectors
        queue.limits.max_segments = max_segments
        self.leaves.append(queue)
        return queue

    def over(self, members: Sequence[RequestQueue], chunk_sectors: int) -> RequestQueue:
        """A stacked device."""
        queue = self._queue(Striped(members, chunk_sectors), None)
        self.levels.append(queue)
        return queue

    def _queue(self, driver: Driver, tags: TagSet | None) -> RequestQueue:
        number = len(self.leaves) + len(self.levels)
        queue = RequestQueue(f"dev{number}", number, self.host, driver, tags, self.features, self.bios)
        queue.checks = True
        queue.set_trace(self.tracer, TR_ALL)
        return queue

    def thread(
        self, ios: Sequence[tuple[int, int, int]], top: RequestQueue, run_bytes: int = 4096
    ) -> FioThread:
        """A thread that does I/Os (direction, offset and length in bytes), four at a time."""
        columns = list(zip(*ios, strict=True))
        stream = ReplayStream(columns[0], [0] * len(ios), columns[1], columns[2])
        stats = JobStats(True, False, False, 500, 500)
        thread = FioThread(self.host, 0, 100, stream, stats, [top], [0])
        thread.configure(ENGINE_LIBAIO, 4, 1, 4, 1, 1)
        thread.dio.run_bytes = run_bytes
        return thread

    def run(self, ios: Sequence[tuple[int, int, int]], run_bytes: int = 4096) -> FioThread:
        """Do I/Os on the top device, to their end."""
        thread = self.thread(ios, (self.levels or self.leaves)[-1], run_bytes)
        self.host.start(thread, 0)
        while self.host.live_tasks:
            self.events.run(NEVER, 100_000)
        return thread

    def records(self, actions: str, queue: RequestQueue | None = None) -> list[Record]:
        """The trace, of some actions."""
        wanted = actions.split()
        return [r for r in self.tracer if r.action in wanted and (queue is None or r.device == queue.number)]

    def story(self, actions: str, queue: RequestQueue) -> str:
        """'Q0+8 D0+8' of one device."""
        return " ".join(f"{r.action}{r.sector}+{r.nr_sectors}" for r in self.records(actions, queue))

    def lands(self, sector: int, queue: RequestQueue | None = None) -> tuple[int, int]:
        """(device number, sector) of the leaf where a sector of the top device lies."""
        queue = queue or (self.levels or self.leaves)[-1]
        while queue.bio_based:
            driver = queue.driver
            assert isinstance(driver, Striped)
            queue, sector, _ = driver.place(sector)
        return queue.number, sector


def old(**more: int) -> Features:
    """The features of a kernel before 4.3, as far as bios go."""
    features = Features()
    for name, value in {"late_bio_split": 0, "large_dio_bios": 0, "fast_bio_split": 0, **more}.items():
        setattr(features, name, value)
    return features


def pages_of(nr_sectors: int) -> int:
    """Pages of a bio whose buffer begins on one."""
    return -(-(nr_sectors << 9) // PAGE_BYTES)
