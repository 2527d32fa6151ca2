"""fio's latency histogram: exact below 128 ns, good to 1% above.

Theory of operation
-------------------
The buckets are those of `metrics.buckets`, so two histograms add up exactly, bucket by bucket: that is how
jobs of a group are reported together. A percentile is the value of the bucket in which fio would find it
(`metrics.percentile`).

The 15 KB of counters are allocated with the first sample: a job of which nobody asks submission latency
percentiles pays nothing for them.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence

import cython

from blklab.metrics.buckets import plat_value
from blklab.metrics.percentile import percentile_buckets

if not cython.compiled:
    from blklab.metrics.buckets import PLAT_BUCKETS, plat_index


class LatencyHistogram:
    """Counts of latencies in fio's buckets. `n` is the number of samples."""

    def __init__(self) -> None:
        self.n = 0
        self.counts = array("q")

    def allocate(self) -> None:
        """Make all counters 0. Hot code that counts for itself calls this when `n` is 0."""
        self.counts = array("q", bytes(8 * PLAT_BUCKETS))

    def add(self, ns: int) -> None:
        """Count one latency of `ns` nanoseconds."""
        if self.n == 0:
            self.allocate()
        self.n += 1
        self.counts[plat_index(ns)] += 1

    def add_many(self, ns: int, count: int) -> None:
        """Count `count` latencies of `ns` nanoseconds; none if `count` is below 1."""
        if count > 0:
            if self.n == 0:
                self.allocate()
            self.n += count
            self.counts[plat_index(ns)] += count

    def merge(self, other: LatencyHistogram) -> None:
        """Add all of `other`'s samples to this histogram."""
        if other.n == 0:
            return
        if self.n == 0:
            self.allocate()
        self.n += other.n
        for index in range(PLAT_BUCKETS):
            self.counts[index] += other.counts[index]

    def reset(self) -> None:
        """Forget all samples."""
        self.n = 0

    def __reduce__(self) -> tuple[object, ...]:
        return LatencyHistogram, (), self.counters() if self.n else []

    def __setstate__(self, counters: list[int]) -> None:
        self.n = sum(counters)
        self.counts = array("q", counters)

    def counters(self) -> list[int]:
        """All 1856 counters, in bucket order."""
        return list(self.counts) if self.n else [0] * PLAT_BUCKETS

    def bins(self) -> list[tuple[int, int]]:
        """(value in ns, count) of each bucket that holds samples, as in the "bins" of fio's JSON."""
        return [(plat_value(i), count) for i, count in enumerate(self.counters()) if count]

    def percentiles(self, wanted: Sequence[float]) -> list[int]:
        """For each percentage of `wanted` (ascending, 0 < p <= 100) the latency in ns at which fio puts it.

        Empty if there are no samples.
        """
        if self.n == 0:
            return []
        return [plat_value(i) for i in percentile_buckets(self.counters(), self.n, wanted)]
