"""How far a queue or a group may be from its share while all have something to do: the theorem, and long runs."""

from __future__ import annotations

import random
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from wf2q_rig import add_queue, expire, search_exactly, serve_slot, start_slot, tree_of

from blklab.core.clock import Clock
from blklab.elevator.bfq.entity import Entity, Group
from blklab.elevator.bfq.weights import SERVICE_SHIFT
from blklab.elevator.bfq.wf2q import Wf2q, ioprio_to_weight

# B-WF2Q+ with all backlogged and exact searches. V is virtual time, W the sum of the weights, share = w / W.
# An entity that starts at S is chosen only if S <= V, and then served at most its budget B, so it is ahead of its share
# by at most
#
#     B (1 - share)
#
# It is chosen at the latest when V = S + B / w + (2 Bmax - B) / W, Bmax being the largest budget among its siblings, so
# it is behind by at most
#
#     w (V - S) <= B + share (2 Bmax - B)
#
# Why: take the last slot before that in which an entity of a later finish was chosen; it was served at most Bmax. All
# that finish earlier had not started then, so from there on they get only what their weights allow up to that finish.
# Leaving part of a budget unused makes all of this only smaller. With exact choices that would be share (Bmax - B), the
# worst-case fair index of WF2Q+ (J. Bennett, H. Zhang: "Hierarchical packet fair queueing algorithms", IEEE/ACM
# Transactions on Networking 5(5), 1997) with a budget for a packet (P. Valente, F. Checconi: "High throughput disk
# scheduling with fair bandwidth distribution", IEEE Transactions on Computers 59(9), 2010). The second Bmax is there
# because what ends its slot is compared with what was best when the slot began: another that has started meanwhile and
# would finish even earlier can be passed over by it, once. Random runs come as near as 98 % to the whole of this.
#
# In any window the difference from the share is a difference of two lags, so at most the sum of both bounds:
#
#     2 B + share (2 Bmax - 2 B)
#
# With the kernel's search only the first bound holds, since that needs no more than S <= V. But as the lags of siblings
# sum up to zero, one is behind by at most what all others together may be ahead:
#
#     sum of B (1 - share) over its siblings
#
# That is far from what happens: random runs do not go beyond the bound of the exact search at all, and of 180 000 that
# were bred for it the worst went 9 % beyond. Shares in a long run are right by either bound.
#
# Each level of groups is such a server for what is below it; so what a level lags is passed on by the shares below:
# total lag = lag in its group + share in its group x (lag of the group + ...).


class Lags:
    """Follows how far each entity is behind its share among its siblings, and how far that went both ways."""

    def __init__(self, engine: Wf2q, groups: list[Group], queues: list[Entity]) -> None:
        self.engine = engine
        self.groups = groups
        self.queues = queues
        self.entities = [*queues, *(group for group in groups if not group.is_root)]
        self.served = dict.fromkeys([*self.entities, *groups], 0)
        self.children = {g: [e for e in self.entities if e.sched_data is g.my_sched_data] for g in groups}
        self.group_of = {e: g for g, below in self.children.items() for e in below}
        self.share = {
            e: Fraction(e.weight, sum(other.weight for other in self.children[self.group_of[e]]))
            for e in self.entities
        }
        self.most_behind = dict.fromkeys(self.entities, Fraction(0))
        self.most_ahead = dict.fromkeys(self.entities, Fraction(0))
        self.calls = 0

    def serve(self, queue: Entity, sectors: int) -> None:
        self.engine.bfqq_served(queue, sectors)
        self.calls += 1
        self.served[queue] += sectors
        entity = queue
        while entity in self.group_of:
            entity = self.group_of[entity]
            self.served[entity] += sectors
        for entity in self.entities:
            lag = self.lag(entity)
            self.most_behind[entity] = max(self.most_behind[entity], lag)
            self.most_ahead[entity] = max(self.most_ahead[entity], -lag)

    def lag(self, entity: Entity) -> Fraction:
        return self.share[entity] * self.served[self.group_of[entity]] - self.served[entity]

    def total_lag(self, entity: Entity) -> tuple[Fraction, Fraction]:
        """How far an entity lies behind its share of the whole, and that share."""
        group = self.group_of[entity]
        lag, share = self.lag(entity), self.share[entity]
        if not group.is_root:
            above, share_above = self.total_lag(group)
            return lag + share * above, share * share_above
        return lag, share


