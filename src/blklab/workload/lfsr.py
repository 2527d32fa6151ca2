"""fio's linear feedback shift register: all numbers below a limit, each once, without a map.

Theory of operation
    The register has the fewest bits (3 at least) whose range is larger than the limit; a step shifts right and, if a
    0 leaves, adds the taps (an XNOR register: all ones is the state that never moves). Numbers that are too large
    are skipped. fio can skip more steps ("spin") between numbers; its jobs never ask for it.

    Taps are positions of maximal-length registers as published in many tables; where tables differ, fio's choice.

    The very first number of a register takes two steps, in fio because of a counter that is set up one too high and
    never again.
"""

from __future__ import annotations

import cython

from blklab.core.errors import BlklabError

if not cython.compiled:
    from blklab.core.bits import bit64

# Taps by width, highest first; widths below 3 are not used.
# fmt: off
TAPS: dict[int, tuple[int, ...]] = {
    3: (3, 2), 4: (4, 3), 5: (5, 3), 6: (6, 5), 7: (7, 6), 8: (8, 6, 5, 4), 9: (9, 5), 10: (10, 7),
    11: (11, 9), 12: (12, 6, 4, 1), 13: (13, 4, 3, 1), 14: (14, 5, 3, 1), 15: (15, 14), 16: (16, 15, 13, 4),
    17: (17, 14), 18: (18, 11), 19: (19, 6, 2, 1), 20: (20, 17), 21: (21, 19), 22: (22, 21), 23: (23, 18),
    24: (24, 23, 22, 17), 25: (25, 22), 26: (26, 6, 2, 1), 27: (27, 5, 2, 1), 28: (28, 25), 29: (29, 27),
    30: (30, 6, 4, 1), 31: (31, 28), 32: (32, 31, 29, 1), 33: (33, 20), 34: (34, 27, 2, 1), 35: (35, 33),
    36: (36, 25), 37: (37, 5, 4, 3, 2, 1), 38: (38, 6, 5, 1), 39: (39, 35), 40: (40, 38, 21, 19),
    41: (41, 38), 42: (42, 41, 20, 19), 43: (43, 42, 38, 37), 44: (44, 43, 18, 17), 45: (45, 44, 42, 41),
    46: (46, 45, 26, 25), 47: (47, 42), 48: (48, 47, 21, 20), 49: (49, 40), 50: (50, 49, 24, 23),
    51: (51, 50, 36, 35), 52: (52, 49), 53: (53, 52, 38, 37), 54: (54, 53, 18, 17), 55: (55, 31),
    56: (56, 55, 35, 34), 57: (57, 50), 58: (58, 39), 59: (59, 58, 38, 37), 60: (60, 59),
    61: (61, 60, 46, 45), 62: (62, 61, 6, 5), 63: (63, 62),
}
# fmt: on


class Lfsr:
    """Numbers 0 .. nr_values-1, each once, in an order that depends on the seed."""

    def __init__(self, nr_values: int, seed: int) -> None:
        width = max(nr_values.bit_length(), 3)
        if width not in TAPS:
            raise BlklabError(f"random_generator=lfsr: {nr_values} blocks are too many")
        self.nr_values = nr_values
        self.top = bit64(width - 1)
        self.mask = 0
        for tap in TAPS[width]:
            self.mask |= bit64(tap - 1)
        self.state = 0
        self.given = 0
        self.extra_step = True
        self.reset(seed)

    def reset(self, seed: int) -> None:
        """Start again from a seed."""
        ones = self.top * 2 - 1
        self.given = 0
        self.state = seed & ones
        if self.state == ones:
            raise BlklabError("random_generator=lfsr cannot start from this seed; give another randseed")

    def next(self) -> int:
        """The next number, or -1 when all were given."""
        self.given += 1
        if self.given > self.nr_values:
            return -1
        if self.extra_step:
            self.extra_step = False
            self._step()
        self._step()
        while self.state >= self.nr_values:
            self._step()
        return self.state

    def _step(self) -> None:
        low = self.state & 1
        self.state = (self.state >> 1) | self.top
        if not low:
            self.state ^= self.mask
