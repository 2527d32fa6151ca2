"""Distributions of service times as tables of quantiles, from which a device draws with one look-up.

A table has two levels of `STEPS` equal steps of probability: one over all of them, and one over its last
step, so that the tail is drawn as finely as the rest (to one in a million). Between two entries a draw is
uniform.

Theory of operation
-------------------
`STEPS` + 1 values of the quantile function at 0, 1/1024, ... and then as many over [1023/1024, 1]. The very
last value of an unbounded distribution is set so that the mean over the last step is right. All values are
whole nanoseconds. The tables are made in Python and not in a compiled module, so that both forms of the
package have the same numbers.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Sequence
from statistics import NormalDist

from blklab.core.errors import BlklabError

STEPS = 1024
TAIL = 1.0 / STEPS

# What a parameter called *_shape may be
SHAPES = ("constant", "uniform", "cells", "lognormal", "exponential")

# How often the cells of a page are sensed in a flash of three bits a cell, coded 1-2-4: lower, middle, upper page
SENSES = (1, 2, 4)


def table_of(quantile: Callable[[float], float], last_mean: float | None = None) -> array[int]:
    """The two-level table of a quantile function. `last_mean`: the mean over the last step of the second level where
    `quantile(1)` is infinite; None: it is finite."""
    values = [quantile(i / STEPS) for i in range(STEPS)]
    tail = [quantile(1.0 - TAIL + TAIL * i / STEPS) for i in range(STEPS)]
    tail.append(quantile(1.0) if last_mean is None else max(tail[-1], 2 * last_mean - tail[-1]))
    # Not looked up as such (the second level stands for it), but two neighbours are read at once
    values.append(tail[-1])
    return array("q", [max(1, round(value)) for value in values + tail])


def constant(mean_ns: float) -> array[int]:
    """Always the same."""
    return table_of(lambda _: mean_ns, None)


def uniform(mean_ns: float, jitter_ns: float) -> array[int]:
    """Uniform within `jitter_ns` of the mean."""
    return table_of(lambda u: mean_ns + (2 * u - 1) * jitter_ns)


def exponential(mean_ns: float) -> array[int]:
    """Exponential."""
    step = TAIL / STEPS
    return table_of(lambda u: -math.log1p(-u) * mean_ns, (1 - math.log(step)) * mean_ns)


def lognormal(mean_ns: float, cv: float) -> array[int]:
    """Log-normal of this mean and coefficient of variation."""
    if cv <= 0:
        return constant(mean_ns)
    sigma = math.sqrt(math.log1p(cv * cv))
    median = mean_ns * math.exp(-sigma * sigma / 2)
    normal = NormalDist()
    step = TAIL / STEPS
    # E[X; X > q] = mean * P(Z > z - sigma)
    above = normal.inv_cdf(1 - step)
    last = mean_ns * (1 - normal.cdf(above - sigma)) / step
    return table_of(lambda u: median * math.exp(sigma * normal.inv_cdf(u)) if u > 0 else 0.0, last)


def cells(mean_ns: float, sense_ns: float, jitter_ns: float) -> array[int]:
    """A third each of lower, middle and upper pages, which are sensed once, twice and four times, each within
    `jitter_ns` of its own time."""
    mean_senses = sum(SENSES) / len(SENSES)
    centres = [mean_ns + (senses - mean_senses) * sense_ns for senses in SENSES]
    jitter = max(jitter_ns, 0.5)
    edges = sorted({edge for c in centres for edge in (c - jitter, c + jitter)})
    points = [
        (sum(min(1.0, max(0.0, (x - c + jitter) / (2 * jitter))) for c in centres) / len(centres), x)
        for x in edges
    ]
    return table_of(lambda u: interpolate(points, u))


def interpolate(points: Sequence[tuple[float, float]], u: float) -> float:
    """The value at probability `u` of a quantile function given by (probability, value) in ascending order."""
    before = points[0]
    for point in points:
        if point[0] >= u:
            if point[0] == before[0]:
                return before[1] if u <= before[0] else point[1]
            return before[1] + (point[1] - before[1]) * (u - before[0]) / (point[0] - before[0])
        before = point
    return points[-1][1]


def make_table(shape: str, mean_ns: int, cv: float, sense_ns: int, jitter_ns: int) -> array[int]:
    """The table of a *_shape parameter. Raises BlklabError for a shape that there is not, or times below zero."""
    if shape not in SHAPES:
        raise BlklabError(f"no distribution {shape!r}; there are {', '.join(SHAPES)}")
    least = mean_ns - jitter_ns if shape in ("uniform", "cells") else mean_ns
    if shape == "cells":
        least -= round((sum(SENSES) / len(SENSES) - SENSES[0]) * sense_ns)
    if least < 0:
        raise BlklabError(f"a {shape} time of mean {mean_ns} ns would be negative at times: {least} ns")
    if shape == "constant":
        return constant(mean_ns)
    if shape == "uniform":
        return uniform(mean_ns, jitter_ns)
    if shape == "cells":
        return cells(mean_ns, sense_ns, jitter_ns)
    if shape == "lognormal":
        return lognormal(mean_ns, cv)
    return exponential(mean_ns)


def table_mean(table: Sequence[int]) -> float:
    """The mean of what is drawn from a table, nanoseconds."""
    first = sum(table[i] + table[i + 1] for i in range(STEPS - 1)) / 2 / STEPS
    second = table[STEPS + 1 :]
    return first + sum(second[i] + second[i + 1] for i in range(STEPS)) / 2 / STEPS / STEPS
