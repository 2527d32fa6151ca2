"""B-WF2Q+: the engine of BFQ, which says which queue is served next so that each gets its share of the disk.

What: the hierarchical "budget worst-case fair weighted fair queueing" of the kernel's block/bfq-wf2q.c. It knows
queues and groups (`entity`) and sectors; of requests, think times and weight-raising only the policy above it knows.

Theory of operation
-------------------
Fluid model: all backlogged entities are served at once, each at the speed of its weight. Virtual time passes at one
sector per unit of weight of all that are backlogged: `vtime += served / wsum`. In it, an entity with a budget of B
sectors that starts at S would finish at F = S + B / weight. In truth one is served at a time: of those that would
have started in the fluid model (S <= vtime) the one that would finish first. That makes B-WF2Q+: no queue lags behind
its share by more than a constant number of budgets, however many queues there are, and none runs ahead by more. (The
search is the kernel's, which may take one that finishes later: see `entity` for what then still holds.)

What a queue goes through:

- It gets requests: `add_bfqq_busy`. It starts at the virtual time of now, or where it finished if that is still to
  come (then it was found in the idle tree), and waits in the active tree.
- `get_next_queue` walks from the root to a queue, along `next_in_service` of each level, and sets all on the way in
  service. A queue, and a group with nothing else to do, leave their active tree by that.
- `bfqq_served` for each request: virtual time passes on each level from the queue to the root.
- It expires. With requests left: `requeue_bfqq`, it starts again where it finished, by what it was served and not by
  its budget. Without: `del_bfqq_busy`, and if its finish is still to come it goes to the idle tree, so that leaving
  and coming back gains nothing. Its groups follow. `reset_in_service` ends it.

A group's budget is that of the one below it that comes next, so its finish changes when that does: whatever changes
below is carried upwards as long as it makes a difference there.

If nothing that waits has started yet, and nothing is in service, virtual time jumps to the earliest start. A queue
for whose next request the policy would have waited, had that not blocked others (`non_blocking_wait_rq`), may start
in the past: at its own finish. If that would leave it far behind, both its times are pushed up so that it finishes now
(less, if its weight is raised: by the `wr_coeff`-th part).

A class is served only if the ones before it (real-time, best-effort, idle) have nothing to do; except that the idle
class, if it was passed over for 200 ms, comes first once.

Service counts in sectors. Virtual times are integers: (sectors << 22) // weight.

Deliberate differences from the kernel
--------------------------------------
- References to queues are counted by `get_entity` and `put_queue`, and nothing is freed.
- Where the kernel would follow a null pointer (queues are busy, but none can be served) there is an error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import cython

from blklab.elevator.bfq.entity import DEFAULT_GROUP_WEIGHT, Group
from blklab.elevator.bfq.placing import Placing

if TYPE_CHECKING:
    from blklab.core.clock import Clock
    from blklab.elevator.bfq.entity import Entity, SchedData, ServiceTree

if not cython.compiled:
    from blklab.elevator.bfq.params import DEFAULT_MAX_BUDGET, NR_LEVELS
    from blklab.elevator.bfq.weights import NR_CLASSES, SERVICE_SHIFT, WEIGHT_PER_LEVEL

JIFFY_NS = 4_000_000  # at 250 Hz, as distributions build it
SECOND_NS = 1_000_000_000
CLASS_IDLE_TIMEOUT_PARTS = 5  # the idle class waits at most 1/5 s
TIMEOUT_PARTS = 8  # a queue is charged for at most 1/8 s, in whole jiffies: 124 ms at 250 Hz


def ioprio_to_weight(ioprio: int) -> int:
    """The weight of a queue with a priority of 0..7: 80..10."""
    return (NR_LEVELS - ioprio) * WEIGHT_PER_LEVEL


class Wf2q(Placing):
    """The engine of one device; a policy inherits from it, or holds one.

    `clock` tells the time, in jiffies of `jiffy_ns`. A policy sets `in_service_queue` after it asked for the next
    queue, and keeps `max_budget` (sectors a queue could be served in the longest slot).
    """

    def __init__(self, clock: Clock, jiffy_ns: int = JIFFY_NS) -> None:
        Placing.__init__(self, clock, jiffy_ns)
        jiffies_per_second = SECOND_NS // jiffy_ns
        self.class_idle_timeout_ns = jiffies_per_second // CLASS_IDLE_TIMEOUT_PARTS * jiffy_ns
        self.timeout_ms = jiffies_per_second // TIMEOUT_PARTS * jiffy_ns // 1_000_000
        self.root_group = Group(None, DEFAULT_GROUP_WEIGHT)
        self.in_service_queue: Entity | None = None
        self.busy_queues = [0] * NR_CLASSES
        self.tot_busy_queues = 0
        self.wr_busy_queues = 0
        self.max_budget = DEFAULT_MAX_BUDGET

    # ---- what a policy calls, in the order in which a queue meets it ------------------------------------------------

    def add_bfqq_busy(self, queue: Entity) -> int:
        """A queue that had nothing to do has a request."""
        if self.logging:
            self.log_queue(queue, "add to busy")
        self.activate_bfqq(queue)
        queue.busy = True
        self.busy_queues[queue.ioprio_class - 1] += 1
        self.tot_busy_queues += 1
        if not queue.dispatched and queue.wr_coeff == 1:
            self.weights_tree_add(queue)
        if queue.wr_coeff > 1:
            self.wr_busy_queues += 1
        self.became_busy(queue)
        return 0

    def activate_bfqq(self, queue: Entity) -> int:
        """Put a queue, and its groups as far as needed, into the active trees; in there already, at its new place."""
        self._activate_requeue_entity(queue, queue.non_blocking_wait_rq, False, False)
        queue.non_blocking_wait_rq = False
        return 0

    def requeue_bfqq(self, queue: Entity, expiration: bool) -> int:
        """A queue that stays busy has another budget, or expires (`expiration`) and wants its next turn."""
        self._activate_requeue_entity(queue, False, queue is self.in_service_queue, expiration)
        return 0

    def get_next_queue(self) -> Entity | None:
        """The queue to serve next, now in service with all its groups; None if no queue is busy."""
        if self.tot_busy_queues == 0:
            return None
        entity = None
        sd = self.root_group.my_sched_data
        while sd is not None:
            entity = sd.next_in_service
            if entity is None:
                raise RuntimeError(f"{self.tot_busy_queues} queues are busy, but none can be served")
            sd.in_service_entity = entity
            # A group with more to do than what is served now stays a candidate
            if entity.is_queue or self._is_only_one(entity):
                self._active_extract(sd.tree_of(entity), entity)
            sd = entity.my_sched_data
        queue = entity
        while entity is not None:
            if not self._update_next_in_service(entity.sched_data, None, False):
                break
            entity = entity.parent
        return queue

    def next_queue_may_preempt(self) -> bool:
        """Whether the next to serve is below another child of the root than the one in service."""
        sd = self.root_group.my_sched_data
        return sd.next_in_service is not sd.in_service_entity

    def bfqq_served(self, queue: Entity, served_sectors: int) -> int:
        """The queue in service was served so many sectors: virtual time passes, on each level."""
        if not queue.service_from_backlogged:
            queue.first_io_ns = self.jiffy_now_ns()
        if queue.wr_coeff > 1:
            queue.service_from_wr += served_sectors
        queue.service_from_backlogged += served_sectors
        entity = queue
        while entity is not None:
            st = entity.sched_data.tree_of(entity)
            entity.service += served_sectors
            st.vtime += (served_sectors << SERVICE_SHIFT) // st.wsum
            self._forget_idle(st)
            entity = entity.parent
        if self.logging:
            self.log_queue(queue, f"bfqq_served {served_sectors} secs")
        return 0

    def bfqq_charge_time(self, queue: Entity, time_ms: int) -> int:
        """Charge a slow queue for its time in service as if it had been served at the speed of the disk.

        So many milliseconds (`timeout_ms` at most) stand for that part of `max_budget`; what it was served, if that is
        more.
        """
        charge = (
            self.max_budget * (time_ms if time_ms < self.timeout_ms else self.timeout_ms) // self.timeout_ms
        )
        if charge < queue.service:
            charge = queue.service
        if charge > queue.budget:
            queue.budget = charge
        self.bfqq_served(queue, charge - queue.service)
        return 0

    def reset_service(self, queue: Entity, of_queue_too: bool) -> int:
        """After an expiration: what the groups of a queue (and it itself) are served counts from zero."""
        if of_queue_too:
            queue.service = 0
        entity = queue.parent
        while entity is not None:
            entity.service = 0
            entity = entity.parent
        return 0

    def reset_in_service(self) -> bool:
        """The last step of an expiration: nothing is in service. True if the queue's last reference went."""
        queue = self.in_service_queue
        queue.wait_request = False
        self.cancel_idle_slice_timer()
        self.in_service_queue = None
        entity = queue
        while entity is not None:
            entity.sched_data.in_service_entity = None
            entity = entity.parent
        if not queue.on_st_or_in_serv:
            ref = queue.ref
            self.put_queue(queue)
            return ref == 1
        return False

    def del_bfqq_busy(self, queue: Entity, expiration: bool) -> int:
        """A queue has no requests left."""
        if self.logging:
            self.log_queue(queue, "del from busy")
        queue.busy = False
        self.busy_queues[queue.ioprio_class - 1] -= 1
        self.tot_busy_queues -= 1
        if queue.wr_coeff > 1:
            self.wr_busy_queues -= 1
        self.stats_update_dequeue(queue)
        self.deactivate_bfqq(queue, True, expiration)
        if not queue.dispatched:
            self.pending_reqs_done(queue)
        return 0

    def deactivate_bfqq(self, queue: Entity, ins_into_idle_tree: bool, expiration: bool) -> int:
        """Take a queue, and its groups if they have nothing else to do, out of the active trees."""
        self._deactivate_entity(queue, ins_into_idle_tree, expiration)
        return 0

    def pending_reqs_done(self, queue: Entity) -> int:
        """A queue that has no request, neither here nor in the device, counts no more; nor do its idle groups."""
        entity = queue.parent
        while entity is not None:
            sd = entity.my_sched_data
            if sd.next_in_service is not None or sd.in_service_entity is not None:
                break
            if entity.in_groups_with_pending_reqs:
                entity.in_groups_with_pending_reqs = False
                self.num_groups_with_pending_reqs -= 1
            entity = entity.parent
        self.weights_tree_remove(queue)
        return 0

    # ---- levels above the queue -------------------------------------------------------------------------------------

    def _activate_requeue_entity(
        self, entity: Entity | None, non_blocking_wait_rq: bool, requeue: bool, expiration: bool
    ) -> int:
        # Upwards until nothing changes there; to the root if all of them stop being served (`requeue`)
        while entity is not None:
            sd = entity.sched_data
            if sd.in_service_entity is entity or (
                entity.tree is not None and entity.tree is sd.tree_of(entity).active
            ):
                self._requeue_entity(entity)
            else:
                self._activate_entity(entity, non_blocking_wait_rq)
            if not self._update_next_in_service(sd, entity, expiration) and not requeue:
                break
            entity = entity.parent
        return 0

    def _deactivate_entity(self, entity: Entity | None, ins_into_idle_tree: bool, expiration: bool) -> int:
        above = None
        while entity is not None:
            above = entity.parent
            sd = entity.sched_data
            if not self.deactivate_entity(entity, ins_into_idle_tree):
                return 0  # it was not active: nothing changes
            if sd.next_in_service is entity:
                self._update_next_in_service(sd, None, expiration)
            if sd.next_in_service is not None or sd.in_service_entity is not None:
                break  # its group has more to do
            # Groups are to be treated as if they had never left, whatever holds for the queue
            ins_into_idle_tree = True
            entity = above
        # From here upwards they stay active, but what comes next in them has changed
        while above is not None:
            self._requeue_entity(above)
            if not self._update_next_in_service(above.sched_data, above, expiration) and not expiration:
                break
            above = above.parent
        return 0

    def _update_next_in_service(self, sd: SchedData, new_entity: Entity | None, expiration: bool) -> bool:
        # `new_entity` (None: no particular one) has come or moved. True if what comes next above may change by this
        next_entity = sd.next_in_service
        without_lookup = False
        if new_entity is not None and new_entity is not next_entity:
            # Searching is not needed if the new one has started and finishes earlier than what is the best so far
            without_lookup = True
            if next_entity is not None:
                st = sd.tree_of(new_entity)
                without_lookup = (
                    st is sd.tree_of(next_entity)
                    and new_entity.start <= st.vtime
                    and next_entity.finish > new_entity.finish
                )
            if without_lookup:
                next_entity = new_entity
        if not without_lookup:
            next_entity = self._lookup_next_entity(sd, expiration)
        may_change = False
        if next_entity is not None:
            may_change = self._update_parent_budget(next_entity) or sd.next_in_service is None
        sd.next_in_service = next_entity
        return may_change

    def _update_parent_budget(self, next_in_service: Entity) -> bool:
        # A group's budget is that of what comes next in it. True if it shrinks: the group may finish earlier
        group = next_in_service.sched_data.group
        if group.is_root:
            return False
        shrinks = group.budget > next_in_service.budget
        group.budget = next_in_service.budget
        return shrinks

    def _is_only_one(self, entity: Entity) -> bool:
        # Whether a group has one active entity (which is about to be set in service)
        group: Group = entity
        return group.active_entities == 1

    def _lookup_next_entity(self, sd: SchedData, expiration: bool) -> Entity | None:
        class_idx = 0
        now_ns = self.jiffy_now_ns()
        if now_ns > sd.class_idle_last_service_ns + self.class_idle_timeout_ns:
            if sd.idle.active.root is not None:
                class_idx = NR_CLASSES - 1
            sd.class_idle_last_service_ns = now_ns
        while class_idx < NR_CLASSES:
            # While a queue expires, the entity in service is in service by name only: it is back in its tree
            entity = self._lookup_in_class(
                sd.tree_of_class(class_idx), sd.in_service_entity is not None and not expiration
            )
            if entity is not None:
                return entity
            class_idx += 1
        return None

    def _lookup_in_class(self, st: ServiceTree, in_service: bool) -> Entity | None:
        # Virtual time jumps so far that one has started; if one is in service, that has, and this only looks ahead
        root = st.active.root
        if root is None:
            return None
        vtime = st.vtime
        if root.min_start > vtime:
            vtime = root.min_start
            if not in_service:
                st.vtime = vtime
                self._forget_idle(st)
        return st.active.first_eligible(vtime)
