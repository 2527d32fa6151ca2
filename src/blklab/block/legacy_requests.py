"""How many requests a single queue has: nr_requests for each of synchronous and asynchronous I/O, and who may
take one.

What: `RequestRoom` is struct request_list with its rules (get_request, freed_request), `IoContext` what the
rules know of a task. Why so many rules: with plain first come, first served at a full queue tasks would take
turns at every request, and none would get a run of neighbours to merge or to serve in one sweep of the disk.

Theory of operation
-------------------
Synchronous I/O (reads, and writes somebody waits for) and
asynchronous I/O are counted apart, each up to `nr_requests`. The task that takes the last one marks the side
full and becomes a batcher: it may go on for 32 requests or 20 ms, up to one and a half times nr_requests;
others sleep. Each request that is freed wakes one sleeper, first come first served, once the side is below
nr_requests, and clears `full`; who wakes becomes a batcher as well, so that it gets a run of requests and not
one. A batcher whose time is over still has the one request that it was woken for.

A scheduler may say that it wants nothing (NO_QUEUE): a side that has no request at all is then marked
starved, so that one freed on the other side wakes its sleepers. Or that it wants one above all (MUST_QUEUE):
full is no obstacle then, one and a half times nr_requests is.

Congestion (on above 7/8 of nr_requests, off below 13/16) is kept and shown; nothing here asks for it: it is
read by those who write back pages.

Deliberate differences: memory is never short.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import cython

from blklab.block.sbitmap import WaitQueue

if TYPE_CHECKING:
    from blklab.block.request import Request
    from blklab.block.sbitmap import Waiter

if not cython.compiled:
    from blklab.block.consts import MUST_QUEUE

BATCH_REQUESTS = 32  # BLK_BATCH_REQ
BATCHES_PER_SECOND = 50  # BLK_BATCH_TIME is HZ / 50
DEFAULT_REQUESTS = 128  # BLKDEV_MAX_RQ


class IoContext:
    """A task to the request rules (struct io_context), and where its bio stands on a single queue: `stage`,
    `rq`."""

    def __init__(self) -> None:
        self.nr_batch_requests = 0
        self.last_waited_ns = 0
        self.stage = 0
        self.rq: Request | None = None

    def batching(self, now_ns: int, jiffy_ns: int) -> bool:
        """ioc_batching: whether it may take requests of a full queue."""
        left = self.nr_batch_requests
        if left == BATCH_REQUESTS:
            return True
        if left == 0:
            return False
        jiffies = 1_000_000_000 // jiffy_ns // BATCHES_PER_SECOND
        return now_ns // jiffy_ns < self.last_waited_ns // jiffy_ns + jiffies

    def set_batching(self, now_ns: int, jiffy_ns: int) -> None:
        """ioc_set_batching: it may, from now on for a while, unless it may already."""
        if not self.batching(now_ns, jiffy_ns):
            self.nr_batch_requests = BATCH_REQUESTS
            self.last_waited_ns = now_ns


class Side:
    """The synchronous or the asynchronous requests of a queue."""

    def __init__(self) -> None:
        self.count = 0
        self.full = False
        self.congested = False
        self.starved = False
        self.sleepers = WaitQueue()


class RequestRoom:
    """The requests of one single queue. `counts_all`: those that a batcher takes while there is room count
    too (since io contexts are there for every task, 3.x; before, only those of a full queue)."""

    def __init__(self, jiffy_ns: int, counts_all: bool) -> None:
        self.jiffy_ns = jiffy_ns
        self.counts_all = counts_all
        self.nr_requests = DEFAULT_REQUESTS
        self.congestion_on = 0
        self.congestion_off = 0
        self.asynchronous = Side()
        self.synchronous = Side()
        self._set_thresholds()

    def _set_thresholds(self) -> None:
        # blk_queue_congestion_threshold
        nr = self.nr_requests
        self.congestion_on = min(nr - nr // 8 + 1, nr)
        self.congestion_off = max(nr - nr // 8 - nr // 16 - 1, 1)

    def side(self, sync: bool) -> Side:
        """That of synchronous or of asynchronous requests."""
        return self.synchronous if sync else self.asynchronous

    def total(self) -> int:
        """All requests that are allocated."""
        return self.synchronous.count + self.asynchronous.count

    def take(self, ioc: IoContext, sync: bool, may_queue: int, now_ns: int) -> bool:
        """get_request, its counting: whether the task gets one."""
        side = self.synchronous if sync else self.asynchronous
        nr = self.nr_requests
        counts = self.counts_all
        if side.count + 1 >= self.congestion_on:
            if side.count + 1 >= nr:
                counts = True
                if not side.full:
                    # It takes the last one: the side is full now, and it may go on
                    ioc.set_batching(now_ns, self.jiffy_ns)
                    side.full = True
                elif may_queue != MUST_QUEUE and not ioc.batching(now_ns, self.jiffy_ns):
                    return False
            side.congested = True
        if side.count >= 3 * nr // 2:
            return False
        side.count += 1
        side.starved = False
        if counts and ioc.batching(now_ns, self.jiffy_ns):
            ioc.nr_batch_requests -= 1
        return True

    def refused(self, sync: bool) -> None:
        """The scheduler wants nothing now: if the side has nothing that could end and wake, the other one
        must."""
        side = self.synchronous if sync else self.asynchronous
        if side.count == 0:
            side.starved = True

    def sleep(self, waiter: Waiter, sync: bool) -> None:
        """At the end of those that wait."""
        side = self.synchronous if sync else self.asynchronous
        side.sleepers.append(waiter)

    def give(self, sync: bool) -> int:
        """freed_request: one is free again."""
        side = self.synchronous if sync else self.asynchronous
        other = self.asynchronous if sync else self.synchronous
        side.count -= 1
        self._freed(side)
        if other.starved:
            self._freed(other)
        return 0

    def _freed(self, side: Side) -> int:
        if side.count < self.congestion_off:
            side.congested = False
        if side.count + 1 <= self.nr_requests:
            waiter = side.sleepers.head
            if waiter is not None:
                side.sleepers.remove(waiter)
                waiter.wake()
            side.full = False
        return 0

    def resize(self, nr: int) -> None:
        """queue_requests_store: another nr_requests, with which the sides may be full or be so no more."""
        self.nr_requests = nr
        self._set_thresholds()
        for side in (self.synchronous, self.asynchronous):
            if side.count >= self.congestion_on:
                side.congested = True
            elif side.count < self.congestion_off:
                side.congested = False
            if side.count >= nr:
                side.full = True
            else:
                self._freed(side)
