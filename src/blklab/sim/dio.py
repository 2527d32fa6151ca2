"""Direct I/O: the kernel's way from one read, write or discard of a program to bios.

What: `DirectIo` is given an I/O and makes its bios one after another; the thread submits each before the next is made,
as blkdev_direct_IO and the discard ioctl do. Why here: it is the same for every program that does direct I/O, and what
a bio costs before it is submitted is charged here.

Theory of operation
-------------------
A read or write takes the pages of the caller's memory in bios of at most `max_bio_bytes`: 256 pages, unless pages
lie side by side. The I/O has ended with the last of its bios: `IoUnit.bios_left` counts those under way, and one
for those still to be made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import cython

if TYPE_CHECKING:
    from blklab.block.bio import Bio
    from blklab.block.queue import RequestQueue
    from blklab.block.submit import Submitter
    from blklab.sim.io_unit import IoUnit

if not cython.compiled:
    from blklab.block.consts import F_IDLE, F_SYNC, MAX_BIO_BYTES, OP_DISCARD, OP_READ, OP_WRITE
    from blklab.core.charging import charge
    from blklab.core.steps import STEP_BIO_ALLOC, STEP_BIO_PAGE, STEP_FIRST_TOUCH, STEP_SUBMIT_IO


class DirectIo:
    """The I/O that `submitter` is submitting now. `left_bytes`: what is not yet in a bio."""

    def __init__(self, submitter: Submitter) -> None:
        self.submitter = submitter
        self.max_bio_bytes = MAX_BIO_BYTES
        self.run_bytes = 4096
        self.ioprio = 0
        self.blkg: object = None
        self.unit: IoUnit | None = None
        self.queue: RequestQueue | None = None
        self.op = OP_READ
        self.sector = 0
        self.left_bytes = 0
        self.position_bytes = 0

    def start(self, unit: IoUnit, queue: RequestQueue, start_sector: int) -> int:
        """An I/O on a device, or on a file that begins at a sector of it."""
        host = queue.host
        charge(host, STEP_SUBMIT_IO)
        self.unit = unit
        self.queue = queue
        self.sector = start_sector + (unit.offset_bytes >> 9)
        self.left_bytes = unit.length_bytes
        self.position_bytes = 0
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

    def wants_plug(self) -> bool:
        """Whether the kernel makes a plug for this I/O alone, if there is none: for what it writes or discards, and for
        several bios."""
        return self.op != OP_READ or self.left_bytes > MAX_BIO_BYTES

    def next_bio(self) -> Bio:
        """The next bio; `left_bytes` must not be 0."""
        queue = self.queue
        host = queue.host
        size = self.left_bytes
        if self.op != OP_DISCARD:
            if size > self.max_bio_bytes:
                size = self.max_bio_bytes
            host.charge_n(STEP_BIO_PAGE, (size + 4095) >> 12)
        charge(host, STEP_BIO_ALLOC)
        bio = queue.bios.get()
        bio.queue = queue
        bio.submitter = self.submitter
        bio.io = self.unit
        bio.blkg = self.blkg
        bio.op = self.op
        bio.flags = F_SYNC | F_IDLE if self.op == OP_WRITE else 0
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
