"""The engine of BFQ: any sequence of calls, times against the rules, groups and classes, steps against log n."""

from __future__ import annotations

import math
import random
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from wf2q_rig import (
    add_queue,
    check_tree,
    data_of,
    expire,
    search_exactly,
    serve_slot,
    start_slot,
    tree_of,
    virtual,
    walk,
)

from blklab.core.clock import Clock
from blklab.elevator.bfq.entity import Entity, Group, ServiceTree
from blklab.elevator.bfq.params import CLASS_BE, CLASS_IDLE, CLASS_RT
from blklab.elevator.bfq.placing import weight_to_ioprio
from blklab.elevator.bfq.wf2q import Wf2q, ioprio_to_weight

MS = 1_000_000


# ---- any sequence of calls -------------------------------------------------------------------------------------------


def check_engine(engine: Wf2q, groups: list[Group], queues: list[Entity]) -> None:
    """What holds between any two calls of a policy."""
    entities = [*queues, *(group for group in groups if not group.is_root)]
    in_service = set()
    entity = engine.in_service_queue
    while entity is not None:
        in_service.add(entity)
        entity = entity.parent
    for group in groups:
        data = data_of(group)
        below = [e for e in entities if e.sched_data is data]
        active = 0
        for service_tree in data.service_tree:
            known = [e for e in below if e.on_st_or_in_serv and data.tree_of(e) is service_tree]
            assert service_tree.wsum == sum(e.weight for e in known)
            for tree in (service_tree.active, service_tree.idle):
                check_tree(tree)
                assert set(walk(tree)) == {e for e in below if e.tree is tree}
            idle = list(walk(service_tree.idle))
            assert service_tree.first_idle is (idle[0] if idle else None)
            if idle:
                assert service_tree.last_idle is not None
                assert service_tree.last_idle.finish == idle[-1].finish
            else:
                assert service_tree.last_idle is None
            for e in known:
                assert e.tree in (service_tree.active, service_tree.idle) or e in in_service
            active += len(service_tree.active)
        assert group.is_root or group.active_entities == active
        assert data.in_service_entity is None or data.in_service_entity in in_service
        # What is next waits in an active tree (or is in service: a group with one queue stays what is next until
        # something else comes), and nothing waits without a next
        if data.next_in_service is None:
            assert active == 0 or active == sum(1 for e in below if e in in_service and e.tree is not None)
        else:
            waits = data.next_in_service.tree is data.tree_of(data.next_in_service).active
            assert waits or data.next_in_service in in_service
    for e in entities:
        assert e.on_st_or_in_serv or e.tree is None
    for queue in queues:
        assert queue.ref == int(queue.on_st_or_in_serv or queue in in_service)
        active_tree = tree_of(engine, queue).active
        assert queue.busy == (queue.tree is active_tree or queue is engine.in_service_queue)
        wanted = engine.active_list if queue.tree is active_tree else engine.idle_list
        assert queue.in_list is (wanted if queue.tree is not None else None)
    assert engine.tot_busy_queues == sum(queue.busy for queue in queues) == sum(engine.busy_queues)
    assert len(engine.active_list) == sum(1 for q in queues if q.in_list is engine.active_list)


CALLS = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 1000), st.integers(0, 1000)), max_size=70)


