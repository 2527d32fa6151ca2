"""One entity of BFQ's engine: its times, its weight, and which tree it is in.

The lower half of the engine (`wf2q`): what happens to a single queue or group when it gets something to do, moves, and
has nothing more to do. What that means for the groups above it is decided there.

Theory of operation
-------------------
An entity is in no tree and forgotten; or in the active tree; or in service (a queue is then in no tree); or in the
idle tree. In all but the first its weight counts in `wsum`, and the policy is told of a reference to it
(`get_entity`, `put_queue`). The idle tree is cleared one entity at a time, each time virtual time passes.
A change of weight or priority takes place when the entity is next put into an active tree.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import cython

from blklab.elevator.bfq.entity import EntityList

if TYPE_CHECKING:
    from blklab.core.clock import Clock
    from blklab.elevator.bfq.entity import Entity, ServiceTree

if not cython.compiled:
    from blklab.elevator.bfq.params import NR_LEVELS
    from blklab.elevator.bfq.weights import MAX_WEIGHT, MIN_WEIGHT, SERVICE_SHIFT, WEIGHT_PER_LEVEL


def weight_to_ioprio(weight: int) -> int:
    """The priority that a weight is about equal to, 0 for all of 80 and above."""
    tens = weight // WEIGHT_PER_LEVEL
    return NR_LEVELS - tens if tens < NR_LEVELS else 0


class Placing:
    """What the engine does to one entity, and what it tells its policy.

    `active_list` and `idle_list` hold the queues of all active and all idle trees, the latest first;
    `num_groups_with_pending_reqs` counts groups with requests here or in the device.
    """

    def __init__(self, clock: Clock, jiffy_ns: int) -> None:
        self.clock = clock
        self.jiffy_ns = jiffy_ns
        self.num_groups_with_pending_reqs = 0
        self.active_list = EntityList()
        self.idle_list = EntityList()
        self.logging = False

    # ---- what a policy may define -----------------------------------------------------------------------------------

    def weights_tree_add(self, queue: Entity) -> int:
        """Count `queue` among those of its weight that have something to do, unless it is counted."""
        return 0

    def weights_tree_remove(self, queue: Entity) -> int:
        """Count `queue` no more, if it is counted."""
        return 0

    def get_entity(self, queue: Entity) -> int:
        """A queue entered the trees: that is a reference to it."""
        queue.ref += 1
        return 0

    def put_queue(self, queue: Entity) -> int:
        """A queue left the trees and is not in service: one reference less."""
        queue.ref -= 1
        return 0

    def stats_update_dequeue(self, queue: Entity) -> int:
        """A queue has nothing more to do (a statistic of its group)."""
        return 0

    def became_busy(self, queue: Entity) -> int:
        """A queue has something to do again; the last step of `add_bfqq_busy`."""
        return 0

    def cancel_idle_slice_timer(self) -> int:
        """Nobody waits any more for the next request of the queue in service."""
        return 0

    def log_queue(self, queue: Entity, text: str) -> int:
        """A message about a queue, if `logging`."""
        return 0

    # ---- what a policy may ask for ----------------------------------------------------------------------------------

    def jiffy_now_ns(self) -> int:
        """When the current jiffy began."""
        now_ns = self.clock.now_ns
        return now_ns - now_ns % self.jiffy_ns

    def entity_service_tree(self, entity: Entity) -> ServiceTree:
        """The service tree that an entity belongs to by its class."""
        return entity.sched_data.tree_of(entity)

    def put_idle_entity(self, st: ServiceTree, entity: Entity) -> int:
        """Forget an entity of an idle tree: when it comes back, it starts anew."""
        self._idle_extract(st, entity)
        self._forget_entity(st, entity, entity is entity.sched_data.in_service_entity)
        return 0

    def flush_idle_tree(self, st: ServiceTree) -> int:
        """Forget all of an idle tree (its group goes away)."""
        while st.first_idle is not None:
            self.deactivate_entity(st.first_idle, False)
        return 0

    def update_weight_prio(self, old_st: ServiceTree, entity: Entity, update_class_too: bool) -> ServiceTree:
        """Let a change of weight, priority and (only outside of all trees) class take place; the tree it is in now."""
        if not entity.prio_changed:
            return old_st
        old_st.wsum -= entity.weight
        if entity.new_weight != entity.orig_weight:
            if entity.new_weight < MIN_WEIGHT:
                entity.new_weight = MIN_WEIGHT
            elif entity.new_weight > MAX_WEIGHT:
                entity.new_weight = MAX_WEIGHT
            entity.orig_weight = entity.new_weight
            if entity.is_queue:
                entity.ioprio = weight_to_ioprio(entity.orig_weight)
        if entity.is_queue and update_class_too:
            entity.ioprio_class = entity.new_ioprio_class
        # A change of class stays to be done if it could not be done now
        if not entity.is_queue or entity.ioprio_class == entity.new_ioprio_class:
            entity.prio_changed = False
        new_st = entity.sched_data.tree_of(entity)
        prev_weight = entity.weight
        new_weight = entity.orig_weight * entity.wr_coeff if entity.is_queue else entity.orig_weight
        if prev_weight != new_weight and entity.is_queue:
            self.weights_tree_remove(entity)
        entity.weight = new_weight
        if prev_weight != new_weight and entity.is_queue and entity.wr_coeff == 1:
            self.weights_tree_add(entity)
        new_st.wsum += new_weight
        if new_st is not old_st:
            entity.start = new_st.vtime
        return new_st

    # ---- one entity -------------------------------------------------------------------------------------------------

    def _activate_entity(self, entity: Entity, non_blocking_wait_rq: bool) -> int:
        st = entity.sched_data.tree_of(entity)
        backshifted = False
        min_vstart = st.vtime
        if non_blocking_wait_rq and st.vtime > entity.finish:
            backshifted = True
            min_vstart = entity.finish
        if entity.tree is not None and entity.tree is st.idle:
            self._idle_extract(st, entity)
            entity.start = min_vstart if min_vstart > entity.finish else entity.finish
        else:
            # Its finish, if it ever had one, has passed
            entity.start = min_vstart
            st.wsum += entity.weight
            if entity.is_queue:
                self.get_entity(entity)
            entity.on_st_or_in_serv = True
        if not entity.is_queue and not entity.in_groups_with_pending_reqs:
            entity.in_groups_with_pending_reqs = True
            self.num_groups_with_pending_reqs += 1
        self._update_fin_time_enqueue(entity, st, backshifted)
        return 0

    def _requeue_entity(self, entity: Entity) -> int:
        sd = entity.sched_data
        st = sd.tree_of(entity)
        if entity is sd.in_service_entity:
            # It starts again where it really finished
            self._calc_finish(entity, entity.service)
            entity.start = entity.finish
        if entity.tree is not None:
            self._active_extract(st, entity)
        self._update_fin_time_enqueue(entity, st, False)
        return 0

    def _update_fin_time_enqueue(self, entity: Entity, st: ServiceTree, backshifted: bool) -> int:
        # In no tree at the moment: all of its priority may change
        st = self.update_weight_prio(st, entity, True)
        self._calc_finish(entity, entity.budget)
        if backshifted and st.vtime > entity.finish:
            delta = st.vtime - entity.finish
            if entity.is_queue:
                delta //= entity.wr_coeff
            entity.start += delta
            entity.finish += delta
        self._active_insert(st, entity)
        return 0

    def deactivate_entity(self, entity: Entity, ins_into_idle_tree: bool) -> bool:
        """Take one entity out of service, its trees and, unless it may go to the idle tree, out of `wsum`.

        False if it was in no tree and not in service. A queue is taken out with its groups by `deactivate_bfqq`.
        """
        if not entity.on_st_or_in_serv:
            return False
        sd = entity.sched_data
        st = sd.tree_of(entity)
        in_service = entity is sd.in_service_entity
        self._calc_finish(entity, entity.service)
        if in_service:
            sd.in_service_entity = None
        else:
            entity.service = 0
        if entity.tree is not None:
            if entity.tree is st.active:
                self._active_extract(st, entity)
            elif not in_service and entity.tree is st.idle:
                self._idle_extract(st, entity)
        if not ins_into_idle_tree or entity.finish <= st.vtime:
            self._forget_entity(st, entity, in_service)
        else:
            self._idle_insert(st, entity)
        return True

    def _calc_finish(self, entity: Entity, service: int) -> int:
        entity.finish = entity.start + (service << SERVICE_SHIFT) // entity.weight
        if self.logging and entity.is_queue:
            self.log_queue(entity, f"calc_finish: serv {service}, w {entity.weight}")
            delta = entity.finish - entity.start
            self.log_queue(
                entity, f"calc_finish: start {entity.start}, finish {entity.finish}, delta {delta}"
            )
        return 0

    def _active_insert(self, st: ServiceTree, entity: Entity) -> int:
        st.active.insert(entity)
        if entity.is_queue:
            self.active_list.add_head(entity)
        group = entity.sched_data.group
        if not group.is_root:
            group.active_entities += 1
        return 0

    def _active_extract(self, st: ServiceTree, entity: Entity) -> int:
        st.active.extract(entity)
        if entity.is_queue:
            self.active_list.remove(entity)
        group = entity.sched_data.group
        if not group.is_root:
            group.active_entities -= 1
        return 0

    def _idle_insert(self, st: ServiceTree, entity: Entity) -> int:
        if st.first_idle is None or st.first_idle.finish > entity.finish:
            st.first_idle = entity
        if st.last_idle is None or entity.finish > st.last_idle.finish:
            st.last_idle = entity
        st.idle.insert(entity)
        if entity.is_queue:
            self.idle_list.add_head(entity)
        return 0

    def _idle_extract(self, st: ServiceTree, entity: Entity) -> int:
        if entity is st.first_idle:
            st.first_idle = st.idle.after(entity)
        if entity is st.last_idle:
            st.last_idle = st.idle.before(entity)
        st.idle.extract(entity)
        if entity.is_queue:
            self.idle_list.remove(entity)
        return 0

    def _forget_entity(self, st: ServiceTree, entity: Entity, in_service: bool) -> int:
        entity.on_st_or_in_serv = False
        st.wsum -= entity.weight
        # One in service is put when that ends
        if entity.is_queue and not in_service:
            self.put_queue(entity)
        return 0

    def _forget_idle(self, st: ServiceTree) -> int:
        # One at a time, so that each step costs O(log n)
        first_idle = st.first_idle
        last_idle = st.last_idle
        if st.active.root is None and last_idle is not None and last_idle.finish <= st.vtime:
            st.vtime = last_idle.finish
        if first_idle is not None and first_idle.finish <= st.vtime:
            self.put_idle_entity(st, first_idle)
        return 0
