"""How the limits of a stacked device follow from those of its members: `QueueLimits.stack` and `set_stacking_defaults`.

What: a stacked device begins with limits that allow everything, and takes those of each member in, one after another;
what remains is what every member can take. Why a file of its own: it is done once for each member and must not be
fast, so its numbers are plain Python.

Theory of operation (blk_stack_limits of 6.1)
---------------------------------------------
    sizes       the smaller one: sectors, segments, the size of a segment, both boundaries. 0 means none there, but for
                write zeroes, where 0 means that the member cannot, so the stack cannot
    blocks      the larger one: logical, physical, io_min. io_opt is the least common multiple
    chunk       the greatest common divisor
    alignment   where the member's first whole granule begins, seen from `start_sector`, must fit those before, else
                the device is `misaligned`. So it is where a size is no multiple of the one below, and then io_min
                falls back to the physical block, io_opt and chunk_sectors to none
    discard     only members that take discards count, so a stack takes them if one member does (its driver must
                say whether it passes them on); the granularity is the largest one

Deliberate differences: no integrity, no zones, no bouncing, no alignment of the caller's memory.
"""

from __future__ import annotations

from math import gcd, lcm
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from blklab.block.limits import QueueLimits

ALL_32 = 0xFFFFFFFF  # UINT_MAX: no limit
ALL_16 = 0xFFFF  # USHRT_MAX
PAGE_SECTORS = 8


def _smaller(one: int, two: int) -> int:
    # min_not_zero
    return min(one, two) if one and two else one or two


def _common_multiple(one: int, two: int) -> int:
    # lcm_not_zero, kept in 32 bits
    return (lcm(one, two) or one or two) & ALL_32


def _round_down(sectors: int, block_bytes: int) -> int:
    # blk_round_down_sectors: whole blocks, but never below a page
    block = block_bytes >> 9
    return max(sectors - sectors % block, PAGE_SECTORS)


def _line_up(one: int, two: int) -> bool:
    return max(one, two) % min(one, two) == 0


def alignment_offset(limits: QueueLimits, sector: int) -> int:
    """Bytes from `sector` to the next granule of the device (its physical block, or io_min):
    queue_limit_alignment_offset. What the attribute of a partition that begins there shows."""
    granule = max(limits.physical_block_bytes, limits.io_min_bytes)
    into = sector % (granule >> 9) << 9
    return int((granule + limits.alignment_offset_bytes - into) % granule)


def discard_alignment(limits: QueueLimits, sector: int) -> int:
    """Bytes from `sector` to the next unit that can be discarded: queue_limit_discard_alignment."""
    granularity = limits.discard_granularity_bytes >> 9
    if not limits.max_discard_sectors or not granularity:
        return 0
    alignment = limits.discard_alignment_bytes >> 9
    return int((granularity + alignment - sector % granularity) % granularity << 9)


def set_stacking_defaults(limits: QueueLimits) -> None:
    """blk_set_stacking_limits: the defaults of a device without limits of its own."""
    limits.set_defaults()
    limits.max_segments = ALL_16
    limits.max_discard_segments = ALL_16
    limits.max_hw_sectors = ALL_32
    limits.max_sectors = ALL_32
    limits.max_dev_sectors = ALL_32
    limits.max_segment_bytes = ALL_32
    limits.max_write_zeroes_sectors = ALL_32


def stack(top: QueueLimits, lower: QueueLimits, start_sector: int) -> bool:
    """blk_stack_limits: take the limits of a member into `top`, whose data begins at `start_sector` of the member (on
    the whole disk, if that is a partition). False: they do not fit together, and `top` is misaligned."""
    before = (top.misaligned, top.alignment_offset_bytes)
    top.max_sectors = _smaller(top.max_sectors, lower.max_sectors)
    top.max_hw_sectors = _smaller(top.max_hw_sectors, lower.max_hw_sectors)
    top.max_dev_sectors = _smaller(top.max_dev_sectors, lower.max_dev_sectors)
    top.max_write_zeroes_sectors = min(top.max_write_zeroes_sectors, lower.max_write_zeroes_sectors)
    top.seg_boundary_mask = _smaller(top.seg_boundary_mask, lower.seg_boundary_mask)
    top.virt_boundary_mask = _smaller(top.virt_boundary_mask, lower.virt_boundary_mask)
    top.max_segments = _smaller(top.max_segments, lower.max_segments)
    top.max_discard_segments = _smaller(top.max_discard_segments, lower.max_discard_segments)
    top.max_segment_bytes = _smaller(top.max_segment_bytes, lower.max_segment_bytes)
    top.misaligned = before[0] or lower.misaligned

    fits = True
    alignment = alignment_offset(lower, start_sector)
    if before[1] != alignment:
        above = max(top.physical_block_bytes, top.io_min_bytes) + before[1]
        below = max(lower.physical_block_bytes, lower.io_min_bytes) + alignment
        fits = _line_up(above, below)
    top.logical_block_bytes = max(top.logical_block_bytes, lower.logical_block_bytes)
    top.physical_block_bytes = max(top.physical_block_bytes, lower.physical_block_bytes)
    top.io_min_bytes = max(top.io_min_bytes, lower.io_min_bytes)
    top.io_opt_bytes = _common_multiple(top.io_opt_bytes, lower.io_opt_bytes)
    if lower.chunk_sectors:
        top.chunk_sectors = gcd(top.chunk_sectors, lower.chunk_sectors)
    fits = _keep_multiples(top) and fits
    top.raid_partial_stripes_expensive = (
        top.raid_partial_stripes_expensive or lower.raid_partial_stripes_expensive
    )
    top.alignment_offset_bytes = _common_multiple(before[1], alignment) % max(
        top.physical_block_bytes, top.io_min_bytes
    )
    if top.alignment_offset_bytes % top.logical_block_bytes:
        fits = False
    if not fits:
        top.misaligned = True
    for name in ("max_sectors", "max_hw_sectors", "max_dev_sectors"):
        setattr(top, name, _round_down(getattr(top, name), top.logical_block_bytes))
    if lower.discard_granularity_bytes:
        _stack_discard(top, lower, discard_alignment(lower, start_sector))
    return fits


def _keep_multiples(top: QueueLimits) -> bool:
    # Each size a multiple of the one below it; what is not is given up
    fits = True
    if top.physical_block_bytes % top.logical_block_bytes:
        top.physical_block_bytes = top.logical_block_bytes
        fits = False
    if top.io_min_bytes % top.physical_block_bytes:
        top.io_min_bytes = top.physical_block_bytes
        fits = False
    if top.io_opt_bytes % top.physical_block_bytes:
        top.io_opt_bytes = 0
        fits = False
    if top.chunk_sectors % (top.physical_block_bytes >> 9):
        top.chunk_sectors = 0
        fits = False
    return fits


def _stack_discard(top: QueueLimits, lower: QueueLimits, alignment: int) -> None:
    if top.discard_granularity_bytes and top.discard_alignment_bytes != alignment:
        above = top.discard_granularity_bytes + top.discard_alignment_bytes
        below = lower.discard_granularity_bytes + alignment
        if not _line_up(above, below):
            top.discard_misaligned = True
    top.max_discard_sectors = _smaller(top.max_discard_sectors, lower.max_discard_sectors)
    top.max_hw_discard_sectors = _smaller(top.max_hw_discard_sectors, lower.max_hw_discard_sectors)
    top.discard_granularity_bytes = max(top.discard_granularity_bytes, lower.discard_granularity_bytes)
    top.discard_alignment_bytes = (
        _common_multiple(top.discard_alignment_bytes, alignment) % top.discard_granularity_bytes
    )
