"""blk-throttle: where bios wait, and who lets them go.

What: `ServiceQueue` has the bios that wait in one group (or, at the top, those that may go), the groups below
that wait, and the timer that lets them go up; `ThrottleWorker` submits what has come to the top.

Theory of operation
-------------------
Each group's service queue has a parent: with cgroup v2 the parent
group's, with v1 the top (limits of v1 groups know nothing of each other). A bio waits in the lowest group
that does not let it pass. A group with bios is in its parent's `pending`, sorted by `disptime`, the time at
which its first read or write may go. The parent's timer fires at the first one's, and takes from each group
that is due up to 6 reads and 2 writes, then again from the first that is due, until none is (or 32 were
taken: then from the start). What it takes goes into the parent, where it waits again, unless that is the top;
then the worker is sent for.

Bios of one source (the group itself, each group below) are a `QNode`; a queue lets its nodes take turns, one
bio each, so that no child with many bios keeps the others away.

In 6.16 those that have been charged their bytes and wait for iops have a queue of their own in each node, which goes
first (feature `throttle_split_iops` 3): so the rest of a cut bio does not wait behind others' bytes.

The timer is one of the timer wheel: it fires one tick after the time it was set for, and beyond 63 ticks at a
multiple of 8 (64 beyond 504), so that it is never early: with HZ=250 ten I/Os a slice come 104 ms after the
first ten, and then every 100 ms.

The worker takes all bios that have come to the top, reads first, and submits them under one plug. While it
sleeps for a tag others come to the top; they are its next turn's.

Deliberate differences: the timer's function runs on the CPU that set it; kernels before 4.8, whose timers
were exact, have the same one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import cython

from blklab.block.bio import BioList
from blklab.block.daemon import Daemon
from blklab.core.clock import Event

if TYPE_CHECKING:
    from blklab.block.bio import Bio
    from blklab.core.host import Host
    from blklab.rqos.throttle_group import Side, SliceClock, ThrottleGroup

if not cython.compiled:
    from blklab.block.consts import DONE, F_BPS_THROTTLED, F_RELEASED, WAIT, YIELD
    from blklab.core.bits import NEVER_NS

GROUP_READS = 6  # THROTL_GRP_QUANTUM is 8: three quarters for reads
GROUP_WRITES = 2
QUANTUM = 32  # THROTL_QUANTUM
LONGEST_SLICES = 8  # a timer is set no further ahead
WHEEL_SIZE = 64  # of the timer wheel: buckets of a level
WHEEL_LEVELS = 8
WHEEL_SHIFT = 3  # each level is 8 times as coarse as the one before


def fires_at(expires: int, now: int) -> int:
    """The jiffy in which a timer of the kernel's wheel, set now for `expires`, fires."""
    ahead = expires - now
    if ahead < 0:
        return now + 1
    shift = 0
    while ahead >= (WHEEL_SIZE - 1) << shift and shift < WHEEL_SHIFT * WHEEL_LEVELS:
        shift += WHEEL_SHIFT
    return ((expires >> shift) + 1) << shift


class QNode:
    """Bios of one source in one direction (throtl_qnode). `paid`: those that wait for iops only, where these have a
    queue of their own."""

    def __init__(self) -> None:
        self.bios = BioList()
        self.paid = BioList()
        self.listed = False


