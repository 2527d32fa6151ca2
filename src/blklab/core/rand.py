"""Seeded random streams for device models: small, fast, the same everywhere.

`RandomStream` is xorshift64* (Vigna, "An experimental exploration of Marsaglia's xorshift generators, scrambled",
2014), seeded through splitmix64, so that streams of neighbouring seeds are unrelated. fio's own generators, which
must agree with fio to the bit, are in `workload/`.
"""

from __future__ import annotations

import math

import cython

if not cython.compiled:
    from blklab.core.bits import ALL_ONES_64, STAR_64

# splitmix64 multipliers, from the papers' reference implementations
GOLDEN_64 = 0x9E3779B97F4A7C15
MIX_A_64 = 0xBF58476D1CE4E5B9
MIX_B_64 = 0x94D049BB133111EB


class RandomStream:
    """A stream of uniform 64-bit numbers. `name` separates the streams of one run's seed."""

    def __init__(self, seed: int, name: str = "") -> None:
        mixed = seed
        for ch in name.encode():
            mixed = (mixed * 1099511628211 + ch) & 0xFFFFFFFFFFFFFFFF
        mixed = (mixed + GOLDEN_64) & 0xFFFFFFFFFFFFFFFF
        mixed = ((mixed ^ (mixed >> 30)) * MIX_A_64) & 0xFFFFFFFFFFFFFFFF
        mixed = ((mixed ^ (mixed >> 27)) * MIX_B_64) & 0xFFFFFFFFFFFFFFFF
        self.state = (mixed ^ (mixed >> 31)) or GOLDEN_64

    def next64(self) -> int:
        """The next number, 0 <= x < 2**64."""
        x = self.state
        x ^= x >> 12
        x ^= (x << 25) & ALL_ONES_64
        x ^= x >> 27
        self.state = x
        return (x * STAR_64) & ALL_ONES_64

    def below(self, n: int) -> int:
        """Uniform integer 0 <= x < n, n < 2**31 (bias below n / 2**32)."""
        return ((self.next64() >> 32) * n) >> 32

    def uniform(self) -> float:
        """Uniform float 0 <= x < 1, in steps of 2**-53."""
        return (self.next64() >> 11) * (1.0 / 9007199254740992.0)

    def exponential_ns(self, mean_ns: int) -> int:
        """Exponentially distributed time of this mean, rounded down to a nanosecond."""
        return int(-math.log(1.0 - self.uniform()) * mean_ns)
