"""Discards and zeroes by range, as the kernel's ioctls make them (BLKDISCARD, BLKZEROOUT), and the program blkdiscard.

What: `RangeBios` makes the bios of one such range; `BlkDiscard` is a program that asks for some, one after another:

    run_blkdiscard(built, "nvme0n1", [Range(0, 1 << 30)])

Why beside dio.py: there is no memory behind a range, so its bios are as large as a bio's size field allows, and how
they are cut is a matter of granules.

Theory of operation (blk-lib.c of 6.1)
--------------------------------------
A discard that begins off a granule (discard_granularity, counted from the beginning of the disk) has a first bio up to
there; the others are the largest whole number of granules below 4 GiB. A range that is zeroed becomes write-zeroes
bios of max_write_zeroes_sectors; a device that has none, or that failed one, gets writes of the zero page, 256 pages a
bio, in which every page is a segment of its own. All bios are chained, the caller waits for the last one, which alone
is marked synchronous, and a plug is held meanwhile: so what is in it is inserted when the caller goes to sleep (UT),
and a worker issues it. What a device does not support after all is no error of a discard.

Deliberate differences: blkdiscard's probing of the partition table and its looking at mounts are left out; no secure
erase.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import cython

from blklab.core.errors import BlklabError
from blklab.sim.cpu import Task

if TYPE_CHECKING:
    from blklab.block.bio import Bio
    from blklab.block.queue import RequestQueue
    from blklab.block.submit import Submitter
    from blklab.sim.build import BuiltMachine
    from blklab.sim.cpu import MachineHost

if not cython.compiled:
    from blklab.block.consts import (
        DONE,
        F_SYNC,
        MAX_BIO_BYTES,
        MOST_BIO_SECTORS,
        OP_DISCARD,
        OP_WRITE,
        OP_WRITE_ZEROES,
        STS_NOTSUPP,
        STS_OK,
        WAIT,
    )
    from blklab.core.charging import charge
    from blklab.core.steps import STEP_BIO_ALLOC, STEP_BIO_PAGE, STEP_SYSCALL
    from blklab.sim.task_states import STEP_CONTINUE, STEP_EXIT, STEP_SLEEP

EINVAL = 22
EOPNOTSUPP = 95
ERRNO_NAMES = {EINVAL: "EINVAL", EOPNOTSUPP: "EOPNOTSUPP"}
FIRST_PID = 9000
NEVER = (1 << 63) - 1


class Range(NamedTuple):
    """Bytes of a device to discard, or to zero."""

    offset_bytes: int
    length_bytes: int
    zero: bool = False


def discard_bio_sectors(queue: RequestQueue, sector: int) -> int:
    """How many sectors a discard bio that begins at `sector` may have: bio_discard_limit."""
    disk = queue
    if queue.whole is not None:
        disk = queue.whole
        sector += queue.start_sector
    granularity = disk.limits.discard_granularity_bytes >> 9
    if granularity == 0:
        granularity = 1
    over = sector % granularity
    if over:
        return granularity - over
    return MOST_BIO_SECTORS - MOST_BIO_SECTORS % granularity


def range_errno(queue: RequestQueue, wanted: Range) -> int:
    """The errno with which the kernel refuses a range, or 0."""
    limits = (queue.whole or queue).limits
    if (wanted.offset_bytes | wanted.length_bytes) & 511 or wanted.length_bytes == 0:
        return EINVAL
    if wanted.offset_bytes + wanted.length_bytes > queue.size_sectors << 9:
        return EINVAL
    if not wanted.zero and not limits.max_discard_sectors:
        return EOPNOTSUPP
    return EINVAL if (wanted.offset_bytes | wanted.length_bytes) % limits.logical_block_bytes else 0


class RangeBios:
    """The bios of a range on `queue`, in order. `left_sectors`: what no bio has yet."""

    def __init__(self, submitter: Submitter, queue: RequestQueue) -> None:
        self.submitter = submitter
        self.queue = queue
        self.op = OP_DISCARD
        self.sector = 0
        self.left_sectors = 0

    def start(self, op: int, sector: int, nr_sectors: int) -> int:
        """A range to discard (OP_DISCARD), to zero by the device (OP_WRITE_ZEROES) or by writing zeroes (OP_WRITE)."""
        self.op = op
        self.sector = sector
        self.left_sectors = nr_sectors
        return 0

    def next_bio(self) -> Bio:
        """The next bio; `left_sectors` must not be 0."""
        queue = self.queue
        most = MAX_BIO_BYTES >> 9
        if self.op == OP_DISCARD:
            most = discard_bio_sectors(queue, self.sector)
        elif self.op == OP_WRITE_ZEROES:
            most = (queue.whole or queue).limits.max_write_zeroes_sectors
        if most > self.left_sectors:
            most = self.left_sectors
        if self.op == OP_WRITE:
            queue.host.charge_n(STEP_BIO_PAGE, (most + 7) >> 3)
        charge(queue.host, STEP_BIO_ALLOC)
        bio = queue.bios.get()
        bio.queue = queue
        bio.submitter = self.submitter
        bio.op = self.op
        bio.sector = self.sector
        bio.nr_sectors = most
        self.sector += most
        self.left_sectors -= most
        bio.flags = 0 if self.left_sectors else F_SYNC
        bio.ioprio = 0
        return bio


class BlkDiscard(Task):
    """A program that discards or zeroes ranges of a device, one after another. `errors`: the status of each that
    failed."""

    def __init__(
        self, host: MachineHost, cpu: int, pid: int, queue: RequestQueue, ranges: Sequence[Range]
    ) -> None:
        Task.__init__(self, host, cpu, pid)
        self.queue = queue
        self.ranges = list(ranges)
        self.range = 0
        self.bios_of_range = RangeBios(self, queue)
        self.bios_left = 0
        self.status = STS_OK
        self.errors: dict[Range, int] = {}
        self.ended_ns = 0

    def step(self) -> int:
        """One section: the next bio, or the end of a range."""
        bios = self.bios_of_range
        if self.bios_left == 0:
            if self.range == len(self.ranges):
                self.ended_ns = self.host.events.now_ns
                return STEP_EXIT
            self._ioctl(self.ranges[self.range])
        elif not self.plug.active:
            # It has slept
            if self.bios_left > 1:
                return STEP_SLEEP
            return self._ended()
        result = self.advance()
        if result != DONE:
            return STEP_SLEEP if result == WAIT else STEP_CONTINUE
        if bios.left_sectors:
            self.bios_left += 1
            self.begin(bios.next_bio())
            return STEP_CONTINUE
        self._sleep()
        self.plug.active = False
        return STEP_SLEEP if self.bios_left > 1 else STEP_CONTINUE

    def _ioctl(self, wanted: Range) -> int:
        # One for this call itself, one a bio
        self.in_kernel = True
        charge(self.host, STEP_SYSCALL)
        op = OP_DISCARD
        if wanted.zero:
            op = (
                OP_WRITE_ZEROES
                if (self.queue.whole or self.queue).limits.max_write_zeroes_sectors
                else OP_WRITE
            )
        return self._issue(op, wanted)

    def _issue(self, op: int, wanted: Range) -> int:
        self.status = STS_OK
        self.plug.start(1)
        self.bios_of_range.start(op, wanted.offset_bytes >> 9, wanted.length_bytes >> 9)
        self.bios_left = 2
        self.begin(self.bios_of_range.next_bio())
        return 0

    def _ended(self) -> int:
        # submit_bio_wait has returned
        wanted = self.ranges[self.range]
        op = self.bios_of_range.op
        if self.status != STS_OK:
            if op == OP_WRITE_ZEROES:
                self._issue(OP_WRITE, wanted)
                return STEP_CONTINUE
            if op != OP_DISCARD or self.status != STS_NOTSUPP:
                self.errors[wanted] = self.status
        self.bios_left = 0
        self.in_kernel = False
        self.range += 1
        return STEP_CONTINUE

    def bio_done(self, bio: Bio) -> int:
        """A bio has ended; the last one wakes the program."""
        if bio.status != STS_OK and self.status == STS_OK:
            self.status = bio.status
        self.bios_left -= 1
        if self.bios_left == 1 and self.bios_of_range.left_sectors == 0 and not self.plug.active:
            self.wake()
        return 0


def start_blkdiscard(
    built: BuiltMachine, device: str, ranges: Sequence[Range], at_ns: int = 0, cpu: int = 0
) -> BlkDiscard:
    """Start blkdiscard on a device of the machine. Raises BlklabError for a range that the kernel refuses."""
    queue = built.queue(device)
    for wanted in ranges:
        errno = range_errno(queue, wanted)
        if errno:
            what = "zero" if wanted.zero else "discard"
            blocks = (queue.whole or queue).limits.logical_block_bytes
            reason = f"it has {queue.size_sectors << 9} bytes in blocks of {blocks}"
            if errno == EOPNOTSUPP:
                reason = "it takes no discards"
            raise BlklabError(
                f"{queue.name} refuses to {what} {wanted.length_bytes} bytes at {wanted.offset_bytes}: {reason} "
                f"({ERRNO_NAMES[errno]})"
            )
    task = BlkDiscard(built.host, cpu, FIRST_PID, queue, ranges)
    built.host.start(task, at_ns)
    return task


def run_blkdiscard(built: BuiltMachine, device: str, ranges: Sequence[Range]) -> BlkDiscard:
    """The same, and run the machine until it has ended; nothing else may be to run."""
    task = start_blkdiscard(built, device, ranges, built.events.now_ns)
    while built.host.live_tasks:
        built.events.run(NEVER, 100_000)
    return task
