"""What BFQ shares the disk among: queues and groups of queues, and the trees in which they wait for their turn.

A queue holds the requests of one task (or of several that read together); a group holds queues and groups, as cgroups
do. To the engine (`wf2q`) both are an `Entity`: a weight, a budget, and a start and a finish in virtual time.

Theory of operation
-------------------
Each group, the root too, has a `SchedData`: a scheduler of its own for what lies directly below it. That has one
`ServiceTree` for each I/O priority class (real-time, best-effort, idle), and each of these is one B-WF2Q+ scheduler:
a virtual time, the sum of the weights of all that it knows, a tree of the entities that have something to do
(`active`) and a tree of those that have not but finish in the virtual future (`idle`), whose right to be treated as if
they had never left is remembered until the virtual time has passed it.

An `EntityTree` is a red-black tree in order of finish, of entities with one finish the one inserted later behind. Each
entity in it also holds the least start of the tree below and including it (`min_start`), so "of the entities that
have started, the one that finishes first" takes one walk from the root: to the left as long as something there has
started, else to the right.

The kernel's walk ends earlier: once it has met an entity that has started it does not turn right any more. If none of
those to the left of that one will do by this, it takes that one, though one that finishes before it may have started.
So the choice depends on the shape of the tree, and the tree here has the shape of the kernel's: the same rotations
and colors, on insertion and extraction, as in lib/rbtree.c. An extracted entity with two below it is replaced by the
one behind it.

`exact` makes the search of a tree find the earliest always. The two never differ while at most three wait, nor
among equal weights and budgets; with 5 to 16 of random weights and budgets in 1 to 20 % of all searches. What B-WF2Q+
promises of the lag of an entity behind its share (a constant number of budgets) holds for the exact search. With the
kernel's walk it holds that none is ahead of its share by more than its budget, because none is chosen before it
started; so none is behind by more than the budgets of all others together, and shares in the long run are exact.

Deliberate differences from the kernel
--------------------------------------
- Virtual times are signed 64-bit integers that never wrap (2**63 of them are 2**41 sectors for weight 1).
- `min_start` is kept in the idle trees too, where nobody asks for it.
"""

from __future__ import annotations

import cython

if not cython.compiled:
    from blklab.elevator.bfq.params import CLASS_BE, CLASS_RT

DEFAULT_QUEUE_IOPRIO = 4
DEFAULT_GROUP_WEIGHT = 100

LONG_AGO_NS = -(1 << 60)  # before any time of a run


class Entity:
    """One that is served: a queue, or a group (see `Group`).

    The fields of scheduling, for queue and group:

    - `start`, `finish`, `min_start`: virtual times, (sectors << 22) // weight;
    - `weight` in use, `new_weight` asked for, `orig_weight` without the weight-raising; they differ until the next
      moment at which they may change (`prio_changed`);
    - `budget`: sectors that it may be served at once; `service`: sectors it was served since it was chosen;
    - `parent`: its group, None directly below the root; `sched_data`: where it is scheduled; `my_sched_data`: where
      what is below it is scheduled, None of a queue;
    - `on_st_or_in_serv`: it is in a tree or in service, and its weight part of `wsum`.

    A queue has more: its priority (`ioprio` 0..7, `ioprio_class` 1 real-time, 2 best-effort, 3 idle), by how much its
    weight is raised (`wr_coeff`, 1: not), the sectors it was served since it got busy and since its weight was raised,
    and flags. A policy makes a subclass of this for its queues.
    """

    def __init__(self) -> None:
        self.start = 0
        self.finish = 0
        self.min_start = 0
        self.weight = 0
        self.orig_weight = 0
        self.new_weight = 0
        self.dev_weight = 0
        self.budget = 0
        self.service = 0
        self.prio_changed = False
        self.on_st_or_in_serv = False
        self.in_groups_with_pending_reqs = False
        self.parent: Entity | None = None
        self.sched_data: SchedData | None = None
        self.my_sched_data: SchedData | None = None
        self.is_queue = True

        self.tree: EntityTree | None = None
        self.tree_left: Entity | None = None
        self.tree_right: Entity | None = None
        self.tree_above: Entity | None = None
        self.tree_red = False
        self.in_list: EntityList | None = None
        self.list_before: Entity | None = None
        self.list_after: Entity | None = None

        self.ioprio = DEFAULT_QUEUE_IOPRIO
        self.ioprio_class = CLASS_BE
        self.new_ioprio = DEFAULT_QUEUE_IOPRIO
        self.new_ioprio_class = CLASS_BE
        self.wr_coeff = 1
        self.service_from_backlogged = 0
        self.service_from_wr = 0
        self.first_io_ns = 0
        self.busy = False
        self.non_blocking_wait_rq = False
        self.wait_request = False
        self.ref = 0

        self.allocated = 0
        self.dispatched = 0
        self.max_budget = 0


