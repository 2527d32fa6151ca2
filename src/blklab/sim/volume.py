"""A volume: a file system on a device, and where it lays its files. XFS, as far as direct I/O and fsync see it.

What: `Volume` has the geometry that mkfs.xfs would make (allocation groups, log, stripe unit and width) and gives files
their extents; a file is a `FileMap` (filemap.py). Why: "XFS on a striped target" was what the thread on late splitting
asked to be measured, and there what counts is where a file's extents begin and end, and what fsync writes.

Theory of operation
-------------------
    groups      4 of equal size; on a stripe 8, 16 from 8 GiB on, 32 from 512 GiB on. On a stripe a group is a whole
                number of stripe units, and no whole number of widths, so that not all begin on the same member
    stripe      sunit and swidth are the device's io_min and io_opt if those say that there is one
    log         1/2048 of the device, 64 MiB to 2038 MiB, in the middle group, from its first stripe unit behind the
                headers on. A record is one stripe unit (32 KiB if that is above 256 KiB), or without stripe two sectors
    files       one behind the other from the first group on, each from a stripe unit on if it is as long as one. What
                does not fit into a group goes on in the next
    max_extent  files in pieces of that many bytes, each in a place drawn from the run's seed

These rules are those of mkfs.xfs 6.1 and of a fresh XFS of Linux 6.1, whose captures have files at the same sectors
(tests/sim/test_volume.py).

Deliberate differences: metadata other than the log takes no room that matters and causes no I/O; all directories'
files lie in one row (XFS puts each directory into another group); a file is laid out in full before the run, and
deleting does not exist.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from blklab.core.errors import BlklabError
from blklab.core.rand import RandomStream
from blklab.sim.filemap import FileMap, Log
from blklab.sim.volume_config import BLOCK_BYTES, VolumeConfig

if TYPE_CHECKING:
    from blklab.block.queue import RequestQueue

BLOCK_SECTORS = BLOCK_BYTES >> 9
MIB_SECTORS = 2048
GROUP_HEADER_SECTORS = 64  # headers and the roots of the trees of a group: 8 blocks, as captured
ROOT_SECTORS = 192  # in the first group also the first chunk of inodes: the first file is behind
LEAST_GROUP_SECTORS = 16 * MIB_SECTORS  # XFS_AG_MIN_BYTES
LEAST_LOG_SECTORS = 64 * MIB_SECTORS
MOST_LOG_SECTORS = 2038 * MIB_SECTORS
LOG_SHARE = 2048
LARGEST_LOG_UNIT = 256 << 10
LOG_UNIT_INSTEAD = 32 << 10
RECORD_SECTORS = 2  # a header, and one transaction on an inode
# From so many sectors on a stripe has 2^n groups
STRIPE_GROUPS = ((512 << 21, 32), (8 << 21, 16), (0, 8))
PLAIN_GROUPS = 4


def _up(number: int, unit: int) -> int:
    return -(-number // unit) * unit if unit else number


class Volume:
    """A mounted file system. Raises BlklabError where it does not fit its device. Lengths and places are in sectors."""

    def __init__(self, config: VolumeConfig, queue: RequestQueue, seed: int) -> None:
        self.config = config
        self.queue = queue
        self.files: dict[str, FileMap] = {}
        self.sunit, self.swidth = self._stripe()
        self.groups = self._groups()
        self.log = self._make_log()
        self.room = self._rooms()
        self.position = self.room[0][0]
        self.random = RandomStream(seed, f"volume {config.name}")
        self.taken: set[int] = set()

    # -- geometry ----------------------------------------------------------------------

    def _stripe(self) -> tuple[int, int]:
        config, limits = self.config, self.queue.limits
        if config.sunit_bytes is not None and config.swidth_bytes is not None:
            return config.sunit_bytes >> 9, config.swidth_bytes >> 9
        least, best = limits.io_min_bytes, limits.io_opt_bytes
        if least <= BLOCK_BYTES or least % BLOCK_BYTES or best <= least or best % least:
            return 0, 0
        return least >> 9, best >> 9

    def _groups(self) -> list[tuple[int, int]]:
        # (start, end) of each allocation group
        size = self.queue.size_sectors - self.queue.size_sectors % BLOCK_SECTORS
        count = self.config.agcount
        if not count:
            count = PLAIN_GROUPS
            if self.sunit:
                count = next(groups for least, groups in STRIPE_GROUPS if size >= least)
            count = max(1, min(count, size // LEAST_GROUP_SECTORS))
        length = _up(_up(size, BLOCK_SECTORS * count) // count, self.sunit or BLOCK_SECTORS)
        if count > 1 and self.swidth > self.sunit and length % self.swidth == 0:
            length -= self.sunit
        if length < LEAST_GROUP_SECTORS:
            raise BlklabError(
                f"volume {self.config.name}: allocation groups of {length >> 11} MiB are too small: {self.queue.name} "
                f"has {size >> 11} MiB, and XFS wants 16 MiB or more in each of {count}",
                self.config.where("agcount"),
            )
        groups = [(start, min(start + length, size)) for start in range(0, size, length)]
        if len(groups) > 1 and groups[-1][1] - groups[-1][0] < LEAST_GROUP_SECTORS:
            groups.pop()
        return groups

    def _make_log(self) -> Log:
        start, end = self.groups[len(self.groups) // 2]
        first = (
            _up(start + GROUP_HEADER_SECTORS, self.sunit) if len(self.groups) > 1 else start + ROOT_SECTORS
        )
        size = self.queue.size_sectors // LOG_SHARE
        size = min(max(size - size % BLOCK_SECTORS, LEAST_LOG_SECTORS), MOST_LOG_SECTORS)
        if self.config.log_bytes is not None:
            size = self.config.log_bytes >> 9
        elif size > (end - first) // 2:
            size = (end - first) // 2 // BLOCK_SECTORS * BLOCK_SECTORS
        record = RECORD_SECTORS
        if self.sunit:
            record = self.sunit if self.sunit << 9 <= LARGEST_LOG_UNIT else LOG_UNIT_INSTEAD >> 9
            size -= size % record
        if not 2 * record <= size <= end - first:
            raise BlklabError(
                f"volume {self.config.name}: a log of {size << 9} bytes does not fit; a group has "
                f"{(end - first) << 9} bytes for it, and a record {record << 9}",
                self.config.where("log_size"),
            )
        return Log(first, size, record)

    def _rooms(self) -> list[tuple[int, int]]:
        # What files can lie in: the groups without headers and log
        rooms = []
        for number, (start, end) in enumerate(self.groups):
            first = _up(start + (GROUP_HEADER_SECTORS if number else ROOT_SECTORS), self.sunit)
            log_start = self.log.start_sector
            log_end = log_start + self.log.nr_sectors
            if start <= log_start < end:
                if log_start > first:
                    rooms.append((first, log_start))
                first = _up(log_end, self.sunit)
            if first < end:
                rooms.append((first, end))
        return rooms

    # -- files ---------------------------------------------------------------------------

    def create(self, name: str, size_bytes: int, where: str) -> FileMap:
        """A file with its room. Raises BlklabError where there is too little."""
        left = _up(size_bytes, BLOCK_BYTES) >> 9
        pieces = self._pieces(left) if self.config.max_extent_bytes else self._row(left)
        if pieces is None:
            room = sum(end - start for start, end in self.room) << 9
            raise BlklabError(
                f"no space left on volume {self.config.name} for {name} of {size_bytes} bytes: ENOSPC; it has {room} "
                f"bytes for files",
                where,
            )
        extents: list[tuple[int, int, int]] = []
        offset = 0
        for sector, nr_sectors in pieces:
            nbytes = min(nr_sectors << 9, size_bytes - offset)
            last = extents[-1] if extents else None
            if last is not None and last[1] + (last[2] >> 9) == sector:
                extents[-1] = (last[0], last[1], last[2] + nbytes)
            else:
                extents.append((offset, sector, nbytes))
            offset += nbytes
        file = FileMap(name, self.queue, extents, self.log)
        self.files[name] = file
        return file

    def _row(self, left: int) -> list[tuple[int, int]] | None:
        # Behind the file before
        pieces = []
        position = self.position
        if self.sunit and left >= self.sunit:
            position = _up(position, self.sunit)
        for start, end in self.room:
            first = max(start, position)
            if first >= end:
                continue
            taken = min(left, end - first)
            pieces.append((first, taken))
            left -= taken
            if not left:
                self.position = first + taken
                return pieces
        return None

    def _pieces(self, left: int) -> list[tuple[int, int]] | None:
        # Each in a slot of its own, drawn at random
        length = self.config.max_extent_bytes >> 9
        counts = [(end - start) // length for start, end in self.room]
        slots = sum(counts)
        if len(self.taken) + -(-left // length) > slots:
            return None
        pieces = []
        while left:
            slot = self.random.below(slots)
            while slot in self.taken:
                slot = (slot + 1) % slots
            self.taken.add(slot)
            room = 0
            while slot >= counts[room]:
                slot -= counts[room]
                room += 1
            pieces.append((self.room[room][0] + slot * length, min(length, left)))
            left -= pieces[-1][1]
        return pieces
