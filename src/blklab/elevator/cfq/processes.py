"""From a process to its queue: contexts, new queues, priorities, groups, and references.

A process' first synchronous request makes its queue; asynchronous ones go to the queue of their priority, of
the group since 4.3, before of the root group. A change of priority takes effect for the synchronous queue
when its next request is inserted, for asynchronous requests at once with another queue; a process that has
changed its group gets new queues.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import cython

from blklab.block.cgroup import POLICY_CFQ
from blklab.elevator.cfq.cfqq import CfqContext, CfqGroup, CfqQueue

if TYPE_CHECKING:
    from blklab.block.bio import Bio
    from blklab.block.cgroup import Blkg
    from blklab.block.request import Request
    from blklab.block.submit import Submitter
    from blklab.elevator.cfq.cooperators import Cooperators
    from blklab.elevator.cfq.data import CfqData
    from blklab.elevator.cfq.seeks import Seeks
    from blklab.elevator.cfq.turns import Turns

if not cython.compiled:
    from blklab.block.consts import F_META
    from blklab.elevator.cfq.params import (
        CLASS_BE,
        CLASS_IDLE,
        CLASS_RT,
        CLASS_SHIFT,
        NORMAL_LEVEL,
        NR_LEVELS,
    )


class Processes:
    """The processes that use one device."""

    def __init__(self, cfqd: CfqData, seeks: Seeks, cooperators: Cooperators, turns: Turns) -> None:
        self.cfqd = cfqd
        self.seeks = seeks
        self.cooperators = cooperators
        self.turns = turns
        self.contexts: dict[Submitter, CfqContext] = {}

    def find(self, submitter: Submitter) -> CfqContext | None:
        """cfq_cic_lookup: the context of a process, if it has sent requests here."""
        return self.contexts.get(submitter)

    def _get(self, submitter: Submitter) -> CfqContext:
        cic = self.contexts.get(submitter)
        if cic is None:
            cic = CfqContext(submitter, self.cfqd.now())
            self.contexts[submitter] = cic
        return cic

    def group_of(self, bio: Bio) -> CfqGroup:
        """cfq_lookup_cfqg: the group of a bio on this device."""
        return self.cfqd.root_group if bio.blkg is None else self.group_of_blkg(bio.blkg)

    def group_of_blkg(self, blkg: Blkg) -> CfqGroup:
        """blkg_to_cfqg."""
        cfqg: CfqGroup = blkg.pd[POLICY_CFQ]
        return cfqg

    # -- a request gets its queue ------------------------------------------------------

    def queue_for(self, rq: Request, bio: Bio) -> CfqQueue:
        """cfq_set_request: the queue of a request that has been allocated."""
        cic = self._get(rq.submitter)
        sync = rq.is_sync()
        self._ioprio_changed(cic, rq, bio)
        self._group_changed(cic, bio)
        cfqq = cic.cfqq_of(sync)
        if cfqq is not None and cfqq.coop and self.seeks.wants_split(cfqq):
            cfqq = self._split(cic, cfqq)
        if cfqq is None:
            cfqq = self._get_queue(cic, sync, bio)
            cic.set_cfqq(cfqq, sync)
        elif cfqq.new_cfqq is not None:
            old = cfqq
            cfqq = self.cooperators.merged_into(old, cic)
            self.put_queue(old)
        cfqq.allocated += 1
        cfqq.ref += 1
        return cfqq

    def _split(self, cic: CfqContext, cfqq: CfqQueue) -> CfqQueue | None:
        # split_cfqq: the last process keeps it, the others get new ones
        if self.cfqd.logging:
            self.cfqd.log_queue(cfqq, "breaking apart cfqq")
        if cfqq.process_refs() == 1:
            cfqq.pid = cic.submitter.pid
            cfqq.coop = False
            cfqq.split_coop = False
            cfqq.seeky_start_ticks = 0
            return cfqq
        cic.set_cfqq(None, True)
        self._put_cooperators(cfqq)
        self.put_queue(cfqq)
        return None

    def _get_queue(self, cic: CfqContext, sync: bool, bio: Bio) -> CfqQueue:
        # cfq_get_queue
        cfqd = self.cfqd
        group = self.group_of(bio)
        at = 0
        if not sync:
            if not cfqd.features.cfq_async_per_group:
                group = cfqd.root_group
            at = group.async_index(self._class_of(cic), self._level_of(cic))
            cfqq = group.async_cfqqs[at]
            if cfqq is not None:
                cfqq.ref += 1
                return cfqq
        cfqq = CfqQueue(cic.submitter.pid, sync)
        cfqq.idle_window = sync
        self.init_prio(cfqq, cic)
        cfqq.cfqg = group
        if cfqd.logging:
            cfqd.log_queue(cfqq, "alloced")
        if not sync:
            cfqq.ref += 1  # the group's
            group.async_cfqqs[at] = cfqq
        cfqq.ref += 1
        return cfqq

    # -- priority and group ------------------------------------------------------------------

    def _class_of(self, cic: CfqContext) -> int:
        # None was set: what follows from a nice of 0
        ioprio_class = cic.ioprio >> CLASS_SHIFT
        return ioprio_class if CLASS_RT <= ioprio_class <= CLASS_IDLE else CLASS_BE

    def _level_of(self, cic: CfqContext) -> int:
        ioprio_class = cic.ioprio >> CLASS_SHIFT
        if ioprio_class == CLASS_IDLE:
            return NR_LEVELS - 1
        if ioprio_class == CLASS_RT or ioprio_class == CLASS_BE:
            return cic.ioprio & (NR_LEVELS - 1)
        return NORMAL_LEVEL

    def init_prio(self, cfqq: CfqQueue, cic: CfqContext | None) -> int:
        """cfq_init_prio_data: take over a changed priority of its process."""
        if not cfqq.prio_changed or cic is None:
            return 0
        cfqq.ioprio_class = self._class_of(cic)
        cfqq.ioprio = self._level_of(cic)
        if cfqq.ioprio_class == CLASS_IDLE:
            cfqq.idle_window = False
        cfqq.org_ioprio = cfqq.ioprio
        cfqq.org_ioprio_class = cfqq.ioprio_class
        cfqq.prio_changed = False
        return 0

    def boost(self, cfqq: CfqQueue, flags: int) -> int:
        """cfqq_boost_on_prio: metadata is at least of normal priority, so that nobody waits for it."""
        if not flags & F_META:
            cfqq.ioprio_class = cfqq.org_ioprio_class
            cfqq.ioprio = cfqq.org_ioprio
            return 0
        if cfqq.is_idle_class():
            cfqq.ioprio_class = CLASS_BE
        if cfqq.ioprio > NORMAL_LEVEL:
            cfqq.ioprio = NORMAL_LEVEL
        return 0

    def _ioprio_changed(self, cic: CfqContext, rq: Request, bio: Bio) -> int:
        # check_ioprio_changed
        if cic.ioprio == rq.ioprio:
            return 0
        cic.ioprio = rq.ioprio
        cfqq = cic.async_cfqq
        if cfqq is not None:
            cic.set_cfqq(self._get_queue(cic, False, bio), False)
            self.put_queue(cfqq)
        if cic.sync_cfqq is not None:
            cic.sync_cfqq.prio_changed = True
        return 0

    def _group_changed(self, cic: CfqContext, bio: Bio) -> int:
        # check_blkcg_changed
        group = self.group_of(bio)
        if group is cic.cfqg:
            return 0
        first = cic.cfqg is None
        cic.cfqg = group
        if first:
            return 0
        for sync in (False, True):
            cfqq = cic.cfqq_of(sync)
            if cfqq is not None and (sync or self.cfqd.features.cfq_async_per_group):
                if self.cfqd.logging:
                    self.cfqd.log_queue(cfqq, "changed cgroup")
                cic.set_cfqq(None, sync)
                self.put_queue(cfqq)
        return 0

    # -- references ----------------------------------------------------------------------------

    def put_queue(self, cfqq: CfqQueue) -> int:
        """cfq_put_queue: one reference less."""
        cfqq.ref -= 1
        if cfqq.ref:
            return 0
        cfqd = self.cfqd
        if cfqd.logging:
            cfqd.log_queue(cfqq, "put_queue")
        if cfqd.active_queue is cfqq:
            self.turns.expire(cfqq, False)
            cfqd.schedule_dispatch()
        return 0

    def _put_cooperators(self, cfqq: CfqQueue) -> int:
        # cfq_put_cooperator: the merges that were decided for this process do not come
        target = cfqq.new_cfqq
        while target is not None and target is not cfqq:
            following = target.new_cfqq
            self.put_queue(target)
            target = following
        return 0

    def exit(self, submitter: Submitter) -> int:
        """cfq_exit_icq: a process has ended."""
        cic = self.contexts.pop(submitter, None)
        if cic is None:
            return 0
        cic.exited = True
        for sync in (False, True):
            cfqq = cic.cfqq_of(sync)
            if cfqq is None:
                continue
            cic.set_cfqq(None, sync)
            if cfqq is self.cfqd.active_queue:
                self.turns.expire(cfqq, False)
                self.cfqd.schedule_dispatch()
            self._put_cooperators(cfqq)
            self.put_queue(cfqq)
        return 0