@settings(max_examples=80, deadline=None)
@given(calls=CALLS)
@example(calls=[(0, 2, 0), (8, 2, 0), (8, 6, 0)])
def test_sums_trees_and_lists_fit_together_after_any_sequence_of_calls(
    calls: list[tuple[int, int, int]],
) -> None:
    clock = Clock()
    engine = Wf2q(clock)
    outer = Group(engine.root_group, 200)
    inner = Group(outer, 50)
    other = Group(engine.root_group)
    groups = [engine.root_group, outer, inner, other]
    queues = [
        add_queue(engine, 10 + 30 * i, 100 + i, groups[i % 4], (CLASS_BE, CLASS_RT, CLASS_IDLE)[i % 3], False)
        for i in range(8)
    ]
    for kind, a, b in calls:
        queue = queues[a % len(queues)]
        serving = engine.in_service_queue
        if kind <= 1 and not queue.busy and queue is not serving:
            queue.non_blocking_wait_rq = b % 3 == 0
            queue.budget = 50 + b
            engine.add_bfqq_busy(queue)
        elif kind == 2 and serving is None:
            got = engine.get_next_queue()
            assert (got is None) == (engine.tot_busy_queues == 0)
            engine.in_service_queue = got
        elif kind == 3 and serving is not None:
            engine.bfqq_served(serving, 1 + b % max(1, serving.budget - serving.service))
        elif kind == 4 and serving is not None:
            if b % 4 == 0:
                engine.bfqq_charge_time(serving, b)
            expire(engine, has_requests=b % 2 == 0)
        elif kind == 5 and queue.busy and queue is not serving:
            queue.budget = 50 + b
            engine.requeue_bfqq(queue, False)
        elif kind == 6 and queue.busy and queue is not serving:
            engine.del_bfqq_busy(queue, False)
        elif kind == 7:
            queue.new_weight = 1 + b
            queue.prio_changed = True
            groups[1 + a % 3].set_weight(1 + b % 900, 0)
        elif kind == 8 and queue is not serving:
            # To another group, as when its process changes cgroups
            if queue.busy:
                engine.deactivate_bfqq(queue, False, False)
            elif queue.on_st_or_in_serv:
                engine.put_idle_entity(tree_of(engine, queue), queue)
            groups[b % 4].adopt(queue)
            if queue.busy:
                engine.activate_bfqq(queue)
        elif kind == 9:
            clock.now_ns += b * MS
        check_engine(engine, groups, queues)
    # All comes to an end
    while engine.in_service_queue is not None or engine.tot_busy_queues:
        if engine.in_service_queue is None:
            start_slot(engine)
        engine.bfqq_served(engine.in_service_queue, 1)  # type: ignore[arg-type]
        expire(engine, has_requests=False)
        check_engine(engine, groups, queues)
    for group in groups:
        for service_tree in data_of(group).service_tree:
            assert len(service_tree.active) == 0
            engine.flush_idle_tree(service_tree)
            assert service_tree.wsum == 0
    # A group that its last queue left for another group counts, as in the kernel, until a queue in it has no requests
    for group in groups:
        group.adopt(queues[0])
        engine.pending_reqs_done(queues[0])
    assert engine.num_groups_with_pending_reqs == 0


@settings(max_examples=40, deadline=None)
@given(calls=st.lists(st.tuples(st.integers(0, 7), st.integers(1, 200), st.booleans()), max_size=80))
def test_the_exact_choice_is_what_a_search_of_all_would_find(calls: list[tuple[int, int, bool]]) -> None:
    engine = Wf2q(Clock())
    search_exactly([engine.root_group])
    queues = [add_queue(engine, 10 + 10 * i, 200, busy=False) for i in range(8)]
    service_tree = data_of(engine.root_group).be
    for number, sectors, stays in calls:
        if not queues[number].busy:
            engine.add_bfqq_busy(queues[number])
        waiting = [queue for queue in queues if queue.busy]
        vtime = max(service_tree.vtime, min(queue.start for queue in waiting))
        started = [queue for queue in waiting if queue.start <= vtime]
        best = min(queue.finish for queue in started)
        chosen = data_of(engine.root_group).next_in_service
        assert chosen is not None
        engine.requeue_bfqq(chosen, False)  # what is next has moved (by nothing): this makes it look again
        chosen = data_of(engine.root_group).next_in_service
        assert chosen is not None
        assert chosen in started and chosen.finish == best
        assert serve_slot(engine, sectors, stays) is chosen


# ---- timestamps ------------------------------------------------------------------------------------------------------


def two_queues() -> tuple[Wf2q, Entity, Entity, ServiceTree]:
    engine = Wf2q(Clock())
    one = add_queue(engine, 100, 1000)
    two = add_queue(engine, 100, 1000)
    return engine, one, two, tree_of(engine, one)


def test_times_of_a_slot() -> None:
    engine, one, two, service_tree = two_queues()
    assert (one.start, one.finish) == (0, virtual(1000, 100))
    assert start_slot(engine) is one  # equal finishes: the one that came first
    assert one.tree is None and one.on_st_or_in_serv
    assert service_tree.wsum == 200
    engine.bfqq_served(one, 400)
    assert service_tree.vtime == virtual(400, 200)
    expire(engine)
    # By what it was served, and then its budget again
    assert (one.start, one.finish) == (virtual(400, 100), virtual(400, 100) + virtual(1000, 100))
    assert start_slot(engine) is two
    assert not engine.next_queue_may_preempt() or data_of(engine.root_group).next_in_service is one