def largest_budget(lags: Lags, entity: Entity, budgets: dict[Entity, int]) -> int:
    if entity.is_queue:
        return budgets[entity]
    return max(largest_budget(lags, below, budgets) for below in lags.children[entity])  # type: ignore[index]


def most_ahead(lags: Lags, entity: Entity, budgets: dict[Entity, int]) -> Fraction:
    return largest_budget(lags, entity, budgets) * (1 - lags.share[entity])


def bounds(lags: Lags, entity: Entity, budgets: dict[Entity, int], exact: bool) -> tuple[Fraction, Fraction]:
    """Behind and ahead by at most, in sectors."""
    siblings = lags.children[lags.group_of[entity]]
    ahead = most_ahead(lags, entity, budgets)
    if not exact:
        return sum((most_ahead(lags, e, budgets) for e in siblings), Fraction(0)) - ahead, ahead
    own = largest_budget(lags, entity, budgets)
    most = max(largest_budget(lags, e, budgets) for e in siblings)
    return own + lags.share[entity] * (2 * most - own), ahead


def total_bounds(
    lags: Lags, entity: Entity, budgets: dict[Entity, int], exact: bool
) -> tuple[Fraction, Fraction]:
    behind, ahead = bounds(lags, entity, budgets, exact)
    group = lags.group_of[entity]
    if not group.is_root:
        above = total_bounds(lags, group, budgets, exact)
        behind += lags.share[entity] * above[0]
        ahead += lags.share[entity] * above[1]
    return behind, ahead


