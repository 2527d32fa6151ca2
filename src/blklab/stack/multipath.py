"""dm-multipath: several paths to one disk, used in turn, given up when they fail.

What: with `queue_mode = "bio"` a target of device mapper (mapper.py) whose members are the same disk seen by several
ways; with "rq" (the kernel's default) a device with requests of its own (dm_rq.py). Why: a host adapter or a cable
that fails must not be an I/O error, and several of them carry more than one. paths.py chooses the path.

Theory of operation (dm-mpath.c of 6.1, bios)
---------------------------------------------
When a clone ends with an error that may be the path's, the path is failed, and a worker (kmultipathd) sends the clone
again as it was, on another one. With no path left the bio ends with an I/O error; or, with queue_if_no_path, waits for
one.

Deliberate differences: those of paths.py; an error of a flush, a discard or write zeroes ends the bio.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import cython

from blklab.block.daemon import Daemon
from blklab.block.models import DeviceModel, Parameter, no_presets
from blklab.block.tags import TagSet
from blklab.core.errors import BlklabError
from blklab.stack.dm_rq import RqMultipath
from blklab.stack.mapper import DmDevice, Target
from blklab.stack.paths import Paths

if TYPE_CHECKING:
    from blklab.block.attributes import Attribute
    from blklab.block.bio import Bio
    from blklab.block.driver import Driver
    from blklab.block.features import Features
    from blklab.block.models import Settings
    from blklab.block.queue import RequestQueue
    from blklab.core.host import Host

if not cython.compiled:
    from blklab.block.consts import F_NOT_CLONED, STS_IOERR, STS_OK
    from blklab.stack.answers import MAP_KILL, MAP_REMAPPED, MAP_SUBMITTED


class SentBio:
    """What a clone was when it was sent (dm_bio_details), and on which path it is."""

    def __init__(self, bio: Bio) -> None:
        self.bio = bio
        self.path = -1
        self.sector = bio.sector
        self.nr_sectors = bio.nr_sectors
        self.buffer_offset_bytes = bio.buffer_offset_bytes


class Multipath(Target):
    """All of a disk, by several paths."""

    def __init__(self, settings: Settings, host: Host) -> None:
        self.paths = Paths(settings, self.look_again)
        Target.__init__(self, self.paths.queues[0].size_sectors)
        self.takes_write_zeroes = True
        self.sent: dict[Bio, SentBio] = {}
        self.waiting: list[SentBio] = []
        self.worker = Daemon(host, "kmpathd")

    def devices(self) -> list[tuple[RequestQueue, int]]:
        """Every path."""
        return [(path, 0) for path in self.paths.queues]

    def map(self, clone: Bio, number: int) -> int:
        """multipath_map_bio."""
        path = self.paths.choose()
        if clone.end_io is not self:
            # A flush or discard
            if path < 0:
                return MAP_KILL
            clone.queue = self.paths.queues[path]
            return MAP_REMAPPED
        sent = SentBio(clone)
        if path < 0:
            if not self.paths.queue_if_no_path:
                return MAP_KILL
            self.waiting.append(sent)
            return MAP_SUBMITTED
        sent.path = path
        self.sent[clone] = sent
        clone.queue = self.paths.queues[path]
        return MAP_REMAPPED

    def bio_end_io(self, bio: Bio) -> int:
        """multipath_end_io_bio."""
        sent = self.sent.pop(bio, None)
        if sent is None or bio.status == STS_OK or not self.paths.may_be_the_paths(bio.status):
            return Target.bio_end_io(self, bio)
        self.paths.fail(sent.path)
        if self.paths.nr_valid == 0 and not self.paths.queue_if_no_path:
            bio.status = STS_IOERR
            return Target.bio_end_io(self, bio)
        return self._send_again(sent)

    def _send_again(self, sent: SentBio) -> int:
        # __multipath_map_bio from process_queued_bios
        bio = sent.bio
        path = self.paths.choose()
        if path < 0:
            if self.paths.queue_if_no_path:
                self.waiting.append(sent)
                return 0
            bio.status = STS_IOERR
            return Target.bio_end_io(self, bio)
        sent.path = path
        self.sent[bio] = sent
        bio.sector = sent.sector
        bio.nr_sectors = sent.nr_sectors
        bio.buffer_offset_bytes = sent.buffer_offset_bytes
        bio.status = STS_OK
        bio.remaining = 1
        bio.part = None
        bio.flags &= ~F_NOT_CLONED
        bio.queue = self.paths.queues[path]
        self.device.trace_remap(bio, bio.sector)
        return self.worker.queue_bio(bio)

    def look_again(self) -> None:
        """A path works again, or nothing waits for one any more."""
        waiting = self.waiting
        self.waiting = []
        sent: SentBio
        for sent in waiting:
            self._send_again(sent)

    def can_merge(self, features: Features) -> bool:
        """dm-mpath has no merge function."""
        return False


class MultipathDevice(DmDevice):
    """The device of one target, with its messages."""

    def attributes(self, queue: RequestQueue) -> list[Attribute]:
        """Those of its paths."""
        target: Multipath = self.first  # it was made with one
        return target.paths.attributes()


def _make(settings: Settings, host: Host, seed: int) -> Driver:
    mode = settings["queue_mode"]
    if mode == "rq":
        return RqMultipath(settings, host)
    if mode != "bio":
        raise BlklabError(f"multipath: queue_mode is bio or rq, not {mode!r}")
    return MultipathDevice(host, settings["members"], [Multipath(settings, host)])


def _tag_set(settings: Settings, nr_cpus: int) -> TagSet | None:
    if settings["queue_mode"] != "rq":
        return None
    return TagSet(settings["nr_hw_queues"], settings["queue_depth"], nr_cpus)


MODEL = DeviceModel(
    "multipath",
    "dm-multipath: several paths to one disk, in turn",
    (
        Parameter("members", "devices", [], "the paths", 1, 256),
        Parameter("queue_mode", "str", "bio", "bio: takes bios; rq: has requests and a scheduler of its own"),
        Parameter("rr_min_io", "int", 1, "I/Os on a path before the next one's turn", 1, 1 << 30),
        Parameter("queue_if_no_path", "bool", False, "I/O waits while no path works; else it fails"),
        Parameter("nr_hw_queues", "int", 1, "rq: hardware queues (dm_mq_nr_hw_queues)", 1, 4096),
        Parameter("queue_depth", "int", 2048, "rq: tags of each (dm_mq_queue_depth)", 1, 10240),
    ),
    _make,
    _tag_set,
    no_presets,
)
