"""struct bio: one block I/O as submitted.

What: a contiguous range of sectors of one device, an operation and flags, and the memory it goes to or comes from,
as far as that decides how it may be cut (how many physical segments it has). Why a class of its own and not the
request: a request is what merging makes of one or more bios; a bio is what the submitter waits for.

Theory of operation
-------------------
A bio that exceeds the queue's limits is cut: the front part becomes a new bio whose `parent` is the original, the
original shrinks to the rest and is submitted again, and it ends only when `remaining` (itself and its parts) is zero.
Then `end_io`, if somebody set it, is told (bi_end_io: a stacked device that made the bio, a flush, a file system), else
its submitter. Bios are recycled through `BioPool`, one for all devices of a machine, since a bio may travel from one to
another; `next` threads them on a request, in a `BioList`, or in the pool.

Memory: `run_bytes` says how much of the buffer is physically contiguous (4096: every page lies elsewhere; 2 MiB: huge
pages), counted from the start of the buffer, `buffer_offset_bytes` where in it this bio begins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import cython

if TYPE_CHECKING:
    from collections.abc import Iterator

    from blklab.block.cgroup import Blkg
    from blklab.block.iostat import IoStat
    from blklab.block.queue import RequestQueue
    from blklab.block.submit import Submitter

if not cython.compiled:
    from blklab.block.consts import (
        F_FUA,
        F_PREFLUSH,
        F_SYNC,
        F_TRACED,
        OP_READ,
        PAGE_BYTES,
        STS_OK,
        TR_A,
        TR_C,
    )
    from blklab.core.charging import charge
    from blklab.core.steps import STEP_END_BIO


class BioEnd:
    """Who is told that a bio has ended, if it is not its submitter (bi_end_io)."""

    def bio_end_io(self, bio: Bio) -> int:
        """The bio and all its parts have ended, with `bio.status`; in the context of the completion. The bio is yours
        again: `bio.queue.bios.put(bio)` when you need it no more."""
        raise NotImplementedError


class Bio:
    """One block I/O. `sector` and `nr_sectors` are what is still to be submitted of it; `io` is its maker's
    (bi_private), and so is `start_ns`; `part`: the counters of the partition that it was sent to, if it was."""

    def __init__(self) -> None:
        self.next: Bio | None = None
        self.parent: Bio | None = None
        self.queue: RequestQueue | None = None
        self.submitter: Submitter | None = None
        self.io: object = None
        self.end_io: BioEnd | None = None
        self.blkg: Blkg | None = None
        self.part: IoStat | None = None
        self.op = OP_READ
        self.flags = 0
        self.status = STS_OK
        self.ioprio = 0
        self.remaining = 1
        self.sector = 0
        self.nr_sectors = 0
        self.start_ns = 0
        self.buffer_offset_bytes = 0
        self.run_bytes = PAGE_BYTES

    def is_sync(self) -> bool:
        """Reads, and writes somebody waits for: what the kernel's op_is_sync says."""
        return self.op == OP_READ or (self.flags & (F_SYNC | F_FUA | F_PREFLUSH)) != 0

    def endio(self, status: int) -> int:
        """bio_endio: it has ended, or one of its parts: when that was the last of them, tell who waits for it. The
        first error wins. C is traced here for a bio that was never in a request."""
        bio = self
        while True:
            if status and not bio.status:
                bio.status = status
            bio.remaining -= 1
            if bio.remaining:
                return 0
            queue = bio.queue
            if bio.flags & F_TRACED and queue.trace_mask & TR_C:
                queue.tracer.add(
                    TR_C, queue.number, bio.op, bio.flags, bio.sector, bio.nr_sectors, bio.status
                )
            parent = bio.parent
            if parent is None:
                end_io = bio.end_io
                if end_io is not None:
                    # Kept here, as it may give up the bio, which may be all that has it
                    return end_io.bio_end_io(bio)
                charge(queue.host, STEP_END_BIO)
                bio.submitter.bio_done(bio)
                queue.bios.put(bio)
                return 0
            status = bio.status
            queue.bios.put(bio)
            bio = parent

    def remap_partition(self) -> int:
        """blk_partition_remap: the bio of a partition goes to the disk that it is on. A is traced there."""
        partition = self.queue
        disk = partition.whole
        sector = self.sector
        self.queue = disk
        self.part = partition.stat
        if self.nr_sectors == 0:
            return 0  # an empty flush is nowhere
        self.sector += partition.start_sector
        if disk.trace_mask & TR_A:
            disk.tracer.remap(self, partition.number, sector)
        return 0


class BioList:
    """Bios in order, linked through `next` (struct bio_list)."""

    def __init__(self) -> None:
        self.head: Bio | None = None
        self.tail: Bio | None = None

    def append(self, bio: Bio) -> None:
        """Behind the last one."""
        bio.next = None
        if self.tail is None:
            self.head = bio
        else:
            self.tail.next = bio
        self.tail = bio

    def popleft(self) -> Bio | None:
        """The first one, or None."""
        bio = self.head
        if bio is None:
            return None
        self.head = bio.next
        if self.head is None:
            self.tail = None
        bio.next = None
        return bio

    def push_list(self, other: BioList) -> None:
        """All of `other` before the first one; `other` is empty afterwards."""
        if other.head is None:
            return
        if self.head is None:
            self.tail = other.tail
        else:
            other.tail.next = self.head
        self.head = other.head
        other.head = None
        other.tail = None

    def __iter__(self) -> Iterator[Bio]:
        bio = self.head
        while bio is not None:
            following = bio.next
            yield bio
            bio = following


class BioPool:
    """Bios to be used again."""

    def __init__(self) -> None:
        self.free: Bio | None = None
        self.made = 0

    def get(self) -> Bio:
        """A bio whose fields are those of a new one, except sector, nr_sectors, op, flags and ioprio."""
        bio = self.free
        if bio is None:
            self.made += 1
            return Bio()
        self.free = bio.next
        bio.next = None
        bio.remaining = 1
        bio.status = STS_OK
        bio.buffer_offset_bytes = 0
        bio.run_bytes = PAGE_BYTES
        return bio

    def put(self, bio: Bio) -> None:
        """The bio has ended and nobody refers to it."""
        bio.parent = None
        bio.io = None
        bio.end_io = None
        bio.blkg = None
        bio.part = None
        bio.next = self.free
        self.free = bio
