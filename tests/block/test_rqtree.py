"""The tree of requests by sector does what a sorted list does, and stays flat."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rig import Rig

from blklab.block.request import Request
from blklab.block.rqtree import RequestTree

QUEUE = Rig().queue
STEPS = st.lists(st.tuples(st.booleans(), st.integers(0, 30)), max_size=120)


def request_at(sector: int) -> Request:
    rq = Request(QUEUE)
    rq.sector = sector
    rq.nr_sectors = 8
    return rq


def walk(tree: RequestTree) -> list[Request]:
    found = []
    rq = tree.first()
    while rq is not None:
        found.append(rq)
        rq = tree.after(rq)
    return found


@given(steps=STEPS)
def test_it_is_a_sorted_list(steps: list[tuple[bool, int]]) -> None:
    tree = RequestTree()
    model: list[Request] = []
    for add, number in steps:
        if add or not model:
            rq = request_at(number)
            tree.add(rq)
            place = sum(1 for other in model if other.sector <= number)
            model.insert(place, rq)
        else:
            rq = model.pop(number % len(model))
            tree.remove(rq)
        assert walk(tree) == model
        assert len(tree) == len(model)
        for before, after in itertools.pairwise(model):
            assert tree.before(after) is before
        if model:
            assert tree.before(model[0]) is None
        wanted = [other for other in model if other.sector >= number]
        assert tree.at_or_after(number) is (wanted[0] if wanted else None)
        same = [other for other in model if other.sector == number]
        assert tree.find(number) is (same[0] if same else None)


def depth(rq: Request | None) -> int:
    deepest = 0
    level = [rq]
    while any(level):
        deepest += 1
        level = [below for r in level if r is not None for below in (r.tree_left, r.tree_right)]
    return deepest


@pytest.mark.parametrize("order", [range(4096), range(4096, 0, -1), [7] * 4096])
def test_it_stays_flat_in_the_worst_orders(order) -> None:  # type: ignore[no-untyped-def]
    tree = RequestTree()
    for sector in order:
        tree.add(request_at(sector))
    # A balanced one would have 13 levels; a random one of 4096 has about 30
    assert depth(tree.root) < 45
