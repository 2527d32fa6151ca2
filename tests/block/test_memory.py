"""Where the pages of a buffer lie."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blklab.block.memory import MemoryLayout

PAGE = 4096
LAYOUT = MemoryLayout(3, 0.7)


def runs(layout: MemoryLayout, pages: int) -> list[int]:
    """Lengths of all runs of the first pages, in pages."""
    found, page = [], 0
    while page < pages:
        found.append(layout.side_by_side(page * PAGE, (pages - page) * PAGE) // PAGE)
        page += found[-1]
    return found


def test_none_of_the_pages_lie_together_or_all_do_in_pieces_of_4_mib() -> None:
    assert set(runs(MemoryLayout(1, 0.0), 16384)) <= {1, 2}  # two by accident
    assert runs(MemoryLayout(1, 1.0), 16384) == [1024] * 16
    assert MemoryLayout(1, 1.0).address(0) % (4 << 20) == 0


@pytest.mark.parametrize("share", [0.25, 0.5, 0.9])
def test_the_share_of_pages_behind_the_one_before_is_what_was_asked_for(share: float) -> None:
    found = runs(MemoryLayout(5, share), 16384)

    assert 1 - len(found) / 16384 == pytest.approx(share, abs=0.02)


def test_the_seed_decides() -> None:
    one, same, other = (runs(MemoryLayout(seed, 0.5), 1000) for seed in (1, 1, 2))

    assert one == same != other


@given(st.integers(0, 200_000_000), st.integers(1, 3_000_000))
def test_what_lies_side_by_side_has_consecutive_addresses(position: int, most: int) -> None:
    nbytes = LAYOUT.side_by_side(position, most)

    assert 0 < nbytes <= most
    ends = {nbytes, *range(PAGE - position % PAGE, nbytes, PAGE)}
    for end in ends:
        assert LAYOUT.address(position + end - 1) == LAYOUT.address(position) + end - 1
    if nbytes < most:
        assert LAYOUT.address(position + nbytes) != LAYOUT.address(position) + nbytes


@given(st.integers(0, 50_000_000), st.integers(1, 3_000_000), st.integers(1, 300))
def test_so_many_runs_are_that_many_walks(position: int, most: int, nr_runs: int) -> None:
    taken = 0
    for _ in range(nr_runs):
        if taken < most:
            taken += LAYOUT.side_by_side(position + taken, most - taken)

    assert LAYOUT.runs(position, most, nr_runs) == taken
