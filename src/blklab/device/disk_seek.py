"""The seek curve of a disk, fitted on what a data sheet says of it: one track, the average, and from end to
end.

Theory of operation
-------------------
The curve is that of Ruemmler and Wilkes, "An introduction to disk
drive modeling" (IEEE Computer, 1994): the arm speeds up over half of a short seek and slows down over the
other, so that it takes the square root of the distance; from a distance on it moves at its greatest speed, so
that the rest is linear:

    t(x) = settle + a sqrt(x)                           x < bend
    t(x) = settle + a sqrt(bend) + b (x - bend)         x >= bend,  b = a / (2 sqrt(bend)): no kink

with x from 0 (no distance) to 1 (end to end). `settle` is the seek of one track, so three figures give all
three numbers. The average is over all pairs of cylinders, as data sheets define it. The ratio (full - settle)
/ (average - settle) is 15/8 for a pure square root (bend = 1) and 3 for a straight line (bend = 0); a disk
whose figures are outside gets the nearest curve, exact in the average. Without a figure for the full stroke
(0) it is a pure square root.

A table is made of the curve, whole nanoseconds for every distance up to EXACT cylinders, and then at equal
steps with straight lines between. It is made in Python and not in a compiled module, so that both forms of
the package have the same numbers.
"""

from __future__ import annotations

import math
from array import array
from typing import NamedTuple

from blklab.core.errors import BlklabError

EXACT = 1024  # distances that have an entry each
STEPS = 2048  # entries of the rest, at least half of them used
SEARCH = 60  # halvings: a double has 53 bits


class SeekCurve(NamedTuple):
    """A fitted curve. `root_ns` is a, `bend` where the linear part begins."""

    settle_ns: float
    root_ns: float
    bend: float

    def at(self, x: float) -> float:
        """Nanoseconds for a distance x of the full stroke, 0 < x <= 1."""
        if x <= self.bend:
            return self.settle_ns + self.root_ns * math.sqrt(x)
        root = math.sqrt(self.bend)
        return self.settle_ns + self.root_ns * (root + (x - self.bend) / (2 * root))

    def mean(self) -> float:
        """Mean over all pairs of cylinders: weight 2 (1 - x)."""
        return self.settle_ns + self.root_ns * _shape_mean(self.bend)


def _shape_mean(bend: float) -> float:
    # Integral of 2 (1 - x) times the curve with settle = 0 and a = 1
    root = math.sqrt(bend)
    below = 4 / 3 * bend * root - 4 / 5 * bend * bend * root
    rest = 1 - bend
    # above: root/2 + x / (2 root)
    above = root / 2 * rest * rest + (1 / 3 - bend * bend + 2 / 3 * bend * bend * bend) / (2 * root)
    return below + above


def _shape_full(bend: float) -> float:
    root = math.sqrt(bend)
    return root + (1 - bend) / (2 * root)


def fit_curve(track_ns: int, average_ns: int, full_ns: int) -> SeekCurve:
    """The curve of three figures of a data sheet; `full_ns` 0: not known. Raises BlklabError for figures that
    are not in this order."""
    if not 0 < track_ns < average_ns or (full_ns and full_ns <= average_ns):
        raise BlklabError(
            "hdd: seeks must grow with the distance: seek_track_ns < seek_average_ns < seek_full_ns, not "
            f"{track_ns}, {average_ns}, {full_ns}"
        )
    bend = 1.0
    if full_ns:
        wanted = (full_ns - track_ns) / (average_ns - track_ns)
        low, high = 1e-6, 1.0
        for _ in range(SEARCH):
            bend = (low + high) / 2
            # The ratio falls as the bend moves out
            if _shape_full(bend) / _shape_mean(bend) > wanted:
                low = bend
            else:
                high = bend
        bend = high
    return SeekCurve(float(track_ns), (average_ns - track_ns) / _shape_mean(bend), bend)


def seek_tables(curve: SeekCurve, cylinders: int) -> tuple[array[int], array[int], int]:
    """(entries for distances below EXACT, entries at multiples of 1 << shift, shift)."""
    longest = max(cylinders - 1, 1)

    def at(distance: int) -> int:
        # One track is `settle` alone; the root begins behind it
        x = min(max(distance - 1, 0) / max(longest - 1, 1), 1.0)
        return round(curve.at(x)) if distance else 0

    shift = 0
    while (longest >> shift) + 2 > STEPS:
        shift += 1
    near = array("q", [at(distance) for distance in range(EXACT)])
    far = array("q", [at(step << shift) for step in range((longest >> shift) + 2)])
    return near, far, shift
