"""BFQ's groups share the device by their weights, level by level, when all of them have requests waiting.

What it takes: budgets that are small against the run (each I/O is a turn here), and tags for twice the I/Os, as no
group may hold more of them than its share either. What happens with too few: tests/lab/test_bfq_shares.py.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from bfq_group_rig import backlog, group_at, group_rig, set_weights
from bfq_rig import Process
from hypothesis import given, settings
from hypothesis import strategies as st
from rig import MS, Rig

from blklab.block.attributes import write

TASK_WEIGHT = 40  # of a task's queue: best-effort, level 4
SMALL = {"max_budget": 16, "timeout_sync": 8}  # a turn is one I/O, and the first turn of a queue not many
IN_FLIGHT = 4


@dataclass
class Node:
    """A group: its weight, whether a task is directly in it, and the groups below it."""

    weight: int
    task: bool
    below: list[Node]

    def paths(self, path: str) -> list[str]:
        """The groups of it and below it, as files know them."""
        found = [path]
        for number, node in enumerate(self.below):
            found += node.paths(f"{path}/{number}")
        return found


def shares_of(below: list[Node], share: float, path: str = "", task: bool = False) -> dict[str, float]:
    """Path of each group with a task -> what the task gets of the device, by the weights."""
    total = sum(node.weight for node in below) + (TASK_WEIGHT if task else 0)
    found = {path: share * TASK_WEIGHT / total} if task else {}
    for number, node in enumerate(below):
        part = share * node.weight / total
        found.update(shares_of(node.below, part, f"{path}/{number}", node.task))
    return found


def weights_of(below: list[Node], path: str = "") -> dict[str, int]:
    found = {}
    for number, node in enumerate(below):
        found[f"{path}/{number}"] = node.weight
        found.update(weights_of(node.below, f"{path}/{number}"))
    return found


def measure(rig: Rig, processes: list[Process], warm_up: int, count: int) -> list[float]:
    """Each process' share of the next `count` I/Os, after `warm_up` of them."""
    start_ns = rig.events.now_ns
    rig.run(start_ns + warm_up * MS)
    before = [process.done for process in processes]
    rig.run(start_ns + (warm_up + count) * MS)
    done = [process.done - b for process, b in zip(processes, before, strict=True)]
    return [n / sum(done) for n in done]


def run_tree(top: list[Node]) -> tuple[dict[str, float], dict[str, float]]:
    """The shares that the tasks are due, and those that they get."""
    due = shares_of(top, 1.0)
    rig = group_rig(list(due), **SMALL)
    set_weights(rig, weights_of(top))
    least = min(due.values())
    # A group that has its share of the tags waits for the first one of a word, which others hand on to themselves
    write(rig.queue, "queue/nr_requests", "1024")
    assert rig.queue.nr_requests * least > 2 * IN_FLIGHT
    processes = [backlog(rig, cpu, IN_FLIGHT) for cpu in range(len(due))]
    got = measure(rig, processes, int(20 / least), int(150 / least))
    return due, dict(zip(due, got, strict=True))


# Of siblings the heaviest has at most 20 times the weight of the lightest
WEIGHTS = st.integers(1, 50).flatmap(lambda least: st.integers(least, 20 * least))
LEAF = st.builds(Node, WEIGHTS, st.just(True), st.just([]))
INNER = st.builds(Node, WEIGHTS, st.booleans(), st.lists(LEAF, min_size=1, max_size=2))
MIDDLE = st.builds(Node, WEIGHTS, st.booleans(), st.lists(LEAF | INNER, min_size=1, max_size=2))


@pytest.mark.compiled_only
@settings(max_examples=12, deadline=None)
@given(
    st.lists(LEAF | MIDDLE, min_size=1, max_size=3).filter(
        lambda top: len(s := shares_of(top, 1.0)) >= 2 and min(s.values()) > 1 / 60
    )
)
def test_every_tree_of_groups_is_served_by_its_weights(top: list[Node]) -> None:
    due, got = run_tree(top)

    assert got == pytest.approx(due, rel=0.03)


def test_weights_count_among_siblings_only() -> None:
    top = [
        Node(100, True, []),
        Node(300, True, [Node(500, True, []), Node(50, False, [Node(1, True, []), Node(2, True, [])])]),
    ]
    due, got = run_tree(top)

    assert due["/1/0"] == pytest.approx(0.75 * 500 / 590)
    assert got == pytest.approx(due, rel=0.03)


@pytest.mark.parametrize("weights", [(1, 1000), (1, 20)])
def test_no_group_starves(weights: tuple[int, int]) -> None:
    rig = group_rig(["/a", "/b"], **SMALL)
    set_weights(rig, dict(zip(["/a", "/b"], weights, strict=True)))
    small, _ = (backlog(rig, cpu) for cpu in range(2))
    rig.run(4100 * MS)

    # By its weight 1/1001 or 1/21 of 4100 I/Os, and its first turn of 8 ms
    assert 4100 * weights[0] / sum(weights) - 2 < small.done < 4100 * weights[0] / sum(weights) + 12


def test_how_many_tasks_a_group_has_makes_no_difference() -> None:
    rig = group_rig(["/a", "/b", "/b", "/b"], **SMALL)
    processes = [backlog(rig, 0), backlog(rig, 1)]
    for cpu in (2, 3):
        rig.run(rig.events.now_ns + 250 * MS)  # queues that are created together are merged
        processes.append(backlog(rig, cpu))
    a, *b = measure(rig, processes, 200, 600)

    assert a == pytest.approx(0.5, rel=0.03)
    assert b == pytest.approx([0.5 / 3] * 3, rel=0.05)


def test_a_weight_that_is_written_during_the_run_takes_effect() -> None:
    rig = group_rig(["/a", "/b"], **SMALL)
    processes = [backlog(rig, cpu) for cpu in range(2)]
    assert measure(rig, processes, 100, 200) == pytest.approx([0.5, 0.5], rel=0.03)

    set_weights(rig, {"/b": 300})
    assert group_at(rig, "/b").weight == 100
    assert measure(rig, processes, 20, 400) == pytest.approx([0.25, 0.75], rel=0.03)

    rig.write_file("/a", "io.bfq.weight", "dev0 900")
    assert measure(rig, processes, 20, 400) == pytest.approx([0.75, 0.25], rel=0.03)


def test_a_group_that_pauses_gains_nothing_by_it() -> None:
    rig = group_rig(["/a", "/b"], **SMALL)
    greedy = backlog(rig, 0)
    pausing = backlog(rig, 1, count=100)
    rig.run(1000 * MS)
    assert pausing.done == 100
    before = greedy.done
    pausing = backlog(rig, 1)
    share = measure(rig, [greedy, pausing], 0, 200)
    assert before > 700
    assert share == pytest.approx([0.5, 0.5], abs=0.04)