class EntityTree:
    """Entities in order of their finish; `count` of them. `steps`: how many entities all calls have looked at.

    `exact`: whether `first_eligible` finds the best, and not what the kernel finds.
    """

    def __init__(self) -> None:
        self.root: Entity | None = None
        self.count = 0
        self.steps = 0
        self.exact = False

    def insert(self, entity: Entity) -> int:
        """Put an entity, which is in no tree, at its place, behind those of the same finish."""
        start = entity.start
        finish = entity.finish
        entity.tree = self
        entity.tree_left = None
        entity.tree_right = None
        entity.tree_red = True
        entity.min_start = start
        self.count += 1
        above = None
        below = self.root
        while below is not None:
            self.steps += 1
            above = below
            # It will be below: on the way down is when what lies above it learns of its start
            if start < above.min_start:
                above.min_start = start
            below = above.tree_left if finish < above.finish else above.tree_right
        entity.tree_above = above
        if above is None:
            self.root = entity
        elif finish < above.finish:
            above.tree_left = entity
        else:
            above.tree_right = entity
        self._part_reds(entity)
        return 0

    def _part_reds(self, entity: Entity) -> int:
        # `entity` is red now. No red one may be directly below a red one, nor at the root; all else is in order
        above = entity.tree_above
        while above is not None and above.tree_red:
            self.steps += 1
            top = above.tree_above  # it is there and black, since `above` is red
            beside = top.tree_right if top.tree_left is above else top.tree_left
            if beside is None or not beside.tree_red:
                if (top.tree_left is above) != (above.tree_left is entity):
                    # It lies between the two in order: so it becomes what is lifted above both
                    self._lift(entity)
                    above = entity
                self._lift(above)
                above.tree_red = False
                top.tree_red = True
                return 0
            # Pass the red on, two levels up
            above.tree_red = False
            beside.tree_red = False
            top.tree_red = True
            entity = top
            above = entity.tree_above
        if above is None:
            entity.tree_red = False
        return 0

    def extract(self, entity: Entity) -> int:
        """Take an entity out; it must be in this tree."""
        left = entity.tree_left
        right = entity.tree_right
        if left is None or right is None:
            # The lowest one whose `min_start` changes, and what is to hang there instead
            lowest = entity.tree_above
            only = right if left is None else left
            lost_black = not entity.tree_red
            self._hang(lowest, entity, only)
        else:
            heir = right
            while heir.tree_left is not None:
                self.steps += 1
                heir = heir.tree_left
            only = heir.tree_right
            lost_black = not heir.tree_red
            lowest = heir
            if heir is not right:
                lowest = heir.tree_above
                self._hang(lowest, heir, only)
                heir.tree_right = right
                right.tree_above = heir
            heir.tree_left = left
            left.tree_above = heir
            heir.tree_red = entity.tree_red
            self._hang(entity.tree_above, entity, heir)
        entity.tree = None
        entity.tree_above = None
        entity.tree_left = None
        entity.tree_right = None
        self.count -= 1
        above = lowest
        while above is not None:
            self.steps += 1
            above.min_start = self._least(above)
            above = above.tree_above
        if only is not None:
            only.tree_red = False  # it was red, and below a black one
        elif lost_black and lowest is not None:
            self._make_up_black(lowest)
        return 0

    def _make_up_black(self, above: Entity) -> int:
        # Below `above`, on the side of `lacking` (at first nothing hangs there), each way down has one black too few
        lacking = None
        while above is not None:
            self.steps += 1
            is_left = above.tree_left is lacking
            beside = above.tree_right if is_left else above.tree_left
            if beside.tree_red:
                # Make the one beside it black, by a rotation after which each way has as many as before
                self._lift(beside)
                beside.tree_red = False
                above.tree_red = True
                beside = above.tree_right if is_left else above.tree_left
            inner = beside.tree_left if is_left else beside.tree_right
            outer = beside.tree_right if is_left else beside.tree_left
            if outer is None or not outer.tree_red:
                if inner is None or not inner.tree_red:
                    # Take one black from the other side too; then all ways below `above` have one too few
                    beside.tree_red = True
                    if above.tree_red:
                        above.tree_red = False
                        return 0
                    lacking = above
                    above = above.tree_above
                    continue
                self._lift(inner)
                outer = beside
                beside = inner
            # One more above the side that lacks, and the red one takes the place of that on the other
            self._lift(beside)
            beside.tree_red = above.tree_red
            above.tree_red = False
            outer.tree_red = False
            return 0
        return 0

    def _lift(self, entity: Entity) -> int:
        # Rotate `entity` one up, over what is above it
        self.steps += 1
        above = entity.tree_above
        top = above.tree_above
        if above.tree_left is entity:
            middle = entity.tree_right
            above.tree_left = middle
            entity.tree_right = above
        else:
            middle = entity.tree_left
            above.tree_right = middle
            entity.tree_left = above
        if middle is not None:
            middle.tree_above = above
        above.tree_above = entity
        self._hang(top, above, entity)
        entity.min_start = above.min_start  # both are the root of the same entities: one before, one after
        above.min_start = self._least(above)
        return 0

    def _hang(self, top: Entity | None, before: Entity, now: Entity | None) -> int:
        # Below `top` (None: at the root), `now` takes the place of `before`
        if now is not None:
            now.tree_above = top
        if top is None:
            self.root = now
        elif top.tree_left is before:
            top.tree_left = now
        else:
            top.tree_right = now
        return 0

    def _least(self, entity: Entity) -> int:
        # The least start of `entity` and all below it, from what the two directly below it hold
        least = entity.start
        below = entity.tree_left
        if below is not None and below.min_start < least:
            least = below.min_start
        below = entity.tree_right
        if below is not None and below.min_start < least:
            least = below.min_start
        return least

    def first_eligible(self, vtime: int) -> Entity | None:
        """Of the entities that start at `vtime` or before one that finishes early, if `exact` the one that does first.

        None if there is none.
        """
        found = None
        entity = self.root
        while entity is not None:
            self.steps += 1
            if entity.start <= vtime:
                found = entity
            below = entity.tree_left
            if below is not None and below.min_start <= vtime:
                entity = below
            elif found is None or (self.exact and found is not entity):
                # If one was found and this is exact, then not this one: it is because of one to the right that the
                # walk came here
                entity = entity.tree_right
            else:
                break
        return found

    def first(self) -> Entity | None:
        """The entity that finishes first, started or not; None in an empty tree."""
        entity = self.root
        if entity is not None:
            while entity.tree_left is not None:
                self.steps += 1
                entity = entity.tree_left
        return entity

    def after(self, entity: Entity) -> Entity | None:
        """The entity behind `entity`, or None."""
        self.steps += 1
        below = entity.tree_right
        if below is not None:
            while below.tree_left is not None:
                self.steps += 1
                below = below.tree_left
            return below
        above = entity.tree_above
        while above is not None and above.tree_right is entity:
            self.steps += 1
            entity = above
            above = entity.tree_above
        return above

    def before(self, entity: Entity) -> Entity | None:
        """The entity before `entity`, or None."""
        self.steps += 1
        below = entity.tree_left
        if below is not None:
            while below.tree_right is not None:
                self.steps += 1
                below = below.tree_right
            return below
        above = entity.tree_above
        while above is not None and above.tree_left is entity:
            self.steps += 1
            entity = above
            above = entity.tree_above
        return above

    def __len__(self) -> int:
        return self.count


