"""Queue limits: what a driver and its device can take in one request, and so where a bio is cut.

Every limit has its sysfs name with its unit; sectors are 512 bytes.

Theory of operation
-------------------
`fit` says how much of a bio may go in one request, and in how many memory segments (__bio_split_to_limits of 6.1).

A read or write: the largest size allowed at its sector (max_sectors, and what is left of a chunk), brought down to an
end on a physical block. Then the memory is walked: each run of pages that lie side by side is one segment, or several
if max_segment_size or the segment boundary cuts it; a segment that ends off the virt boundary must be the last one. The
walk stops at max_segments or at that size, and the result is brought down to a logical block. So 1 MiB of scattered 4
KiB pages under max_segments=128 is cut at 512 KiB, and 777 sectors from sector 1 under max_sectors=256 into
256+256+256+9: the limit is a length, not an alignment (captures `split/max128k-*`).

A discard: max_discard_sectors in whole granules, and a piece that is not the last one ends on the device's granule
(discard_alignment), so that only the first can begin off it. Write zeroes: max_write_zeroes_sectors, and no memory.

A bio within one page is never looked at, unless the device has chunks, as in the kernel.

`stack` and `set_stacking_defaults` (stacking.py) make the limits of a device that consists of others.

Deliberate differences: no zones (so no write granularity of them), no integrity, no bouncing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import cython

from blklab.block import stacking

if TYPE_CHECKING:
    from blklab.block.bio import Bio
    from blklab.block.memory import MemoryLayout

if not cython.compiled:
    from blklab.block.consts import MOST_BIO_SECTORS, OP_DISCARD, OP_WRITE, OP_WRITE_ZEROES, PAGE_BYTES

# blk_set_default_limits of 6.1: what a driver that sets nothing has
SAFE_MAX_SECTORS = 255
MAX_SEGMENTS = 128
MAX_SEGMENT_SIZE = 65536
SEG_BOUNDARY_MASK = 0xFFFFFFFF
ANY_SEGMENT_SIZE = 0xFFFFFFFF


class QueueLimits:
    """The limits of one queue, in sectors unless the name says bytes. 0 means no such limit where that makes sense.
    `segments`: how many memory segments the last answer of `fit` has. `memory`: where the pages of bios without a fixed
    run_bytes lie."""

    def __init__(self) -> None:
        self.segments = 0
        self.memory: MemoryLayout | None = None
        self.set_defaults()

    def set_defaults(self) -> None:
        """blk_set_default_limits."""
        self.logical_block_bytes = 512
        self.physical_block_bytes = 512
        self.io_min_bytes = 512
        self.io_opt_bytes = 0
        self.alignment_offset_bytes = 0
        self.misaligned = False
        self.max_hw_sectors = SAFE_MAX_SECTORS
        self.max_dev_sectors = 0
        self.max_sectors = SAFE_MAX_SECTORS
        self.chunk_sectors = 0
        self.max_segments = MAX_SEGMENTS
        self.max_segment_bytes = MAX_SEGMENT_SIZE
        self.seg_boundary_mask = SEG_BOUNDARY_MASK
        self.virt_boundary_mask = 0
        self.max_hw_discard_sectors = 0
        self.max_discard_sectors = 0
        self.max_discard_segments = 1
        self.discard_granularity_bytes = 0
        self.discard_alignment_bytes = 0
        self.discard_misaligned = False
        self.max_write_zeroes_sectors = 0
        self.raid_partial_stripes_expensive = False

    # -- what drivers set ------------------------------------------------------------

    def set_max_hw_sectors(self, sectors: int, default_max_sectors: int) -> None:
        """blk_queue_max_hw_sectors: a driver's limit; max_sectors follows, at most `default_max_sectors` (the kernel's)
        and what the device itself takes (max_dev_sectors)."""
        sectors = max(sectors, PAGE_BYTES >> 9)
        block = self.logical_block_bytes >> 9
        self.max_hw_sectors = sectors - sectors % block
        most = min(self.max_hw_sectors, default_max_sectors)
        if self.max_dev_sectors:
            most = min(most, self.max_dev_sectors)
        self.max_sectors = most - most % block

    def set_logical_block(self, nbytes: int) -> None:
        """blk_queue_logical_block_size: the other sizes are at least that."""
        self.logical_block_bytes = nbytes
        self.physical_block_bytes = max(self.physical_block_bytes, nbytes)
        self.io_min_bytes = max(self.io_min_bytes, self.physical_block_bytes)
        self.max_hw_sectors -= self.max_hw_sectors % (nbytes >> 9)
        self.max_sectors -= self.max_sectors % (nbytes >> 9)

    def set_physical_block(self, nbytes: int) -> None:
        """blk_queue_physical_block_size."""
        self.physical_block_bytes = max(nbytes, self.logical_block_bytes)
        self.io_min_bytes = max(self.io_min_bytes, self.physical_block_bytes)

    def set_io_min(self, nbytes: int) -> None:
        """blk_limits_io_min: at least a block."""
        self.io_min_bytes = max(nbytes, self.logical_block_bytes, self.physical_block_bytes)

    def set_virt_boundary(self, mask: int) -> None:
        """blk_queue_virt_boundary: such a device takes a list of pages, so the size of a segment does not matter."""
        self.virt_boundary_mask = mask
        if mask:
            self.max_segment_bytes = ANY_SEGMENT_SIZE

    def set_seg_boundary(self, mask: int) -> None:
        """blk_queue_segment_boundary: no segment crosses it; at least a page."""
        self.seg_boundary_mask = max(mask, PAGE_BYTES - 1)

    def set_max_discard(self, sectors: int) -> None:
        """blk_queue_max_discard_sectors."""
        self.max_hw_discard_sectors = sectors
        self.max_discard_sectors = sectors

    # -- stacked devices ---------------------------------------------------------------

    def set_stacking_defaults(self) -> None:
        """blk_set_stacking_limits: what a stacked device has before `stack` takes its members in."""
        stacking.set_stacking_defaults(self)

    def stack(self, lower: QueueLimits, start_sector: int) -> bool:
        """blk_stack_limits: take in the limits of a member, on whose disk the data begins at `start_sector`. False: it
        does not line up with those before, and the device is misaligned."""
        return stacking.stack(self, lower, start_sector)

    # -- how much one request takes ------------------------------------------------------

    def max_io_sectors(self, sector: int) -> int:
        """How many sectors one request starting at `sector` may have: get_max_io_size."""
        most = self.max_sectors
        if self.chunk_sectors:
            left = self.chunk_sectors - sector % self.chunk_sectors
            if left < most:
                most = left
        physical = self.physical_block_bytes >> 9
        start = sector & (physical - 1)
        end = (start + most) & ~(physical - 1)
        if end > start:
            return end - start
        return most - most % (self.logical_block_bytes >> 9)

    def request_max_sectors(self, op: int, sector: int) -> int:
        """How many sectors a request starting at `sector` may grow to by merging: blk_rq_get_max_sectors."""
        most = self.max_sectors
        if op > OP_WRITE:
            if op == OP_DISCARD:
                most = self.max_discard_sectors
                return most if most < MOST_BIO_SECTORS else MOST_BIO_SECTORS
            if op == OP_WRITE_ZEROES:
                most = self.max_write_zeroes_sectors
        if self.chunk_sectors:
            left = self.chunk_sectors - sector % self.chunk_sectors
            if left < most:
                return left
        return most

    def refuses_passthrough(self, bio: Bio) -> bool:
        """Whether a passthrough command (SG_IO, NVMe's io_uring_cmd) with the memory of `bio` would be refused with
        EINVAL: it is never cut, so all of it must fit max_segments and max_hw_sectors (bio_map_user_iov of 6.1);
        max_sectors does not count."""
        nbytes = bio.nr_sectors << 9
        if bio.nr_sectors > self.max_hw_sectors:
            return True
        return self._walk(bio, nbytes, nbytes) < nbytes

    def fit(self, bio: Bio) -> int:
        """How many sectors of a bio may go in one request; `segments` is set to how many they take."""
        nr_sectors = bio.nr_sectors
        self.segments = 1
        if bio.op > OP_WRITE:
            if bio.op == OP_DISCARD:
                return self._fit_discard(bio.sector, nr_sectors)
            self.segments = 0
            if bio.op == OP_WRITE_ZEROES and 0 < self.max_write_zeroes_sectors < nr_sectors:
                return self.max_write_zeroes_sectors
            return nr_sectors
        nbytes = nr_sectors << 9
        in_page = bio.buffer_offset_bytes & (PAGE_BYTES - 1)
        if in_page + nbytes <= PAGE_BYTES and self.chunk_sectors == 0:
            return nr_sectors
        max_bytes = self.max_io_sectors(bio.sector) << 9
        if bio.run_bytes == PAGE_BYTES and self.virt_boundary_mask < PAGE_BYTES:
            # Every page elsewhere, and no limit is below a page: nothing to walk
            taken = self.max_segments * PAGE_BYTES - in_page
            if taken > nbytes:
                taken = nbytes
            if taken > max_bytes:
                taken = max_bytes
            self.segments = (in_page + taken + PAGE_BYTES - 1) // PAGE_BYTES
        else:
            taken = self._walk(bio, nbytes, max_bytes)
        if taken < nbytes:
            taken -= taken % self.logical_block_bytes
            if taken == 0:
                taken = self.logical_block_bytes
        return taken >> 9

    def takes_whole(self, bio: Bio) -> bool:
        """Whether a read or write that was built to fit (before late_bio_split) does so: its length and its segments,
        and nothing about where it ends. `segments` is set."""
        if bio.op > OP_WRITE or bio.nr_sectors > self.request_max_sectors(bio.op, bio.sector):
            return False
        in_page = bio.buffer_offset_bytes & (PAGE_BYTES - 1)
        pages = (in_page + (bio.nr_sectors << 9) + PAGE_BYTES - 1) // PAGE_BYTES
        if pages > self.max_segments:
            return False
        if bio.run_bytes == PAGE_BYTES:
            self.segments = pages
        else:
            self._walk(bio, bio.nr_sectors << 9, bio.nr_sectors << 9)
        return True

    def _fit_discard(self, sector: int, nr_sectors: int) -> int:
        # bio_split_discard
        granularity = self.discard_granularity_bytes >> 9
        if granularity == 0:
            granularity = 1
        most = MOST_BIO_SECTORS - MOST_BIO_SECTORS % (self.logical_block_bytes >> 9)
        if self.max_discard_sectors < most:
            most = self.max_discard_sectors
        most -= most % granularity
        if most == 0 or nr_sectors <= most:
            return nr_sectors
        over = (sector + most - (self.discard_alignment_bytes >> 9) % granularity) % granularity
        if most > over:
            most -= over
        return most

    def _walk(self, bio: Bio, nbytes: int, max_bytes: int) -> int:
        # bio_split_rw: run by run
        run = bio.run_bytes
        memory: MemoryLayout = self.memory  # type: ignore[assignment]  # there is one where a bio has no run_bytes
        boundary = self.seg_boundary_mask
        gaps = self.virt_boundary_mask
        position = bio.buffer_offset_bytes
        address = position
        taken = 0
        segments = 0
        offset = 0  # within the run, as a bio_vec has it
        while taken < nbytes:
            end = offset
            if run:
                offset = position % run
                side_by_side = run - offset
            else:
                offset = position % PAGE_BYTES
                side_by_side = memory.side_by_side(position, nbytes - taken)
                address = memory.address(position)
            if taken and (end | offset) & gaps:
                break
            if side_by_side > nbytes - taken:
                side_by_side = nbytes - taken
            left = max_bytes - taken
            if left > side_by_side:
                left = side_by_side
            while left > 0 and segments < self.max_segments:
                size = boundary - (address & boundary) + 1
                if size > self.max_segment_bytes:
                    size = self.max_segment_bytes
                if size > left:
                    size = left
                segments += 1
                side_by_side -= size
                left -= size
                taken += size
                position += size
                address += size
                offset += size
                if offset & gaps:
                    break
            if side_by_side:
                break
        self.segments = segments
        return taken
