"""Counters of version 1's control files: by direction, and by whether somebody waits (blkg_rwstat).

What: `RwStat` is one such counter; `print_rwstat` the content of a file that shows one. Why here: several policies
have files of this form.

Theory of operation
-------------------
Each device has six lines, "MAJ:MIN Read N" to "MAJ:MIN Total N", the newest device first; the last line is the total
of all. A total is of reads, writes and discards; each of these counts as synchronous or asynchronous besides.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import cython

from blklab.block.cgroup import device_number

if TYPE_CHECKING:
    from blklab.block.cgroup import Blkg, Cgroup

if not cython.compiled:
    from blklab.block.consts import OP_DISCARD


class RwStat:
    """One counter."""

    def __init__(self) -> None:
        self.read = 0
        self.write = 0
        self.discard = 0
        self.sync = 0
        self.async_ = 0

    def add(self, op: int, sync: bool, value: int) -> None:
        """Count `value` for an operation."""
        if op == OP_DISCARD:
            self.discard += value
        elif op & 1:
            self.write += value
        else:
            self.read += value
        if sync:
            self.sync += value
        else:
            self.async_ += value

    def add_all(self, other: RwStat) -> None:
        """Count all that another one has counted."""
        self.read += other.read
        self.write += other.write
        self.discard += other.discard
        self.sync += other.sync
        self.async_ += other.async_

    def total(self) -> int:
        """Reads, writes and discards."""
        return self.read + self.write + self.discard

    def lines(self, device: str) -> list[str]:
        """As a control file shows it for one device."""
        return [
            f"{device} Read {self.read}",
            f"{device} Write {self.write}",
            f"{device} Sync {self.sync}",
            f"{device} Async {self.async_}",
            f"{device} Discard {self.discard}",
            f"{device} Total {self.total()}",
        ]


def print_rwstat(cgroup: Cgroup, pick: Callable[[Blkg], RwStat | None], recursive: bool) -> str:
    """The content of a file. `pick`: a group's counter on a device, None where the policy is not active;
    `recursive`: with those of all groups below."""
    lines = []
    total = 0
    for blkg in cgroup.newest_first():
        own = pick(blkg)
        if own is None:
            continue
        stat = RwStat()
        for one in blkg.walk() if recursive else (blkg,):
            part = pick(one)
            if part is not None:
                stat.add_all(part)
        lines += stat.lines(device_number(blkg.queue))
        total += stat.total()
    return "\n".join([*lines, f"Total {total}"])
