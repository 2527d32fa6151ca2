"""blk-throttle: limits of bytes and I/Os a second for groups on a device (io.max, blkio.throttle.*).

What: `BlkThrottle` is asked for each bio that enters a queue whether it may go on, must wait, or is of no
interest. Limits and slices are in throttle_group.py, waiting and release in throttle_queue.py, the control
files in throttle_files.py.

Theory of operation
-------------------
A bio of a group without a limit, in its direction, on itself or above
it is let through at once. Else the queue lock is taken, and the bio is charged to its group, then to its
parent, up to the root (with cgroup v1: to its group only). The first that does not allow it keeps it; bios
that wait already keep those that come behind them. Nothing has been traced of a bio that waits: its Q comes
when it is let go, and is the worker's.

What is charged of a bio that is cut later depends on the kernel (feature `throttle_split_iops`,
`throttle_recharge`): before 4.15 the rest of it was charged as if it were new, bytes and all; from 4.15 the
bio was charged as a whole, once; from 5.15 each cut was counted as one more I/O, to be paid by the next bios;
from 5.18 the rest is a bio that iops limits apply to, and may wait. Bytes are charged once, since 4.15.

A queue has a `BlkThrottle` from the first time a limit is written for it; before, nothing is asked. With cgroup
v1 it has one from the start, for the statistics (feature `throttle_stats`: from 5.18 to 6.4 only bios that a limit
applies to are counted).

Deliberate differences: one lock for all that blk-throttle does, taken by who asks (STEP_LOCK, and
STEP_THROTTLE_QOS for the decision); timer and worker charge nothing for their decisions. No io.low. In
kernels before 5.18, too, what waits is counted in blkio.throttle.* when it comes, not when it goes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import cython

from blklab.block.cgroup import POLICY_THROTL, BlkcgPolicy, Blkg
from blklab.block.qos import Throttle
from blklab.core.host import Lock
from blklab.rqos.throttle_group import CHARGE_WAITS, SliceClock, ThrottleGroup
from blklab.rqos.throttle_queue import ServiceQueue, ThrottleWorker

if TYPE_CHECKING:
    from blklab.block.bio import Bio
    from blklab.block.queue import RequestQueue
    from blklab.block.submit import Submitter
    from blklab.rqos.throttle_group import Side

if not cython.compiled:
    from blklab.block.consts import F_BPS_THROTTLED, F_CGROUP_ACCT
    from blklab.core.charging import charge, give_lock, take_lock
    from blklab.core.steps import STEP_LOCK, STEP_THROTTLE_QOS

COUNT_SPLITS = 1  # of throttle_split_iops
# Values of throttle_stats: which bios blkio.throttle.io_serviced counts
STATS_ALL, STATS_LIMITED, STATS_BYTES_ONCE = 0, 1, 2


class BlkThrottle(Throttle):
    """Of one queue. `top` is where bios are that may go."""

    def __init__(self, queue: RequestQueue, hierarchical: bool) -> None:
        Throttle.__init__(self, queue)
        self.clock = SliceClock(queue, hierarchical)
        self.worker = ThrottleWorker(queue.host)
        self.top = ServiceQueue(self.clock, None, None, self.worker)
        self.worker.top = self.top
        self.lock = Lock("blk-throttle")
        self.split_iops = queue.features.throttle_split_iops
        self.recharge = queue.features.throttle_recharge
        self.stats = -1 if hierarchical else queue.features.throttle_stats
        self.held = 0

    def hold(self, bio: Bio, submitter: Submitter) -> bool:
        """blk_throtl_bio: True if it was kept."""
        queue: ServiceQueue = bio.blkg.pd[POLICY_THROTL]  # type: ignore[union-attr,assignment]
        group: ThrottleGroup = queue.group  # type: ignore[assignment]
        write = bio.op & 1
        side = group.write if write else group.read
        charged = bio.flags & F_BPS_THROTTLED
        if self.split_iops >= CHARGE_WAITS:
            if self.stats == STATS_BYTES_ONCE:
                group.account(bio, not bio.flags & F_CGROUP_ACCT)
            if not (side.iops_rule or (side.bps_rule and not charged)):
                return False
            if self.stats == STATS_LIMITED:
                group.account(bio, True)
        else:
            if charged:
                # The rest of a bio that was cut here
                return self._count_split(group, write) if self.split_iops == COUNT_SPLITS else False
            if self.stats >= 0:
                group.account(bio, True)
            self.clock.mark(bio)
            if not (side.iops_rule or side.bps_rule):
                return False
        host = self.queue.host
        take_lock(host, self.lock, STEP_LOCK)
        charge(host, STEP_THROTTLE_QOS)
        kept = self._decide(bio, queue, write)
        give_lock(host, self.lock)
        return kept

    def _count_split(self, group: ThrottleGroup, write: int) -> bool:
        # blk_throtl_charge_bio_split: one more I/O, for all that have a limit
        at: ThrottleGroup | None = group
        while at is not None:
            side = at.write if write else at.read
            if not (side.iops_rule or side.bps_rule):
                break
            side.split_ios += 1
            at = at.parent
        return False

    def _decide(self, bio: Bio, own: ServiceQueue, write: int) -> bool:
        # __blk_throtl_bio
        clock = self.clock
        queue = own
        source = own
        while True:
            group: ThrottleGroup = queue.group  # type: ignore[assignment]
            side: Side = group.write if write else group.read
            if not queue.may_go(bio, write, side):
                break
            side.trim()
            source = queue
            queue = queue.parent  # type: ignore[assignment]
            if queue.group is None:
                clock.mark(bio)
                return False
        if clock.tracing():
            reads, writes = queue.nr_queued
            clock.log(
                queue.name,
                f"[{side.letter}] bio. bdisp={side.bytes_disp} sz={bio.nr_sectors << 9} bps={side.bps} "
                f"iodisp={side.io_disp} iops={side.iops} queued={reads}/{writes}",
            )
        self.held += 1
        queue.add(bio, write, source)
        if queue.was_empty:
            queue.update_disptime()
            queue.parent.schedule_next(True)  # type: ignore[union-attr]
        return True

    def before_change(self, blkg: Blkg) -> None:
        """tg_update_carryover: a limit of the group is about to be written."""
        queue: ServiceQueue = blkg.pd[POLICY_THROTL]  # type: ignore[assignment]
        group: ThrottleGroup = queue.group  # type: ignore[assignment]
        if not self.clock.carryover:
            return
        for write in range(2):
            if queue.nr_queued[write]:
                group.side(write == 1).carry_over()
        read, write_side = group.read, group.write
        self.clock.log(
            group.name,
            f"tg_update_carryover: {read.carryover_bytes} {write_side.carryover_bytes} {read.carryover_ios} "
            f"{write_side.carryover_ios}",
        )

    def changed(self, blkg: Blkg) -> None:
        """tg_conf_updated: a limit of the group was written. It counts at once, for what waits as well."""
        queue: ServiceQueue = blkg.pd[POLICY_THROTL]  # type: ignore[assignment]
        group: ThrottleGroup = queue.group  # type: ignore[assignment]
        read, write = group.read, group.write
        self.clock.log(
            group.name, f"limit change rbps={read.bps} wbps={write.bps} riops={read.iops} wiops={write.iops}"
        )
        for below in blkg.walk():
            other: ServiceQueue = below.pd[POLICY_THROTL]  # type: ignore[assignment]
            other.group.update_rules()  # type: ignore[union-attr]
        read.start_slice(False)
        write.start_slice(False)
        if queue.is_pending:
            queue.update_disptime()
            queue.parent.schedule_next(True)  # type: ignore[union-attr]


class ThrottlePolicy(BlkcgPolicy):
    """What groups have for blk-throttle on one queue: a `ServiceQueue`."""

    slot = POLICY_THROTL

    def __init__(self, throttle: BlkThrottle) -> None:
        self.throttle = throttle

    def pd_alloc(self, blkg: Blkg) -> object:
        """Its parent is the parent group's with cgroup v2, else the top."""
        throttle = self.throttle
        parent = throttle.top
        if throttle.clock.hierarchical and blkg.parent is not None:
            parent = blkg.parent.pd[POLICY_THROTL]  # type: ignore[assignment]
        return ServiceQueue(
            throttle.clock, ThrottleGroup(throttle.clock, blkg.cgroup.name, parent.group), parent
        )

    def pd_online(self, blkg: Blkg) -> None:
        """The limits above apply to it."""
        queue: Any = blkg.pd[POLICY_THROTL]
        queue.group.update_rules()

    def pd_reset_stats(self, blkg: Blkg) -> None:
        """blkio.reset_stats."""
        queue: Any = blkg.pd[POLICY_THROTL]
        queue.group.clear_stats()


def throttle_of(queue: RequestQueue) -> BlkThrottle:
    """The queue's blk-throttle, which it has from now on. The queue must have groups."""
    found: Any = queue.throttle
    if found is None:
        assert queue.blkcg is not None
        version = queue.blkcg.tree.version
        found = BlkThrottle(queue, version == 2)
        queue.throttle = found
        queue.blkcg.activate(ThrottlePolicy(found))
    return found  # type: ignore[no-any-return]


def throttle_init(queue: RequestQueue) -> None:
    """The queue has groups now: with cgroup v1 all its bios may have to be counted for them."""
    assert queue.blkcg is not None
    if queue.blkcg.tree.version == 1 and queue.features.blk_throttle:
        throttle_of(queue)