def test_who_leaves_ahead_of_its_share_waits_for_it_when_it_comes_back() -> None:
    engine, one, two, service_tree = two_queues()
    serve_slot(engine, has_requests=False)
    assert one.tree is service_tree.idle and one.on_st_or_in_serv
    assert service_tree.wsum == 200  # it still counts
    assert one.finish == virtual(1000, 100) > service_tree.vtime
    engine.add_bfqq_busy(one)
    assert one.start == virtual(1000, 100)
    assert serve_slot(engine) is two


def test_who_stays_away_until_its_finish_has_passed_starts_anew() -> None:
    engine, one, two, service_tree = two_queues()
    serve_slot(engine, 300, has_requests=False)
    assert one.tree is service_tree.idle
    assert serve_slot(engine, 400) is two
    assert not one.on_st_or_in_serv and one.tree is None
    assert service_tree.wsum == 100
    assert serve_slot(engine, 500) is two
    now = service_tree.vtime
    engine.add_bfqq_busy(one)
    assert one.start == now and service_tree.wsum == 200


def test_a_queue_that_was_served_less_than_its_share_leaves_no_trace() -> None:
    engine, _, two, service_tree = two_queues()
    engine.del_bfqq_busy(two, False)
    assert two.tree is None and not two.on_st_or_in_serv
    assert service_tree.wsum == 100


def test_when_all_are_idle_virtual_time_passes_their_finishes() -> None:
    engine, one, two, service_tree = two_queues()
    serve_slot(engine, 1000, has_requests=False)
    serve_slot(engine, 100, has_requests=False)
    # Both are idle (nothing runs, and nothing makes time pass); service of a third one does
    third = add_queue(engine, 1, 1000)
    assert third.start == service_tree.vtime
    serve_slot(engine, 1000, has_requests=False)
    assert service_tree.vtime >= one.finish
    assert not two.on_st_or_in_serv


def test_virtual_time_jumps_to_the_earliest_start() -> None:
    engine, one, two, service_tree = two_queues()
    serve_slot(engine, 1000)
    engine.del_bfqq_busy(two, False)
    # `one` starts at 1000/100, virtual time is at 1000/200: nothing else is there, so time jumps
    assert service_tree.vtime == one.start == virtual(1000, 100)
    assert serve_slot(engine) is one


@pytest.mark.parametrize("wr_coeff", [1, 30])
def test_a_queue_that_nobody_waited_for_starts_in_the_past(wr_coeff: int) -> None:
    engine, one, two, service_tree = two_queues()
    engine.del_bfqq_busy(two, False)
    serve_slot(engine, 100, has_requests=False)
    third = add_queue(engine, 100, 1 << 20)
    for _ in range(5):
        serve_slot(engine, 10_000)
    assert not one.on_st_or_in_serv
    finished, now = one.finish, service_tree.vtime
    one.non_blocking_wait_rq = True
    if wr_coeff > 1:
        one.wr_coeff = wr_coeff
        one.prio_changed = True
    engine.add_bfqq_busy(one)
    assert not one.non_blocking_wait_rq
    length = virtual(1000, 100 * wr_coeff)
    push = (now - finished - length) // wr_coeff
    assert (one.start, one.finish) == (finished + push, finished + length + push)
    if wr_coeff == 1:
        assert one.finish == now
    assert data_of(engine.root_group).next_in_service is one
    assert third.busy


def test_charging_time() -> None:
    engine, one, _, service_tree = two_queues()
    engine.max_budget = 12_400
    assert engine.timeout_ms == 124  # 31 jiffies, an eighth of a second in whole jiffies
    start_slot(engine)
    engine.bfqq_served(one, 100)
    engine.bfqq_charge_time(one, 20)  # 20/124 of the budget
    assert one.service == 2000 == one.budget == one.service_from_backlogged
    assert service_tree.vtime == virtual(100, 200) + virtual(1900, 200)
    engine.bfqq_charge_time(one, 5)  # it was served more than that
    assert one.service == 2000
    engine.bfqq_charge_time(one, 10_000)  # never more than the whole
    assert one.service == 12_400 == one.budget


# ---- classes, weights ------------------------------------------------------------------------------------------------


