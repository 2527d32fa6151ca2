"""Direct I/O: which bios the kernel makes of an I/O, in the old way (bio_add_page asks every device) and with late
splitting; what each costs."""

from __future__ import annotations

from collections import Counter

import pytest
from dio_rig import Stack, Striped, old, pages_of
from hypothesis import given, settings
from hypothesis import strategies as st

from blklab.block.features import Features
from blklab.core.steps import (
    NR_STEPS,
    STEP_BIO_ALLOC,
    STEP_BIO_PAGE,
    STEP_DIO_IO,
    STEP_DIO_PAGE,
    STEP_SPLIT,
    STEP_SPLIT_COPY,
)
from blklab.sim.filemap import FileMap, Log

MIB = 1 << 20


def counted(stack: Stack) -> Stack:
    """Counts the steps that are charged."""
    stack.host.set_costs([1] * NR_STEPS)
    return stack


def charges(stack: Stack, *steps: int) -> list[int]:
    """How often each step was charged."""
    return [int(stack.host.charged[step]) for step in steps]


# -- the old way --------------------------------------------------------------------------------------


def test_the_old_way_makes_bios_of_max_sectors_and_never_cuts_them() -> None:
    stack = Stack(old())
    leaf = stack.leaf(max_sectors=256, max_segments=128)
    stack.run([(0, 0, MIB)])
    assert stack.story("Q X", leaf) == " ".join(f"Q{i * 256}+256" for i in range(8))


def test_late_splitting_makes_one_bio_and_cuts_it() -> None:
    stack = Stack()
    leaf = stack.leaf(max_sectors=256, max_segments=128)
    stack.run([(0, 0, MIB)])
    assert stack.story("Q", leaf) == "Q0+2048"
    assert stack.story("X", leaf) == " ".join(f"X{i * 256}+256" for i in range(7))


def test_the_old_way_ends_a_bio_at_whole_pages_only() -> None:
    # 255 sectors are 31 pages and a bit: late splitting cuts within the page
    stack = Stack(old())
    leaf = stack.leaf(max_sectors=255, max_segments=128)
    stack.run([(0, 0, 256 << 10)])
    assert stack.story("Q X", leaf) == "Q0+248 Q248+248 Q496+16"
    stack = Stack()
    leaf = stack.leaf(max_sectors=255, max_segments=128)
    stack.run([(0, 0, 256 << 10)])
    assert stack.story("D", leaf) == "D0+255 D255+255 D510+2"


def test_the_old_way_takes_as_many_pages_as_the_device_takes_segments() -> None:
    stack = Stack(old())
    leaf = stack.leaf(max_sectors=2560, max_segments=128)
    stack.run([(0, 0, MIB)], run_bytes=MIB)  # pages side by side do not help: each has a bio_vec
    assert stack.story("Q X", leaf) == "Q0+1024 Q1024+1024"
    stack = Stack()
    leaf = stack.leaf(max_sectors=2560, max_segments=128)
    stack.run([(0, 0, MIB)], run_bytes=MIB)
    assert stack.story("Q X", leaf) == "Q0+2048"


def test_fs_direct_io_never_has_more_than_256_pages_in_a_bio() -> None:
    large = Stack(old(late_bio_split=1, fast_bio_split=1))
    leaf = large.leaf(max_sectors=8192, max_segments=2048)
    large.run([(0, 0, 4 * MIB)], run_bytes=2 * MIB)
    assert large.story("Q X", leaf) == "Q0+2048 Q2048+2048 Q4096+2048 Q6144+2048"
    today = Stack()
    leaf = today.leaf(max_sectors=8192, max_segments=2048)
    today.run([(0, 0, 4 * MIB)], run_bytes=2 * MIB)
    assert today.story("Q X", leaf) == "Q0+8192"


def test_the_old_way_does_not_end_bios_on_physical_blocks() -> None:
    stack = Stack(old())
    leaf = stack.leaf(max_sectors=256, max_segments=128, physical_bytes=4096)
    stack.run([(0, 7 << 9, 300 << 9)])
    assert stack.story("Q X D", leaf) == "Q7+256 Q263+44 D7+256 D263+44"
    stack = Stack()
    leaf = stack.leaf(max_sectors=256, max_segments=128, physical_bytes=4096)
    stack.run([(0, 7 << 9, 300 << 9)])
    assert stack.story("X", leaf) == "X7+249"


