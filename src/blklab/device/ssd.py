"""An NVMe SSD: queue pairs, a controller with ceilings, a write buffer, and flash behind it.

Parameters are what a data sheet or a fio curve over iodepth gives: how many units work at once and how long a
read takes (the curve of latency over depth, with its percentiles), latency that keeps no unit busy, ceilings
of IOPS and bandwidth, how long a program takes, how large buffer and cache are, and by how much random writes
multiply.

Theory of operation
-------------------
A command passes up to four servers, all of them first in, first out:

    slots       the controller works on `slots` commands at a time; others wait in the queues
    commands    one at a time, 1/read_iops or 1/write_iops each: the ceiling of IOPS
    link        reads and writes apart, bytes over bandwidth each; the data of one read may come slower than
                the link could carry it (`command_bytes_per_s`), so that only several commands fill it
    units       a read occupies the unit of each `unit_bytes` of its sectors for a time drawn from a
                distribution (`flash.py`); it is done when the last of them is, and completes `latency_ns`
                later

As the servers are first in, first out, all times are known when a command takes its slot: `queue_rq` computes
the completion and pushes the request on the lane of its unit. There is one event a request and no state to
search.

A write is taken into the buffer and completes `write_latency_ns` later. Each `program_bytes` of the buffer go
to the next unit in turn as one program; a unit whose share of the buffer is full makes the write, and all
after it, wait. A write is random unless it begins where the last one of its region (1 GiB) ended.

A flush has all that the buffer holds programmed, an open page as if it were full, and completes `flush_ns` after the
last of it. A write with FUA does not go through the buffer. A device whose buffer outlives a power failure says
that it has no volatile cache, so that the block layer sends neither.

Deliberate differences: the doorbell is rung for every command; an open page of the buffer waits for more to
write, or for a flush, however long; one queue's commands are not preferred to another's.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

import cython

from blklab.block.driver import Driver
from blklab.block.models import DeviceModel, Parameter, Settings
from blklab.block.request import RequestList
from blklab.block.tags import TagSet
from blklab.core.errors import BlklabError
from blklab.core.rand import RandomStream
from blklab.device.flash import Flash
from blklab.device.presets import presets_of
from blklab.device.service import SHAPES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from blklab.block.features import Features
    from blklab.block.hwqueue import HardwareQueue
    from blklab.block.queue import RequestQueue
    from blklab.block.request import Request
    from blklab.core.clock import Lane
    from blklab.core.host import Host

if not cython.compiled:
    from blklab.block.consts import F_FUA, OP_FLUSH, OP_READ, OP_WRITE, STS_OK

NVME_PAGE_BYTES = 4096  # NVME_CTRL_PAGE_SIZE
NVME_MAX_SEGMENTS = 128  # NVME_MAX_SEGS
NVME_MAX_BYTES = 4 << 20  # NVME_MAX_KB_SZ of 6.1
NVME_DISCARD_SECTORS = 0xFFFFFFFF  # UINT_MAX: what nvme_config_discard sets
NVME_DISCARD_RANGES = 256  # NVME_DSM_MAX_RANGES

REGIONS = 64  # regions of 1 GiB that each remember where the last write ended
REGION_SHIFT = 21

PARAMETERS = (
    Parameter("size", "bytes", 1_000_204_886_016, "capacity, bytes", 1 << 20),
    Parameter(
        "queues", "int", 128, "hardware queues of the controller; Linux uses at most one a CPU", 1, 65535
    ),
    Parameter("queue_depth", "int", 1023, "commands of a queue (io_queue_depth - 1)", 1, 10240),
    Parameter("logical_block", "int", 512, "logical block, bytes", 512, 4096),
    Parameter("max_transfer", "bytes", 512 << 10, "largest command, bytes (MDTS); 0: no limit of the device"),
    Parameter("volatile_cache", "bool", True, "reports a volatile write cache"),
    Parameter("discard", "bool", True, "takes discards"),
    Parameter("slots", "int", 0, "commands that the controller works on at a time; 0: all"),
    Parameter("read_iops", "int", 0, "ceiling of read commands a second; 0: none", 0, 1_000_000_000),
    Parameter("write_iops", "int", 0, "ceiling of write commands a second; 0: none", 0, 1_000_000_000),
    Parameter("read_bytes_per_s", "bytes", 0, "ceiling of bytes read a second; 0: none"),
    Parameter("write_bytes_per_s", "bytes", 0, "ceiling of bytes written a second; 0: none"),
    Parameter(
        "command_bytes_per_s",
        "bytes",
        0,
        "how fast the data of one read command alone comes; 0: as fast as the ceiling",
    ),
    Parameter("units", "int", 32, "flash units that work at the same time (dies, or planes)", 1, 4096),
    Parameter(
        "unit_bytes", "bytes", 4096, "how much of the address space lies on one unit in a row", 512, 1 << 20
    ),
    Parameter("read_ns", "int", 60_000, "mean time that a read occupies a unit", 1, 10_000_000_000),
    Parameter("read_shape", "str", "constant", f"distribution of it: {', '.join(SHAPES)}"),
    Parameter("read_cv", "float", 0.0, "lognormal: coefficient of variation", 0, 10),
    Parameter(
        "read_sense_ns", "int", 0, "cells: time of one sensing; a page is sensed once, twice or four times"
    ),
    Parameter("read_jitter_ns", "int", 0, "uniform, cells: how far off the mean at most"),
    Parameter("read_retry_ppm", "int", 0, "reads in a million that are tried again", 0, 1_000_000),
    Parameter("read_retry_ns", "int", 0, "mean of the time that this adds, exponential"),
    Parameter("latency_ns", "int", 5_000, "latency of a read beside the unit's time"),
    Parameter("buffer", "bytes", 16 << 20, "write buffer; 0: a write completes when it is programmed"),
    Parameter("write_latency_ns", "int", 10_000, "latency of a write beside waiting for the buffer"),
    Parameter("program_ns", "int", 600_000, "mean time that a program occupies a unit", 1, 10_000_000_000),
    Parameter("program_shape", "str", "constant", "distribution of it: constant, exponential"),
    Parameter("program_bytes", "bytes", 32 << 10, "bytes programmed at once", 512, 1 << 24),
    Parameter("cache", "bytes", 0, "flash that is programmed fast"),
    Parameter("cache_program_ns", "int", 200_000, "mean time of a program there", 1, 10_000_000_000),
    Parameter("gc_amplification", "float", 1.0, "pages programmed for each page of random writes", 1, 100),
    Parameter("gc_ns", "int", 0, "time to move one page, with its share of erasing; 0: a read and a program"),
    Parameter("idle_ns", "int", 1_000_000, "a unit that has been idle for this long cleans up"),
    Parameter(
        "preconditioned", "bool", False, "begins with a full cache, and clean-up put off as long as it goes"
    ),
    Parameter(
        "flush_ns",
        "int",
        10_000,
        "latency of a flush beside what must be programmed (assumed: a write's)",
        0,
        10_000_000_000,
    ),
    Parameter("other_ns", "int", 50_000, "time of a discard or write zeroes"),
)


class SsdDevice(Driver):
    """One SSD; `flash` is its units."""

    def __init__(self, settings: Settings, host: Host, seed: int) -> None:
        Driver.__init__(self)
        self.has_commit_rqs = True
        _check(settings)
        self.settings = settings
        self.host = host
        self.clock = host.clock
        self.seed = seed
        self.flash = Flash(settings, RandomStream(seed, "ssd"))
        self.units = settings["units"]
        # One for each unit, one for writes that the buffer takes, one for flushes
        self.lanes: list[Lane] = [host.clock.lane() for _ in range(self.units + 2)]
        self.out_ns = array("q", [0] * (self.units + 2))
        self.page_shift = (settings["unit_bytes"] >> 9).bit_length() - 1
        self.latency_ns = settings["latency_ns"]
        self.write_latency_ns = settings["write_latency_ns"]
        self.flush_ns = settings["flush_ns"]
        self.other_ns = settings["other_ns"]
        self.read_command_ns = _interval(settings["read_iops"], 1_000_000_000)
        self.write_command_ns = _interval(settings["write_iops"], 1_000_000_000)
        self.read_mib_ns = _interval(settings["read_bytes_per_s"], 1_000_000_000 << 20)
        self.write_mib_ns = _interval(settings["write_bytes_per_s"], 1_000_000_000 << 20)
        self.command_mib_ns = _interval(settings["command_bytes_per_s"], 1_000_000_000 << 20)
        self.command_free_ns = 0
        self.read_link_free_ns = 0
        self.write_link_free_ns = 0
        self.slots = settings["slots"]
        self.in_slots = 0
        self.waiting = RequestList()
        self.buffered = settings["buffer"] > 0
        self.page_bytes = settings["program_bytes"]
        self.amplifies = settings["gc_amplification"] > 1
        self.next_unit = 0
        self.open_bytes = 0
        self.open_random_bytes = 0
        self.buffer_free_ns = 0
        self.write_ends = array("q", [-1] * REGIONS)
        self.irq_cpus = array("q", [])

    def attach(self, queue: RequestQueue) -> None:
        """nvme_set_queue_limits, and what the device says of itself."""
        Driver.attach(self, queue)
        settings = self.settings
        # Of its own: two devices of a machine must not draw the same times
        self.flash = Flash(settings, RandomStream(self.seed, f"ssd/{queue.name}"))
        limits = queue.limits
        limits.logical_block_bytes = settings["logical_block"]
        limits.physical_block_bytes = settings["logical_block"]
        limits.io_min_bytes = settings["logical_block"]
        most = min(settings["max_transfer"] or NVME_MAX_BYTES, NVME_MAX_BYTES)
        limits.set_max_hw_sectors(most >> 9, queue.features.default_max_sectors)
        limits.max_segments = min(most // NVME_PAGE_BYTES + 1, NVME_MAX_SEGMENTS)
        limits.max_segment_bytes = 0xFFFFFFFF
        limits.virt_boundary_mask = NVME_PAGE_BYTES - 1
        if settings["discard"]:
            limits.discard_granularity_bytes = settings["logical_block"]
            limits.max_hw_discard_sectors = NVME_DISCARD_SECTORS
            limits.max_discard_sectors = NVME_DISCARD_SECTORS
            limits.max_discard_segments = NVME_DISCARD_RANGES
        queue.size_sectors = settings["size"] >> 9
        queue.write_cache = settings["volatile_cache"]
        queue.fua = settings["volatile_cache"]
        self.irq_cpus = array("q", [hctx.cpus[0] for hctx in queue.hctxs])

    def map_queues(self, nr_hw_queues: int, nr_cpus: int) -> list[int]:
        """Contiguous groups of CPUs, as vectors are spread; the first groups are larger where it does not divide."""
        size, larger = nr_cpus // nr_hw_queues, nr_cpus % nr_hw_queues
        return [index for index in range(nr_hw_queues) for _ in range(size + (1 if index < larger else 0))]

    def irq_cpu(self, rq: Request) -> int:
        """The vector of a queue arrives at the first CPU of its group."""
        return self.irq_cpus[rq.hctx.index]  # type: ignore[union-attr]

    def queue_rq(self, hctx: HardwareQueue, rq: Request, last: bool) -> int:
        """A command is in its queue; if there is a slot, its completion is known."""
        hctx.queue.start_request(rq)
        if self.slots:
            if self.in_slots == self.slots:
                self.waiting.append(rq)
                return STS_OK
            self.in_slots += 1
        return self._begin(rq)

    def rq_done(self, rq: Request) -> int:
        """A command has been done; the next one takes its slot."""
        if self.slots:
            if self.waiting.count:
                self._begin(self.waiting.popleft())  # type: ignore[arg-type]
            else:
                self.in_slots -= 1
        rq.queue.complete(rq, STS_OK)
        return 0

    def timeout(self, rq: Request) -> int:
        """The command is still being served: give it more time."""
        return STS_OK

    def _begin(self, rq: Request) -> int:
        if rq.op == OP_READ:
            return self._read(rq)
        if rq.op == OP_WRITE:
            return self._write(rq)
        if rq.op == OP_FLUSH:
            return self._flush(rq)
        self.clock.at(self.clock.now_ns + self.other_ns, rq)
        return STS_OK

    def _leave(self, rq: Request, lane_index: int, done_ns: int) -> int:
        # Commands of different size on one unit leave in order
        if done_ns < self.out_ns[lane_index]:
            done_ns = self.out_ns[lane_index]
        self.out_ns[lane_index] = done_ns
        lane: Lane = self.lanes[lane_index]
        lane.push(done_ns, rq)
        return STS_OK

    def _read(self, rq: Request) -> int:
        flash = self.flash
        begin = self.clock.now_ns
        if self.read_command_ns:
            if self.command_free_ns > begin:
                begin = self.command_free_ns
            self.command_free_ns = begin + self.read_command_ns
        transfer_ns = 0
        if self.read_mib_ns:
            if self.read_link_free_ns > begin:
                begin = self.read_link_free_ns
            transfer_ns = (rq.nr_sectors << 9) * self.read_mib_ns >> 20
            self.read_link_free_ns = begin + transfer_ns
        if self.command_mib_ns:
            alone_ns = (rq.nr_sectors << 9) * self.command_mib_ns >> 20
            if alone_ns > transfer_ns:
                transfer_ns = alone_ns
        page = rq.sector >> self.page_shift
        end_page = (rq.sector + rq.nr_sectors - 1) >> self.page_shift
        unit = flash.unit_of(page)
        done = flash.read(unit, begin)
        while page < end_page:
            page += 1
            i = flash.unit_of(page)
            end = flash.read(i, begin)
            if end > done:
                done = end
                unit = i
        return self._leave(rq, unit, done + self.latency_ns + transfer_ns)

    def _write(self, rq: Request) -> int:
        begin = self.clock.now_ns
        if self.write_command_ns:
            if self.command_free_ns > begin:
                begin = self.command_free_ns
            self.command_free_ns = begin + self.write_command_ns
        size = rq.nr_sectors << 9
        transfer_ns = 0
        if self.write_mib_ns:
            if self.write_link_free_ns > begin:
                begin = self.write_link_free_ns
            transfer_ns = size * self.write_mib_ns >> 20
            self.write_link_free_ns = begin + transfer_ns
        if self.amplifies and not self._continues(rq):
            self.open_random_bytes += size
        if not self.buffered or rq.flags & F_FUA:
            return self._write_through(rq, begin, transfer_ns)
        if self.buffer_free_ns > begin:
            begin = self.buffer_free_ns
        self.open_bytes += size
        while self.open_bytes >= self.page_bytes:
            self.open_bytes -= self.page_bytes
            begin = self.flash.program(self._turn(), begin, self._random_share())
        self.buffer_free_ns = begin
        return self._leave(rq, self.units, begin + transfer_ns + self.write_latency_ns)

    def _write_through(self, rq: Request, begin_ns: int, transfer_ns: int) -> int:
        # Without a buffer: pages go to the next units, and the write is done when the last of them is
        flash = self.flash
        left = rq.nr_sectors << 9
        done = 0
        unit = 0
        while left > 0:
            i = self._turn()
            flash.program(i, begin_ns, self._random_share())
            end = flash.flush(i)
            left -= self.page_bytes
            if end > done:
                done = end
                unit = i
        return self._leave(rq, unit, done + transfer_ns + self.write_latency_ns)

    def _flush(self, rq: Request) -> int:
        now = self.clock.now_ns
        if self.open_bytes:
            self.open_bytes = 0
            self.flash.program(self._turn(), now, self._random_share())
        done = self.flash.flush_all()
        if done < now:
            done = now
        return self._leave(rq, self.units + 1, done + self.flush_ns)

    def _continues(self, rq: Request) -> bool:
        region = (rq.sector >> REGION_SHIFT) & (REGIONS - 1)
        continues = self.write_ends[region] == rq.sector
        end = rq.sector + rq.nr_sectors
        self.write_ends[(end >> REGION_SHIFT) & (REGIONS - 1)] = end
        return continues

    def _random_share(self) -> int:
        # How much of the page that is programmed now are random writes
        share = self.open_random_bytes
        if share > self.page_bytes:
            share = self.page_bytes
        self.open_random_bytes -= share
        return share

    def _turn(self) -> int:
        unit = self.next_unit
        self.next_unit = unit + 1 if unit + 1 < self.units else 0
        return unit


def _check(settings: Settings) -> None:
    for name in ("logical_block", "unit_bytes"):
        if settings[name] & (settings[name] - 1):
            raise BlklabError(f"ssd: {name} is a power of two, not {settings[name]}")
    if settings["program_shape"] not in ("constant", "exponential"):
        raise BlklabError(f"ssd: program_shape is constant or exponential, not {settings['program_shape']!r}")
    if settings["max_transfer"] and settings["max_transfer"] < NVME_PAGE_BYTES:
        raise BlklabError(
            f"ssd: max_transfer is at least {NVME_PAGE_BYTES}, or 0, not {settings['max_transfer']}"
        )


def _interval(rate: int, scale: int) -> int:
    # Nanoseconds for one at this rate a second, rounded; 0: no limit
    return max(1, (scale + rate // 2) // rate) if rate else 0


def _tag_set(settings: Settings, nr_cpus: int) -> TagSet:
    return TagSet(settings["queues"], settings["queue_depth"], nr_cpus)


def _presets() -> Mapping[str, Settings]:
    return presets_of("ssd")


def _single_queue(settings: Settings, features: Features) -> bool:
    # Before 3.19 nvme took bios itself; a flash disk was then one behind a driver with a single queue (SATA)
    return not features.nvme_mq and bool(features.legacy_request_fn)


MODEL = DeviceModel(
    "ssd",
    "an NVMe SSD: parallel units, buffer, cache, clean-up",
    PARAMETERS,
    SsdDevice,
    _tag_set,
    _presets,
    single_queue=_single_queue,
)
