"""Which histogram bucket holds a percentile: fio's rule, including its rounding.

fio walks the buckets until the running count reaches p / 100 * n, in the 80-bit floating point of x86.
Whether a count that is exactly p percent of n reaches it is a matter of rounding, and decides between two
buckets: with 200 samples, is the 60th at 30%? fio is built with -ffast-math, which makes this (n * 0.01) * p;
so do these exact integers, each step rounded to 64 significant bits, ties to even. Where C's `long double` is
another format, fio itself may differ in such ties; this module does not.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

MAX_PERCENTILES = 20  # fio's limit of a percentile_list

DEFAULT_PERCENTILES = (
    *(1.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 95.0),
    *(99.0, 99.5, 99.9, 99.95, 99.99),
)


def round_to_64_bits(x: Fraction) -> Fraction:
    """The nearest number with 64 significant bits to a positive `x`; of two as near, the even one."""
    exponent = x.numerator.bit_length() - x.denominator.bit_length() - 63
    scaled = x / Fraction(2) ** exponent  # 2**62 < scaled < 2**64
    if scaled < 2**63:
        exponent -= 1
        scaled *= 2
    return round(scaled) * Fraction(2) ** exponent


ONE_PERCENT = round_to_64_bits(Fraction(1, 100))


def percentile_rank(percent: float, n: int) -> int:
    """How many of `n` > 0 samples must be at or below a value for it to be the `percent` percentile."""
    threshold = round_to_64_bits(round_to_64_bits(n * ONE_PERCENT) * Fraction(percent))
    return -(-threshold.numerator // threshold.denominator)


def percentile_buckets(counters: Sequence[int], n: int, wanted: Sequence[float]) -> list[int]:
    """The bucket of each percentile of `wanted` (ascending, 0 < p <= 100); `n` is sum(counters) > 0.

    A rank that the counters never reach gives the last bucket that holds anything.
    """
    found: list[int] = []
    ranks = [percentile_rank(p, n) for p in wanted]
    running = last = 0
    for index, count in enumerate(counters):
        if not count:
            continue
        running += count
        last = index
        while len(found) < len(ranks) and running >= ranks[len(found)]:
            found.append(index)
        if len(found) == len(ranks):
            break
    return found + [last] * (len(ranks) - len(found))
