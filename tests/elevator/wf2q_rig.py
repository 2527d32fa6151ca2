"""B-WF2Q+ by itself, for the tests: queues on an engine without a policy, slots, and what must hold of its trees."""

from __future__ import annotations

from collections.abc import Iterator

from blklab.elevator.bfq.entity import Entity, EntityTree, Group, SchedData, ServiceTree
from blklab.elevator.bfq.params import CLASS_BE
from blklab.elevator.bfq.weights import SERVICE_SHIFT
from blklab.elevator.bfq.wf2q import Wf2q


def add_queue(
    engine: Wf2q,
    weight: int = 100,
    budget: int = 1000,
    group: Group | None = None,
    ioprio_class: int = CLASS_BE,
    busy: bool = True,
) -> Entity:
    queue = Entity()
    queue.new_weight = weight
    queue.new_ioprio_class = ioprio_class
    queue.budget = budget
    (group or engine.root_group).init_entity(queue)
    if busy:
        engine.add_bfqq_busy(queue)
    return queue


def start_slot(engine: Wf2q) -> Entity:
    queue = engine.get_next_queue()
    assert queue is not None
    engine.in_service_queue = queue
    return queue


def expire(engine: Wf2q, has_requests: bool = True) -> None:
    """The queue in service ends its slot, in the order in which BFQ does that."""
    queue = engine.in_service_queue
    assert queue is not None
    if has_requests:
        engine.requeue_bfqq(queue, True)
    else:
        engine.del_bfqq_busy(queue, True)
    engine.reset_in_service()
    engine.reset_service(queue, True)


def serve_slot(engine: Wf2q, sectors: int | None = None, has_requests: bool = True) -> Entity:
    queue = start_slot(engine)
    engine.bfqq_served(queue, queue.budget if sectors is None else sectors)
    expire(engine, has_requests)
    return queue


def data_of(group: Group) -> SchedData:
    assert group.my_sched_data is not None
    return group.my_sched_data


def tree_of(engine: Wf2q, entity: Entity) -> ServiceTree:
    return engine.entity_service_tree(entity)


def search_exactly(groups: list[Group]) -> None:
    """From now on the one chosen is that which finishes first, and not the one that the kernel takes."""
    for group in groups:
        for service_tree in data_of(group).service_tree:
            service_tree.active.exact = True


def virtual(sectors: int, weight: int) -> int:
    return (sectors << SERVICE_SHIFT) // weight


def walk(tree: EntityTree) -> Iterator[Entity]:
    entity = tree.first()
    while entity is not None:
        yield entity
        entity = tree.after(entity)


def check_subtree(entity: Entity | None) -> tuple[int, int]:
    """The least start of a subtree and how many black ones are on each way down, checking both and the links."""
    if entity is None:
        return 1 << 62, 0
    below = [each for each in (entity.tree_left, entity.tree_right) if each is not None]
    for each in below:
        assert each.tree_above is entity
        assert not (entity.tree_red and each.tree_red)
    left, right = check_subtree(entity.tree_left), check_subtree(entity.tree_right)
    assert left[1] == right[1]
    least = min(entity.start, left[0], right[0])
    assert entity.min_start == least
    return least, left[1] + (not entity.tree_red)


def check_tree(tree: EntityTree) -> None:
    assert tree.root is None or (tree.root.tree_above is None and not tree.root.tree_red)
    check_subtree(tree.root)
