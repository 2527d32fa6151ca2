"""Percentile ranks, against the arithmetic that fio's binary does in 80-bit floating point."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blklab.metrics.percentile import (
    DEFAULT_PERCENTILES,
    percentile_buckets,
    percentile_rank,
    round_to_64_bits,
)

percents = st.one_of(st.sampled_from(DEFAULT_PERCENTILES), st.floats(0.001, 100.0))
has_x87 = np.finfo(np.longdouble).nmant == 63


@pytest.mark.skipif(not has_x87, reason="long double is not the 80-bit format here")
@given(percents, st.integers(1, 2**50))
def test_rank_is_that_of_80_bit_arithmetic(percent: float, n: int) -> None:
    one_percent = np.longdouble(1) / np.longdouble(100)
    threshold = np.longdouble(n) * one_percent * np.longdouble(percent)
    rank = percentile_rank(percent, n)
    assert np.longdouble(rank) >= threshold > np.longdouble(rank - 1)


@pytest.mark.parametrize(
    ("percent", "n", "rank"), [(30.0, 200, 60), (60.0, 200, 120), (50.0, 3, 2), (99.99, 10, 10)]
)
def test_ties_as_fio_decides_them(percent: float, n: int, rank: int) -> None:
    """The first two are from runs of fio 3.33; dividing by 100 first would give 61 and 121."""
    assert percentile_rank(percent, n) == rank


@given(st.lists(st.integers(0, 50), min_size=1).filter(any), st.lists(percents, min_size=1).map(sorted))
def test_buckets_are_the_first_that_reach_the_rank(counters: list[int], wanted: list[float]) -> None:
    n = sum(counters)
    for percent, bucket in zip(wanted, percentile_buckets(counters, n, wanted), strict=True):
        assert sum(counters[: bucket + 1]) >= percentile_rank(percent, n) > sum(counters[:bucket])


def test_a_rank_beyond_the_counters_is_the_last_bucket() -> None:
    assert percentile_buckets([0, 2, 3, 0], 10, [10.0, 50.0, 90.0]) == [1, 2, 2]


@given(st.fractions(min_value="1/1000000000", max_value=2**70))
def test_rounding_keeps_64_bits(x: object) -> None:
    from fractions import Fraction

    assert isinstance(x, Fraction)
    rounded = round_to_64_bits(x)
    assert abs(rounded - x) * 2**64 <= x
    odd_part = rounded.numerator
    while odd_part % 2 == 0:
        odd_part //= 2
    assert odd_part.bit_length() <= 64
