"""Queue limits, and how many segments and how much of a bio they allow: where a bio is cut.

What a driver and its device can take in one request. Every limit has its sysfs name; sectors are 512 bytes.

Theory of operation
-------------------
`fit` answers for a read or write what `bio_split_rw` of 6.1 does: the largest size allowed at this sector
(max_sectors, and what is left of a chunk), brought down to an end on a physical block; then the memory is walked run
by run and stops when max_segments or that size is reached, or when a gap breaks the virt boundary; the result is
brought down to a logical block. So 1 MiB of scattered 4 KiB pages under max_segments=128 is cut at 512 KiB, and
777 sectors from sector 1 under max_sectors=256 into 256+256+256+9: the limit is a length, not an alignment
(captures `split/max128k-*`).

`stack` is the seam for stacked devices, which take the strictest of their members' limits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import cython

if TYPE_CHECKING:
    from blklab.block.bio import Bio

if not cython.compiled:
    from blklab.block.consts import OP_DISCARD, PAGE_BYTES

# Defaults of a driver that sets nothing: blk_set_default_limits and blk_set_stacking_limits of 6.1
SAFE_MAX_SECTORS = 255
MAX_SEGMENTS = 128
MAX_SEGMENT_SIZE = 65536


class QueueLimits:
    """The limits of one queue, in sectors unless the name says bytes. 0 means no such limit where that makes sense."""

    def __init__(self) -> None:
        self.logical_block_bytes = 512
        self.physical_block_bytes = 512
        self.max_hw_sectors = SAFE_MAX_SECTORS
        self.max_sectors = SAFE_MAX_SECTORS
        self.max_segments = MAX_SEGMENTS
        self.max_segment_bytes = MAX_SEGMENT_SIZE
        self.chunk_sectors = 0
        self.virt_boundary_mask = 0
        self.io_min_bytes = 512
        self.io_opt_bytes = 0
        self.max_hw_discard_sectors = 0
        self.max_discard_sectors = 0
        self.discard_granularity_bytes = 0
        self.max_discard_segments = 1
        self.max_write_zeroes_sectors = 0
        self.segments = 0

    def set_max_hw_sectors(self, sectors: int, default_max_sectors: int) -> None:
        """blk_queue_max_hw_sectors: a driver's limit; max_sectors follows, capped at the kernel's default."""
        page = PAGE_BYTES >> 9
        sectors = max(sectors, page)
        block = self.logical_block_bytes >> 9
        self.max_hw_sectors = max(sectors - sectors % block, block)
        limit = min(self.max_hw_sectors, default_max_sectors)
        if self.io_opt_bytes:
            limit = min(self.max_hw_sectors, max(default_max_sectors, self.io_opt_bytes >> 9))
        self.max_sectors = max(limit - limit % block, block)

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

    def request_max_sectors(self, sector: int) -> int:
        """How many sectors a request starting at `sector` may grow to by merging: blk_rq_get_max_sectors."""
        most = self.max_sectors
        if self.chunk_sectors:
            left = self.chunk_sectors - sector % self.chunk_sectors
            if left < most:
                return left
        return most

    def fit(self, bio: Bio) -> int:
        """How many sectors of a read or write may go in one request; `segments` is set to how many they take."""
        if bio.op == OP_DISCARD:
            # Granularity and alignment come with the complete rules of splitting
            self.segments = 1
            return min(bio.nr_sectors, self.max_discard_sectors)
        nbytes = bio.nr_sectors << 9
        if nbytes <= PAGE_BYTES and bio.buffer_offset_bytes % PAGE_BYTES + nbytes <= PAGE_BYTES:
            # One page: only the size can be too much
            most = self.max_io_sectors(bio.sector)
            self.segments = 1
            return bio.nr_sectors if bio.nr_sectors <= most else most
        max_bytes = self.max_io_sectors(bio.sector) << 9
        run = bio.run_bytes
        position = bio.buffer_offset_bytes
        taken = 0
        segments = 0
        while taken < nbytes:
            if taken and self.virt_boundary_mask and (position & self.virt_boundary_mask):
                break
            if segments == self.max_segments:
                break
            piece = run - position % run
            if piece > self.max_segment_bytes:
                piece = self.max_segment_bytes
            if piece > nbytes - taken:
                piece = nbytes - taken
            if piece > max_bytes - taken:
                piece = max_bytes - taken
            if piece <= 0:
                break
            segments += 1
            taken += piece
            position += piece
        self.segments = segments
        if taken < nbytes:
            taken -= taken % self.logical_block_bytes
        return taken >> 9
