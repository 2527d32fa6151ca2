"""Tables of service times, and what is drawn from them."""

from __future__ import annotations

import math
from statistics import NormalDist, fmean, pstdev

import pytest

from blklab.core.errors import BlklabError
from blklab.core.rand import RandomStream
from blklab.device.sampler import Sampler
from blklab.device.service import SENSES, SHAPES, interpolate, make_table, table_mean

MEAN_NS = 60_000
DRAWS = 60_000


def draws(shape: str, cv: float = 0.3, sense_ns: int = 5000, jitter_ns: int = 2000) -> list[int]:
    table = make_table(shape, MEAN_NS, cv, sense_ns, jitter_ns)
    sampler = Sampler(RandomStream(7, shape), table)
    return sorted(sampler.draw() for _ in range(DRAWS))


@pytest.mark.parametrize("shape", SHAPES)
def test_the_mean_is_what_was_asked_for(shape: str) -> None:
    assert table_mean(make_table(shape, MEAN_NS, 0.3, 5000, 2000)) == pytest.approx(MEAN_NS, rel=2e-4)


def test_constant_takes_no_random_number() -> None:
    stream = RandomStream(1)
    sampler = Sampler(stream, make_table("constant", MEAN_NS, 0, 0, 0))
    assert [sampler.draw() for _ in range(3)] == [MEAN_NS] * 3
    assert stream.next64() == RandomStream(1).next64()


def test_exponential_draws_are_exponential_far_into_the_tail() -> None:
    values = draws("exponential")
    assert fmean(values) == pytest.approx(MEAN_NS, rel=0.015)
    assert pstdev(values) == pytest.approx(MEAN_NS, rel=0.02)
    for share in (0.1, 0.5, 0.9, 0.99, 0.999):
        expected = -math.log(1 - share) * MEAN_NS
        assert values[int(share * DRAWS)] == pytest.approx(expected, rel=0.12)
    # The table ends at one in a million, the mean beyond that included
    table = make_table("exponential", MEAN_NS, 0, 0, 0)
    assert table[len(table) - 2] == pytest.approx(math.log(1024 * 1024) * MEAN_NS, rel=0.01)


def test_lognormal_draws_have_the_quantiles_of_a_lognormal() -> None:
    values = draws("lognormal")
    sigma = math.sqrt(math.log(1 + 0.3**2))
    median = MEAN_NS * math.exp(-sigma * sigma / 2)
    for share in (0.01, 0.25, 0.5, 0.75, 0.99):
        expected = median * math.exp(sigma * NormalDist().inv_cdf(share))
        assert values[int(share * DRAWS)] == pytest.approx(expected, rel=0.02)
    assert pstdev(values) == pytest.approx(0.3 * MEAN_NS, rel=0.03)


def test_uniform_draws_stay_within_the_jitter() -> None:
    values = draws("uniform")
    assert MEAN_NS - 2000 <= values[0] < values[-1] <= MEAN_NS + 2000
    assert pstdev(values) == pytest.approx(2000 / math.sqrt(3), rel=0.02)


def test_cells_are_three_kinds_of_pages() -> None:
    values = draws("cells", jitter_ns=1000)
    mean_senses = sum(SENSES) / 3
    for third, senses in enumerate(SENSES):
        centre = MEAN_NS + (senses - mean_senses) * 5000
        part = values[third * DRAWS // 3 + 600 : (third + 1) * DRAWS // 3 - 600]
        assert all(abs(value - centre) <= 1001 for value in part)


def test_what_would_be_negative_or_is_unknown_is_refused() -> None:
    with pytest.raises(BlklabError, match="negative"):
        make_table("cells", 1000, 0, 5000, 0)
    with pytest.raises(BlklabError, match="negative"):
        make_table("uniform", 1000, 0, 0, 1001)
    with pytest.raises(BlklabError, match="there are constant"):
        make_table("normal", 1000, 0, 0, 0)


def test_interpolation_passes_through_steps_and_flat_parts() -> None:
    points = [(0.0, 10.0), (0.5, 20.0), (0.5, 40.0), (1.0, 50.0)]
    assert [interpolate(points, u) for u in (0.0, 0.25, 0.5, 0.75, 1.0)] == [10.0, 15.0, 20.0, 45.0, 50.0]