def test_classes_go_one_before_the_other_and_the_idle_one_once_in_200_ms() -> None:
    clock = Clock()
    clock.now_ns = 1000 * MS
    engine = Wf2q(clock)
    real_time = add_queue(engine, ioprio_class=CLASS_RT)
    best_effort = add_queue(engine, ioprio_class=CLASS_BE)
    idle = add_queue(engine, ioprio_class=CLASS_IDLE)
    assert engine.busy_queues == [1, 1, 1]
    order = []
    for _ in range(100):
        queue = start_slot(engine)
        clock.now_ns += 10 * MS
        engine.bfqq_served(queue, 100)
        expire(engine)
        order.append(queue)
    served_idle = [i for i, queue in enumerate(order) if queue is idle]
    assert set(order) == {real_time, idle}
    # Looks at it are whole jiffies of 4 ms, at the ends of slots of 10 ms, and more than 50 of them apart
    assert {later - earlier for earlier, later in pairwise(served_idle)} <= {20, 21}
    assert len(served_idle) >= 4
    engine.del_bfqq_busy(real_time, False)
    assert engine.busy_queues == [0, 1, 1]
    assert {serve_slot(engine) for _ in range(10)} == {best_effort}
    engine.del_bfqq_busy(best_effort, False)
    assert serve_slot(engine) is idle


def test_a_change_of_class_waits_until_the_queue_is_in_no_tree() -> None:
    engine, one, two, service_tree = two_queues()
    start_slot(engine)
    one.new_ioprio_class = CLASS_RT
    one.new_weight = 5000
    one.prio_changed = True
    engine.update_weight_prio(service_tree, one, False)
    assert (one.weight, one.ioprio, one.ioprio_class, one.prio_changed) == (1000, 0, CLASS_BE, True)
    assert service_tree.wsum == 1100
    engine.bfqq_served(one, 10)
    expire(engine)
    real_time = data_of(engine.root_group).rt
    assert (one.ioprio_class, one.prio_changed, one.tree) == (CLASS_RT, False, real_time.active)
    assert (service_tree.wsum, real_time.wsum) == (100, 1000)
    assert serve_slot(engine) is one
    assert two.busy


class Weights(Wf2q):
    """A policy that counts the weights of its queues, and what it is told."""

    def __init__(self) -> None:
        super().__init__(Clock())
        self.counted: dict[Entity, int] = {}
        self.told: list[str] = []

    def weights_tree_add(self, queue: Entity) -> int:
        self.counted.setdefault(queue, queue.weight)
        return 0

    def weights_tree_remove(self, queue: Entity) -> int:
        self.counted.pop(queue, None)
        return 0

    def became_busy(self, queue: Entity) -> int:
        self.told.append("busy")
        return 0

    def stats_update_dequeue(self, queue: Entity) -> int:
        self.told.append("dequeue")
        return 0

    def cancel_idle_slice_timer(self) -> int:
        self.told.append("cancel")
        return 0

    def log_queue(self, queue: Entity, text: str) -> int:
        self.told.append(text.partition(" ")[0])
        return 0


def test_what_a_policy_is_told() -> None:
    engine = Weights()
    queue = add_queue(engine, 40)
    raised = add_queue(engine, 40, busy=False)
    raised.wr_coeff = 30
    raised.prio_changed = True
    engine.add_bfqq_busy(raised)
    assert raised.weight == 1200 and engine.wr_busy_queues == 1
    assert engine.counted == {queue: 40}
    raised.wr_coeff = 1
    raised.prio_changed = True
    engine.requeue_bfqq(raised, False)
    assert engine.counted == {queue: 40, raised: 40}
    queue.new_weight = 70
    queue.prio_changed = True
    engine.requeue_bfqq(queue, False)
    assert engine.counted == {queue: 70, raised: 40}
    assert engine.told == ["busy", "busy"]
    engine.logging = True
    start_slot(engine).dispatched = 1
    engine.bfqq_served(engine.in_service_queue, 5)  # type: ignore[arg-type]
    served = engine.in_service_queue
    expire(engine, has_requests=False)
    assert engine.told[2:] == ["bfqq_served", "del", "dequeue", "calc_finish:", "calc_finish:", "cancel"]
    assert served in engine.counted  # its request is in the device
    engine.pending_reqs_done(served)
    assert served not in engine.counted


def test_weights_and_priorities() -> None:
    assert [ioprio_to_weight(level) for level in range(8)] == [80, 70, 60, 50, 40, 30, 20, 10]
    assert [weight_to_ioprio(weight) for weight in (1, 10, 15, 70, 80, 100, 1000)] == [8, 7, 7, 1, 0, 0, 0]


