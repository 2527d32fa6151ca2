"""The latencies of kyber's domains, and how many tokens follow from them.

What: what is measured of each domain (`Domain`), and the timer that looks at it with one of two heuristics,
that of 4.20 or that of before (`Latencies`). Why apart: nothing here knows a queue of requests.

Theory of operation
-------------------
Since 4.20 (feature kyber_histogram) latencies are counted in 8 buckets, each a quarter of the target wide,
four of them good: the whole time (allocation to completion) and the time in the device. The first completion
arms a timer of 100 ms (in jiffies, from the end of the present one: 104 ms at 250 Hz). If the 90th percentile
in the device missed its target in any domain the device is congested: then each domain's tokens are scaled by
its own 99th percentile of the whole time over its target, down where it is good. One that misses its target
is scaled up in any case. A percentile is taken from 500 samples or more, or when a second has passed since
the first.

Before, a request that missed its target had the mean time in the device measured for 10 ms, then for 100 ms
each as long as a target is missed or OTHER is held back. Whichever of READ and SYNC_WRITE does well gives
tokens away while the other misses its target; OTHER is held back while both do badly.

Deliberate differences: one histogram for all CPUs (the kernel adds up those of its CPUs when the timer
fires). The mean is rounded once, not once a CPU. New depths are logged with the old heuristic too, which had
no tracepoint.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import cython

from blklab.block.sbitmap import SbitmapQueue
from blklab.core.clock import Event

if TYPE_CHECKING:
    from blklab.block.elevator import Elevator
    from blklab.block.request import Request

if not cython.compiled:
    BUCKETS = 8

MS = 1_000_000

# -- numbers (kyber-iosched.c) -----------------------------------------------------------


class DomainKind(NamedTuple):
    """A line of the tables below: name, name in attributes, tokens, requests in a row, target (0: not
    measured)."""

    name: str
    label: str
    tokens: int
    batch: int
    target_ns: int


DOMAINS = (
    DomainKind("READ", "read", 256, 16, 2 * MS),
    DomainKind("WRITE", "write", 128, 8, 10 * MS),
    DomainKind("DISCARD", "discard", 64, 1, 5000 * MS),
    DomainKind("OTHER", "other", 16, 1, 0),
)
DOMAINS_BEFORE_HISTOGRAM = (
    DomainKind("READ", "read", 256, 16, 2 * MS),
    DomainKind("SYNC_WRITE", "sync_write", 128, 8, 10 * MS),
    DomainKind("OTHER", "other", 64, 8, 0),
)
# Before the histogram all domains had bitmaps this large, or as large as the driver's tags
LEAST_TOKEN_BITS = 256

GOOD_BUCKETS = 4  # those up to the target
ENOUGH_SAMPLES = 500  # for a percentile; fewer will do when the first is a second old
SECOND_NS = 1000 * MS
TIMER_NS = 100 * MS  # from the first completion to the look at the latencies
FIRST_WINDOW_NS = 10 * MS  # before the histogram: how long the mean is measured after a target was missed
WINDOW_NS = 100 * MS  # and then

# How a domain does, before the histogram. The sign says whether it meets its target
NO_SAMPLES = 0
GOOD = 1
GREAT = 2
BAD = -1
AWFUL = -2

# -- the rules, as functions of numbers ------------------------------------------------------


def percentile_bucket(buckets: Sequence[int], percentile: int) -> int:
    """The bucket in which a percentile lies."""
    wanted = (sum(buckets) * percentile + 99) // 100
    for bucket in range(BUCKETS - 1):
        if buckets[bucket] >= wanted:
            return bucket
        wanted -= buckets[bucket]
    return BUCKETS - 1


def latency_status(samples: int, mean_ns: int, target_ns: int) -> int:
    """Before the histogram: how a domain does."""
    if not samples:
        return NO_SAMPLES
    if mean_ns - target_ns >= target_ns:
        return AWFUL
    if mean_ns > target_ns:
        return BAD
    return GREAT if mean_ns <= target_ns // 2 else GOOD


def fair_depth(depth: int, own: int, other: int) -> int:
    """Before the histogram: tokens of READ or SYNC_WRITE, by its own status and the other's."""
    if own == NO_SAMPLES or own * other > 0:
        return depth
    if other == NO_SAMPLES:
        return depth + 1
    if own == GOOD:
        return depth - max(depth // (4 if other == AWFUL else 8), 1)
    if own == GREAT:
        return depth // 2 if other == AWFUL else depth - max(depth // 4, 1)
    return depth + (2 if own == AWFUL and other == GREAT else 1)


def other_depth(depth: int, read: int, write: int, samples: int) -> int:
    """Before the histogram: tokens of OTHER, by the better of the two statuses; `samples`: of OTHER."""
    if read == NO_SAMPLES and write == NO_SAMPLES:
        return depth + 2
    if not samples:
        return depth
    if read == NO_SAMPLES:
        status = write
    elif write == NO_SAMPLES:
        status = read
    else:
        status = max(read, write)
    if status > 0:
        return depth + status
    return depth - max(depth // 4, 1) if status == BAD else depth // 2


# -- what is measured --------------------------------------------------------------------------


class Domain:
    """One domain of a device: its tokens, its target, and what was measured since it was last looked at."""

    def __init__(self, kind: DomainKind, bits: int, nr_cpus: int) -> None:
        self.name = kind.name
        self.most = kind.tokens
        self.batch = kind.batch
        self.target_ns = kind.target_ns
        self.tokens = SbitmapQueue(bits, nr_cpus)
        if bits != kind.tokens:
            self.tokens.resize(kind.tokens)
        self.total_samples = array("q", [0] * BUCKETS)
        self.io_samples = array("q", [0] * BUCKETS)
        self.timeout_jiffy = 0  # when few samples are enough; 0: not set
        self.p99 = -1  # of an earlier look, until congestion has used it
        self.sum_ns = 0
        self.nr_samples = 0

    def sample(self, total_ns: int, io_ns: int) -> None:
        """A request has ended."""
        width = self.target_ns >> 2
        if width < 1:
            width = 1
        bucket = (total_ns - 1) // width if total_ns > 0 else 0
        self.total_samples[bucket if bucket < BUCKETS else BUCKETS - 1] += 1
        bucket = (io_ns - 1) // width if io_ns > 0 else 0
        self.io_samples[bucket if bucket < BUCKETS else BUCKETS - 1] += 1

    def show_tokens(self) -> str:
        """The bitmap of the tokens, as debugfs has it."""
        tokens = self.tokens
        return (
            f"depth={tokens.depth} busy={tokens.used} bits_per_word={1 << tokens.shift} "
            f"map_nr={tokens.nr_words} wake_batch={tokens.wake_batch} ws_active={tokens.waiting}"
        )


class Latencies(Event):
    """Measures, and decides about tokens. `domains`: all of them; the last has no target."""

    def __init__(self, elevator: Elevator, histogram: bool) -> None:
        queue = elevator.queue
        self.elevator = elevator
        self.clock = queue.clock
        self.jiffy_ns = queue.host.jiffy_ns
        self.histogram = histogram
        self.kinds = DOMAINS if histogram else DOMAINS_BEFORE_HISTOGRAM
        bits = 0 if histogram else max(queue.tag_set.queue_depth, LEAST_TOKEN_BITS)
        self.domains = [Domain(kind, bits or kind.tokens, queue.host.nr_cpus) for kind in self.kinds]
        self.last = len(self.kinds) - 1
        self.armed = False

    def completed(self, rq: Request, index: int, now_ns: int) -> int:
        """A request of domain `index` has ended."""
        domain: Domain = self.domains[index]
        if self.histogram:
            if index != self.last:
                domain.sample(now_ns - rq.start_ns, now_ns - rq.io_start_ns)
                if not self.armed:
                    self.arm(TIMER_NS)
            return 0
        io_ns = now_ns - rq.io_start_ns
        if not self.armed:
            if index == self.last or io_ns <= domain.target_ns:
                return 0
            self.arm(FIRST_WINDOW_NS)
        domain.sum_ns += io_ns
        domain.nr_samples += 1
        return 0

    # -- the timer -----------------------------------------------------------------------

    def arm(self, delay_ns: int) -> int:
        """As the kernel's timers: whole jiffies, rounded up, from the end of the present one."""
        self.armed = True
        jiffies = (delay_ns + self.jiffy_ns - 1) // self.jiffy_ns
        return self.clock.at((self.clock.now_ns // self.jiffy_ns + jiffies + 1) * self.jiffy_ns, self)

    def disarm(self) -> None:
        """The scheduler is switched off."""
        self.armed = False

    def fire(self, now_ns: int) -> int:
        """Look at what was measured. An event cannot be cancelled: after `disarm` this does nothing."""
        if self.armed:
            self.armed = False
            if self.histogram:
                self.adjust_by_percentiles()
            else:
                self.adjust_by_means()
        return 0

    # -- since 4.20 -------------------------------------------------------------------------

    def adjust_by_percentiles(self) -> None:
        """New depths from the histograms."""
        measured: list[Domain] = self.domains[: self.last]
        # 90: not to be moved by an outlier or two. All domains are asked, for asking uses the samples up
        bad = max([self.percentile(domain, "I/O", 90) for domain in measured]) >= GOOD_BUCKETS
        for domain in measured:
            p99 = self.percentile(domain, "total", 99)
            # Domains have enough samples at different times: congestion uses the last result of one that has
            # not enough now, once
            if bad:
                if p99 < 0:
                    p99 = domain.p99
                domain.p99 = -1
            elif p99 >= 0:
                domain.p99 = p99
            if p99 >= 0 and (bad or p99 >= GOOD_BUCKETS):
                self._resize(domain, domain.tokens.depth * (p99 + 1) // GOOD_BUCKETS)

    def percentile(self, domain: Domain, what: str, percentile: int) -> int:
        """The bucket of a percentile, which uses the samples up; -1: there are not enough yet."""
        buckets = domain.total_samples if what == "total" else domain.io_samples
        samples = sum(buckets)
        if not samples:
            return -1
        # kernel: one timeout for both kinds. With few samples the first that is asked clears it, and the other
        # goes on waiting
        jiffy = self.clock.now_ns // self.jiffy_ns
        if not domain.timeout_jiffy:
            domain.timeout_jiffy = jiffy + SECOND_NS // self.jiffy_ns
        if samples < ENOUGH_SAMPLES and domain.timeout_jiffy > jiffy:
            return -1
        domain.timeout_jiffy = 0
        bucket = percentile_bucket(buckets, percentile)
        for k in range(BUCKETS):
            buckets[k] = 0
        self.elevator.log(
            f"kyber_latency {domain.name} {what} p{percentile} {bucket + 1}/{GOOD_BUCKETS} samples={samples}"
        )
        return bucket

    # -- before -------------------------------------------------------------------------------

    def adjust_by_means(self) -> None:
        """New depths from the mean latencies, and another window if one is needed."""
        reads, writes, others = self.domains
        read, write = (
            latency_status(d.nr_samples, d.sum_ns // max(d.nr_samples, 1), d.target_ns)
            for d in (reads, writes)
        )
        self._resize(reads, fair_depth(reads.tokens.depth, read, write))
        self._resize(writes, fair_depth(writes.tokens.depth, write, read))
        self._resize(others, other_depth(others.tokens.depth, read, write, others.nr_samples))
        for domain in self.domains:
            domain.sum_ns = 0
            domain.nr_samples = 0
        if read < 0 or write < 0 or others.tokens.depth < others.most:
            self.arm(WINDOW_NS)

    def _resize(self, domain: Domain, depth: int) -> None:
        depth = max(1, min(depth, domain.most))
        if depth != domain.tokens.depth:
            domain.tokens.resize(depth)
            self.elevator.log(f"kyber_adjust {domain.name} {depth}")
