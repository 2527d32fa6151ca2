"""kyber: bounds how many requests of each kind are in the device, so that reads stay fast; sorts nothing.

What: requests are of a domain (READ, WRITE, DISCARD, OTHER), and each domain has device-wide tokens: without
one a request is not dispatched. How many tokens there are follows from latencies (latency.py). Why: a fast
device with many hardware queues cannot afford one lock and one order for all, but a flood of writes should
not be in front of each read.

Theory of operation
-------------------
A request is inserted into the queue of its CPU and domain, where later bios of that CPU may merge with it. To
dispatch, a hardware queue goes on with the domain it is at, up to 16 reads, 8 writes, 1 discard or 1 other in
a row, then with the next domain that has requests and a token. Only with a token in hand does it take over
what its CPUs hold of that domain; so while tokens are short requests stay where they can merge. Without one
it waits among the domain's waiters, and is run when some come back. A token is held from dispatch to the end
of the request.

Asynchronous requests may use three quarters of the scheduler tags.

Features (what changed, and when)
---------------------------------
kyber_ctx_queue, 4.18
    Before: requests were in the block layer's software queues, of all domains together, and a dispatch that
    found no more of one domain took all of them over, whether there was a token or not. So next to nothing
    was left to merge with.
kyber_histogram, 4.20
    Before: domains READ, SYNC_WRITE and OTHER (asynchronous writes and all else), steered by mean latencies.
sched_async_depth_whole, as 6.12
    async_depth counts requests, not bits of a word of the bitmap, and is of the nr_requests before the last
    change.
kyber_limit_all_but_sync_reads, later
    The limit is for synchronous writes as well.

Deliberate differences: async_depth follows nr_requests in all ages (in the kernel since 5.13), and who got a
token leaves the wait queue (since 4.15). With sched_async_depth_whole every word of the bitmap has its share
of the limit, rounded down. Lists that debugfs prints show how many requests they hold, and a bitmap of tokens
is one line.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import cython

from blklab.block.attributes import Attribute, number
from blklab.block.elevator import Elevator
from blklab.block.request import RequestList
from blklab.block.sbitmap import Waiter
from blklab.core.host import Lock
from blklab.elevator.kyber.latency import Latencies

if TYPE_CHECKING:
    from blklab.block.bio import Bio
    from blklab.block.hwqueue import HardwareQueue
    from blklab.block.queue import RequestQueue
    from blklab.block.request import Request
    from blklab.block.submit import Submitter
    from blklab.block.swqueue import SoftwareQueue
    from blklab.elevator.kyber.latency import Domain

if not cython.compiled:
    from blklab.block.consts import OP_DISCARD, OP_READ, OP_WRITE, TR_MSG
    from blklab.core.bits import bit64, ffs64
    from blklab.core.charging import charge
    from blklab.core.steps import STEP_KYBER, STEP_LOCK_CTX, STEP_LOCK_SCHED

ASYNC_PERCENT = 75  # a quarter of the scheduler tags is for those who wait for their requests

# -- tunables ----------------------------------------------------------------------------


def _set_target(domain: int) -> Callable[[Any, str], None]:
    def set_it(owner: Any, text: str) -> None:
        owner.domains[domain].target_ns = number(text)

    return set_it


TUNABLES: tuple[Attribute, ...] = (
    Attribute(
        "read_lat_nsec", "target latency of reads, ns", lambda e: e.domains[0].target_ns, _set_target(0)
    ),
    Attribute(
        "write_lat_nsec", "target latency of writes, ns", lambda e: e.domains[1].target_ns, _set_target(1)
    ),
)

# -- state -----------------------------------------------------------------------------------


class CtxQueue:
    """What one CPU has inserted into one hardware queue: a list of requests for each domain."""

    def __init__(self, cpu: int, nr_domains: int) -> None:
        self.lock = Lock(f"kyber-cpu{cpu}")
        self.rqs = [RequestList() for _ in range(nr_domains)]


class TokenWait(Waiter):
    """A hardware queue that waits for a token of one domain; to be woken, with all that wait, runs it."""

    def __init__(self, hctx: HardwareQueue) -> None:
        super().__init__()
        self.hctx = hctx
        self.exclusive = False
        self.next_index = 0

    def wake(self) -> int:
        """A token came back."""
        self.hctx.queue.run_async(self.hctx)
        return 0


class HctxData:
    """A hardware queue's part. `rqs`: by domain, requests taken over from its CPUs. `marks`: a bit for each
    CPU that holds some of a domain, `marked` how many bits are set. `held`: all that wait here, in both
    places."""

    def __init__(self, hctx: HardwareQueue, nr_domains: int) -> None:
        self.hctx = hctx
        self.lock = Lock(f"kyber-hctx{hctx.index}")
        self.rqs = [RequestList() for _ in range(nr_domains)]
        self.waits = [TokenWait(hctx) for _ in range(nr_domains)]
        self.ctx_queues = [CtxQueue(ctx.cpu, nr_domains) for ctx in hctx.ctxs]
        self.nr_words = (hctx.nr_ctx + 63) // 64
        self.marks = array("Q", [0] * (self.nr_words * nr_domains))
        self.marked = array("q", [0] * nr_domains)
        self.held = 0
        self.domain = 0
        self.batching = 0
        self.flushed = False

    def mark(self, domain: int, index: int) -> None:
        """CPU `index` holds requests of the domain."""
        place = domain * self.nr_words + (index >> 6)
        bit = bit64(index & 63)
        if not self.marks[place] & bit:
            self.marks[place] |= bit
            self.marked[domain] += 1


class Kyber(Elevator):
    """Tokens for each kind of request, as many as let latencies meet their targets.

    A request's `elv_ns` is the number of its token, -1 for none.
    """

    tunables = TUNABLES

    def __init__(self, queue: RequestQueue) -> None:
        super().__init__(queue)
        features = queue.features
        self.ctx_queue = bool(features.kyber_ctx_queue)
        self.histogram = bool(features.kyber_histogram)
        self.all_but_sync_reads = bool(features.kyber_limit_all_but_sync_reads)
        self.whole_depth = bool(features.sched_async_depth_whole)
        self.latencies = Latencies(self, self.histogram)
        self.domains = self.latencies.domains
        self.last_domain = self.latencies.last
        self.async_depth = 0
        self.word_depth = 0

    def init_hctx(self, hctx: HardwareQueue) -> None:
        """Queues for its CPUs."""
        hctx.sched_data = HctxData(hctx, self.last_domain + 1)
        self.depth_updated(hctx)

    def depth_updated(self, hctx: HardwareQueue) -> None:
        """How many tags asynchronous requests may use."""
        tags = hctx.sched_tags
        bitmap = hctx.tags.bitmap if tags is None else tags.bitmap
        word = 1 << bitmap.shift
        if self.whole_depth:
            self.async_depth = self.queue.nr_requests * ASYNC_PERCENT // 100
            word = min(word, bitmap.depth)
            self.word_depth = max(1, min(word, word * self.async_depth // bitmap.depth))
        else:
            self.async_depth = word * ASYNC_PERCENT // 100
            self.word_depth = self.async_depth
        if tags is not None:
            bitmap.set_min_shallow_depth(self.word_depth)

    def exit(self) -> None:
        """No more looks at latencies."""
        self.latencies.disarm()

    # -- a bio comes -----------------------------------------------------------------------

    def domain_of(self, op: int, sync: bool) -> int:
        """The domain of an operation, as its index."""
        if op == OP_READ:
            return 0
        if self.histogram:
            if op == OP_WRITE:
                return 1
            return 2 if op == OP_DISCARD else 3
        return 1 if op == OP_WRITE and sync else 2

    def limit_depth(self, bio: Bio) -> int:
        """A part of the tags for those that nobody waits for."""
        if bio.op == OP_READ or (bio.is_sync() and not self.all_but_sync_reads):
            return 0
        return self.word_depth

    def bio_merge(self, bio: Bio, segments: int, submitter: Submitter) -> bool:
        """With the last eight requests of this CPU and domain."""
        queue = self.queue
        ctx: SoftwareQueue = queue.ctxs[submitter.cpu]
        if not self.ctx_queue:
            # No hook then: blk_mq_sched_bio_merge looked into the software queue
            if queue.features.merge_only_if_queued and ctx.rq_list.count == 0:
                return False
            queue.host.lock(ctx.lock, STEP_LOCK_CTX)
            merged = queue.merger.list_merge(ctx.rq_list, bio, segments)
            queue.host.unlock(ctx.lock)
            return merged
        data: HctxData = queue.hctx_of(submitter.cpu).sched_data
        mine: CtxQueue = data.ctx_queues[ctx.index_hw]
        rqs: RequestList = mine.rqs[self.domain_of(bio.op, bio.is_sync())]
        queue.host.lock(mine.lock, STEP_LOCK_CTX)
        merged = queue.merger.list_merge(rqs, bio, segments)
        queue.host.unlock(mine.lock)
        return merged

    # -- its request is inserted --------------------------------------------------------------

    def prepare_request(self, rq: Request) -> None:
        """No token yet."""
        rq.elv_ns = -1

    def insert_requests(self, hctx: HardwareQueue, rqs: RequestList, at_head: bool) -> None:
        """Into the queue of its CPU and domain."""
        if not self.ctx_queue:
            self._insert_into_ctx(hctx, rqs, at_head)
            return
        host = self.queue.host
        data: HctxData = hctx.sched_data
        rq = rqs.popleft()
        while rq is not None:
            index = rq.ctx.index_hw
            domain = self.domain_of(rq.op, rq.is_sync())
            mine: CtxQueue = data.ctx_queues[index]
            waiting: RequestList = mine.rqs[domain]
            host.lock(mine.lock, STEP_LOCK_CTX)
            self.queue.trace_insert(rq)
            if at_head:
                waiting.push(rq)
            else:
                waiting.append(rq)
            data.mark(domain, index)
            data.held += 1
            host.unlock(mine.lock)
            rq = rqs.popleft()

    def _insert_into_ctx(self, hctx: HardwareQueue, rqs: RequestList, at_head: bool) -> int:
        # No hook then: blk_mq_insert_requests puts a batch, which is of one CPU, into its software queue
        host = self.queue.host
        rq = rqs.popleft()
        while rq is not None:
            ctx = rq.ctx
            host.lock(ctx.lock, STEP_LOCK_CTX)
            while rq is not None and rq.ctx is ctx:
                self.queue.trace_insert(rq)
                if at_head:
                    ctx.rq_list.push(rq)
                else:
                    ctx.rq_list.append(rq)
                rq = rqs.popleft()
            hctx.mark_pending(ctx)
            host.unlock(ctx.lock)
        return 0

    def has_work(self, hctx: HardwareQueue) -> bool:
        """Whether anything waits, with or without a token."""
        data: HctxData = hctx.sched_data
        return data.held > 0 or (not self.ctx_queue and hctx.nr_pending > 0)

    # -- it is dispatched -----------------------------------------------------------------------

    def dispatch_request(self, hctx: HardwareQueue) -> Request | None:
        """The next of this domain's batch, or the first of the next domain that has one and a token."""
        host = self.queue.host
        data: HctxData = hctx.sched_data
        rq: Request | None = None
        host.lock(data.lock, STEP_LOCK_SCHED)
        data.flushed = False
        domain: Domain = self.domains[data.domain]
        if data.batching < domain.batch:
            rq = self._dispatch_domain(data)
        if rq is None:
            data.batching = 0
            for _ in range(self.last_domain + 1):
                data.domain = 0 if data.domain == self.last_domain else data.domain + 1
                rq = self._dispatch_domain(data)
                if rq is not None:
                    break
        if rq is not None:
            charge(host, STEP_KYBER)
        host.unlock(data.lock)
        return rq

    def _dispatch_domain(self, data: HctxData) -> Request | None:
        index = data.domain
        rqs: RequestList = data.rqs[index]
        if rqs.count == 0:
            if self.ctx_queue:
                if data.marked[index] == 0:
                    return None
            else:
                if data.flushed:
                    return None
                self._flush_ctxs(data)
                if rqs.count == 0:
                    return None
        token = self._get_token(data, index)
        if token < 0:
            if self.queue.trace_mask & TR_MSG:
                domain: Domain = self.domains[index]
                self.log(f"kyber_throttled {domain.name}")
            return None
        if rqs.count == 0:
            self._flush_ctx_queues(data, index, rqs)
        rq = rqs.popleft()
        data.held -= 1
        data.batching += 1
        rq.elv_ns = token
        return rq

    def _get_token(self, data: HctxData, index: int) -> int:
        # Without one: be woken when some come back, and try once more, for those that came back before
        domain: Domain = self.domains[index]
        tokens = domain.tokens
        waiter: TokenWait = data.waits[index]
        cpu = self.queue.host.cpu
        token = tokens.get(cpu)
        if token < 0 and waiter.wait_queue is None:
            tokens.wait(waiter, waiter.next_index)
            waiter.next_index = (waiter.next_index + 1) & 7
            token = tokens.get(cpu)
        if token >= 0 and waiter.wait_queue is not None:
            tokens.stop_waiting(waiter)
        return token

    def _flush_ctx_queues(self, data: HctxData, domain: int, rqs: RequestList) -> int:
        # Take over all that the CPUs hold of one domain
        host = self.queue.host
        first = domain * data.nr_words
        for k in range(data.nr_words):
            word = data.marks[first + k]
            data.marks[first + k] = 0
            while word:
                theirs: CtxQueue = data.ctx_queues[(k << 6) + ffs64(word)]
                word &= word - 1
                waiting: RequestList = theirs.rqs[domain]
                host.lock(theirs.lock, STEP_LOCK_CTX)
                rqs.splice_tail(waiting)
                host.unlock(theirs.lock)
        data.marked[domain] = 0
        return 0

    def _flush_ctxs(self, data: HctxData) -> int:
        # Before kyber_ctx_queue: take over all that the software queues hold, once in a dispatch
        host = self.queue.host
        hctx = data.hctx
        data.flushed = True
        index = hctx.next_pending(0)
        while index >= 0:
            ctx: SoftwareQueue = hctx.ctxs[index]
            host.lock(ctx.lock, STEP_LOCK_CTX)
            rq = ctx.rq_list.popleft()
            while rq is not None:
                rqs: RequestList = data.rqs[self.domain_of(rq.op, rq.is_sync())]
                rqs.append(rq)
                data.held += 1
                rq = ctx.rq_list.popleft()
            hctx.clear_pending(ctx)
            host.unlock(ctx.lock)
            index = hctx.next_pending(index)
        return 0

    # -- it completes ---------------------------------------------------------------------------

    def completed_request(self, rq: Request, now_ns: int) -> None:
        """Count its latencies."""
        self.latencies.completed(rq, self.domain_of(rq.op, rq.is_sync()), now_ns)

    def requeue_request(self, rq: Request) -> None:
        """It is inserted again, and will need a token again."""
        self.finish_request(rq)

    def finish_request(self, rq: Request) -> None:
        """Its token is free."""
        if rq.elv_ns >= 0:
            domain: Domain = self.domains[self.domain_of(rq.op, rq.is_sync())]
            token = rq.elv_ns
            rq.elv_ns = -1
            domain.tokens.clear(token, rq.ctx.cpu)

    # -- what it shows -----------------------------------------------------------------------------

    def debug_attributes(self) -> list[Attribute]:
        """Tokens of each domain, and the limit of asynchronous requests."""
        shown = [
            Attribute(f"{kind.label}_tokens", f"bitmap of the tokens of {kind.name}", _tokens(k))
            for k, kind in enumerate(self.latencies.kinds)
        ]
        unit = "requests" if self.whole_depth else "bits of each word"
        what = f"{unit} of the scheduler tags for asynchronous requests"
        return [*shown, Attribute("async_depth", what, lambda e: e.async_depth)]

    def hctx_attributes(self, hctx: HardwareQueue) -> list[Attribute]:
        """What waits in each domain, and where the dispatch stands."""
        kinds = self.latencies.kinds
        shown = []
        for k, kind in enumerate(kinds):
            shown += [
                Attribute(
                    f"{kind.label}_rqs", f"requests of {kind.name} taken over for dispatch", _taken_over(k)
                ),
                Attribute(f"{kind.label}_waiting", f"1: waits for a token of {kind.name}", _waits(k)),
            ]
        return [
            *shown,
            Attribute("cur_domain", "domain in turn", lambda h: kinds[h.sched_data.domain].name),
            Attribute("batching", "requests of it in a row so far", lambda h: int(h.sched_data.batching)),
        ]


def _tokens(domain: int) -> Callable[[Any], str]:
    return lambda elevator: str(elevator.domains[domain].show_tokens())


def _taken_over(domain: int) -> Callable[[Any], int]:
    return lambda hctx: int(hctx.sched_data.rqs[domain].count)


def _waits(domain: int) -> Callable[[Any], int]:
    return lambda hctx: int(hctx.sched_data.waits[domain].wait_queue is not None)
