"""A disk that turns, behind a SATA or SAS host: seeks, rotation, read-ahead, write cache, queued commands.

Parameters are what data sheets give: capacity, revolutions, heads, sectors of a track outside and inside, the
seek of one track, on average and from end to end, head and cylinder switch, cache, rate of the link. Presets
have them with sources and with the error of what was fitted: docs/disks.md.

Theory of operation
-------------------
    disk_geometry    sector -> zone, cylinder, head, angle
    disk_seek        the seek curve, fitted on three figures
    disk_mechanics   how long from here to there
    disk_buffer      read-ahead
    disk_extents     what is in the write cache
    disk_unit        the disk: queue, choice of the next command, cache, arm
    disk_driver      budget and completion, as of a SCSI host

`queue_depth` commands at a time are in the disk (NCQ: 31 or 32); which of them is next is the disk's choice.
The disk says that it has a volatile write cache if `write_cache` is on, so that the block layer flushes it;
and that it takes FUA if `fua` is: libata of 6.1 and before says no for all disks unless told otherwise, so
SATA presets do not.

Deliberate differences: see those modules; and no errors, no power states, no discard (no shingled recording);
a flush waits inside the disk for what is queued, where libata keeps it back until then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import cython

from blklab.block.models import DeviceModel, Parameter, Settings
from blklab.block.tags import TagSet
from blklab.core.errors import BlklabError
from blklab.device.disk_driver import DiskDriver
from blklab.device.disk_parameters import DISK_PARAMETERS, USE_BLK_MQ, check_disk
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
    from blklab.block.consts import F_FUA, OP_FLUSH, OP_WRITE, STS_OK
    from blklab.core.charging import charge
    from blklab.core.steps import STEP_SCSI_QUEUE

ATA_MAX_SECTORS = 65535  # ATA_MAX_SECTORS_LBA48
MAX_SEGMENTS = 168  # AHCI_MAX_SG
MAX_SEGMENT_BYTES = 65536

PARAMETERS = (
    *DISK_PARAMETERS,
    Parameter("queue_depth", "int", 32, "commands in the disk (NCQ, TCQ); 1: none are queued", 1, 256),
    USE_BLK_MQ,
    Parameter("fua", "bool", False, "takes writes with FUA"),
    Parameter("logical_block", "int", 512, "logical block, bytes: 512 or 4096", 512, 4096),
    Parameter("physical_block", "int", 512, "physical block, bytes", 512, 4096),
)


class HddDevice(DiskDriver):
    """One disk; `unit` is its inside."""

    def __init__(self, settings: Settings, host: Host, seed: int) -> None:
        _check(settings)
        DiskDriver.__init__(self, settings, host)
        self.unit = DiskUnit(settings, host.clock, self)

    def attach(self, queue: RequestQueue) -> None:
        """What libata's and sd's set-up tell the block layer."""
        DiskDriver.attach(self, queue)
        settings = self.settings
        limits = queue.limits
        limits.logical_block_bytes = settings["logical_block"]
        limits.physical_block_bytes = settings["physical_block"]
        limits.io_min_bytes = settings["physical_block"]
        limits.set_max_hw_sectors(ATA_MAX_SECTORS, queue.features.default_max_sectors)
        limits.max_segments = MAX_SEGMENTS
        limits.max_segment_bytes = MAX_SEGMENT_BYTES
        queue.size_sectors = settings["size"] >> 9
        queue.rotational = True
        queue.write_cache = settings["write_cache"]
        queue.fua = settings["write_cache"] and settings["fua"]

    def queue_rq(self, hctx: HardwareQueue, rq: Request, last: bool) -> int:
        """scsi_queue_rq: the disk has it."""
        charge(self.host, STEP_SCSI_QUEUE)
        hctx.queue.start_request(rq)
        cmd = self.unit.command(rq, rq.sector, rq.nr_sectors, rq.op == OP_WRITE)
        if rq.op == OP_FLUSH:
            cmd.flush = True
        elif rq.flags & F_FUA:
            cmd.through = True
        self.unit.submit(cmd)
        return STS_OK

    def disk_done(self, cmd: Any) -> int:
        """A command has been done."""
        done: DiskCommand = cmd
        rq: Request = done.rq
        return rq.queue.complete(rq, STS_OK)


def _check(settings: Settings) -> None:
    check_disk(settings)
    for name in ("logical_block", "physical_block"):
        if settings[name] not in (512, 1024, 2048, 4096):
            raise BlklabError(f"hdd: {name} is 512, 1024, 2048 or 4096, not {settings[name]}")
    if settings["physical_block"] < settings["logical_block"]:
        raise BlklabError(
            f"hdd: physical_block {settings['physical_block']} is at least logical_block, "
            f"which is {settings['logical_block']}"
        )


def _tag_set(settings: Settings, nr_cpus: int) -> TagSet:
    return TagSet(1, settings["queue_depth"], nr_cpus)


def _presets() -> Mapping[str, Settings]:
    return presets_of("hdd")


MODEL = DeviceModel(
    "hdd",
    "a disk that turns: seeks, rotation, read-ahead, write cache, NCQ",
    PARAMETERS,
    HddDevice,
    _tag_set,
    _presets,
    single_queue=single_queue,
)
