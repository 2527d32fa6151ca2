"""Merging: a bio at the back or front of a request, a request into another.

What is asked, in the kernel's order: may they be merged at all (same operation, priority, cgroup, neither marked), do
they touch, and do limits allow it (sectors, segments, chunk, gaps). Schedulers and the software queues share these.

Deliberate differences: no integrity or inline encryption, no failfast mixing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import cython

if TYPE_CHECKING:
    from blklab.block.bio import Bio
    from blklab.block.plug import Plug
    from blklab.block.queue import RequestQueue
    from blklab.block.request import Request, RequestList

if not cython.compiled:
    from blklab.block.consts import (
        F_FUA,
        F_NOMERGE,
        F_PREFLUSH,
        MERGE_BACK,
        MERGE_DISCARD,
        MERGE_FAILED,
        MERGE_FRONT,
        MERGE_NONE,
        MERGE_OK,
        OP_DISCARD,
        OP_FLUSH,
        OP_WRITE,
        OP_WRITE_ZEROES,
        RQ_STARTED,
        RQF_FLUSH_SEQ,
        RQF_IO_STAT,
        RQF_NOMERGE,
        TR_F,
        TR_M,
    )
    from blklab.core.charging import charge
    from blklab.core.steps import STEP_MERGE, STEP_MERGE_TRY


class Merger:
    """Merging on one queue (`queue.merger`)."""

    def __init__(self, queue: RequestQueue) -> None:
        self.queue = queue

    def bio_mergeable(self, bio: Bio) -> bool:
        """Neither a part of a split bio nor one with flush or FUA."""
        return (bio.flags & (F_NOMERGE | F_PREFLUSH | F_FUA)) == 0

    def rq_mergeable(self, rq: Request) -> bool:
        """Not issued yet, and of a kind that merges."""
        if rq.op == OP_FLUSH or rq.op == OP_WRITE_ZEROES:
            return False
        if rq.flags & (F_NOMERGE | F_PREFLUSH | F_FUA):
            return False
        return (rq.rq_flags & (RQF_NOMERGE | RQF_FLUSH_SEQ)) == 0 and rq.state < RQ_STARTED

    def merge_ok(self, rq: Request, bio: Bio) -> bool:
        """blk_rq_merge_ok: whether the two may be one request at all."""
        return (
            rq.op == bio.op
            and self.rq_mergeable(rq)
            and self.bio_mergeable(bio)
            and rq.ioprio == bio.ioprio
            and (rq.bio is None or rq.bio.blkg is bio.blkg)
        )

    def merge_kind(self, rq: Request, bio: Bio) -> int:
        """blk_try_merge: MERGE_BACK, MERGE_FRONT, MERGE_DISCARD (any place, multi-range discards) or MERGE_NONE."""
        if rq.op == OP_DISCARD and self.queue.limits.max_discard_segments > 1:
            return MERGE_DISCARD
        if rq.sector + rq.nr_sectors == bio.sector:
            return MERGE_BACK
        if rq.sector - bio.nr_sectors == bio.sector:
            return MERGE_FRONT
        return MERGE_NONE

    def _no_merge(self, rq: Request) -> bool:
        # req_set_nomerge: the request is full, nobody need try again. last_merge is forgotten with it.
        rq.rq_flags |= RQF_NOMERGE
        queue = self.queue
        if queue.last_merge is rq:
            queue.last_merge = None
        return False

    def _fits(self, rq: Request, sector: int, nr_sectors: int, segments: int) -> bool:
        # ll_back_merge_fn / ll_front_merge_fn; `sector`: where the merged request would start
        limits = self.queue.limits
        if rq.nr_sectors + nr_sectors > limits.request_max_sectors(rq.op, sector):
            return self._no_merge(rq)
        if rq.op == OP_DISCARD:
            return True
        if rq.nr_segments + segments > limits.max_segments:
            return self._no_merge(rq)
        rq.nr_segments += segments
        return True

    def _gap(self, first: Bio, before: Bio, after: Bio) -> bool:
        # bio_will_gap: with a virt boundary, what comes before must end and what comes after begin on it, and nothing
        # is appended to a request whose `first` bio does not begin on it
        mask = self.queue.limits.virt_boundary_mask
        if before.op > OP_WRITE:
            return False
        end = before.buffer_offset_bytes + (before.nr_sectors << 9)
        return ((first.buffer_offset_bytes | end | after.buffer_offset_bytes) & mask) != 0

    def back_merge(self, rq: Request, bio: Bio, segments: int) -> int:
        """Append `bio` to `rq` if limits allow it: MERGE_OK or MERGE_FAILED. Traces M."""
        queue = self.queue
        if queue.limits.virt_boundary_mask and self._gap(rq.bio, rq.biotail, bio):
            return MERGE_FAILED
        if not self._fits(rq, rq.sector, bio.nr_sectors, segments):
            return MERGE_FAILED
        charge(queue.host, STEP_MERGE)
        if queue.trace_mask & TR_M:
            queue.tracer.add(TR_M, queue.number, bio.op, bio.flags, bio.sector, bio.nr_sectors, 0)
        if queue.qos is not None:
            queue.qos.merge(rq, bio)
        rq.biotail.next = bio
        rq.biotail = bio
        rq.nr_sectors += bio.nr_sectors
        if rq.rq_flags & RQF_IO_STAT:
            queue.stat.merged(rq.op)
            if rq.part is not None:
                rq.part.merged(rq.op)
        return MERGE_OK

    def front_merge(self, rq: Request, bio: Bio, segments: int) -> int:
        """Put `bio` before `rq` if limits allow it: MERGE_OK or MERGE_FAILED. Traces F."""
        queue = self.queue
        if queue.limits.virt_boundary_mask and self._gap(bio, bio, rq.bio):
            return MERGE_FAILED
        if not self._fits(rq, bio.sector, bio.nr_sectors, segments):
            return MERGE_FAILED
        charge(queue.host, STEP_MERGE)
        if queue.trace_mask & TR_F:
            queue.tracer.add(TR_F, queue.number, bio.op, bio.flags, bio.sector, bio.nr_sectors, 0)
        if queue.qos is not None:
            queue.qos.merge(rq, bio)
        bio.next = rq.bio
        rq.bio = bio
        rq.sector = bio.sector
        rq.nr_sectors += bio.nr_sectors
        if rq.rq_flags & RQF_IO_STAT:
            queue.stat.merged(rq.op)
            if rq.part is not None:
                rq.part.merged(rq.op)
        return MERGE_OK

    def discard_merge(self, rq: Request, bio: Bio) -> int:
        """One more range in a discard of several ranges. Traces nothing, as the kernel."""
        queue = self.queue
        limits = queue.limits
        if (
            rq.nr_segments >= limits.max_discard_segments
            or rq.nr_sectors + bio.nr_sectors > limits.request_max_sectors(rq.op, rq.sector)
        ):
            self._no_merge(rq)
            return MERGE_FAILED
        if queue.qos is not None:
            queue.qos.merge(rq, bio)
        rq.biotail.next = bio
        rq.biotail = bio
        rq.nr_sectors += bio.nr_sectors
        rq.nr_segments += 1
        if rq.rq_flags & RQF_IO_STAT:
            queue.stat.merged(rq.op)
            if rq.part is not None:
                rq.part.merged(rq.op)
        return MERGE_OK

    def attempt_bio_merge(self, rq: Request, bio: Bio, segments: int, ask_elevator: bool) -> int:
        """blk_attempt_bio_merge: try one request. MERGE_NONE (try the next), MERGE_OK, MERGE_FAILED (stop)."""
        queue = self.queue
        charge(queue.host, STEP_MERGE_TRY)
        if not self.merge_ok(rq, bio):
            return MERGE_NONE
        kind = self.merge_kind(rq, bio)
        if kind == MERGE_NONE:
            return MERGE_NONE
        if kind == MERGE_DISCARD:
            return self.discard_merge(rq, bio)
        if ask_elevator and queue.elevator is not None and not queue.elevator.allow_merge(rq, bio):
            return MERGE_FAILED
        if kind == MERGE_BACK:
            return self.back_merge(rq, bio, segments)
        return self.front_merge(rq, bio, segments)

    def plug_merge(self, plug: Plug, bio: Bio, segments: int) -> bool:
        """blk_attempt_plug_merge: the last request of this queue in the plug, and only if the plug's tail is of another
        queue when it holds several."""
        rq = plug.requests.tail
        while rq is not None:
            if rq.queue is self.queue:
                return self.attempt_bio_merge(rq, bio, segments, False) == MERGE_OK
            if not plug.multiple_queues:
                return False
            rq = rq.prev
        return False

    def list_merge(self, rqs: RequestList, bio: Bio, segments: int) -> bool:
        """blk_bio_list_merge: the last eight requests of a list, latest first."""
        rq = rqs.tail
        checked = 0
        while rq is not None and checked < 8:
            result = self.attempt_bio_merge(rq, bio, segments, True)
            if result == MERGE_OK:
                return True
            if result == MERGE_FAILED:
                return False
            rq = rq.prev
            checked += 1
        return False

    def merge_requests(self, rq: Request, following: Request) -> bool:
        """attempt_merge: append all of `following` to `rq`. On success the caller frees `following`. Traces M."""
        queue = self.queue
        limits = queue.limits
        if not self.rq_mergeable(rq) or not self.rq_mergeable(following):
            return False
        if rq.op != following.op or rq.ioprio != following.ioprio:
            return False
        if rq.bio is not None and following.bio is not None and rq.bio.blkg is not following.bio.blkg:
            return False
        if rq.op == OP_DISCARD and limits.max_discard_segments > 1:
            if rq.nr_segments >= limits.max_discard_segments:
                self._no_merge(rq)
                return False
            if rq.nr_sectors + following.nr_sectors > limits.request_max_sectors(rq.op, rq.sector):
                self._no_merge(rq)
                return False
        else:
            if rq.sector + rq.nr_sectors != following.sector or self._gap(rq.bio, rq.biotail, following.bio):
                return False
            if rq.nr_sectors + following.nr_sectors > limits.request_max_sectors(rq.op, rq.sector):
                return False
            most = limits.max_segments
            if rq.op == OP_DISCARD:
                # 1 here: requests to discard one range are never joined, only bios are
                most = limits.max_discard_segments
            if rq.nr_segments + following.nr_segments > most:
                return False
        rq.nr_segments += following.nr_segments
        if following.start_ns < rq.start_ns:
            rq.start_ns = following.start_ns
        rq.biotail.next = following.bio
        rq.biotail = following.biotail
        rq.nr_sectors += following.nr_sectors
        if following.rq_flags & RQF_IO_STAT:
            queue.stat.merged(following.op)
            queue.stat.unmade(following.op)
            if following.part is not None:
                following.part.merged(following.op)
                following.part.unmade(following.op)
        if queue.trace_mask & TR_M:
            queue.tracer.add(
                TR_M, queue.number, following.op, following.flags, following.sector, following.nr_sectors, 0
            )
        charge(queue.host, STEP_MERGE)
        following.bio = None
        following.biotail = None
        return True
