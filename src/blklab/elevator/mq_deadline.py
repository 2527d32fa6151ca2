"""mq-deadline: requests go by sector in batches, but none waits much longer than its deadline.

What: the default scheduler of disks and of devices with one hardware queue. It saves a disk's head way by going up
through the sectors, prefers reads (somebody waits for them) to writes (mostly nobody does), and bounds what that
costs those who wait: an expired request is where the next batch begins, and writes are passed over a few times only.

Theory of operation
-------------------
One `Line` for each I/O class (RT, BE, IDLE) and direction holds its requests twice: by sector in a tree, by arrival
in a FIFO. A batch is up to `fifo_batch` requests of one direction in the order of their sectors. When it is full, or
nothing lies ahead, the next direction is chosen: reads if there are any, unless writes wait and were passed over
`writes_starved` times. It goes on where that direction was left, or restarts with the head of the FIFO if that one
has expired or nothing lies ahead. So with both saturated two batches of reads follow each of writes.

A class is served while no higher one has requests, waiting or in the driver; except that a request of BE or IDLE that
has waited for `prio_aging_expire` goes before all. Which direction is at work, how long its batch is and how often
writes were passed over are kept once for all classes, and looking for an aged request moves them too, even if none is
found: with two classes in use batches are short (captures deadline/prio-mq-deadline*).

Everything is under one lock, taken to merge a bio, to insert and for each request dispatched: what one CPU can do in
that time is the most that the device gets.

Writes and asynchronous requests may use `async_depth` of the scheduler's tags, so that reads find one. Time is in
jiffies, as in the kernel: deadlines are whole jiffies, tunables in ms are rounded up to them.

Features (what changed, and when)
---------------------------------
    mq_deadline_prio          5.14. Before: no classes, no async_depth, and after a change of direction a batch always
                              began with the head of the FIFO
    mq_deadline_prio_aging    5.16. Before: a lower class went on whenever the higher ones had nothing waiting
    mq_deadline_latest_pos    as 6.12: goes on at the sector last dispatched instead of with a remembered request, so
                              what came in between is not left out; what is inserted at the head goes before all classes
    sched_async_depth_whole   as 6.12: async_depth is not scaled to a word of the bitmap; the default limits nothing
    mq_deadline_less_locking  posted in January 2024: insertion takes a lock of its own and leaves the requests in two
                              lists, which the next dispatch sorts in; a CPU does not dispatch while another does; a
                              bio is not merged while the lock is held (the first version had 32 lists, by CPU)

Deliberate differences: no zones. Lists that debugfs prints show how many requests they hold. Numbers are decimal (the
kernel takes 0x10 too since 5.14, and any text before). In 5.14 to 6.9 async_depth was 3/4 of nr_requests.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import cython

from blklab.block.attributes import Attribute, number
from blklab.block.elevator import Elevator, register
from blklab.block.request import RequestList
from blklab.block.rqtree import RequestTree
from blklab.core.host import Lock

if TYPE_CHECKING:
    from blklab.block.bio import Bio
    from blklab.block.hwqueue import HardwareQueue
    from blklab.block.queue import RequestQueue
    from blklab.block.request import Request
    from blklab.block.submit import Submitter

if not cython.compiled:
    from blklab.block.consts import MERGE_FRONT, OP_READ
    from blklab.block.request import direction
    from blklab.core.charging import charge, give_lock, take_lock
    from blklab.core.steps import STEP_LOCK_SCHED, STEP_MQ_DEADLINE

# Defaults (mq-deadline.c). Deadlines are soft: they say where a batch begins, not when a request is issued.
READ_EXPIRE_MS, WRITE_EXPIRE_MS, PRIO_AGING_EXPIRE_MS = 500, 5000, 10_000
WRITES_STARVED, FIFO_BATCH = 2, 16

READ, WRITE = 0, 1
CLASS_SHIFT, CLASS_RT, CLASS_IDLE = 13, 1, 3  # IOPRIO_: an ioprio is a class and a level
MS = 1_000_000
NO_LIMIT_NS = (1 << 63) - 1
INT_MAX = (1 << 31) - 1
INT_MIN = -INT_MAX - 1

# -- tunables ------------------------------------------------------------------------


def _number(path: str, least: int, most: int, help_text: str) -> Attribute:
    # What is out of range is taken as the nearest that is not
    def set_it(owner: Any, text: str) -> None:
        setattr(owner, path, max(least, min(number(text, INT_MIN, INT_MAX), most)))

    return Attribute(path, help_text, lambda owner: getattr(owner, path), set_it)


def _milliseconds(path: str, help_text: str) -> Attribute:
    def set_it(owner: Any, text: str) -> None:
        setattr(owner, f"{path}_ns", _whole_jiffies(number(text, INT_MIN, INT_MAX), owner.jiffy_ns))

    return Attribute(path, help_text, lambda owner: getattr(owner, f"{path}_ns") // MS, set_it)


def _whole_jiffies(ms: int, jiffy_ns: int) -> int:
    return (max(0, ms) * MS + jiffy_ns - 1) // jiffy_ns * jiffy_ns


TUNABLES: tuple[Attribute, ...] = (
    _milliseconds("read_expire", "ms after which a read is where the next batch of reads begins"),
    _milliseconds("write_expire", "the same for writes"),
    _number("writes_starved", INT_MIN, INT_MAX, "batches of reads before waiting writes; negative: all"),
    _number("front_merges", 0, 1, "1: look for a request that a bio would precede"),
    _number("async_depth", 1, INT_MAX, "how many of nr_requests all but reads may use"),
    _number("fifo_batch", 0, INT_MAX, "most requests of one direction in a row, by sector"),
    _milliseconds("prio_aging_expire", "ms after which a request goes before those of higher classes"),
)

# -- state -----------------------------------------------------------------------------


class Line:
    """The requests of one class and direction. `next_rq`: where a batch goes on; `latest_pos`: the same as a sector."""

    def __init__(self, way: int) -> None:
        self.way = way
        self.tree = RequestTree()
        self.fifo = RequestList()
        self.next_rq: Request | None = None
        self.latest_pos = 0

    def show_next(self, by_position: bool) -> str:
        """The request that a batch would go on with, for debugfs: sector and sectors."""
        rq = self.tree.at_or_after(self.latest_pos) if by_position else self.next_rq
        return "" if rq is None else f"{rq.sector} + {rq.nr_sectors}"


class IoClass:
    """One I/O class: its lines, what was inserted at the head, and how many requests it has seen."""

    def __init__(self) -> None:
        self.reads = Line(READ)
        self.writes = Line(WRITE)
        self.dispatch = RequestList()
        self.inserted = self.merged = self.dispatched = self.completed = 0


class MqDeadline(Elevator):
    """Sorted batches of reads and writes, with deadlines, one class of I/O priority after the other.

    A request's `elv0` is its class, `elv1` its line, `elv_ns` its deadline.
    """

    tunables = TUNABLES
    sq_sched = True

    def __init__(self, queue: RequestQueue) -> None:
        super().__init__(queue)
        features = queue.features
        self.with_classes = bool(features.mq_deadline_prio)
        self.aging = self.with_classes and bool(features.mq_deadline_prio_aging)
        self.by_position = bool(features.mq_deadline_latest_pos)
        self.less_locking = bool(features.mq_deadline_less_locking)
        self.whole_depth = bool(features.sched_async_depth_whole)
        self.jiffy_ns = queue.host.jiffy_ns
        self.read_expire_ns = _whole_jiffies(READ_EXPIRE_MS, self.jiffy_ns)
        self.write_expire_ns = _whole_jiffies(WRITE_EXPIRE_MS, self.jiffy_ns)
        self.prio_aging_expire_ns = _whole_jiffies(PRIO_AGING_EXPIRE_MS, self.jiffy_ns)
        self.writes_starved = WRITES_STARVED
        self.front_merges = 1
        self.fifo_batch = FIFO_BATCH
        self.async_depth = queue.nr_requests
        self.lock = Lock("mq-deadline")
        self.rt = IoClass()
        self.be = IoClass()
        self.idle = IoClass()
        self.at_work = WRITE
        self.batching = self.starved = self.held = 0
        self.dispatch = RequestList()  # mq_deadline_latest_pos: inserted at the head, for all classes
        # mq_deadline_less_locking: inserted and not yet sorted in; until when a CPU dispatches
        self.insert_lock = Lock("mq-deadline insert")
        self.at_head = RequestList()
        self.at_tail = RequestList()
        self.dispatching_until_ns = 0

    def init_hctx(self, hctx: HardwareQueue) -> None:
        """As when nr_requests has changed."""
        self.depth_updated(hctx)

    def depth_updated(self, hctx: HardwareQueue) -> None:
        """async_depth is all of nr_requests again, as that was: the hook runs before the new value is there."""
        if self.with_classes:
            self.async_depth = self.queue.nr_requests
            if hctx.sched_tags is not None:
                hctx.sched_tags.bitmap.set_min_shallow_depth(1)

    # -- a bio comes ---------------------------------------------------------------------

    def limit_depth(self, bio: Bio) -> int:
        """async_depth for all but reads, in proportion to a word of the bitmap. In 6.12: as it is."""
        if bio.op == OP_READ or not self.with_classes:
            return 0
        queue = self.queue
        tags = queue.hctx_of(bio.submitter.cpu).sched_tags
        depth = min(self.async_depth, queue.nr_requests)
        if self.whole_depth or tags is None:
            return depth
        return ((depth << tags.bitmap.shift) + queue.nr_requests - 1) // queue.nr_requests

    def bio_merge(self, bio: Bio, segments: int, submitter: Submitter) -> bool:
        """With what is held, under the lock; what has become empty by it is freed behind it."""
        queue = self.queue
        if self.less_locking and self.lock.free_at_ns > queue.clock.now_ns:
            return False
        take_lock(queue.host, self.lock, STEP_LOCK_SCHED)
        elv_merge = queue.elv_merge
        merged = elv_merge.try_merge(bio, segments)
        emptied = elv_merge.freed
        give_lock(queue.host, self.lock)
        if emptied is not None:
            queue.free_request(emptied)
        return merged

    def request_merge(self, bio: Bio) -> Request | None:
        """A request that begins where `bio` ends."""
        if not self.front_merges:
            return None
        return self._line(self._class(bio.ioprio), bio.op).tree.find(bio.sector + bio.nr_sectors)

    def latter_request(self, rq: Request) -> Request | None:
        """The one behind it in its line."""
        return self._line_of(rq).tree.after(rq)

    def former_request(self, rq: Request) -> Request | None:
        """The one before it in its line."""
        return self._line_of(rq).tree.before(rq)

    def request_merged(self, rq: Request, kind: int) -> None:
        """A front merge moves it in the tree; its deadline stays."""
        if kind == MERGE_FRONT:
            line = self._line_of(rq)
            line.tree.remove(rq)
            line.tree.add(rq)

    def requests_merged(self, rq: Request, following: Request) -> None:
        """`rq` takes the earlier deadline of the two, and with it the place in the FIFO."""
        io_class = self._class_of(following)
        io_class.merged += 1
        line = self._line_of(following)
        if following.list is not None:
            self.held -= 1
            if following.elv_ns < rq.elv_ns:
                line.fifo.remove(rq)
                line.fifo.insert_behind(rq, following)
                rq.elv_ns = following.elv_ns
        self._take_out(following, line)

    # -- a request is inserted --------------------------------------------------------------

    def prepare_request(self, rq: Request) -> None:
        """It belongs to no class yet."""
        rq.elv0 = None

    def insert_requests(self, hctx: HardwareQueue, rqs: RequestList, at_head: bool) -> None:
        """Sort them in under the lock; less_locking: leave them to the next dispatch."""
        host = self.queue.host
        self.held += rqs.count
        if self.less_locking:
            take_lock(host, self.insert_lock, STEP_LOCK_SCHED)
            if at_head:
                while rqs.count:
                    self.at_head.push(rqs.pop())
            else:
                self.at_tail.splice_tail(rqs)
            give_lock(host, self.insert_lock)
            return
        take_lock(host, self.lock, STEP_LOCK_SCHED)
        while rqs.count:
            self._insert(rqs.popleft(), at_head)
        give_lock(host, self.lock)

    def _insert(self, rq: Request, at_head: bool) -> None:
        queue = self.queue
        io_class = self._class(rq.ioprio)
        line = self._line(io_class, rq.op)
        if rq.elv0 is None:
            io_class.inserted += 1
        rq.elv0 = io_class
        rq.elv1 = line
        emptied = queue.elv_merge.insert_merge(rq)
        if emptied:
            self.held -= 1
            for one in emptied:
                queue.free_request(one)
            return
        queue.trace_insert(rq)
        rq.elv_ns = self._now_ns()
        if at_head:
            at = self.dispatch if self.by_position else io_class.dispatch
            at.push(rq)
            return
        line.tree.add(rq)
        if queue.merger.rq_mergeable(rq):
            queue.elv_merge.add(rq)
        rq.elv_ns += self._expire_ns(line)
        line.fifo.append(rq)

    # -- a request is dispatched --------------------------------------------------------------

    def has_work(self, hctx: HardwareQueue) -> bool:
        """Whatever is held, for any hardware queue."""
        return self.held > 0

    def dispatch_request(self, hctx: HardwareQueue) -> Request | None:
        """The next one of the device, perhaps of another hardware queue."""
        queue = self.queue
        host = queue.host
        if self.less_locking and self.dispatching_until_ns > queue.clock.now_ns:
            return None
        take_lock(host, self.lock, STEP_LOCK_SCHED)
        if self.at_head.count or self.at_tail.count:
            self._sort_in()
        rq = self._choose()
        if rq is not None:
            charge(host, STEP_MQ_DEADLINE)
        give_lock(host, self.lock)
        self.dispatching_until_ns = queue.clock.now_ns
        return rq

    def _sort_in(self) -> None:
        # What insert_requests left: the lists are emptied under their own lock, which is not held for the sorting
        host = self.queue.host
        take_lock(host, self.insert_lock, STEP_LOCK_SCHED)
        give_lock(host, self.insert_lock)
        while self.at_head.count:
            self._insert(self.at_head.popleft(), True)
        while self.at_tail.count:
            self._insert(self.at_tail.popleft(), False)

    def _choose(self) -> Request | None:
        if self.dispatch.count:
            return self._give(self.dispatch.popleft())
        now_ns = self._now_ns()
        rt = self.rt.inserted - self.rt.completed
        be = self.be.inserted - self.be.completed
        idle = self.idle.inserted - self.idle.completed
        if self.aging and (rt > 0) + (be > 0) + (idle > 0) > 1:
            rq = self._choose_of(self.be, now_ns, now_ns - self.prio_aging_expire_ns)
            if rq is None:
                rq = self._choose_of(self.idle, now_ns, now_ns - self.prio_aging_expire_ns)
            if rq is not None:
                return rq
        # kernel: the age counts here too; with a deadline made longer since, a request seems to be of the future
        latest_ns = now_ns if self.aging else NO_LIMIT_NS
        rq = None
        if rt:
            rq = self._choose_of(self.rt, now_ns, latest_ns)
            if self.aging:
                return rq
        if be and rq is None:
            rq = self._choose_of(self.be, now_ns, latest_ns)
            if self.aging:
                return rq
        if idle and rq is None:
            rq = self._choose_of(self.idle, now_ns, latest_ns)
        return rq

    def _choose_of(self, io_class: IoClass, now_ns: int, latest_ns: int) -> Request | None:
        # The next one of a class, unless it was inserted after `latest_ns`
        rq = io_class.dispatch.head
        if rq is not None:
            if rq.elv_ns - self._expire_ns(self._line_of(rq)) > latest_ns:
                return None
            return self._give(io_class.dispatch.popleft())
        reads, writes = io_class.reads, io_class.writes
        line = reads if self.at_work == READ else writes
        rq = self._ahead(line)
        if rq is None or self.batching >= self.fifo_batch:
            # A new batch
            if reads.fifo.count:
                line = reads
                if writes.fifo.count:
                    # kernel: compared without sign, so a negative limit is never reached
                    if 0 <= self.writes_starved <= self.starved:
                        line = writes
                    self.starved += 1
            elif writes.fifo.count:
                line = writes
            else:
                return None
            if line is writes:
                self.starved = 0
            rq = self._ahead(line)
            if rq is None or line.fifo.head.elv_ns <= now_ns:
                rq = line.fifo.head
            self.at_work = line.way
            self.batching = 0
        # kernel: not found if it is not old enough, and yet the batch has been begun
        if rq.elv_ns - self._expire_ns(line) > latest_ns:
            return None
        self.batching += 1
        line.next_rq = line.tree.after(rq)
        if not self.with_classes:
            (writes if line is reads else reads).next_rq = None
        self._take_out(rq, line)
        return self._give(rq)

    def _ahead(self, line: Line) -> Request | None:
        # What lies ahead of the last one dispatched, in order of sectors
        if self.by_position:
            return line.tree.at_or_after(line.latest_pos)
        return line.next_rq

    def _give(self, rq: Request) -> Request:
        io_class = self._class_of(rq)
        io_class.dispatched += 1
        self._line_of(rq).latest_pos = rq.sector
        self.held -= 1
        return rq

    def finish_request(self, rq: Request) -> None:
        """It has ended, or was merged away."""
        if rq.elv0 is not None:
            io_class = self._class_of(rq)
            io_class.completed += 1

    # -- used by several of them ------------------------------------------------------------------

    def _class(self, ioprio: int) -> IoClass:
        if self.with_classes:
            number_of_class = ioprio >> CLASS_SHIFT
            if number_of_class == CLASS_RT:
                return self.rt
            if number_of_class == CLASS_IDLE:
                return self.idle
        return self.be

    def _line(self, io_class: IoClass, op: int) -> Line:
        return io_class.writes if direction(op) else io_class.reads

    def _class_of(self, rq: Request) -> IoClass:
        return rq.elv0

    def _line_of(self, rq: Request) -> Line:
        return rq.elv1

    def _now_ns(self) -> int:
        # The time of the last jiffy
        now_ns = self.queue.clock.now_ns
        return now_ns - now_ns % self.jiffy_ns

    def _expire_ns(self, line: Line) -> int:
        return self.write_expire_ns if line.way else self.read_expire_ns

    def _take_out(self, rq: Request, line: Line) -> None:
        # Of its line, if it is in it (a request merged at insertion is not); `held` is the caller's
        if rq.list is not None:
            if line.next_rq is rq:
                line.next_rq = line.tree.after(rq)
            line.tree.remove(rq)
            line.fifo.remove(rq)
        self.queue.elv_merge.remove(rq)

    # -- what it shows -----------------------------------------------------------------------------

    def attributes(self) -> list[Attribute]:
        """The tunables that this kernel has."""
        there = {"prio_aging_expire": self.aging, "async_depth": self.with_classes}
        return [one for one in TUNABLES if there.get(one.path, True)]

    def debug_attributes(self) -> list[Attribute]:
        """debugfs, with the number of requests where the kernel prints them."""
        return _debug_attributes(self.with_classes, self.by_position)


def _debug_attributes(with_classes: bool, by_position: bool) -> list[Attribute]:
    found = []

    def add(path: str, help_text: str, get: Callable[[Any], int | str]) -> None:
        found.append(Attribute(path, help_text, get))

    def add_line(name: str, line: Callable[[Any], Any]) -> None:
        add(f"{name}_fifo_list", "requests that wait", lambda e: line(e).fifo.count)
        add(f"{name}_next_rq", "what a batch would go on with", lambda e: line(e).show_next(e.by_position))

    def add_counts(path: str, help_text: str, count: Callable[[Any], int]) -> None:
        add(path, help_text, lambda e: " ".join(str(count(c)) for c in (e.rt, e.be, e.idle)))

    def add_class(suffix: str, io_class: Callable[[Any], Any]) -> None:
        add_line(f"read{suffix}", lambda e: io_class(e).reads)
        add_line(f"write{suffix}", lambda e: io_class(e).writes)
        if not by_position:
            add(f"dispatch{suffix}", "inserted at the head", lambda e: io_class(e).dispatch.count)

    if with_classes:
        add_class("0", lambda e: e.rt)
        add_class("1", lambda e: e.be)
        add_class("2", lambda e: e.idle)
        add("async_depth", "as the tunable", lambda e: e.async_depth)
        add_counts("owned_by_driver", "given out, not ended", lambda c: c.dispatched + c.merged - c.completed)
        add_counts("queued", "inserted, not ended", lambda c: c.inserted - c.completed)
    else:
        add_class("", lambda e: e.be)
    if by_position:
        add("dispatch", "inserted at the head", lambda e: e.dispatch.count)
    add("batching", "length of the present batch", lambda e: e.batching)
    add("starved", "how often writes were passed over", lambda e: e.starved)
    return found


register("mq-deadline")(MqDeadline)