class ServiceQueue(Event):
    """Of a group, or (`group` None) the top one of a queue. `queued[0]` has the nodes of reads, `queued[1]`
    of writes."""

    def __init__(
        self,
        clock: SliceClock,
        group: ThrottleGroup | None,
        parent: ServiceQueue | None,
        worker: ThrottleWorker | None = None,
    ) -> None:
        self.clock = clock
        self.group = group
        self.parent = parent
        self.worker = worker
        self.name = "" if group is None else group.name
        self.queued: tuple[list[QNode], list[QNode]] = ([], [])
        self.nr_queued = [0, 0]
        self.nr_paid = [0, 0]
        self.paid: set[Bio] = set()
        self.on_self = (QNode(), QNode())
        self.on_parent = (QNode(), QNode())
        self.pending: list[ServiceQueue] = []
        self.is_pending = False
        self.was_empty = False
        self.disptime = 0
        self.cpu = 0
        self.due_ns = NEVER_NS
        self.event_ns = NEVER_NS

    # -- bios ----------------------------------------------------------------------------

    def peek(self, write: int) -> Bio | None:
        """The next bio of a direction."""
        nodes: list[QNode] = self.queued[write]
        if not nodes:
            return None
        node: QNode = nodes[0]
        return node.bios.head if node.paid.head is None else node.paid.head

    def pop(self, write: int) -> Bio | None:
        """Take it; the next one is another source's."""
        nodes: list[QNode] = self.queued[write]
        if not nodes:
            return None
        node: QNode = nodes.pop(0)
        if node.paid.head is None:
            bio = node.bios.popleft()
        else:
            bio = node.paid.popleft()
            self.nr_paid[write] -= 1
        if node.bios.head is not None or node.paid.head is not None:
            nodes.append(node)
        else:
            node.listed = False
        return bio

    def push(self, bio: Bio, write: int, node: QNode) -> int:
        """throtl_qnode_add_bio."""
        if self.clock.split_queues and (bio.flags & F_BPS_THROTTLED or bio in self.paid):
            node.paid.append(bio)
            self.nr_paid[write] += 1
        else:
            node.bios.append(bio)
        if not node.listed:
            node.listed = True
            self.queued[write].append(node)
        return 0

    def add(self, bio: Bio, write: int, source: ServiceQueue) -> int:
        """throtl_add_bio_tg: the bio waits here from now on; `source` is this queue, or the one below that it
        came from."""
        if self.nr_queued[write] == 0:
            self.was_empty = True
        node: QNode = self.on_self[write] if source is self else source.on_parent[write]
        self.push(bio, write, node)
        self.nr_queued[write] += 1
        if self.clock.split_queues and bio.flags & F_BPS_THROTTLED and bio is self.peek(write):
            self.was_empty = True  # THROTL_TG_IOPS_WAS_EMPTY: it may go before those that were there
        if not self.is_pending:
            self._insert()
        return 0

    def may_go(self, bio: Bio, write: int, side: Side) -> bool:
        """tg_within_limit, and the charge: whether a bio that comes may go on at once."""
        queued = self.nr_queued[write] > 0
        due = self.clock.due_bytes(bio)
        if not self.clock.split_queues:
            if queued or side.wait(due, False):
                return False
            side.charge(due)
            return True
        if due < 0:
            if self.nr_paid[write] or side.wait_for_ios(queued):
                return False
        elif queued:
            # Nobody waits for bytes, and there are enough: it waits for iops
            if self.nr_queued[write] == self.nr_paid[write] and side.wait_for_bytes(due, True) == 0:
                side.charge_bytes(due)
                self.paid.add(bio)
            return False
        elif self.wait_of(bio, write, side):
            return False
        self.paid.discard(bio)
        side.charge_io()
        return True

    def wait_of(self, bio: Bio, write: int, side: Side) -> int:
        """tg_dispatch_time: how long a bio has to wait here, which is the next one or has come."""
        queued = self.nr_queued[write] > 0
        due = self.clock.due_bytes(bio)
        if not self.clock.split_queues:
            return side.wait(due, queued)
        if due >= 0 and bio not in self.paid:
            wait = side.wait_for_bytes(due, queued)
            if wait:
                return wait
            side.charge_bytes(due)
            self.paid.add(bio)
        return side.wait_for_ios(queued)

    # -- the groups that wait ---------------------------------------------------------------

    def _insert(self) -> int:
        # Into the parent's pending, behind those with the same time
        pending: list[ServiceQueue] = self.parent.pending  # type: ignore[union-attr]
        at = len(pending)
        while at > 0:
            before: ServiceQueue = pending[at - 1]
            if before.disptime <= self.disptime:
                break
            at -= 1
        pending.insert(at, self)
        self.is_pending = True
        return 0

    def _remove(self) -> int:
        if self.is_pending:
            self.is_pending = False
            self.parent.pending.remove(self)  # type: ignore[union-attr]
        return 0

    def update_disptime(self) -> int:
        """tg_update_disptime: when may the first read or write go?"""
        group: ThrottleGroup = self.group  # type: ignore[assignment]
        wait = -1
        for write in range(2):
            bio = self.peek(write)
            if bio is not None:
                side: Side = group.side(write == 1)
                its = self.wait_of(bio, write, side)
                wait = its if wait < 0 else min(wait, its)
        self._remove()
        self.disptime = self.clock.jiffies() + wait
        self._insert()
        self.was_empty = False
        return 0

    # -- the timer ---------------------------------------------------------------------------

    def schedule_next(self, force: bool) -> bool:
        """throtl_schedule_next_dispatch: set the timer for the first group that waits. False: it is due now,
        go on."""
        if not self.pending:
            return True
        first: ServiceQueue = self.pending[0]
        now = self.clock.jiffies()
        if not force and first.disptime <= now:
            return False
        clock = self.clock
        expires = min(first.disptime, now + LONGEST_SLICES * clock.slice)
        self.cpu = clock.host.cpu
        self.due_ns = clock.time_ns(fires_at(expires, now))
        self._arm()
        if clock.tracing():
            clock.log(self.name, f"schedule timer. delay={expires - now} jiffies={now}")
        return True

    def _arm(self) -> int:
        # An event cannot be taken back: one that comes before its time looks again
        if self.due_ns < self.event_ns:
            self.event_ns = self.due_ns
            self.clock.host.clock.at(self.due_ns, self)
        return 0

    def fire(self, now_ns: int) -> int:
        """The timer: throtl_pending_timer_fn, in interrupt context."""
        host = self.clock.host
        if not host.in_section:
            if now_ns >= self.event_ns:
                self.event_ns = NEVER_NS
            if self.due_ns > now_ns:
                return self._arm() if self.due_ns != NEVER_NS else 0
            return host.interrupt(self.cpu, self, False)
        if self.due_ns > host.clock.now_ns:
            return self._arm() if self.due_ns != NEVER_NS else 0
        self.due_ns = NEVER_NS
        return self.dispatch()

    # -- letting them go ------------------------------------------------------------------

    def dispatch(self) -> int:
        """Take from the groups below what is due, up to the top if nothing keeps it."""
        queue = self
        while True:
            if not queue._dispatch_window():
                return 0
            parent = queue.parent
            if parent is None:
                worker: ThrottleWorker = queue.worker  # type: ignore[assignment]
                return worker.request()
            if not queue.was_empty:
                return 0
            queue.update_disptime()
            if parent.schedule_next(False):
                return 0
            queue = parent

    def _dispatch_window(self) -> bool:
        # As long as a group is due. Whether any bio was taken
        clock = self.clock
        taken = False
        while True:
            if clock.tracing():
                reads, writes = self.nr_queued
                clock.log(self.name, f"dispatch nr_queued={reads + writes} read={reads} write={writes}")
            count = self._select()
            if count:
                taken = True
                if clock.tracing():
                    clock.log(self.name, f"bios disp={count}")
            if self.schedule_next(False):
                return taken

    def _select(self) -> int:
        # throtl_select_dispatch
        count = 0
        while self.pending:
            child: ServiceQueue = self.pending[0]
            if self.clock.jiffies() < child.disptime:
                break
            count += child.let_go(0, GROUP_READS) + child.let_go(1, GROUP_WRITES)
            if child.nr_queued[0] or child.nr_queued[1]:
                child.update_disptime()
            else:
                child._remove()
            if count >= QUANTUM:
                break
        return count

    def let_go(self, write: int, most: int) -> int:
        """throtl_dispatch_tg, one direction: up to `most` bios that may go, to the parent. How many."""
        group: ThrottleGroup = self.group  # type: ignore[assignment]
        side: Side = group.side(write == 1)
        clock = self.clock
        parent: ServiceQueue = self.parent  # type: ignore[assignment]
        above = parent.group
        count = 0
        while count < most:
            bio = self.peek(write)
            if bio is None or self.wait_of(bio, write, side):
                break
            self.pop(write)
            self.nr_queued[write] -= 1
            if clock.split_queues:
                self.paid.discard(bio)
                side.charge_io()
            else:
                side.charge(clock.due_bytes(bio))
            if above is not None:
                parent.add(bio, write, self)
                over: Side = above.side(write == 1)
                if over.slice_used():
                    over.start_slice_with_credit(side.slice_start)
            else:
                clock.mark(bio)
                parent.push(bio, write, self.on_parent[write])
            side.trim()
            count += 1
        return count


class ThrottleWorker(Daemon):
    """kthrotld: submits the bios that have come to the top of a queue."""

    def __init__(self, host: Host) -> None:
        Daemon.__init__(self, host, "kthrotld")
        self.top: ServiceQueue | None = None
        self.requested = False
        self.in_turn = False

    def request(self) -> int:
        """Bios have come to the top (queue_work of dispatch_work)."""
        self.requested = True
        return self.wake_up()

    def step(self) -> int:
        """One section of blk_throtl_dispatch_work_fn: DONE, or YIELD."""
        self.cpu = self.host.cpu
        if not self.in_turn:
            self.requested = False
            self.in_turn = True
            top: ServiceQueue = self.top  # type: ignore[assignment]
            for write in range(2):
                bio = top.pop(write)
                while bio is not None:
                    bio.flags |= F_RELEASED
                    self.given.append(bio)
                    bio = top.pop(write)
            self.plug.start(1)
        result = self.advance()
        if result == DONE:
            bio = self.given.popleft()
            if bio is not None:
                self.begin(bio)
                return YIELD
            if self.finish_plug() == YIELD:
                return YIELD
            self.in_turn = False
            return YIELD if self.requested else DONE
        if result == WAIT:
            self.sleeping = True
            return DONE
        return YIELD
