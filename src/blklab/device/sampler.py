"""Draws service times from a table of `device.service`, and a device's own stream of random numbers.

One draw is one 64-bit random number, one look-up and one multiplication: its ten highest bits choose the step, the next
bits (in the last step: the next ten, which choose the step of the tail) where within it.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from blklab.core.rand import RandomStream

LAST = 1023  # the step of the first level that the second level stands for
SECOND = 1025  # where the second level begins


class Sampler:
    """Times of one distribution, from `stream`, which several samplers may share."""

    def __init__(self, stream: RandomStream, table: array[int]) -> None:
        self.stream = stream
        self.table = table
        last = len(table) - 1
        self.fixed_ns = table[0] if table[0] == table[last] else 0

    def draw(self) -> int:
        """The next time, ns; takes no random number if all are the same."""
        if self.fixed_ns:
            return self.fixed_ns
        x = self.stream.next64()
        i = x >> 54
        if i == LAST:
            i = SECOND + ((x >> 44) & 1023)
            part = (x >> 28) & 65535
        else:
            part = (x >> 38) & 65535
        table = self.table
        value = table[i]
        return value + ((table[i + 1] - value) * part >> 16)
