"""Bit operations on unsigned 64-bit words; compiled modules take these from bits.pxd instead.

Cython turns integer literals above 31 bits into Python objects, so every such constant has a name here and a C
definition in `bits.pxd`. Both forms give the same values for operands below 2**64.
"""

from __future__ import annotations

ALL_ONES_64 = 0xFFFFFFFFFFFFFFFF
ALL_ONES_32 = 0xFFFFFFFF
STAR_64 = 0x2545F4914F6CDD1D  # the multiplier of xorshift64*
NEVER_NS = 0x7FFFFFFFFFFFFFFF  # later than any time


def fls64(x: int) -> int:
    """Position of the most significant set bit, counting from 1; 0 for 0."""
    return x.bit_length()


def ffs64(x: int) -> int:
    """Index of the least significant set bit; x must not be 0."""
    return (x & -x).bit_length() - 1


def ffz64(x: int) -> int:
    """Index of the least significant clear bit; x must not be all ones."""
    return (~x & (x + 1)).bit_length() - 1


def bit64(n: int) -> int:
    """A word with bit n set, 0 <= n < 64."""
    return 1 << n


def low_mask64(n: int) -> int:
    """A word with the n lowest bits set, 0 <= n <= 64."""
    return (1 << n) - 1


def not64(x: int) -> int:
    """All bits of the word inverted."""
    return x ^ ALL_ONES_64