def test_each_bio_goes_on_in_the_buffer_where_the_one_before_ended() -> None:
    stack = Stack()
    leaf = stack.leaf(max_sectors=2560, max_segments=2)
    thread = stack.thread([(0, 0, 200 << 10)], leaf, run_bytes=64 << 10)
    thread.files = [FileMap("f", leaf, [(0, 1000, 96 << 10), (96 << 10, 5000, 104 << 10)], Log(0, 64, 2))]
    stack.host.start(thread, 0)
    while stack.host.live_tasks:
        stack.events.run((1 << 63) - 1, 1000)
    # 96 KiB are 64 + 32; the rest 32 + 64 + 8, of which two segments go first
    assert stack.story("Q X", leaf) == "Q1000+192 Q5000+208 X5000+192"


def test_each_page_asks_the_stacked_device_and_the_one_that_does_not_fit_asks_again() -> None:
    stack = Stack(old())
    top = stack.over([stack.leaf(2560, 128) for _ in range(4)], chunk_sectors=128)
    stack.run([(0, 0, MIB)])
    assert stack.story("Q", top) == " ".join(f"Q{i * 128}+128" for i in range(16))
    driver = top.driver
    assert isinstance(driver, Striped)
    assert driver.asked == 256 + 15
    assert driver.pieces == 16


def test_a_page_over_a_chunks_end_is_a_bio_of_its_own_that_the_device_cuts() -> None:
    # bs=64k, 4 KiB off the chunk by 512 bytes: the 16 pages of one I/O, of which the last one crosses
    stack = Stack(old())
    top = stack.over([stack.leaf(2560, 128) for _ in range(4)], chunk_sectors=128)
    stack.run([(0, 512, 64 << 10)])
    assert stack.story("Q", top) == "Q1+120 Q121+8"
    driver = top.driver
    assert isinstance(driver, Striped)
    assert driver.pieces == 3


def test_every_level_of_a_stack_is_asked() -> None:
    stack = Stack(old())
    pairs = [stack.over([stack.leaf(2560, 128), stack.leaf(2560, 128)], 64) for _ in range(2)]
    top = stack.over(pairs, chunk_sectors=256)
    stack.run([(0, 0, 128 << 10)])
    # The top would take 256 sectors, the pair below it 64
    assert stack.story("Q", top) == "Q0+64 Q64+64 Q128+64 Q192+64"
    below = pairs[0].driver
    assert isinstance(below, Striped)
    assert below.asked == 32 + 3


@st.composite
def machines(draw: st.DrawFn) -> tuple[list[tuple[int, int, int]], list[int], bool, bool]:
    """Leaves' limits (sectors, segments, physical block), chunks of the levels above, whether stacks are paired."""
    leaf = st.tuples(
        st.sampled_from([8, 64, 127, 255, 256, 1024, 2560]),
        st.sampled_from([1, 2, 16, 128]),
        st.sampled_from([512, 4096]),
    )
    chunks = draw(st.lists(st.sampled_from([0, 8, 24, 64, 128, 1000]), max_size=3))
    return draw(st.lists(leaf, min_size=1, max_size=3)), chunks, draw(st.booleans()), draw(st.booleans())


def build(machine: tuple[list[tuple[int, int, int]], list[int], bool, bool], features: Features) -> Stack:
    """The machine, with these features."""
    leaves, chunks, paired, _ = machine
    stack = Stack(features)
    members = [stack.leaf(*limits) for limits in leaves]
    for chunk in chunks:
        below = members
        members = [stack.over(below[:1] if chunk == 0 else below, chunk)]
        if paired and chunk and len(below) > 1:
            members = [members[0], below[0]]
    if not stack.levels:
        # The thread works on one of them; the others are not used
        stack.leaves = stack.leaves[-1:]
    return stack