# ---- groups ----------------------------------------------------------------------------------------------------------


def test_a_group_comes_and_goes_with_its_queues() -> None:
    engine = Wf2q(Clock())
    group = Group(engine.root_group, 300)
    queue = add_queue(engine, 100, 500, group)
    root = data_of(engine.root_group)
    assert root.next_in_service is group and group.budget == 500 and group.active_entities == 1
    assert (group.start, group.finish) == (0, virtual(500, 300))
    assert engine.num_groups_with_pending_reqs == 1 and root.be.wsum == 300
    queue.dispatched = 1
    serve_slot(engine, 500, has_requests=False)
    # What was served counts for the queue in the group, and for the group in the root
    assert queue.finish == virtual(500, 100) and group.finish == virtual(500, 300)
    assert group.active_entities == 0 and root.next_in_service is None and root.in_service_entity is None
    assert engine.num_groups_with_pending_reqs == 1
    queue.dispatched = 0
    engine.pending_reqs_done(queue)
    assert engine.num_groups_with_pending_reqs == 0
    assert group.service == 0


def test_a_smaller_budget_that_comes_next_moves_the_group_forward() -> None:
    engine = Wf2q(Clock())
    group = Group(engine.root_group)
    add_queue(engine, 100, 1000, group)
    alone = add_queue(engine, 100, 800)
    assert data_of(engine.root_group).next_in_service is alone
    small = add_queue(engine, 100, 100, group)
    assert group.budget == 100 and group.finish == virtual(100, 100)
    assert serve_slot(engine) is small


def test_a_group_with_more_to_do_stays_a_candidate_while_served() -> None:
    engine = Wf2q(Clock())
    group = Group(engine.root_group, 1000)
    first = add_queue(engine, 100, 100, group)
    second = add_queue(engine, 100, 100, group)
    alone = add_queue(engine, 1, 100)
    root = data_of(engine.root_group)
    assert start_slot(engine) is first
    assert group.tree is root.be.active and root.next_in_service is group
    assert not engine.next_queue_may_preempt()
    engine.del_bfqq_busy(second, False)
    assert data_of(group).next_in_service is None
    engine.bfqq_served(first, 100)
    expire(engine, has_requests=False)
    assert serve_slot(engine) is alone


def test_weights_of_groups() -> None:
    engine = Wf2q(Clock())
    group = Group(engine.root_group)
    assert group.weight == 100
    add_queue(engine, 100, 100, group)
    root = data_of(engine.root_group)
    group.set_weight(700, 0)
    assert group.weight == 100 and root.be.wsum == 100
    serve_slot(engine)
    assert group.weight == 700 and root.be.wsum == 700
    group.set_weight(700, 30)  # the one of this device goes before
    serve_slot(engine)
    assert (group.weight, group.dev_weight) == (30, 30) and root.be.wsum == 30


# ---- cost ------------------------------------------------------------------------------------------------------------


def steps_per_slot(nr_queues: int) -> tuple[float, int]:
    """How many entities all trees look at in a slot (choose, serve, expire; now and then idle and back): mean, most."""
    engine = Wf2q(Clock())
    rng = random.Random(nr_queues)
    queues = [add_queue(engine, rng.randint(1, 1000), rng.randint(100, 10_000)) for _ in range(nr_queues)]
    service_tree = tree_of(engine, queues[0])
    trees = (service_tree.active, service_tree.idle)
    for _ in range(nr_queues):
        serve_slot(engine)
    before = sum(tree.steps for tree in trees)
    total, most = 0, 0
    for _ in range(1000):
        queue = serve_slot(engine, has_requests=rng.random() < 0.7)
        if not queue.busy:
            engine.add_bfqq_busy(queue)
        now = sum(tree.steps for tree in trees)
        total += now - before
        most = max(most, now - before)
        before = now
    return total / 1000, most


def test_a_slot_costs_in_the_order_of_the_logarithm_of_the_queues() -> None:
    means = {}
    for nr_queues in (16, 256, 4096):
        means[nr_queues], most = steps_per_slot(nr_queues)
        # Extract, insert and two or three searches in a tree of about log2 n levels, 2 log2 n at worst
        assert means[nr_queues] < 10 * math.log2(nr_queues)
        assert most < 30 * math.log2(nr_queues)
    # 256 times the queues: twice the logarithm from 16 to 256, another half from there to 4096
    assert means[4096] - means[256] < 1.5 * (means[256] - means[16]) + 5
