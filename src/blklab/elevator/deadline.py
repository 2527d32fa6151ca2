"""deadline: requests go by sector in batches, but none waits much longer than its deadline. The single
queue's.

What: deadline-iosched of 2.6.32 to 4.20, which mq-deadline was made from. It saves a disk's head way by going
up through the sectors, prefers reads (somebody waits for them) to writes (mostly nobody does), and bounds
what that costs those who wait.

Theory of operation
-------------------
A `Line` for each direction holds its requests twice: by sector in a
tree, by arrival in a FIFO. A batch is up to `fifo_batch` requests of one direction in the order of their
sectors. When it is full, or nothing lies ahead, a new one begins: of reads if there are any, unless writes
wait and have been passed over `writes_starved` times. It begins at the head of the FIFO if that one's
deadline has passed, if the direction changed, or if nothing lies ahead; else where the last batch of this
direction left off. A request has `read_expire` or `write_expire` from when it was queued.

One request goes to the dispatch list each time the path asks, at its end, so what the scheduler decides is
the order in which the driver sees them. The queue lock protects everything.

Deliberate differences: none known in what it decides; numbers are decimal (the kernel's simple_strtol takes
any text, here what is no number is refused).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import cython

from blklab.block.attributes import Attribute, number
from blklab.block.elevator import Elevator, register
from blklab.block.request import RequestList
from blklab.block.rqtree import RequestTree

if TYPE_CHECKING:
    from blklab.block.bio import Bio
    from blklab.block.queue import RequestQueue
    from blklab.block.request import Request

if not cython.compiled:
    from blklab.block.consts import MERGE_FRONT
    from blklab.block.request import direction
    from blklab.core.charging import charge
    from blklab.core.steps import STEP_MQ_DEADLINE

# Defaults (deadline-iosched.c)
READ_EXPIRE_MS, WRITE_EXPIRE_MS = 500, 5000
WRITES_STARVED, FIFO_BATCH = 2, 16

MS = 1_000_000
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
    _number("fifo_batch", 0, INT_MAX, "most requests of one direction in a row, by sector"),
)

# -- state -----------------------------------------------------------------------------


class Line:
    """The requests of one direction. `next_rq`: where a batch goes on."""

    def __init__(self) -> None:
        self.tree = RequestTree()
        self.fifo = RequestList()
        self.next_rq: Request | None = None


class Deadline(Elevator):
    """Sorted batches of reads and writes, with deadlines. A request's `elv_ns` is its deadline."""

    tunables = TUNABLES
    single_queue = True

    def __init__(self, queue: RequestQueue) -> None:
        super().__init__(queue)
        self.jiffy_ns = queue.host.jiffy_ns
        self.read_expire_ns = _whole_jiffies(READ_EXPIRE_MS, self.jiffy_ns)
        self.write_expire_ns = _whole_jiffies(WRITE_EXPIRE_MS, self.jiffy_ns)
        self.writes_starved = WRITES_STARVED
        self.front_merges = 1
        self.fifo_batch = FIFO_BATCH
        self.reads = Line()
        self.writes = Line()
        self.batching = 0
        self.starved = 0

    # -- a bio comes ---------------------------------------------------------------------

    def request_merge(self, bio: Bio) -> Request | None:
        """A request that begins where `bio` ends."""
        if not self.front_merges:
            return None
        return self._line(bio.op).tree.find(bio.sector + bio.nr_sectors)

    def latter_request(self, rq: Request) -> Request | None:
        """The one behind it by sector."""
        return self._line(rq.op).tree.after(rq)

    def former_request(self, rq: Request) -> Request | None:
        """The one before it by sector."""
        return self._line(rq.op).tree.before(rq)

    def request_merged(self, rq: Request, kind: int) -> None:
        """A front merge moves it in the tree; its deadline stays."""
        if kind == MERGE_FRONT:
            line = self._line(rq.op)
            line.tree.remove(rq)
            line.tree.add(rq)

    def requests_merged(self, rq: Request, following: Request) -> None:
        """`rq` takes the earlier deadline of the two, and with it the place in the FIFO."""
        line = self._line(rq.op)
        if following.elv_ns < rq.elv_ns:
            line.fifo.remove(rq)
            line.fifo.insert_behind(rq, following)
            rq.elv_ns = following.elv_ns
        self._take_out(following, line)

    # -- a request is queued ---------------------------------------------------------------

    def add_request(self, rq: Request) -> None:
        """By sector, and by arrival."""
        line = self._line(rq.op)
        line.tree.add(rq)
        rq.elv_ns = self._now_ns() + (self.write_expire_ns if line is self.writes else self.read_expire_ns)
        line.fifo.append(rq)

    # -- a request is given out ------------------------------------------------------------

    def dispatch_requests(self, force: bool) -> int:
        """The next one. `force` makes no difference: nothing is ever held back."""
        reads, writes = self.reads, self.writes
        # Only one of the two goes on: the direction at work
        rq = writes.next_rq if writes.next_rq is not None else reads.next_rq
        if rq is not None and self.batching < self.fifo_batch:
            return self._give(rq, self._line(rq.op))
        if reads.fifo.count and not self._writes_are_due():
            line = reads
        elif writes.fifo.count:
            line = writes
            self.starved = 0
        else:
            return 0
        rq = line.next_rq
        if rq is None or line.fifo.head.elv_ns <= self._now_ns():
            rq = line.fifo.head
        self.batching = 0
        return self._give(rq, line)

    def _writes_are_due(self) -> bool:
        # Passed over once more, or often enough
        if self.writes.fifo.count == 0:
            return False
        # kernel: compared without sign, so a negative limit is never reached
        due = 0 <= self.writes_starved <= self.starved
        self.starved += 1
        return due

    def _give(self, rq: Request, line: Line) -> int:
        charge(self.queue.host, STEP_MQ_DEADLINE)
        self.batching += 1
        following = line.tree.after(rq)
        self.reads.next_rq = None
        self.writes.next_rq = None
        line.next_rq = following
        line.tree.remove(rq)
        line.fifo.remove(rq)
        self.queue.legacy.dispatch_add_tail(rq)
        return 1

    # -- used by several of them --------------------------------------------------------------

    def _line(self, op: int) -> Line:
        return self.writes if direction(op) else self.reads

    def _now_ns(self) -> int:
        # The time of the last jiffy
        now_ns = self.queue.clock.now_ns
        return now_ns - now_ns % self.jiffy_ns

    def _take_out(self, rq: Request, line: Line) -> None:
        if line.next_rq is rq:
            line.next_rq = line.tree.after(rq)
        line.tree.remove(rq)
        line.fifo.remove(rq)


register("deadline")(Deadline)