def reached(stack: Stack) -> Counter[tuple[int, int]]:
    """How often each sector of each leaf was served."""
    numbers = {leaf.number for leaf in stack.leaves}
    found: Counter[tuple[int, int]] = Counter()
    for record in stack.records("D"):
        if record.device in numbers:
            found.update(
                (record.device, sector) for sector in range(record.sector, record.sector + record.nr_sectors)
            )
    return found


@settings(max_examples=60)
@given(
    machine=machines(),
    extents=st.lists(
        st.tuples(st.booleans(), st.integers(0, 40), st.integers(1, 700)), min_size=1, max_size=5
    ),
)
def test_both_ways_reach_the_same_sectors_and_the_old_one_obeys_every_limit(
    machine: tuple[list[tuple[int, int, int]], list[int], bool, bool],
    extents: list[tuple[bool, int, int]],
) -> None:
    # I/Os one behind the other, with gaps, of any length in sectors
    ios = []
    sector = 0
    for write, gap, length in extents:
        sector += gap
        ios.append((int(write), sector << 9, length << 9))
        sector += length
    wanted: Counter[tuple[int, int]] | None = None
    for features in (old(), old(late_bio_split=1), Features()):
        stack = build(machine, features)
        thread = stack.run(ios)
        assert thread.error == 0 and thread.ios_done == len(ios)
        expected = Counter(
            stack.lands(at) for _, offset, nbytes in ios for at in range(offset >> 9, (offset + nbytes) >> 9)
        )
        # pieces tile exactly: each sector of each I/O once, nothing else
        assert reached(stack) == expected
        assert wanted is None or expected == wanted
        wanted = expected
        if features.late_bio_split:
            continue
        assert not stack.records("X")
        top = (stack.levels or stack.leaves)[-1]
        for record in stack.records("Q"):
            queue = next(q for q in stack.levels + stack.leaves if q.number == record.device)
            pages = pages_of(record.nr_sectors)
            assert record.nr_sectors <= queue.limits.max_sectors or pages == 1
            assert pages <= queue.limits.max_segments
            if queue is top and pages > 1 and queue.bio_based:
                # what every level allows at this sector
                assert record.nr_sectors <= queue.driver.merge_bvec(queue, record.sector)


# -- what it costs --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("features", "dio_ios", "dio_pages"), [(Features(), 0, 0), (old(), 3, 24), (old(large_dio_bios=1), 0, 0)]
)
def test_fs_direct_io_costs_more_an_io_and_a_page(features: Features, dio_ios: int, dio_pages: int) -> None:
    stack = counted(Stack(features))
    stack.leaf(max_sectors=256, max_segments=128)
    stack.run([(0, i << 20, 32 << 10) for i in range(3)])
    assert charges(stack, STEP_DIO_IO, STEP_DIO_PAGE, STEP_BIO_PAGE, STEP_BIO_ALLOC) == [
        dio_ios,
        dio_pages,
        24,
        3,
    ]


def test_until_4_4_each_cut_copies_all_segments_that_are_left() -> None:
    # Case 33: 1 MiB at max_sectors_kb=16 becomes 64 children; 64 x 4 pages, less 4 with each of 63 cuts
    stack = counted(Stack(old(late_bio_split=1)))
    leaf = stack.leaf(max_sectors=32, max_segments=128)
    stack.run([(0, 0, MIB)])
    assert len(stack.records("D", leaf)) == 64
    assert charges(stack, STEP_SPLIT, STEP_SPLIT_COPY) == [63, sum(range(8, 257, 4))]
    stack = counted(Stack(old(late_bio_split=1, fast_bio_split=1)))
    stack.leaf(max_sectors=32, max_segments=128)
    stack.run([(0, 0, MIB)])
    assert charges(stack, STEP_SPLIT, STEP_SPLIT_COPY) == [63, 0]


def test_fs_direct_io_plugs_every_io() -> None:
    stack = Stack(old(aio_plug_threshold=3))
    leaf = stack.leaf(max_sectors=256, max_segments=128)
    stack.run([(0, 0, 4096)])
    assert len(stack.records("P", leaf)) == 1
    stack = Stack()
    leaf = stack.leaf(max_sectors=256, max_segments=128)
    stack.run([(0, 0, 4096)])
    assert not stack.records("P", leaf)
