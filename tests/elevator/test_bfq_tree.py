"""The tree of BFQ's entities: against a sorted list, against the kernel's shapes, and its two searches."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wf2q_rig import check_tree, walk

from blklab.elevator.bfq.entity import Entity, EntityTree


def any_started(entity: Entity | None, vtime: int) -> bool:
    if entity is None:
        return False
    return (
        entity.start <= vtime or any_started(entity.tree_left, vtime) or any_started(entity.tree_right, vtime)
    )


def kernels_choice(entity: Entity | None, vtime: int, found: Entity | None = None) -> Entity | None:
    """To the left while one has started there; to the right only while none was met that has."""
    if entity is None:
        return found
    if entity.start <= vtime:
        found = entity
    if any_started(entity.tree_left, vtime):
        return kernels_choice(entity.tree_left, vtime, found)
    return found or kernels_choice(entity.tree_right, vtime)


def depth(tree: EntityTree) -> int:
    deepest, level = 0, [tree.root]
    while any(level):
        deepest += 1
        level = [below for e in level if e is not None for below in (e.tree_left, e.tree_right)]
    return deepest


def shape(entity: Entity | None) -> str:
    """A tree by its finishes: `2(1r 3r)`, r for red, a dot where only one of two is there."""
    if entity is None:
        return "."
    text = f"{entity.finish}{'r' if entity.tree_red else ''}"
    if entity.tree_left is None and entity.tree_right is None:
        return text
    return f"{text}({shape(entity.tree_left)} {shape(entity.tree_right)})"


def tree_with(tree: EntityTree, *times: tuple[int, int]) -> list[Entity]:
    """Inserts entities of these starts and finishes."""
    entities = []
    for start, finish in times:
        entity = Entity()
        entity.start = start
        entity.finish = finish
        tree.insert(entity)
        entities.append(entity)
    return entities


STEPS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 30), st.integers(0, 12)), max_size=100)


@given(steps=STEPS)
def test_the_tree_is_a_sorted_list_that_knows_its_least_starts(steps: list[tuple[int, int, int]]) -> None:
    tree = EntityTree()
    model: list[Entity] = []
    for kind, number, length in steps:
        if kind or not model:
            entity = Entity()
            entity.start = number
            entity.finish = number + length
            tree.insert(entity)
            model.insert(sum(1 for other in model if other.finish <= entity.finish), entity)
        else:
            entity = model.pop(number % len(model))
            tree.extract(entity)
            assert entity.tree is None
        assert list(walk(tree)) == model
        assert len(tree) == len(model)
        assert all(entity.tree is tree for entity in model)
        check_tree(tree)
        for before, after in pairwise(model):
            assert tree.before(after) is before
        for vtime in range(0, 32, 3):
            started = [entity for entity in model if entity.start <= vtime]
            # Of equals the first: min() keeps it
            wanted = min(started, key=lambda entity: entity.finish) if started else None
            tree.exact = True
            assert tree.first_eligible(vtime) is wanted
            tree.exact = False
            assert tree.first_eligible(vtime) is kernels_choice(tree.root, vtime)
            if len(model) <= 3:
                assert tree.first_eligible(vtime) is wanted


# What Linux 6.1's lib/rbtree.c made of the same calls, compiled and run in user space: after how many extractions
KERNEL_SHAPES = {
    0: "11(3(1(0 2) 5(4 7r(6 9(8r 10r)))) 22(15r(13(12 14) 17(16 19r(18 20(. 21r))))"
    " 26(24r(23 25) 28r(27 30(29r 31r)))))",
    10: "11(5(3(2 4) 9(6 10)) 22(17(15r(12 16) 19(18r .)) 28(24r(23 25) 30r(29 31))))",
    19: "11(5(4 6) 23r(17(12 19(18r .)) 30(24(. 25r) 31)))",
    28: "19(6(. 12r) 25)",
    32: ".",
}


def test_the_tree_has_the_shape_of_the_kernels() -> None:
    tree = EntityTree()
    entities = {}
    for i in range(32):
        finish = i * 11 % 32
        entities[finish] = tree_with(tree, (0, finish))[0]
    shapes = {0: shape(tree.root)}
    for i in range(32):
        tree.extract(entities[i * 13 % 32])
        shapes[i + 1] = shape(tree.root)
        check_tree(tree)
    assert {extracted: shapes[extracted] for extracted in KERNEL_SHAPES} == KERNEL_SHAPES


def test_the_kernels_search_does_not_turn_right_once_it_has_met_one_that_has_started() -> None:
    tree = EntityTree()
    at_root, _, _, missed = tree_with(tree, (0, 40), (10, 20), (0, 60), (5, 30))
    assert shape(tree.root) == "40(20(. 30r) 60)"
    assert tree.first_eligible(5) is at_root
    tree.exact = True
    assert tree.first_eligible(5) is missed


@pytest.mark.parametrize("order", [range(4096), range(4096, 0, -1), [7] * 4096])
def test_the_tree_stays_flat_in_the_worst_orders(order) -> None:  # type: ignore[no-untyped-def]
    tree = EntityTree()
    entities = tree_with(tree, *((0, finish) for finish in order))
    assert depth(tree) <= 2 * math.log2(4097)
    for entity in entities[:4000]:
        tree.extract(entity)
    assert depth(tree) <= 2 * math.log2(97)