def check_shares(
    engine: Wf2q, groups: list[Group], queues: list[Entity], slots: int, parts: list[int], exact: bool
) -> None:
    if exact:
        search_exactly(groups)
    lags = Lags(engine, groups, queues)
    budgets = {queue: queue.budget for queue in queues}
    marks: list[dict[Entity, int]] = []
    for slot in range(slots):
        queue = start_slot(engine)
        part = parts[slot % len(parts)]
        wanted = max(1, queue.budget * part // 4)
        for sectors in (wanted // 2, wanted - wanted // 2):
            lags.serve(queue, sectors)
        expire(engine)
        if slot % 7 == 0:
            marks.append(dict(lags.served))
    # Virtual times are whole numbers of 2**-22 sectors per weight: each call may round one down
    rounding = Fraction(4 * lags.calls * max(1, sum(e.weight for e in lags.entities)), 1 << SERVICE_SHIFT)
    for entity in lags.entities:
        behind, ahead = bounds(lags, entity, budgets, exact)
        assert lags.most_behind[entity] <= behind + rounding
        assert lags.most_ahead[entity] <= ahead + rounding
    root = engine.root_group
    for queue in queues:
        behind, ahead = total_bounds(lags, queue, budgets, exact)
        _, share = lags.total_lag(queue)
        for i, earlier in enumerate(marks):
            for later in marks[i + 1 :]:
                got = later[queue] - earlier[queue]
                fair = share * (later[root] - earlier[root])
                assert abs(got - fair) <= behind + ahead + 2 * rounding


WEIGHTS = st.integers(1, 1000)
BUDGETS = st.integers(64, 4096)
PARTS = st.lists(st.integers(0, 4), min_size=1, max_size=9)


@settings(max_examples=60, deadline=None)
@given(queues=st.lists(st.tuples(WEIGHTS, BUDGETS), min_size=2, max_size=9), parts=PARTS, exact=st.booleans())
def test_queues_differ_from_their_shares_by_at_most_the_worst_case_fair_index(
    queues: list[tuple[int, int]], parts: list[int], exact: bool
) -> None:
    engine = Wf2q(Clock())
    check_shares(engine, [engine.root_group], [add_queue(engine, w, b) for w, b in queues], 150, parts, exact)


def _tree(level: int) -> st.SearchStrategy[object]:
    queue = st.tuples(WEIGHTS, BUDGETS)
    if level == 0:
        return queue
    return st.one_of(queue, st.tuples(WEIGHTS, st.lists(_tree(level - 1), min_size=1, max_size=4)))


@settings(max_examples=60, deadline=None)
@given(below=st.lists(_tree(2), min_size=2, max_size=4), parts=PARTS, exact=st.booleans())
def test_groups_and_the_queues_in_them_do_so_on_each_level_and_in_all(
    below: list[tuple[int, object]], parts: list[int], exact: bool
) -> None:
    engine = Wf2q(Clock())
    groups = [engine.root_group]
    queues: list[Entity] = []

    def build(parent: Group, what: list[tuple[int, object]]) -> None:
        for weight, content in what:
            if isinstance(content, int):
                queues.append(add_queue(engine, weight, content, parent))
            else:
                group = Group(parent, weight)
                groups.append(group)
                build(group, content)  # type: ignore[arg-type]

    build(engine.root_group, below)
    check_shares(engine, groups, queues, 150, parts, exact)


# Weights and budgets found by search, of ten queues served with these eighths of their budgets
FAR_BEHIND = [
    (1000, 4096),
    (1, 2941),
    (143, 64),
    (1, 3126),
    (259, 92),
    (1, 4096),
    (337, 4096),
    (1, 1984),
    (100, 2246),
    (1, 2611),
]
FAR_BEHIND_PARTS = (8, 6, 4)


@pytest.mark.parametrize("exact", [False, True])
def test_with_the_kernels_search_a_queue_may_be_behind_by_more_than_the_exact_one_allows(exact: bool) -> None:
    engine = Wf2q(Clock())
    queues = [add_queue(engine, weight, budget) for weight, budget in FAR_BEHIND]
    lags = Lags(engine, [engine.root_group], queues)
    budgets = {queue: queue.budget for queue in queues}
    if exact:
        search_exactly(lags.groups)
    for slot in range(150):
        queue = start_slot(engine)
        lags.serve(queue, max(1, queue.budget * FAR_BEHIND_PARTS[slot % 3] // 8))
        expire(engine)
    worst = max(lags.most_behind[queue] / bounds(lags, queue, budgets, exact=True)[0] for queue in queues)
    assert (worst < 0.6) if exact else (1.05 < worst < 1.1)
    for queue in queues:
        assert lags.most_behind[queue] < bounds(lags, queue, budgets, exact=False)[0]


def test_with_the_kernels_search_another_queue_may_come_first() -> None:
    orders = []
    for exact in (False, True):
        engine = Wf2q(Clock())
        if exact:
            search_exactly([engine.root_group])
        pairs = [(100, 400), (100, 200), (400, 200), (300, 500), (300, 300)]
        queues = [add_queue(engine, weight, budget) for weight, budget in pairs]
        orders.append([queues.index(serve_slot(engine)) for _ in range(12)])
    # The first is what Linux 6.1's bfq-wf2q.c does with the same calls. At the third slot 0, 1 and 3 have started, and
    # finish at 4, 2 and 5/3 (in sectors per weight)
    assert orders == [[2, 4, 1, 2, 3, 2, 4, 2, 0, 2, 4, 1], [2, 4, 3, 2, 1, 2, 4, 2, 3, 2, 4, 2]]


def test_a_long_run_gives_the_weights() -> None:
    engine = Wf2q(Clock())
    queues = [add_queue(engine, ioprio_to_weight(level), 512) for level in range(8)]
    served = dict.fromkeys(queues, 0)
    for _ in range(360 * 10):
        served[serve_slot(engine)] += 512
    assert [served[queue] // 5120 for queue in queues] == [80, 70, 60, 50, 40, 30, 20, 10]


@pytest.mark.parametrize("nr_queues", [5, 16])
def test_a_long_run_of_mixed_budgets_gives_the_weights_too(nr_queues: int) -> None:
    engine = Wf2q(Clock())
    rng = random.Random(nr_queues)
    queues = [
        add_queue(engine, ioprio_to_weight(rng.randint(0, 7)), rng.randint(64, 4096))
        for _ in range(nr_queues)
    ]
    active = tree_of(engine, queues[0]).active
    served = dict.fromkeys(queues, 0)
    missed = 0
    for _ in range(4000):
        queue = start_slot(engine)
        sectors = rng.randint(1, queue.budget)
        engine.bfqq_served(queue, sectors)
        served[queue] += sectors
        vtime = tree_of(engine, queue).vtime
        found = active.first_eligible(vtime)
        active.exact = True
        missed += found is not active.first_eligible(vtime)
        active.exact = False
        queue.budget = rng.randint(64, 4096)
        expire(engine)
    assert missed > 10  # this is about runs in which the two searches differ
    total, weights = sum(served.values()), sum(queue.weight for queue in queues)
    for queue in queues:
        assert served[queue] / total == pytest.approx(queue.weight / weights, rel=0.05)
