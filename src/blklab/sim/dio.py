"""Direct I/O: the kernel's way from one read, write or discard of a program to bios.

What: `DirectIo` is given an I/O and makes its bios one after another; the thread submits each before the next is made,
as blkdev_direct_IO, iomap and the discard ioctl do. Why here: it is the same for every program that does direct I/O,
and what a bio costs before it is submitted is charged here.

Theory of operation
-------------------
A read or write takes the pages of the caller's memory in bios of 256 bio_vecs: of 256 pages, or more if pages lie
side by side (`run_bytes`, 0: as `memory` says; or `sizes`: as they were in a capture). What has no more than
`max_bio_bytes` is always one bio. The I/O has ended with the last of its bios: `IoUnit.bios_left` counts those under
way, and one for those still to be made.

A file's I/O asks its `FileMap` where its bytes lie, once an extent, and no bio goes beyond an extent's end.

Two features make older kernels of it, apart or together:

    large_dio_bios   without it fs/direct-io.c makes the bios: more work an I/O (dio_io) and a page (dio_page), a
                     bio_vec for each page, so never more than 256 pages, and a plug for every I/O
    late_bio_split   without it a page is added only if the bio still is what every device below takes: max_sectors, and
                     the chunk there; as many bio_vecs as the device takes segments (bio_get_nr_vecs); and what
                     Driver.merge_bvec of a stacked device answers, which is asked for each page. The page that does not
                     fit begins the next bio, and the first page of a bio always fits

Deliberate differences: bio_get_nr_vecs gave no more than max_sectors need, and one; as max_sectors is looked at
anyway, only the segments are left of it. What fs/direct-io.c does when a bio ends is charged with the rest of dio_io
when the I/O begins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import cython

from blklab.sim.discard import discard_bio_sectors

if TYPE_CHECKING:
    from collections.abc import Iterator

    from blklab.block.bio import Bio
    from blklab.block.memory import MemoryLayout
    from blklab.block.queue import RequestQueue
    from blklab.block.submit import Submitter
    from blklab.sim.filemap import FileMap
    from blklab.sim.io_unit import IoUnit

if not cython.compiled:
    from blklab.block.consts import (
        F_IDLE,
        F_SYNC,
        MAX_BIO_BYTES,
        MAX_BIO_VECS,
        OP_DISCARD,
        OP_READ,
        OP_WRITE,
        PAGE_BYTES,
    )
    from blklab.core.charging import charge
    from blklab.core.steps import (
        STEP_BIO_ALLOC,
        STEP_BIO_PAGE,
        STEP_DIO_IO,
        STEP_DIO_PAGE,
        STEP_FILE_MAP,
        STEP_FIRST_TOUCH,
        STEP_MERGE_BVEC,
        STEP_SUBMIT_IO,
    )


class DirectIo:
    """The I/O that `submitter` is submitting now. `left_bytes`: what is not yet in a bio."""

    def __init__(self, submitter: Submitter) -> None:
        self.submitter = submitter
        self.max_bio_bytes = MAX_BIO_BYTES
        self.run_bytes = 4096
        self.memory: MemoryLayout | None = None
        self.sizes: Iterator[int] | None = None
        self.write_flags = F_SYNC | F_IDLE
        self.ioprio = 0
        self.unit: IoUnit | None = None
        self.queue: RequestQueue | None = None
        self.op = OP_READ
        self.sector = 0
        self.left_bytes = 0
        self.position_bytes = 0
        self.sure_bytes = MAX_BIO_BYTES
        self.file: FileMap | None = None
        self.in_file = False
        self.offset_bytes = 0
        self.extent_bytes = 0

    def start(self, unit: IoUnit, queue: RequestQueue, start_sector: int) -> int:
        """An I/O on a device, or on a range that begins at a sector of it."""
        host = queue.host
        features = queue.features
        charge(host, STEP_SUBMIT_IO)
        self.in_file = False
        self.sure_bytes = self.max_bio_bytes
        if not features.large_dio_bios or not features.late_bio_split:
            self.sure_bytes = 0
            if not features.large_dio_bios and unit.ddir != 2:
                charge(host, STEP_DIO_IO)
        self.unit = unit
        self.queue = queue
        self.sector = start_sector + (unit.offset_bytes >> 9)
        self.left_bytes = unit.length_bytes
        self.position_bytes = unit.buffer_bytes
        unit.bios_left = 1
        if unit.ddir == 2:
            self.op = OP_DISCARD
            return 0
        self.op = OP_WRITE if unit.ddir == 1 else OP_READ
        if not unit.touched:
            unit.touched = True
            if unit.ddir == 0:
                host.charge_n(STEP_FIRST_TOUCH, (self.left_bytes + 4095) >> 12)
        return 0

    def start_in_file(self, unit: IoUnit, file: FileMap) -> int:
        """An I/O on a file."""
        self.start(unit, file.queue, 0)
        self.file = file
        self.in_file = True
        self.sure_bytes = 0
        self.offset_bytes = unit.offset_bytes
        self.extent_bytes = 0
        if unit.ddir == 1:
            file.wrote()
        return 0

    def wants_plug(self) -> bool:
        """Whether the kernel makes a plug for this I/O alone, if there is none: for what it writes or discards, and for
        several bios; iomap (a file's I/O) and fs/direct-io.c for every one."""
        return self.op != OP_READ or self.left_bytes > MAX_BIO_BYTES or self.sure_bytes == 0

    def next_bio(self) -> Bio:
        """The next bio; `left_bytes` must not be 0."""
        queue = self.queue
        host = queue.host
        size = self.left_bytes
        if self.op != OP_DISCARD:
            if size > self.sure_bytes:
                size = self._bio_bytes(size)
            host.charge_n(STEP_BIO_PAGE, (size + 4095) >> 12)
        else:
            most = discard_bio_sectors(queue, self.sector) << 9
            if size > most:
                size = most
        charge(host, STEP_BIO_ALLOC)
        bio = queue.bios.get()
        bio.queue = queue
        bio.submitter = self.submitter
        bio.io = self.unit
        bio.op = self.op
        if self.op == OP_WRITE:
            bio.flags = self.write_flags
        elif self.op == OP_DISCARD and size == self.left_bytes:
            bio.flags = F_SYNC  # the last one is what the ioctl waits for
        else:
            bio.flags = 0
        bio.ioprio = self.ioprio
        bio.sector = self.sector
        bio.nr_sectors = size >> 9
        bio.buffer_offset_bytes = self.position_bytes
        bio.run_bytes = self.run_bytes
        self.sector += size >> 9
        self.position_bytes += size
        self.left_bytes -= size
        if self.left_bytes:
            self.unit.bios_left += 1
        return bio

    def _bio_bytes(self, size: int) -> int:
        # How many of the `size` bytes that are left go into the next bio, where that is not plainly all of them
        queue = self.queue
        features = queue.features
        if self.in_file:
            if self.extent_bytes == 0:
                charge(queue.host, STEP_FILE_MAP)
                self.extent_bytes = self.file.find(self.offset_bytes)
                self.sector = self.file.sector
            if size > self.extent_bytes:
                size = self.extent_bytes
        if not features.large_dio_bios:
            most = MAX_BIO_BYTES - self.position_bytes % PAGE_BYTES
            if size > most:
                size = most
        elif size > self.max_bio_bytes:
            size = self._of_bio_vecs(size)
        if not features.late_bio_split:
            size = self._addable(size)
        if not features.large_dio_bios:
            queue.host.charge_n(STEP_DIO_PAGE, (size + 4095) >> 12)
        self.offset_bytes += size
        self.extent_bytes -= size
        return size

    def _of_bio_vecs(self, size: int) -> int:
        # bio_iov_iter_get_pages, of more than 256 pages: 256 bio_vecs, each of pages that lie side by side
        if self.sizes is not None:
            return min(next(self.sizes), size)
        if self.run_bytes == 0:
            return self.memory.runs(self.position_bytes, size, MAX_BIO_VECS)
        most = MAX_BIO_VECS * self.run_bytes - self.position_bytes % self.run_bytes
        return most if most < size else size

    def _addable(self, size: int) -> int:
        # bio_add_page until 4.2, page by page: how many of the `size` bytes it puts into one bio
        disk = self.queue
        sector = self.sector
        if disk.whole is not None:
            sector += disk.start_sector
            disk = disk.whole
        limits = disk.limits
        in_page = self.position_bytes % PAGE_BYTES
        taken = PAGE_BYTES - in_page
        if taken > size:
            taken = size
        most = limits.request_max_sectors(self.op, sector) << 9
        if most > limits.max_segments * PAGE_BYTES - in_page:
            most = limits.max_segments * PAGE_BYTES - in_page
        if size > most:
            size = most - (in_page + most) % PAGE_BYTES
            if size < taken:
                size = taken
        if not disk.bio_based:
            return size
        charge(disk.host, STEP_MERGE_BVEC)
        disk.driver.merge_bvec(disk, sector)
        while taken < size:
            charge(disk.host, STEP_MERGE_BVEC)
            most = disk.driver.merge_bvec(disk, sector) << 9
            if most < taken + PAGE_BYTES and most < size:
                break
            taken += PAGE_BYTES
        return taken if taken < size else size
