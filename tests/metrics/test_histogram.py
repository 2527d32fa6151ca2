"""The histogram's buckets and counters, against fio's description of them."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blklab.metrics.buckets import (
    LATENCY_EDGES,
    LATENCY_STARTS,
    NEVER,
    PLAT_BUCKETS,
    plat_index,
    plat_value,
)
from blklab.metrics.histogram import LatencyHistogram

latencies = st.one_of(st.integers(0, 300), st.integers(0, 2**36), st.sampled_from([2**n for n in range(40)]))


def bucket_bounds(index: int) -> tuple[int, int]:
    """First and last latency of a bucket, from the table of groups in the module's description."""
    group, place = divmod(index, 64)
    if group < 2:
        return index, index
    width = 2 ** (group - 1)
    low = 2 ** (group + 5) + place * width
    return low, low + width - 1


def test_every_bucket_holds_its_bounds_and_no_more() -> None:
    for index in range(PLAT_BUCKETS):
        low, high = bucket_bounds(index)
        assert plat_index(low) == plat_index(high) == index
        if index:
            assert plat_index(low - 1) == index - 1


def test_last_bucket_takes_everything_above() -> None:
    assert [plat_index(ns) for ns in (2**34 - 1, 2**34, 2**40, 2**62)] == [PLAT_BUCKETS - 1] * 4


def test_bucket_value_is_the_middle_of_the_bucket() -> None:
    for index in range(PLAT_BUCKETS):
        low, high = bucket_bounds(index)
        assert low <= plat_value(index) <= high
        assert plat_value(index) == low + (high - low + 1) // 2


@given(latencies)
def test_compiled_histogram_uses_the_same_buckets(ns: int) -> None:
    hist = LatencyHistogram()
    hist.add(ns)
    assert hist.counters().index(1) == plat_index(ns)


@given(st.integers(128, 2**34 - 1))
def test_a_bucket_is_within_a_percent(ns: int) -> None:
    assert abs(plat_value(plat_index(ns)) - ns) <= ns / 128


@given(st.lists(latencies), st.lists(latencies))
def test_merged_histograms_are_the_histogram_of_all(one: list[int], two: list[int]) -> None:
    first, second, both = LatencyHistogram(), LatencyHistogram(), LatencyHistogram()
    for hist, values in ((first, one), (second, two), (both, one + two)):
        for value in values:
            hist.add(value)
    first.merge(second)
    assert first.counters() == both.counters()
    assert first.n == both.n == len(one + two) == sum(count for _, count in first.bins())


def test_negative_counts_as_zero() -> None:
    hist = LatencyHistogram()
    hist.add(-1)
    hist.add_many(-(2**40), 2)
    assert hist.bins() == [(0, 3)]


def test_add_many_and_reset() -> None:
    hist = LatencyHistogram()
    hist.add_many(500, 0)
    hist.add_many(500, -2)
    assert (hist.n, hist.bins(), hist.percentiles([50.0])) == (0, [], [])
    hist.add_many(500, 7)
    assert (hist.n, hist.bins()) == (7, [(502, 7)])
    hist.reset()
    assert (hist.n, hist.bins()) == (0, [])
    hist.add(1)
    assert hist.bins() == [(1, 1)]


@pytest.mark.parametrize("values", [[], [5, 100_000, 7]])
def test_pickle(values: list[int]) -> None:
    hist = LatencyHistogram()
    for value in values:
        hist.add(value)
    again = pickle.loads(pickle.dumps(hist))
    again.add(9)
    hist.add(9)
    assert (again.n, again.counters()) == (hist.n, hist.counters())


def test_no_power_of_two_holds_more_than_two_starts() -> None:
    """What the table of edges relies on."""
    for bits in range(63):
        assert sum(2**bits < start < 2 ** (bits + 1) for start in LATENCY_STARTS) <= 2
    assert len(LATENCY_EDGES) == 3 * 64
    assert max(LATENCY_EDGES) == NEVER
