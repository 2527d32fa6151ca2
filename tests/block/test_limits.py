"""Limits: where a bio is cut, and how the limits of a stacked device follow from its members'."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blklab.block.bio import Bio
from blklab.block.consts import OP_DISCARD, OP_READ, OP_WRITE, OP_WRITE_ZEROES
from blklab.block.limits import QueueLimits
from blklab.block.memory import MemoryLayout
from blklab.block.stacking import alignment_offset, discard_alignment

PAGE = 4096
LAYOUTS = [MemoryLayout(7, share) for share in (0.0, 0.3, 0.9, 1.0)]


def limits_of(**given: Any) -> QueueLimits:
    limits = QueueLimits()
    for name, value in given.items():
        setattr(limits, name, value)
    return limits


def bio_of(op: int, sector: int, nr_sectors: int, offset: int = 0, run_bytes: int = PAGE) -> Bio:
    bio = Bio()
    bio.op = op
    bio.sector = sector
    bio.nr_sectors = nr_sectors
    bio.buffer_offset_bytes = offset
    bio.run_bytes = run_bytes
    return bio


def pieces(limits: QueueLimits, bio: Bio) -> list[tuple[int, int, int, int]]:
    """(sector, sectors, segments, where in the buffer) of each request that the bio becomes, cut as Submitter does."""
    found = []
    while bio.nr_sectors:
        fits = limits.fit(bio)
        assert 0 < fits <= bio.nr_sectors
        found.append((bio.sector, fits, limits.segments, bio.buffer_offset_bytes))
        bio.sector += fits
        bio.nr_sectors -= fits
        bio.buffer_offset_bytes += fits << 9
    return found


# Reads and writes: facts


def test_a_mebibyte_of_scattered_pages_is_cut_at_128_segments() -> None:
    limits = limits_of(max_hw_sectors=32768, max_sectors=2560)

    assert pieces(limits, bio_of(OP_READ, 0, 2048)) == [(0, 1024, 128, 0), (1024, 1024, 128, 524288)]


def test_the_size_limit_is_a_length_and_not_an_alignment() -> None:
    limits = limits_of(max_sectors=256)

    assert [piece[:2] for piece in pieces(limits, bio_of(OP_READ, 1, 777))] == [
        (1, 256),
        (257, 256),
        (513, 256),
        (769, 9),
    ]


def test_an_end_is_brought_down_to_a_physical_block_and_only_the_first_piece_is_off_it() -> None:
    # get_max_io_size: 255 sectors on 4 KiB blocks are 248, and what begins at sector 3 ends on a block as well
    limits = limits_of(physical_block_bytes=4096)

    assert [piece[:2] for piece in pieces(limits, bio_of(OP_READ, 3, 600))] == [
        (3, 253),
        (256, 248),
        (504, 99),
    ]


def test_a_bio_within_a_page_is_not_looked_at_unless_there_are_chunks() -> None:
    # bio_may_exceed_limits: else eight sectors from sector 1 would be cut at the physical block
    small = limits_of(max_sectors=8, physical_block_bytes=4096)

    assert pieces(small, bio_of(OP_WRITE, 1, 8)) == [(1, 8, 1, 0)]
    small.chunk_sectors = 4
    assert [piece[:2] for piece in pieces(small, bio_of(OP_WRITE, 1, 8))] == [(1, 3), (4, 4), (8, 1)]


def test_huge_pages_are_few_segments_of_at_most_max_segment_size() -> None:
    limits = limits_of(max_sectors=8192, max_segment_bytes=65536)

    assert pieces(limits, bio_of(OP_READ, 0, 8192, run_bytes=2 << 20)) == [(0, 8192, 64, 0)]


def test_no_segment_crosses_the_segment_boundary() -> None:
    # 16 KiB from 8 KiB into a huge page, boundary every 8 KiB: 8 + 8; from 4 KiB: 4 + 8 + 4
    limits = limits_of(seg_boundary_mask=8191)

    limits.fit(bio_of(OP_READ, 0, 32, 8192, 2 << 20))
    assert limits.segments == 2
    limits.fit(bio_of(OP_READ, 0, 32, 4096, 2 << 20))
    assert limits.segments == 3


def test_a_segment_that_ends_off_the_virt_boundary_is_the_last_one() -> None:
    limits = QueueLimits()
    limits.set_virt_boundary(2 * PAGE - 1)

    # Scattered pages: each second one begins off the boundary of two pages, so a gap comes before it
    assert [piece[1] for piece in pieces(limits, bio_of(OP_READ, 0, 32))] == [8, 8, 8, 8]
    # One huge page has no gaps but where it begins
    assert [piece[1] for piece in pieces(limits, bio_of(OP_READ, 0, 32, run_bytes=2 << 20))] == [32]


def test_a_cut_falls_on_a_logical_block() -> None:
    # Buffer 512 bytes off a page: 4 segments hold 3 * 4096 + 3584 bytes, of which 12288 are whole blocks
    limits = limits_of(logical_block_bytes=4096, physical_block_bytes=4096, max_segments=4)

    assert [piece[1] for piece in pieces(limits, bio_of(OP_READ, 0, 64, 512))] == [24, 24, 16]


def test_passthrough_is_refused_where_reads_and_writes_are_cut() -> None:
    # Case 30: 128 segments of 4 KiB are 524288 bytes. The file path cuts more, a passthrough command is EINVAL
    limits = limits_of(max_hw_sectors=8192, max_sectors=256)

    assert not limits.refuses_passthrough(bio_of(OP_WRITE, 0, 1024))
    assert limits.refuses_passthrough(bio_of(OP_WRITE, 0, 1032))
    assert limits.refuses_passthrough(bio_of(OP_WRITE, 0, 1024, 512))
    assert not limits.refuses_passthrough(bio_of(OP_WRITE, 0, 8192, run_bytes=2 << 20))
    assert limits.refuses_passthrough(bio_of(OP_WRITE, 0, 8200, run_bytes=2 << 20))
    assert [piece[1] for piece in pieces(limits, bio_of(OP_WRITE, 0, 1032))] == [256, 256, 256, 256, 8]


# Discards and zeroes: facts


def test_a_discard_begins_on_a_granule_after_its_first_piece() -> None:
    # Capture split/discard-scsi: granules of 64 sectors from sector 8 on, 2048 at a time
    limits = limits_of(
        discard_granularity_bytes=32768, discard_alignment_bytes=4096, max_discard_sectors=2048
    )

    assert [piece[:2] for piece in pieces(limits, bio_of(OP_DISCARD, 64, 6104))] == [
        (64, 1992),
        (2056, 2048),
        (4104, 2048),
        (6152, 16),
    ]


def test_a_discard_limit_is_whole_granules_unless_it_is_below_one() -> None:
    limits = limits_of(discard_granularity_bytes=32768, max_discard_sectors=2047)

    assert [piece[1] for piece in pieces(limits, bio_of(OP_DISCARD, 0, 4000))] == [1984, 1984, 32]
    limits.max_discard_sectors = 63
    assert [piece[1] for piece in pieces(limits, bio_of(OP_DISCARD, 0, 4000))] == [4000]


def test_write_zeroes_take_no_memory_and_are_cut_at_their_own_limit() -> None:
    limits = limits_of(max_write_zeroes_sectors=100, max_sectors=8, chunk_sectors=16)

    assert pieces(limits, bio_of(OP_WRITE_ZEROES, 3, 250)) == [
        (3, 100, 0, 0),
        (103, 100, 0, 51200),
        (203, 50, 0, 102400),
    ]


def test_what_a_request_may_grow_to_depends_on_what_it_is() -> None:
    limits = limits_of(
        max_sectors=256, chunk_sectors=128, max_discard_sectors=1 << 30, max_write_zeroes_sectors=64
    )

    assert limits.request_max_sectors(OP_READ, 100) == 28
    assert limits.request_max_sectors(OP_DISCARD, 100) == (1 << 23) - 1  # a bio's size is 32 bits of bytes
    assert limits.request_max_sectors(OP_WRITE_ZEROES, 128) == 64


# What drivers set


def test_max_sectors_follows_what_host_and_device_take() -> None:
    limits = limits_of(logical_block_bytes=4096)
    limits.set_max_hw_sectors(4001, 2560)
    assert (limits.max_hw_sectors, limits.max_sectors) == (4000, 2560)
    limits.max_dev_sectors = 1000
    limits.set_max_hw_sectors(4001, 2560)
    assert (limits.max_hw_sectors, limits.max_sectors) == (4000, 1000)
    limits.set_max_hw_sectors(1, 2560)
    assert (limits.max_hw_sectors, limits.max_sectors) == (8, 8)


def test_a_larger_block_raises_the_sizes_above_it_and_rounds_those_in_sectors() -> None:
    limits = QueueLimits()
    limits.set_logical_block(4096)
    assert (limits.physical_block_bytes, limits.io_min_bytes, limits.max_sectors) == (4096, 4096, 248)
    limits.set_physical_block(16384)
    limits.set_io_min(8192)
    assert (limits.physical_block_bytes, limits.io_min_bytes) == (16384, 16384)
    limits.set_seg_boundary(511)
    assert limits.seg_boundary_mask == PAGE - 1


# Properties of cutting

BLOCKS = st.sampled_from([512, 1024, 4096])


@st.composite
def some_limits(draw: st.DrawFn) -> QueueLimits:
    limits = QueueLimits()
    limits.logical_block_bytes = draw(BLOCKS)
    limits.physical_block_bytes = max(draw(BLOCKS), limits.logical_block_bytes)
    block = limits.logical_block_bytes >> 9
    limits.max_sectors = max(8, draw(st.integers(8, 3000)) // block * block)
    limits.max_hw_sectors = limits.max_sectors
    limits.max_segments = draw(st.sampled_from([2, 3, 16, 128]))
    limits.max_segment_bytes = draw(st.sampled_from([4096, 12288, 65536, 1 << 30]))
    limits.seg_boundary_mask = draw(st.sampled_from([4095, 16383, 65535, 0xFFFFFFFF]))
    if draw(st.booleans()):
        limits.set_virt_boundary(4095)
    limits.chunk_sectors = draw(st.sampled_from([0, 0, 128, 24, 4096])) // block * block
    limits.memory = draw(st.sampled_from(LAYOUTS))
    return limits


def runs_of(limits: QueueLimits, bio: Bio, position: int, nbytes: int) -> list[tuple[int, int]]:
    """The memory of a piece byte range by byte range: (address, length) of what lies side by side."""
    found: list[tuple[int, int]] = []
    end = position + nbytes
    while position < end:
        size = min(end - position, PAGE - position % PAGE)
        if bio.run_bytes:
            joins = position % bio.run_bytes != 0
            address = position
        else:
            assert limits.memory is not None
            address = limits.memory.address(position)
            joins = bool(found) and sum(found[-1]) == address
        if found and joins:
            found[-1] = (found[-1][0], found[-1][1] + size)
        else:
            found.append((address, size))
        position += size
    return found


def segments_needed(limits: QueueLimits, runs: list[tuple[int, int]]) -> int:
    """Segments of runs of memory, one page after another: the slow and plain way."""
    count = 0
    for start, length in runs:
        address, left = start, length
        while left:
            size = min(
                left,
                limits.max_segment_bytes,
                limits.seg_boundary_mask + 1 - (address & limits.seg_boundary_mask),
            )
            count += 1
            address += size
            left -= size
    return count


@settings(max_examples=150, deadline=None)
@given(
    some_limits(),
    st.integers(0, 5000),
    st.integers(1, 4000),
    st.integers(0, 7),
    st.sampled_from([0, PAGE, 65536, 2 << 20]),
)
def test_pieces_tile_the_bio_and_each_obeys_every_limit(
    limits: QueueLimits, start: int, length: int, offset: int, run_bytes: int
) -> None:
    block = limits.logical_block_bytes >> 9
    bio = bio_of(OP_WRITE, start * block, length * block, offset * limits.logical_block_bytes, run_bytes)
    position = bio.buffer_offset_bytes
    sector = start * block

    for piece_sector, nr_sectors, segments, piece_position in pieces(limits, bio):
        assert piece_sector == sector
        assert piece_position == position
        sector += nr_sectors
        position += nr_sectors << 9
        last = sector == (start + length) * block
        assert nr_sectors % block == 0
        assert nr_sectors <= limits.max_sectors
        if limits.chunk_sectors:
            assert piece_sector // limits.chunk_sectors == (sector - 1) // limits.chunk_sectors
        runs = runs_of(limits, bio, piece_position, nr_sectors << 9)
        needed = segments_needed(limits, runs)
        assert needed <= segments <= needed + 1  # what is brought down to a block may lose a begun segment
        assert segments <= limits.max_segments
        gaps = limits.virt_boundary_mask
        for one, (_, size) in enumerate(runs[:-1]):
            assert (piece_position + sum(length for _, length in runs[: one + 1])) & gaps == 0, size
        if not last:
            # It could not have been larger: one block more breaks a limit, or the physical block's rule
            more = nr_sectors + block
            full = (
                segments_needed(limits, runs_of(limits, bio, piece_position, more << 9)) > limits.max_segments
            )
            over = more > limits.max_sectors
            crosses = (
                bool(limits.chunk_sectors)
                and piece_sector % limits.chunk_sectors + more > limits.chunk_sectors
            )
            rounded = sector % (limits.physical_block_bytes >> 9) == 0
            assert full or over or crosses or rounded or segments == limits.max_segments
    assert sector == (start + length) * block


@settings(max_examples=150, deadline=None)
@given(
    BLOCKS,
    st.integers(1, 64),
    st.integers(0, 63),
    st.integers(0, 5000),
    st.integers(0, 100_000),
    st.integers(1, 100_000),
)
def test_discards_tile_and_end_on_granules(
    block_bytes: int, granules: int, alignment: int, most: int, start: int, length: int
) -> None:
    block = block_bytes >> 9
    limits = limits_of(
        logical_block_bytes=block_bytes,
        discard_granularity_bytes=granules * block_bytes,
        discard_alignment_bytes=alignment % granules * block_bytes,
        max_discard_sectors=most * block,
    )
    granularity = granules * block
    origin = alignment % granules * block
    sector, end = start * block, (start + length) * block

    for piece_sector, nr_sectors, segments, _ in pieces(limits, bio_of(OP_DISCARD, sector, length * block)):
        assert piece_sector == sector
        assert segments == 1
        sector += nr_sectors
        if limits.max_discard_sectors >= granularity:
            assert nr_sectors <= limits.max_discard_sectors
            if sector != end:
                # The next begins on a granule, but where that would leave nothing of this one
                assert (sector - origin) % granularity == 0 or nr_sectors == granularity
    assert sector == end


# Stacking


def test_a_stack_begins_with_no_limits_and_takes_the_strictest() -> None:
    top = QueueLimits()
    top.set_stacking_defaults()
    one = limits_of(max_sectors=2560, max_hw_sectors=8192, max_segments=128, max_segment_bytes=65536)
    two = limits_of(max_sectors=256, max_hw_sectors=256, max_segments=2048, virt_boundary_mask=4095)
    one.max_write_zeroes_sectors = 100

    assert top.stack(one, 0)
    assert (top.max_sectors, top.max_segments, top.max_write_zeroes_sectors) == (2560, 128, 100)
    assert top.stack(two, 0)
    assert (top.max_sectors, top.max_hw_sectors, top.max_segments, top.virt_boundary_mask) == (
        256,
        256,
        128,
        4095,
    )
    assert top.max_write_zeroes_sectors == 0  # one member that cannot is enough
    assert not top.misaligned


def test_block_sizes_grow_and_io_opt_is_the_common_multiple() -> None:
    top = QueueLimits()
    top.set_stacking_defaults()
    one = limits_of(
        logical_block_bytes=512, physical_block_bytes=4096, io_min_bytes=4096, io_opt_bytes=3 << 16
    )
    two = limits_of(
        logical_block_bytes=4096, physical_block_bytes=4096, io_min_bytes=4096, io_opt_bytes=1 << 17
    )

    assert top.stack(one, 0)
    assert top.stack(two, 0)
    assert (top.logical_block_bytes, top.physical_block_bytes, top.io_opt_bytes) == (4096, 4096, 3 << 17)
    assert top.max_sectors == 248  # 255 in blocks of 4096 bytes


def test_members_that_do_not_line_up_make_it_misaligned() -> None:
    top = QueueLimits()
    top.set_stacking_defaults()
    member = limits_of(physical_block_bytes=4096, io_min_bytes=4096)

    assert top.stack(member, 0)
    assert not top.stack(member, 1)  # data begins one sector into a physical block: 3584 bytes to the next
    assert top.misaligned
    later = QueueLimits()
    later.set_stacking_defaults()
    later.stack(top, 0)
    assert later.misaligned


def test_sizes_that_are_no_multiples_are_given_up() -> None:
    top = QueueLimits()
    top.set_stacking_defaults()
    member = limits_of(physical_block_bytes=4096, io_min_bytes=4096, io_opt_bytes=5120, chunk_sectors=12)

    assert not top.stack(member, 0)
    assert (top.io_opt_bytes, top.chunk_sectors) == (0, 0)


def test_chunks_become_their_common_divisor() -> None:
    top = QueueLimits()
    top.set_stacking_defaults()

    assert top.stack(limits_of(chunk_sectors=96), 0)
    assert top.stack(limits_of(chunk_sectors=128), 0)
    assert top.stack(limits_of(), 0)
    assert top.chunk_sectors == 32


def test_discard_limits_come_from_the_members_that_discard() -> None:
    top = QueueLimits()
    top.set_stacking_defaults()
    without = limits_of()
    one = limits_of(discard_granularity_bytes=4096, max_discard_sectors=1000, max_hw_discard_sectors=4000)
    two = limits_of(discard_granularity_bytes=32768, max_discard_sectors=2048, max_hw_discard_sectors=2048)
    two.discard_alignment_bytes = 4096

    for member in (without, one, two):
        top.stack(member, 0)
    assert (top.max_discard_sectors, top.max_hw_discard_sectors) == (1000, 2048)
    assert (top.discard_granularity_bytes, top.discard_alignment_bytes) == (32768, 4096)
    assert not top.discard_misaligned  # 4096 from 0 on and 32768 from 4096 on: 36864 is a multiple of 4096
    top.stack(one, 1)  # from 3584 on: 7680
    assert top.discard_misaligned
    assert top.max_discard_segments == 1


@pytest.mark.parametrize(("sector", "offset"), [(0, 512), (1, 0), (2, 3584), (8, 512), (63, 1024)])
def test_the_first_granule_from_a_sector(sector: int, offset: int) -> None:
    limits = limits_of(physical_block_bytes=4096, io_min_bytes=4096, alignment_offset_bytes=512)
    assert alignment_offset(limits, sector) == offset
    limits = limits_of(discard_granularity_bytes=4096, discard_alignment_bytes=512, max_discard_sectors=1)
    assert discard_alignment(limits, sector) == offset


POWERS = st.integers(0, 5).map(lambda n: 512 << n)


@st.composite
def some_members(draw: st.DrawFn) -> list[tuple[QueueLimits, int]]:
    members = []
    for _ in range(draw(st.integers(1, 4))):
        limits = draw(some_limits())
        limits.physical_block_bytes = max(draw(POWERS), limits.logical_block_bytes)
        limits.io_min_bytes = max(draw(POWERS), limits.physical_block_bytes)
        limits.io_opt_bytes = draw(st.integers(0, 8)) * limits.io_min_bytes
        limits.max_write_zeroes_sectors = draw(st.integers(0, 1000))
        limits.discard_granularity_bytes = draw(st.sampled_from([0, 512, 4096, 65536]))
        if limits.discard_granularity_bytes:
            limits.set_max_discard(draw(st.integers(1, 1 << 20)))
            limits.discard_alignment_bytes = (
                draw(st.integers(0, 127)) * 512 % limits.discard_granularity_bytes
            )
        members.append((limits, draw(st.integers(0, 300))))
    return members


@settings(max_examples=150, deadline=None)
@given(some_members())
def test_a_stack_is_no_looser_than_any_member(members: list[tuple[QueueLimits, int]]) -> None:
    top = QueueLimits()
    top.set_stacking_defaults()
    fit = [top.stack(member, start) for member, start in members]

    if not all(fit):
        assert top.misaligned
    for member, _ in members:
        assert top.max_sectors <= member.max_sectors
        assert top.max_hw_sectors <= member.max_hw_sectors
        assert top.max_segments <= member.max_segments
        assert top.max_segment_bytes <= member.max_segment_bytes
        assert top.max_write_zeroes_sectors <= member.max_write_zeroes_sectors
        assert top.max_discard_segments <= member.max_discard_segments
        assert top.seg_boundary_mask <= member.seg_boundary_mask
        if member.virt_boundary_mask:
            assert 0 < top.virt_boundary_mask <= member.virt_boundary_mask
        assert top.logical_block_bytes >= member.logical_block_bytes
        assert top.physical_block_bytes >= member.logical_block_bytes
        if member.discard_granularity_bytes:
            assert 0 < top.max_discard_sectors <= member.max_discard_sectors
            assert top.discard_granularity_bytes >= member.discard_granularity_bytes
        if not top.misaligned:
            assert top.io_min_bytes >= member.io_min_bytes
            if member.io_opt_bytes:
                assert top.io_opt_bytes % member.io_opt_bytes == 0
            if member.chunk_sectors:
                assert member.chunk_sectors % top.chunk_sectors == 0
    assert top.physical_block_bytes % top.logical_block_bytes == 0
    assert top.io_min_bytes % top.physical_block_bytes == 0
    assert top.max_sectors % (top.logical_block_bytes >> 9) == 0
