"""Which group a bio's queue is in, and what happens when a process or a group goes: queues move.

What: the half of the kernel's block/bfq-cgroup.c that works on queues (the control files and the groups' data are in
`cgroup.py`).

Theory of operation
-------------------
A process is in the group of its last bio (`IoContext.cgroup_ident`). Before a bio may merge, and before a request gets
its queue, that is brought up to date (`update_cgroup`). If the group is another one:

- its asynchronous queue is let go: it belongs to the group, and the new group has its own;
- its synchronous queue, if it alone uses it, moves with all its requests (`move`), and starts there as if it had just
  become busy: what it was owed in the old group is forgotten. It keeps its raised weight and what is known of it;
- a synchronous queue that it shares, or that is to be merged, is let go too, unless all the queues that it was to be
  merged into are in the new group already. The process gets a queue of its own with its next request.

A group that goes offline (its policy is deactivated, or its cgroup is removed) leaves its queues to the root; bios that
still carry it are taken for the nearest group above that is online.

As in the kernel, requests that were allocated before a move are counted in the old group by `allocated`, and counted
down in the new one when they end: from then on the old group's share of the scheduler tags (`depths.py`) is too small
and the new one's too large.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import cython

from blklab.block.cgroup import POLICY_BFQ

if TYPE_CHECKING:
    from blklab.block.bio import Bio
    from blklab.block.cgroup import Blkg
    from blklab.elevator.bfq.bfqq import BfqQueue, IoContext
    from blklab.elevator.bfq.data import BfqData
    from blklab.elevator.bfq.group import BfqGroup
    from blklab.elevator.bfq.merging import Cooperators
    from blklab.elevator.bfq.turns import Turns

if not cython.compiled:
    from blklab.elevator.bfq.params import PREEMPTED
    from blklab.elevator.bfq.weights import NR_CLASSES


class Moves:
    """The groups of one device and who is in them. Only with control groups anything here is called."""

    def __init__(self, bfqd: BfqData, cooperators: Cooperators, turns: Turns) -> None:
        self.bfqd = bfqd
        self.cooperators = cooperators
        self.turns = turns

    def group_of_bio(self, bio: Bio) -> BfqGroup:
        """The group whose queue a bio's request belongs to; the bio is of that group from then on (bfq_bio_bfqg)."""
        blkg: Blkg | None = bio.blkg
        while blkg is not None:
            group: BfqGroup | None = blkg.pd[POLICY_BFQ]
            if group is not None and group.online:
                bio.blkg = blkg
                return group
            blkg = blkg.parent
        return self.bfqd.root_group

    # -- a process -----------------------------------------------------------------

    def update_cgroup(self, bic: IoContext, bio: Bio) -> int:
        """A bio of the process comes: if it is of another group than the one before, its queues change."""
        group = self.group_of_bio(bio)
        ident = bio.blkg.cgroup.ident
        if bic.cgroup_ident == ident:
            return 0
        bic.cgroup_ident = ident
        bfqq = bic.async_bfqq
        if bfqq is not None and bfqq.sched_data is not group.my_sched_data:
            self.cooperators.attach(bic, None, False)
            self.cooperators.release(bfqq)
        bfqq = bic.sync_bfqq
        if bfqq is not None:
            self._change_sync(bic, bfqq, group)
        return 0

    def _change_sync(self, bic: IoContext, bfqq: BfqQueue, group: BfqGroup) -> int:
        if bfqq.new_bfqq is None and not bfqq.coop:
            return self.move(bfqq, group)
        other = bfqq
        while other is not None:
            if other.sched_data is not group.my_sched_data:
                # Others may use that queue, so the merge stays; only this process leaves it
                self.cooperators.put_decided(bfqq)
                self.cooperators.attach(bic, None, True)
                return self.cooperators.release(bfqq)
            other = other.new_bfqq
        return 0

    # -- a queue -------------------------------------------------------------------

    def move(self, bfqq: BfqQueue, group: BfqGroup) -> int:
        """The queue, with its requests, is in another group from now on (bfq_bfqq_move)."""
        bfqd = self.bfqd
        old = bfqd.group_of(bfqq)
        if old is group:
            return 0
        bfqq.ref += 1
        if bfqq is bfqd.in_service_queue:
            self.turns.expire(bfqq, False, PREEMPTED)
        if bfqq.busy:
            bfqd.deactivate_bfqq(bfqq, False, False)
        elif bfqq.on_st_or_in_serv:
            bfqd.put_idle_entity(bfqd.entity_service_tree(bfqq), bfqq)
        old.pos_remove(bfqq)
        if old.last_bfqq_created is bfqq:
            old.last_bfqq_created = None
        group.adopt(bfqq)
        if bfqq.busy:
            if not bfqd.nonrot_with_queueing:
                self.cooperators.pos_add_move(bfqq)
            bfqd.activate_bfqq(bfqq)
        if bfqd.in_service_queue is None and bfqd.rq_in_driver == 0:
            bfqd.schedule_dispatch()
        return bfqd.put_queue(bfqq)

    # -- a group -------------------------------------------------------------------

    def offline(self, group: BfqGroup) -> int:
        """The group goes: its queues are the root's (bfq_pd_offline)."""
        if not group.is_root:
            sd = group.my_sched_data
            for class_idx in range(NR_CLASSES):
                st = sd.tree_of_class(class_idx)
                while st.active.root is not None:
                    self.move(st.active.first(), self.bfqd.root_group)
                if sd.in_service_entity is not None:
                    self.move(sd.in_service_entity, self.bfqd.root_group)
                self.bfqd.flush_idle_tree(st)
            self.bfqd.deactivate_entity(group, False)
        for at, bfqq in enumerate(group.async_bfqqs):
            if bfqq is not None:
                self.move(bfqq, self.bfqd.root_group)
                group.async_bfqqs[at] = None
                self.bfqd.put_queue(bfqq)
        group.online = False
        return 0
