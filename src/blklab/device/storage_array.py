"""A storage array: one logical unit striped over several disks that turn, behind a controller whose cache keeps writes
(NVRAM: the cache outlives a power failure, so nothing is ever flushed).

The disks are `disk_unit`s inside this device, made from a preset of `hdd`, their own write caches off; Linux sees one
disk, as behind a RAID controller or a SAN. `queue/rotational` is 1, as sd finds it unless the array says otherwise.

Theory of operation
-------------------
A command costs `controller_ns` of the controller, one after the other, and its data the time of the link. Then:

    write   in the cache as soon as there is room, done `write_ns` later: the writer does not wait for a disk
            until the cache is full, and from then on waits for as many writes of the disks as it makes
    read    what waits to be written is in the cache; the rest is cut at chunks and read from the disks, at
            most `disk_depth` commands at a time in each; done `read_ns` after the last of them

Writing to the disks (destage): each disk has its own sorted runs, and gets the next of them in a sweep, up to
`destage_depth` at a time. When: always while the cache is fuller than `destage_high`, until it is down to
`destage_low`, and while a write waits for room; else with `destage_first` as soon as there is something to write, and
without it only on a disk for which no read waits. Which of its commands a disk takes next is its own choice
(`disk_unit`: nearest first, nobody starves).

Deliberate differences: plain striping: no parity, so no read-modify-write, no mirrors, no rebuilding; no cache of what
was read but the disks' own buffers; the controller does not read ahead. All figures are free parameters: they say what
an array would have to be for a measurement, not what one was.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import cython

from blklab.block.models import DeviceModel, Parameter, Settings, settings_of
from blklab.block.tags import TagSet
from blklab.core.errors import BlklabError
from blklab.device import hdd
from blklab.device.disk_driver import DiskDriver
from blklab.device.disk_extents import Extents
from blklab.device.disk_parameters import USE_BLK_MQ
from blklab.device.disk_unit import DiskUnit
from blklab.device.presets import presets_of
from blklab.device.scsi import single_queue

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from blklab.block.hwqueue import HardwareQueue
    from blklab.block.queue import RequestQueue
    from blklab.block.request import Request
    from blklab.core.host import Host
    from blklab.device.disk_unit import DiskCommand

if not cython.compiled:
    from blklab.block.consts import OP_READ, OP_WRITE, STS_OK
    from blklab.core.charging import charge
    from blklab.core.steps import STEP_SCSI_QUEUE

MAX_SECTORS = 0xFFFF  # DEF_XFER_BLOCKS of sd
MAX_SEGMENTS = 128
MAX_SEGMENT_BYTES = 65536
SECOND_NS = 1_000_000_000
MIB_SHIFT = 20

PARAMETERS = (
    Parameter("disks", "int", 8, "disks that it is striped over", 1, 1024),
    Parameter("disk", "str", "hitachi-7k500-500gb", "what disks: a preset of hdd"),
    Parameter("chunk", "bytes", 64 << 10, "how much lies on one disk in a row", 4096, 1 << 30),
    Parameter("size", "bytes", 0, "size of the logical unit; 0: all of the disks", 0),
    Parameter("queue_depth", "int", 32, "commands that the logical unit takes at a time", 1, 1024),
    Parameter("cache", "bytes", 512 << 20, "cache for writes", 1 << 20, 1 << 44),
    Parameter("controller_ns", "int", 20_000, "time of the controller for a command", 0, SECOND_NS),
    Parameter(
        "write_ns", "int", 200_000, "latency of a write beside waiting for room in the cache", 0, SECOND_NS
    ),
    Parameter("read_ns", "int", 200_000, "latency of a read beside the disks", 0, SECOND_NS),
    Parameter(
        "link_bytes_per_s",
        "bytes",
        400_000_000,
        "rate of the link (Fibre Channel 4 Gb/s: 400 MB/s)",
        1_000_000,
    ),
    Parameter("disk_depth", "int", 8, "commands of reads that one disk has at a time", 1, 256),
    Parameter("destage_depth", "int", 4, "writes that one disk has at a time", 1, 256),
    Parameter("destage_bytes", "bytes", 256 << 10, "largest write to a disk", 4096, 1 << 26),
    Parameter("destage_high", "int", 80, "how full the cache is when destaging comes first, percent", 0, 100),
    Parameter("destage_low", "int", 60, "how full it is when that ends, percent", 0, 100),
    Parameter("destage_first", "bool", False, "a disk writes although a read waits for it"),
    USE_BLK_MQ,
    Parameter("disk_starve_ns", "int", 0, "starve_ns of the disks; 0: that of the preset", 0),
    Parameter("disk_window", "int", -1, "window of the disks; -1: that of the preset", -1, 1024),
)


class Member:
    """One disk of the array. `reads`: parts of reads that are not in the disk yet; `reading`, `writing`: how
    many commands it has; `dirty`: what is in the cache and not given to it; `moving`: what it is writing."""

    def __init__(self, unit: DiskUnit, index: int) -> None:
        self.unit = unit
        self.index = index
        self.dirty = Extents()
        self.moving = Extents()
        self.reads: deque[tuple[Request, int, int]] = deque()
        self.reading = 0
        self.writing = 0
        self.swept_to = 0


class StorageArray(DiskDriver):
    """One logical unit. `held`: sectors in the cache; `pressed`: destaging comes first."""

    def __init__(self, settings: Settings, host: Host, seed: int) -> None:
        DiskDriver.__init__(self, settings, host)
        disk = _disk_settings(settings)
        self.members: list[Member] = []
        for index in range(settings["disks"]):
            self.members.append(Member(DiskUnit(disk, host.clock, self), index))
        self.nr_disks = settings["disks"]
        self.chunk_sectors = settings["chunk"] >> 9
        self.cache_sectors = settings["cache"] >> 9
        self.high_sectors = self.cache_sectors * settings["destage_high"] // 100
        self.low_sectors = self.cache_sectors * settings["destage_low"] // 100
        self.destage_sectors = settings["destage_bytes"] >> 9
        self.disk_depth = settings["disk_depth"]
        self.destage_depth = settings["destage_depth"]
        self.destage_first = settings["destage_first"]
        self.controller_ns = settings["controller_ns"]
        self.write_ns = settings["write_ns"]
        self.read_ns = settings["read_ns"]
        self.link_mib_ns = max(1, (SECOND_NS << MIB_SHIFT) // settings["link_bytes_per_s"])
        self.controller_free_ns = 0
        self.link_free_ns = 0
        self.held = 0
        self.pressed = False
        self.waiting_writes: deque[Request] = deque()
        self.read_hits = 0
        self.write_waits = 0
        self.part_disk = 0
        self.part_sector = 0

    def attach(self, queue: RequestQueue) -> None:
        """What sd finds: one large disk without a volatile cache."""
        DiskDriver.attach(self, queue)
        limits = queue.limits
        limits.set_max_hw_sectors(MAX_SECTORS, queue.features.default_max_sectors)
        limits.max_segments = MAX_SEGMENTS
        limits.max_segment_bytes = MAX_SEGMENT_BYTES
        rows = self.members[0].unit.geometry.size_sectors // self.chunk_sectors
        whole = rows * self.chunk_sectors * self.nr_disks
        wanted = self.settings["size"] >> 9
        if wanted > whole:
            raise BlklabError(
                f"array: size {wanted << 9} does not fit on its disks, which have {whole << 9} bytes"
            )
        queue.size_sectors = wanted or whole
        queue.rotational = True

    def queue_rq(self, hctx: HardwareQueue, rq: Request, last: bool) -> int:
        """The controller has it."""
        charge(self.host, STEP_SCSI_QUEUE)
        hctx.queue.start_request(rq)
        begin = self.clock.now_ns
        if begin < self.controller_free_ns:
            begin = self.controller_free_ns
        self.controller_free_ns = begin + self.controller_ns
        rq.device_ns = self.controller_free_ns
        if rq.op == OP_READ:
            self._read(rq)
        elif rq.op == OP_WRITE:
            if self.waiting_writes or not self._has_room(rq):
                self.write_waits += 1
                self.waiting_writes.append(rq)
                self._destage_all()
            else:
                self._accept(rq)
        else:
            self.clock.at(rq.device_ns, rq)
        return STS_OK

    def rq_done(self, rq: Request) -> int:
        """A command has been done."""
        return rq.queue.complete(rq, STS_OK)

    def disk_done(self, cmd: Any) -> int:
        """A disk has done its part of something."""
        done: DiskCommand = cmd
        member: Member = self.members[done.index]
        if done.write:
            member.writing -= 1
            member.moving.remove(done.sector, done.end)
            self.held -= done.end - done.sector
            if self.pressed and self.held <= self.low_sectors:
                self.pressed = False
            self._feed(member)
            while self.waiting_writes and self._has_room(self.waiting_writes[0]):
                self._accept(self.waiting_writes.popleft())
            return 0
        rq: Request = done.rq
        member.reading -= 1
        rq.device_slot -= 1
        if rq.device_slot == 0:
            self._answer(rq)
        return self._feed(member)

    def _over_link(self, begin_ns: int, nr_sectors: int) -> int:
        if begin_ns < self.link_free_ns:
            begin_ns = self.link_free_ns
        self.link_free_ns = begin_ns + ((nr_sectors << 9) * self.link_mib_ns >> MIB_SHIFT)
        return self.link_free_ns

    # -- writes ------------------------------------------------------------------------

    def _has_room(self, rq: Request) -> bool:
        return self.held == 0 or self.held + rq.nr_sectors <= self.cache_sectors

    def _accept(self, rq: Request) -> int:
        now = self.clock.now_ns
        begin = rq.device_ns if rq.device_ns > now else now
        self.clock.at(self._over_link(begin, rq.nr_sectors) + self.write_ns, rq)
        sector = rq.sector
        end = rq.end_sector()
        while sector < end:
            part = self._part(sector, end)
            member: Member = self.members[self.part_disk]
            self.held += member.dirty.add(self.part_sector, self.part_sector + part)
            sector += part
        if not self.pressed and self.held > self.high_sectors:
            self.pressed = True
            return self._destage_all()
        sector = rq.sector
        while sector < end:
            part = self._part(sector, end)
            self._feed(self.members[self.part_disk])
            sector += part
        return 0

    def _part(self, sector: int, end: int) -> int:
        """How much of sector..end lies on one disk; `part_disk` and `part_sector` say where."""
        chunk = sector // self.chunk_sectors
        inside = sector - chunk * self.chunk_sectors
        row = chunk // self.nr_disks
        self.part_disk = chunk - row * self.nr_disks
        self.part_sector = row * self.chunk_sectors + inside
        left = self.chunk_sectors - inside
        return left if left < end - sector else end - sector

    def _destage_all(self) -> int:
        for i in range(self.nr_disks):
            self._feed(self.members[i])
        return 0

    def _feed(self, member: Member) -> int:
        """Gives a disk what it may have: reads, and what is to be written."""
        while member.reads and member.reading < self.disk_depth:
            rq, sector, nr_sectors = member.reads.popleft()
            member.reading += 1
            self._give(member, rq, sector, nr_sectors, False)
        pressed = self.pressed or self.destage_first or len(self.waiting_writes) > 0
        while (
            member.dirty.count > 0
            and member.writing < self.destage_depth
            and (pressed or (member.reading == 0 and not member.reads))
        ):
            dirty = member.dirty
            dirty.take(dirty.first_from(member.swept_to), self.destage_sectors)
            member.swept_to = dirty.taken_end
            member.writing += 1
            member.moving.add(dirty.taken_start, dirty.taken_end)
            self._give(member, None, dirty.taken_start, dirty.taken_end - dirty.taken_start, True)
        return 0

    def _give(self, member: Member, rq: Any, sector: int, nr_sectors: int, write: bool) -> int:
        cmd = member.unit.command(rq, sector, nr_sectors, write)
        cmd.index = member.index
        return member.unit.submit(cmd)

    # -- reads -------------------------------------------------------------------------

    def _read(self, rq: Request) -> int:
        sector = rq.sector
        end = rq.end_sector()
        rq.device_slot = 1  # until all parts have been sent
        while sector < end:
            part = self._part(sector, end)
            member: Member = self.members[self.part_disk]
            start = self.part_sector
            if not (member.dirty.covers(start, start + part) or member.moving.covers(start, start + part)):
                rq.device_slot += 1
                member.reads.append((rq, start, part))
                self._feed(member)
            sector += part
        rq.device_slot -= 1
        if rq.device_slot == 0:
            self.read_hits += 1
            self._answer(rq)
        return 0

    def _answer(self, rq: Request) -> int:
        now = self.clock.now_ns
        begin = rq.device_ns if rq.device_ns > now else now
        return self.clock.at(self._over_link(begin, rq.nr_sectors) + self.read_ns, rq)


def _disk_settings(settings: Settings) -> Settings:
    found = settings_of(hdd.MODEL, settings["disk"], {}, lambda name: "array: disk")
    # The controller's cache is the only one that it may say "done" from
    found["write_cache"] = False
    if settings["disk_starve_ns"]:
        found["starve_ns"] = settings["disk_starve_ns"]
    if settings["disk_window"] >= 0:
        found["window"] = settings["disk_window"]
    if settings["chunk"] % 4096:
        raise BlklabError(f"array: chunk is a multiple of 4096, not {settings['chunk']}")
    if settings["destage_low"] > settings["destage_high"]:
        raise BlklabError(
            f"array: destage_low {settings['destage_low']} must not be above destage_high, "
            f"which is {settings['destage_high']}"
        )
    return found


def _tag_set(settings: Settings, nr_cpus: int) -> TagSet:
    return TagSet(1, settings["queue_depth"], nr_cpus)


def _presets() -> Mapping[str, Settings]:
    return presets_of("array")


MODEL = DeviceModel(
    "array",
    "a storage array: disks that turn, striped, behind a cache for writes",
    PARAMETERS,
    StorageArray,
    _tag_set,
    _presets,
    single_queue=single_queue,
)