class EntityList:
    """A list of queues, linked through the queues: the one added last is the `head`."""

    def __init__(self) -> None:
        self.head: Entity | None = None
        self.count = 0

    def add_head(self, entity: Entity) -> int:
        """Put a queue, which is in no list, in front."""
        entity.in_list = self
        entity.list_before = None
        entity.list_after = self.head
        if self.head is not None:
            self.head.list_before = entity
        self.head = entity
        self.count += 1
        return 0

    def remove(self, entity: Entity) -> int:
        """Take a queue out of this list."""
        if entity.list_before is None:
            self.head = entity.list_after
        else:
            entity.list_before.list_after = entity.list_after
        if entity.list_after is not None:
            entity.list_after.list_before = entity.list_before
        entity.in_list = None
        entity.list_before = None
        entity.list_after = None
        self.count -= 1
        return 0

    def __len__(self) -> int:
        return self.count


class ServiceTree:
    """One B-WF2Q+ scheduler: the entities of one class of one group.

    `vtime` is its virtual time, `wsum` the sum of the weights of all entities in the two trees and of the one in
    service; `first_idle` and `last_idle` are those that finish first and last of the idle ones.
    """

    def __init__(self) -> None:
        self.active = EntityTree()
        self.idle = EntityTree()
        self.first_idle: Entity | None = None
        self.last_idle: Entity | None = None
        self.vtime = 0
        self.wsum = 0


