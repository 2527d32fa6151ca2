"""Where the bytes of a file lie on its device, and what its file system knows of it: what direct I/O and fsync ask.

What: `FileMap` is an inode: its extents in order of the file's bytes, and whether something of it is still to be
written to the log. `Log` is the file system's log: where its next record goes. Why apart from volume.py: these are
asked for every I/O; how files are laid out is decided there, once.

Theory of operation
-------------------
`find(offset_bytes)` sets `sector` to where that byte lies and returns how many bytes lie behind it without a gap.

fsync (XFS): a direct write of allocated blocks changes nothing but the time of modification, whose clock ticks once
a jiffy. So the first write of a jiffy makes the inode dirty, and the next fsync writes a log record: one bio with
PREFLUSH and FUA, which therefore is the flush of the device too. An fsync of an inode that is not dirty sends an empty
flush bio. fdatasync does not care about times: always the empty flush. A log record is as long as the log's stripe
unit, or two sectors where there is none; the log is written in a circle. In a capture of 6.1 on a 4 x 64 KiB stripe:
WS of 8 sectors, FWFSM of 128 sectors, then WS and FWS in turn within the same jiffy.

    bio = file.sync_bio(submitter, datasync=False)     # fill in end_io or io, then begin(bio)

Deliberate differences: blocks are allocated and written already (no unwritten extents, no size change); a log record
holds one inode, so threads do not share one; the log is never full and is not written back; no time of access.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

import cython

if TYPE_CHECKING:
    from collections.abc import Sequence

    from blklab.block.bio import Bio
    from blklab.block.queue import RequestQueue
    from blklab.block.submit import Submitter

if not cython.compiled:
    from blklab.block.consts import F_FUA, F_META, F_PREFLUSH, F_SYNC, OP_WRITE
    from blklab.core.charging import charge
    from blklab.core.steps import STEP_BIO_ALLOC


class Log:
    """The log of a volume: `nr_sectors` from `start_sector` on, written in records of `record_sectors`."""

    def __init__(self, start_sector: int, nr_sectors: int, record_sectors: int) -> None:
        self.start_sector = start_sector
        self.nr_sectors = nr_sectors
        self.record_sectors = record_sectors
        self.next_sectors = 0
        self.records = 0

    def next_record(self) -> int:
        """The sector of the next record."""
        sector = self.start_sector + self.next_sectors
        self.records += 1
        self.next_sectors += self.record_sectors
        if self.next_sectors + self.record_sectors > self.nr_sectors:
            self.next_sectors = 0
        return sector


class FileMap:
    """A file on a volume. `extents`: (bytes from the beginning of the file, sector, bytes), in order, without gaps."""

    def __init__(
        self,
        name: str,
        queue: RequestQueue,
        extents: Sequence[tuple[int, int, int]],
        log: Log,
    ) -> None:
        self.name = name
        self.queue = queue
        self.extents = list(extents)
        self.log = log
        self.size_bytes = sum(nbytes for _, _, nbytes in extents)
        # One more at the end, so that each extent ends where the next one begins
        self.starts = array("q", [start for start, _, _ in extents] + [self.size_bytes])
        self.sectors = array("q", [sector for _, sector, _ in extents])
        self.nr_extents = len(self.extents)
        self.sector = 0
        self.dirty = False
        self.modified_jiffy = -1

    def find(self, offset_bytes: int) -> int:
        """Sets `sector` to where this byte of the file is, and returns how many bytes lie there in one piece."""
        low = 0
        high = self.nr_extents
        while high - low > 1:
            middle = (low + high) >> 1
            if self.starts[middle] <= offset_bytes:
                low = middle
            else:
                high = middle
        self.sector = self.sectors[low] + ((offset_bytes - self.starts[low]) >> 9)
        return self.starts[low + 1] - offset_bytes

    def wrote(self) -> int:
        """A direct write begins: its time of modification, by the clock of jiffies."""
        host = self.queue.host
        jiffy = host.clock.now_ns // host.jiffy_ns
        if jiffy != self.modified_jiffy:
            self.modified_jiffy = jiffy
            self.dirty = True
        return 0

    def sync_bio(self, submitter: Submitter, datasync: bool) -> Bio:
        """The bio of an fsync, or of an fdatasync, of this file; its caller waits for it."""
        queue = self.queue
        charge(queue.host, STEP_BIO_ALLOC)
        bio = queue.bios.get()
        bio.queue = queue
        bio.submitter = submitter
        bio.op = OP_WRITE
        bio.ioprio = 0
        if self.dirty and not datasync:
            self.dirty = False
            bio.flags = F_PREFLUSH | F_FUA | F_SYNC | F_META
            bio.sector = self.log.next_record()
            bio.nr_sectors = self.log.record_sectors
        else:
            bio.flags = F_PREFLUSH | F_SYNC
            bio.sector = 0
            bio.nr_sectors = 0
        return bio
