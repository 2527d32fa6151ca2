"""A partition: a part of a disk with a name and counters of its own, and nothing else.

    [device.sda1]
    model = "partition"
    device = "sda"
    start = "1m"
    size = "10g"

A bio sent to it is moved to the disk before anything is decided (A on the disk, then Q there), so it has no queue, no
attributes in queue/, and the limits of the disk. What the kernel counts for a partition is what becomes of the bios
there: a request counts for the partition of its first bio (`stat` of both).

Deliberate differences: no partition table that takes room, and extended partitions are partitions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from blklab.block.driver import Driver
from blklab.block.models import DeviceModel, Parameter, Settings, no_presets, no_tags
from blklab.core.errors import BlklabError
from blklab.stack.flakey import check_room

if TYPE_CHECKING:
    from blklab.block.queue import RequestQueue
    from blklab.core.host import Host


class Partition(Driver):
    """One partition of `disk`."""

    def __init__(self, settings: Settings, host: Host, seed: int) -> None:
        Driver.__init__(self)
        self.bio_based = True
        self.disk: RequestQueue = settings["device"]
        check_room(self.disk, settings["start"])
        if self.disk.whole is not None:
            raise BlklabError(f"{self.disk.name} is a partition itself; a partition lies on a disk")
        self.start_sector = settings["start"] >> 9
        room = self.disk.size_sectors - self.start_sector
        self.nr_sectors = settings["size"] >> 9 or room
        if self.nr_sectors > room:
            raise BlklabError(
                f"{self.disk.name} is too small: {self.nr_sectors} sectors are asked for from sector "
                f"{self.start_sector} on, where {room} are left"
            )

    def attach(self, queue: RequestQueue) -> None:
        """The disk's limits are its own."""
        Driver.attach(self, queue)
        queue.whole = self.disk
        queue.start_sector = self.start_sector
        queue.size_sectors = self.nr_sectors
        self._share_limits(queue)
        queue.write_cache = self.disk.write_cache
        queue.fua = self.disk.fua

    def _share_limits(self, queue: RequestQueue) -> int:
        queue.limits = self.disk.limits
        return 0


MODEL = DeviceModel(
    "partition",
    "a part of a disk",
    (
        Parameter("device", "device", "", "the disk"),
        Parameter("start", "bytes", 0, "where it begins, bytes"),
        Parameter("size", "bytes", 0, "its size, bytes; 0: to the end of the disk"),
    ),
    Partition,
    no_tags,
    no_presets,
    shares_members=True,
)
