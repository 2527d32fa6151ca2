"""struct request: a run of contiguous bios, the unit that schedulers and drivers handle; and lists of them.

What: one request holds a chain of bios (`bio` .. `biotail`), the sectors they cover, the tags it occupies and where
it is in its life. Requests are used again, the last one freed first.

Theory of operation
-------------------
`TRANSITIONS` is the whole life of a request as a literal table. With `queue.checks` on (tests, and
`--set debug/checks=1`) every move is held against it; the hot path only stores the new state.

A request is an `Event`: a device asks its clock for `fire` at the time of service, which hands the request to its
driver (`Driver.rq_done`). A request is in at most one `RequestList`, which links it both ways, so that a scheduler can
take it out of the middle.

Deliberate differences: a request does not belong to a tag (`static_rqs`), since a device's thousands of tags are taken
in turn and its requests would lie all over the memory of who simulates it; no reference count (nothing races with
completion here), and `rq.next` serves plug, software queue and dispatch list alike, since a request is never in two of
them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import cython

from blklab.core.clock import Event

if TYPE_CHECKING:
    from blklab.block.bio import Bio
    from blklab.block.hwqueue import HardwareQueue
    from blklab.block.iostat import IoStat
    from blklab.block.queue import RequestQueue
    from blklab.block.submit import Submitter
    from blklab.block.swqueue import SoftwareQueue

if not cython.compiled:
    from blklab.block.consts import F_FUA, F_PREFLUSH, F_SYNC, OP_READ, RQ_COMPLETE, RQF_TIMED_OUT

STATE_NAMES = ("free", "got", "plugged", "queued", "dispatch", "started", "complete")

# state -> where a request may go from there, and why. Numbers are the RQ_ constants, in the order of STATE_NAMES.
TRANSITIONS: dict[int, tuple[int, ...]] = {
    0: (1,),  # free: a tag is allocated
    1: (
        0,
        2,
        3,
        4,
        5,
    ),  # got: freed unused (its bio merged after all), plugged, inserted, bypassed, issued directly
    2: (0, 3, 4, 5),  # plugged: merged into another at insert, inserted, bypassed, issued directly
    3: (0, 4, 5),  # queued in a scheduler or software queue: merged away, taken for dispatch, issued directly
    4: (0, 3, 4, 5),  # on a dispatch list: failed, inserted again, left over, issued
    5: (0, 3, 4, 6),  # started in the driver: failed at once, requeued to the scheduler, BUSY, complete
    6: (0, 4, 5),  # complete: freed; requeued by a driver (dm-rq); or the timeout handler gave it more time
}


class Request(Event):
    """One request. Schedulers may use `elv0`, `elv1` and `elv_ns` as they like while they own it; `submitter` is the
    task it was allocated for."""

    def __init__(self, queue: RequestQueue) -> None:
        self.queue = queue
        self.next: Request | None = None
        self.prev: Request | None = None
        self.list: RequestList | None = None
        self.bio: Bio | None = None
        self.biotail: Bio | None = None
        self.hctx: HardwareQueue | None = None
        self.ctx: SoftwareQueue | None = None
        self.submitter: Submitter | None = None
        self.part: IoStat | None = None
        self.tree_left: Request | None = None
        self.tree_right: Request | None = None
        self.tree_above: Request | None = None
        self.tree_rank = 0
        self.hash_next: Request | None = None
        self.hash_prev: Request | None = None
        self.elv0: object = None
        self.elv1: object = None
        self.flush_seq = 0
        self.elv_ns = 0
        self.elv_end = 0
        self.state = 0
        self.op = 0
        self.flags = 0
        self.rq_flags = 0
        self.ioprio = 0
        self.status = 0
        self.tag = -1
        self.internal_tag = -1
        self.budget_token = -1
        self.nr_segments = 0
        self.cpu = 0
        self.sector = 0
        self.nr_sectors = 0
        self.start_ns = 0
        self.io_start_ns = 0
        self.deadline_ns = 0
        self.qos_ns = 0
        self.device_ns = 0
        self.device_slot = 0

    def fire(self, now_ns: int) -> int:
        """The device has served this request; or, once it has completed, this is the interrupt that ends it."""
        queue = self.queue
        if self.rq_flags & RQF_TIMED_OUT:
            queue.put_rq_budget(self)
            queue.free_request(self)
            if queue.legacy is not None:
                queue.legacy.kick()
        elif self.state == RQ_COMPLETE:
            queue.completed_here(self)
        else:
            queue.driver.rq_done(self)
        return 0

    def move(self, state: int) -> int:
        """Go to another state of TRANSITIONS; AssertionError if checks are on and it is not there."""
        if self.queue.checks and state not in TRANSITIONS[self.state]:
            raise AssertionError(
                f"request of {self.queue.name} at sector {self.sector}: "
                f"{STATE_NAMES[self.state]} -> {STATE_NAMES[state]} is not a legal transition"
            )
        self.state = state
        return 0

    def is_sync(self) -> bool:
        """Reads, and writes somebody waits for."""
        return self.op == OP_READ or (self.flags & (F_SYNC | F_FUA | F_PREFLUSH)) != 0

    def end_sector(self) -> int:
        """The sector behind the last one."""
        return self.sector + self.nr_sectors

    @property
    def state_name(self) -> str:
        """The state in words."""
        return STATE_NAMES[self.state]


class RequestList:
    """Requests in order, linked through `next` and `prev`."""

    def __init__(self) -> None:
        self.head: Request | None = None
        self.tail: Request | None = None
        self.count = 0

    def append(self, rq: Request) -> None:
        """Put a request behind the last one."""
        tail = self.tail
        rq.list = self
        if tail is None:
            self.head = rq
        else:
            tail.next = rq
            rq.prev = tail
        self.tail = rq
        self.count += 1

    def push(self, rq: Request) -> None:
        """Put a request before the first one."""
        head = self.head
        rq.list = self
        if head is None:
            self.tail = rq
        else:
            head.prev = rq
            rq.next = head
        self.head = rq
        self.count += 1

    def insert_behind(self, rq: Request, before: Request) -> None:
        """Put a request behind `before`, which must be in this list."""
        following = before.next
        if following is None:
            self.append(rq)
            return
        rq.list = self
        rq.prev = before
        rq.next = following
        before.next = rq
        following.prev = rq
        self.count += 1

    def popleft(self) -> Request | None:
        """Take the first request, or None."""
        rq = self.head
        if rq is None:
            return None
        following = rq.next
        self.head = following
        if following is None:
            self.tail = None
        else:
            following.prev = None
            rq.next = None
        rq.list = None
        self.count -= 1
        return rq

    def pop(self) -> Request | None:
        """Take the last request, or None."""
        rq = self.tail
        if rq is None:
            return None
        before = rq.prev
        self.tail = before
        if before is None:
            self.head = None
        else:
            before.next = None
            rq.prev = None
        rq.list = None
        self.count -= 1
        return rq

    def remove(self, rq: Request) -> None:
        """Take a request out of the middle; it must be in this list."""
        before = rq.prev
        following = rq.next
        if before is None:
            self.head = following
        else:
            before.next = following
        if following is None:
            self.tail = before
        else:
            following.prev = before
        rq.next = None
        rq.prev = None
        rq.list = None
        self.count -= 1

    def splice_tail(self, other: RequestList) -> None:
        """Append all requests of `other`, which is empty afterwards."""
        while other.count:
            self.append(other.popleft())  # type: ignore[arg-type]

    def __iter__(self) -> _RequestIterator:
        return _RequestIterator(self.head)

    def __len__(self) -> int:
        return self.count


class _RequestIterator:
    """From first to last; the request last given may be removed from its list meanwhile."""

    def __init__(self, head: Request | None) -> None:
        self.following = head

    def __iter__(self) -> _RequestIterator:
        return self

    def __next__(self) -> Request:
        rq = self.following
        if rq is None:
            raise StopIteration
        self.following = rq.next
        return rq


def direction(op: int) -> int:
    """rq_data_dir: 0 for reads, 1 for everything that writes (odd operations)."""
    return op & 1