class SchedData:
    """The scheduler of what lies directly below one group.

    `next_in_service` is what would be served next if the one in service had nothing more to do; it is always known, so
    choosing what to serve is one step for each level.
    """

    def __init__(self, group: Group) -> None:
        self.group = group
        self.rt = ServiceTree()
        self.be = ServiceTree()
        self.idle = ServiceTree()
        self.service_tree = [self.rt, self.be, self.idle]
        self.in_service_entity: Entity | None = None
        self.next_in_service: Entity | None = None
        # In the kernel it starts at zero of a counter that does not: the first look is always at the idle class too
        self.class_idle_last_service_ns = LONG_AGO_NS

    def tree_of(self, entity: Entity) -> ServiceTree:
        """The service tree of an entity's class; groups are all best-effort."""
        if not entity.is_queue or entity.ioprio_class == CLASS_BE:
            return self.be
        return self.rt if entity.ioprio_class == CLASS_RT else self.idle

    def tree_of_class(self, class_idx: int) -> ServiceTree:
        """The service tree of class 0 (real-time), 1 (best-effort) or 2 (idle)."""
        if class_idx == 1:
            return self.be
        return self.rt if class_idx == 0 else self.idle


class Group(Entity):
    """A group of queues and groups: a cgroup on one device, or all of it (`is_root`, which itself is never served).

    `active_entities`: how many are in the active trees directly below it (of the root it is not counted).
    """

    def __init__(self, parent: Group | None = None, weight: int = DEFAULT_GROUP_WEIGHT) -> None:
        super().__init__()
        self.is_queue = False
        self.is_root = parent is None
        self.my_sched_data = SchedData(self)
        self.active_entities = 0
        self.num_queues_with_pending_reqs = 0
        self.new_weight = weight
        self.weight = weight
        self.orig_weight = weight
        if parent is not None:
            parent.adopt(self)

    def adopt(self, entity: Entity) -> int:
        """From now on `entity`, which is in no tree, is scheduled in this group."""
        entity.parent = None if self.is_root else self
        entity.sched_data = self.my_sched_data
        return 0

    def init_entity(self, entity: Entity) -> int:
        """A new queue or group, which was told its `new_` weight and priority, begins with them in this group."""
        entity.weight = entity.new_weight
        entity.orig_weight = entity.new_weight
        if entity.is_queue:
            entity.ioprio = entity.new_ioprio
            entity.ioprio_class = entity.new_ioprio_class
        self.adopt(entity)
        return 0

    def set_weight(self, weight: int, dev_weight: int) -> int:
        """Ask for a weight of 1..1000, and for one on this device alone that goes before it (0: none)."""
        self.dev_weight = dev_weight
        if dev_weight:
            weight = dev_weight
        if weight != self.new_weight:
            self.new_weight = weight
            self.prio_changed = True
        return 0
