"""Where fio's buckets are, those of its latency histogram and those of its latency distribution.

Theory of operation
-------------------
*Histogram* (percentiles, "bins"). fio keeps 29 groups of 64 buckets. The first two groups hold one nanosecond
a bucket. From 128 ns on a group is one power of two cut into 64 equal buckets, so a bucket is never wider
than 1/64 of its values, and its midpoint, which stands for it, is wrong by less than 0.8%. The last bucket
also takes everything from 2**34 ns (17.2 s) on.

*Distribution* ("lat (usec) : 50=12.3%"). 32 buckets of unequal width: ten of nanoseconds, ten of
microseconds, twelve of milliseconds. No power of two holds the start of more than two of them, so the number
of significant bits of a latency and two comparisons find its bucket: `LATENCY_EDGES` is that table.

Never compiled itself: compiled modules take the constants and `plat_index` from `buckets.pxd`.

Differences from fio: none in the numbers. A negative latency counts as 0, as fio's clock difference would
give it.
"""

from __future__ import annotations

from array import array

PLAT_BITS = 6
PLAT_VALUES = 1 << PLAT_BITS  # buckets a group
PLAT_GROUPS = 29
PLAT_BUCKETS = PLAT_GROUPS * PLAT_VALUES

DEPTH_BUCKETS = 7
LATENCY_BUCKETS = 32
NS_PER_MS = 1_000_000

NEVER = 0x7FFFFFFFFFFFFFFF

# Where the buckets of the latency distribution begin, in nanoseconds. fio names a bucket by its upper end:
# the first ten are "2=" to "1000=" of lat (nsec), the next ten "2=" to "1000=" of lat (usec), then "2=" to
# ">=2000=" of lat (msec).
LATENCY_STARTS = (
    *(0, 2, 4, 10, 20, 50, 100, 250, 500, 750),
    *(1000 * us for us in (1, 2, 4, 10, 20, 50, 100, 250, 500, 750)),
    *(NS_PER_MS * ms for ms in (1, 2, 4, 10, 20, 50, 100, 250, 500, 750, 1000, 2000)),
)


def plat_index(ns: int) -> int:
    """The histogram bucket of a latency in nanoseconds."""
    if ns < 2 * PLAT_VALUES:
        return max(ns, 0)
    shift = ns.bit_length() - PLAT_BITS - 1
    return min((shift << PLAT_BITS) + (ns >> shift), PLAT_BUCKETS - 1)


def plat_value(index: int) -> int:
    """What a histogram bucket stands for, in nanoseconds: its only value below 128, its midpoint above."""
    if index < 2 * PLAT_VALUES:
        return index
    shift = (index >> PLAT_BITS) - 1
    low = (PLAT_VALUES + index % PLAT_VALUES) << shift
    return low + ((1 << shift) >> 1)


def latency_edges() -> array[int]:
    """For each number of significant bits, the bucket of the least such number and the next two starts."""
    edges: list[int] = []
    for bits in range(64):
        low = (1 << bits) >> 1
        base = max(i for i, start in enumerate(LATENCY_STARTS) if start <= low)
        inside = [start for start in LATENCY_STARTS if low < start < (1 << bits)]
        edges += [base, *inside, *[NEVER] * (2 - len(inside))]
    return array("q", edges)


LATENCY_EDGES = latency_edges()
