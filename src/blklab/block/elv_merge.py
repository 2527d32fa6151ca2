"""Merging with the requests that a scheduler holds: last_merge, the hash of ends, and the scheduler's own
order.

What: what elevator.c gives to schedulers that keep their requests sorted: given a bio, find the request it
continues, and merge; given a request about to be inserted, find one that it continues; join neighbours that
have come to touch. Why not in `merge.py`: that says whether two things merge, this says where to look.

Theory of operation
-------------------
`last_merge`, the request that merged last or was inserted last, is
tried first. With nomerges=1 that is all; else the hash has every request by the sector behind its end, which
finds back merges; the scheduler's `request_merge` finds front merges (it has the requests sorted by sector).
After a merge the request may touch its neighbour (`latter_request`, `former_request`): then the two become
one, and the emptied one is in `freed`, for the scheduler to take out of its lists and free.

A scheduler calls `add` when it queues a request and `remove` when it gives one out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import cython

if TYPE_CHECKING:
    from blklab.block.bio import Bio
    from blklab.block.queue import RequestQueue
    from blklab.block.request import Request

if not cython.compiled:
    from blklab.block.consts import (
        HOOK_ALLOW_MERGE,
        MERGE_BACK,
        MERGE_DISCARD,
        MERGE_NONE,
        MERGE_OK,
        OP_DISCARD,
        RQF_HASHED,
        RQF_SORTED,
    )


class Bucket:
    """The requests of one place in the hash, latest first, linked through `hash_next`."""

    def __init__(self) -> None:
        self.head: Request | None = None


class ElvMerge:
    """The hash of one queue's scheduler (`queue.elv_merge`). `found`: the request of the last `find`; `freed`: what
    the last merge emptied."""

    def __init__(self, queue: RequestQueue) -> None:
        self.queue = queue
        self.buckets = [Bucket() for _ in range(64)]
        self.mask = 63
        self.hashed = 0
        self.found: Request | None = None
        self.freed: Request | None = None
        self.nothing: list[Request] = []

    # -- the hash ------------------------------------------------------------------

    def add(self, rq: Request) -> None:
        """The scheduler holds `rq`: if it can merge, it is found by its end, and tried first if nothing merged
        yet."""
        if not self.queue.merger.rq_mergeable(rq):
            return
        self._hash(rq)
        if self.queue.last_merge is None:
            self.queue.last_merge = rq

    def remove(self, rq: Request) -> None:
        """The scheduler gives `rq` out, or frees it."""
        self._unhash(rq)
        if self.queue.last_merge is rq:
            self.queue.last_merge = None

    def _index(self, end: int) -> int:
        # Most ends are multiples of 8 sectors
        return ((end >> 3) ^ (end >> 11)) & self.mask

    def _hash(self, rq: Request) -> None:
        # Before those of the same bucket that were hashed earlier
        if self.hashed > self.mask:
            self._grow()
        rq.elv_end = rq.sector + rq.nr_sectors
        rq.rq_flags |= RQF_HASHED
        bucket: Bucket = self.buckets[self._index(rq.elv_end)]
        head = bucket.head
        rq.hash_prev = None
        rq.hash_next = head
        if head is not None:
            head.hash_prev = rq
        bucket.head = rq
        self.hashed += 1

    def _unhash(self, rq: Request) -> None:
        if rq.rq_flags & RQF_HASHED:
            rq.rq_flags &= ~RQF_HASHED
            before = rq.hash_prev
            following = rq.hash_next
            if before is None:
                bucket: Bucket = self.buckets[self._index(rq.elv_end)]
                bucket.head = following
            else:
                before.hash_next = following
            if following is not None:
                following.hash_prev = before
            rq.hash_prev = None
            rq.hash_next = None
            self.hashed -= 1

    def _grow(self) -> None:
        # As many buckets as requests, and the order of those that end at one sector stays
        old = self.buckets
        self.mask = self.mask * 2 + 1
        self.buckets = [Bucket() for _ in range(self.mask + 1)]
        for bucket in old:
            rq = bucket.head
            while rq is not None and rq.hash_next is not None:
                rq = rq.hash_next
            while rq is not None:
                before = rq.hash_prev
                self.hashed -= 1
                self._hash(rq)
                rq = before

    def _moved(self, rq: Request) -> None:
        # elv_rqhash_reposition: its end has changed
        self._unhash(rq)
        self._hash(rq)

    def _ends_at(self, sector: int) -> Request | None:
        # elv_rqhash_find: the one hashed last that can still merge
        bucket: Bucket = self.buckets[self._index(sector)]
        rq = bucket.head
        while rq is not None:
            if rq.elv_end == sector and self.queue.merger.rq_mergeable(rq):
                return rq
            rq = rq.hash_next
        return None

    # -- a bio --------------------------------------------------------------------

    def _merge_ok(self, rq: Request, bio: Bio) -> bool:
        # elv_bio_merge_ok: the scheduler is asked before it is known whether the two touch (bfq merges queues by that)
        queue = self.queue
        if not queue.merger.merge_ok(rq, bio):
            return False
        elevator = queue.elevator
        if elevator is None or not queue.elevator_hooks & HOOK_ALLOW_MERGE:
            return True
        return elevator.allow_merge(rq, bio)

    def find(self, bio: Bio) -> int:
        """elv_merge: MERGE_BACK, MERGE_FRONT or MERGE_DISCARD with the request in `found`, or MERGE_NONE."""
        queue = self.queue
        merger = queue.merger
        self.found = None
        if queue.nomerges >= 2 or not merger.bio_mergeable(bio):
            return MERGE_NONE
        last = queue.last_merge
        if last is not None and self._merge_ok(last, bio):
            kind = merger.merge_kind(last, bio)
            if kind != MERGE_NONE:
                self.found = last
                return kind
        if queue.nomerges == 1:
            return MERGE_NONE
        rq = self._ends_at(bio.sector)
        if rq is not None and self._merge_ok(rq, bio):
            self.found = rq
            if rq.op == OP_DISCARD and queue.limits.max_discard_segments > 1:
                return MERGE_DISCARD
            return MERGE_BACK
        if queue.elevator is not None:
            rq = queue.elevator.request_merge(bio)
            if rq is not None and self._merge_ok(rq, bio):
                self.found = rq
                return merger.merge_kind(rq, bio)
        return MERGE_NONE

    def try_merge(self, bio: Bio, segments: int) -> bool:
        """blk_mq_sched_try_merge: whether `bio` was merged. A request that became empty by it is in
        `freed`."""
        self.freed = None
        kind = self.find(bio)
        rq = self.found
        if kind == MERGE_NONE or rq is None:
            return False
        elevator = self.queue.elevator
        merger = self.queue.merger
        if kind == MERGE_DISCARD:
            return merger.discard_merge(rq, bio) == MERGE_OK
        if elevator is None or not elevator.allow_merge(rq, bio):
            return False
        if kind == MERGE_BACK:
            if merger.back_merge(rq, bio, segments) != MERGE_OK:
                return False
            neighbour = elevator.latter_request(rq)
            if neighbour is not None and self._join(rq, neighbour):
                self.freed = neighbour
                return True
        else:
            if merger.front_merge(rq, bio, segments) != MERGE_OK:
                return False
            neighbour = elevator.former_request(rq)
            if neighbour is not None and self._join(neighbour, rq):
                self.freed = rq
                return True
        elevator.request_merged(rq, kind)
        if kind == MERGE_BACK:
            self._moved(rq)
        self.queue.last_merge = rq
        return True

    # -- a request ----------------------------------------------------------------

    def insert_merge(self, rq: Request) -> list[Request]:
        """blk_mq_sched_try_insert_merge: merge a request that is about to be inserted into one that is held. Returns
        those that became empty, `rq` first, for the scheduler to free; empty if it was not merged."""
        queue = self.queue
        if queue.nomerges >= 2 or not queue.merger.rq_mergeable(rq):
            return self.nothing
        last = queue.last_merge
        if last is not None and self._join(last, rq):
            return [rq]
        if queue.nomerges == 1:
            return self.nothing
        held = self._ends_at(rq.sector)
        if held is None:
            return self.nothing
        emptied: list[Request] = []
        while held is not None and held is not rq and self._join(held, rq):
            emptied.append(rq)
            # What it has become may continue another one
            rq = held
            held = self._ends_at(rq.sector)
        return emptied

    def _join(self, rq: Request, following: Request) -> bool:
        # attempt_merge: all of `following` to the end of `rq`
        queue = self.queue
        if not queue.merger.merge_requests(rq, following):
            return False
        elevator = queue.elevator
        if elevator is not None and not (rq.op == OP_DISCARD and queue.limits.max_discard_segments > 1):
            if queue.legacy is None or following.rq_flags & RQF_SORTED:
                elevator.requests_merged(rq, following)
            self._moved(rq)
        self._unhash(following)
        queue.last_merge = rq
        return True
