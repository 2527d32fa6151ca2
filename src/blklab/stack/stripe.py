"""dm-stripe: chunks of the members in turn, by device mapper.

Theory of operation
-------------------
A bio is cut at the ends of chunks and nowhere else, so 1 MiB over 4 members with 64 KiB chunks is 16 bios, 4 for each
member, which lie one behind the other there; they are merged only if something holds them long enough (a plug, a busy
device). A flush goes to every member, a discard or write zeroes too: each member gets one range, from its first chunk
of it to its last.

Chunks need not be a power of two (nor need the number of members); they are whole logical blocks. Of members of
different sizes as much is used as the smallest has, in whole chunks.

Before 3.1 (feature dm_stripe_merge, commit 29915202006c) it had no merge function: over members that must be asked
themselves, which are other stacked devices, it told who builds bios to make none above a page.

Deliberate differences: errors of members are not counted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import cython

from blklab.block.models import DeviceModel, Parameter, Settings, no_presets, no_tags
from blklab.core.errors import BlklabError
from blklab.stack.mapper import DmDevice, Target
from blklab.stack.stacked import check_block_multiple

if TYPE_CHECKING:
    from blklab.block.bio import Bio
    from blklab.block.features import Features
    from blklab.block.limits import QueueLimits
    from blklab.block.queue import RequestQueue
    from blklab.core.host import Host

if not cython.compiled:
    from blklab.block.consts import F_PREFLUSH, OP_WRITE
    from blklab.stack.answers import MAP_ENDED, MAP_REMAPPED


class Stripe(Target):
    """All of the device, striped over `members`, from the sector `start` of each."""

    def __init__(self, members: list[RequestQueue], chunk_sectors: int, start: int, width: int) -> None:
        Target.__init__(self, width * len(members))
        self.members = members
        self.stripes = len(members)
        self.chunk = chunk_sectors
        self.start = start
        self.width = width
        self.max_io_len = chunk_sectors
        self.nr_copies = self.stripes
        self.takes_write_zeroes = True

    def devices(self) -> list[tuple[RequestQueue, int]]:
        """The members."""
        return [(member, self.start) for member in self.members]

    def device_sectors(self) -> int:
        """The width of a stripe column."""
        return int(self.width)

    def io_hints(self, limits: QueueLimits) -> None:
        """stripe_io_hints."""
        limits.set_io_min(self.chunk << 9)
        limits.io_opt_bytes = (self.chunk << 9) * self.stripes

    def map(self, clone: Bio, number: int) -> int:
        """stripe_map."""
        if clone.flags & F_PREFLUSH:
            clone.queue = self.members[number]
            return MAP_REMAPPED
        if clone.op > OP_WRITE:
            return self._map_range(clone, number)
        sector = clone.sector - self.begin
        chunk = sector // self.chunk
        clone.queue = self.members[chunk % self.stripes]
        clone.sector = self.start + chunk // self.stripes * self.chunk + sector % self.chunk
        return MAP_REMAPPED

    def _map_range(self, clone: Bio, number: int) -> int:
        # stripe_map_range: the member's share of a discard, which may be nothing
        sector = clone.sector - self.begin
        begin = self._bound(sector, number)
        end = self._bound(sector + clone.nr_sectors, number)
        if begin >= end:
            return MAP_ENDED
        clone.queue = self.members[number]
        clone.sector = self.start + begin
        clone.nr_sectors = end - begin
        return MAP_REMAPPED

    def _bound(self, sector: int, number: int) -> int:
        # stripe_map_range_sector: the first sector of a member that is not before `sector` of the device
        chunk = sector // self.chunk
        row = chunk // self.stripes * self.chunk
        stripe = chunk % self.stripes
        if stripe == number:
            return row + sector % self.chunk
        return row + self.chunk if number < stripe else row

    def can_merge(self, features: Features) -> bool:
        """Since 3.1."""
        return bool(features.dm_stripe_merge)

    def merge(self, sector: int) -> tuple[RequestQueue, int]:
        """stripe_merge."""
        sector -= self.begin
        chunk = sector // self.chunk
        there = self.start + chunk // self.stripes * self.chunk + sector % self.chunk
        return self.members[chunk % self.stripes], there


def _make(settings: Settings, host: Host, seed: int) -> DmDevice:
    members: list[RequestQueue] = settings["members"]
    chunk = settings["chunk"]
    start = settings["start"]
    if chunk % 512 or start % 512:
        raise BlklabError("stripe: chunk and start are whole sectors of 512 bytes")
    check_block_multiple(chunk, members, "chunk")
    smallest = min(members, key=lambda member: member.size_sectors)
    width = smallest.size_sectors - (start >> 9)
    width -= width % (chunk >> 9)
    if width <= 0:
        raise BlklabError(
            f"{smallest.name} is too small: it has {smallest.size_sectors >> 1} KiB, less than a chunk "
            f"({chunk >> 10} KiB) from {start} bytes on"
        )
    return DmDevice(host, members, [Stripe(members, chunk >> 9, start >> 9, width)])


MODEL = DeviceModel(
    "stripe",
    "dm-stripe: chunks of the members in turn",
    (
        Parameter("members", "devices", [], "the devices, in order", 1, 1024),
        Parameter(
            "chunk", "bytes", 64 << 10, "chunk, bytes; any multiple of the logical block", 512, 1 << 40
        ),
        Parameter("start", "bytes", 0, "where the data begins on each member, bytes"),
    ),
    _make,
    no_tags,
    no_presets,
)
