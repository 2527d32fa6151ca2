"""Operations that C and Python spell differently; compiled modules take these from arith.pxd instead."""

from __future__ import annotations


def truncate(x: float) -> int:
    """A double below 2**63 without its fraction."""
    return int(x)


def next_multiple(x: int, unit: int) -> int:
    """How many units cover x bytes; x >= 0, unit > 0."""
    return -(-x // unit)
