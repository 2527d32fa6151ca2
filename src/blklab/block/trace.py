"""Tracepoints: what blktrace would have seen, as fixed-width records.

What: Q G S P U UT I M F X D R C A and messages, with blktrace's meaning. Every site tests one mask; nothing
else is done while tracing is off. Everything that wants to see inside (trace files, stage latencies, tests,
pictures) reads these.

Theory of operation
-------------------
A record is ten integers (`FIELDS`) in a block of `BLOCK_RECORDS`; a
full block is handed to `sink`, or kept in `blocks`. `seq` counts records, so that those of one nanosecond
keep their order. Messages are kept beside, in `messages`, and their record's `extra` is the index.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

import cython

if TYPE_CHECKING:
    from blklab.block.bio import Bio
    from blklab.block.queue import RequestQueue
    from blklab.core.host import Host

if not cython.compiled:
    from blklab.block.consts import (
        F_FUA,
        F_META,
        F_PREFLUSH,
        F_RAHEAD,
        F_SYNC,
        OP_DISCARD,
        OP_READ,
        OP_WRITE,
        OP_WRITE_ZEROES,
    )

BLOCK_RECORDS = 4096
FIELDS = ("time_ns", "action", "cpu", "pid", "device", "op", "flags", "sector", "nr_sectors", "extra")

# mask bit -> (letter, meaning). "extra" of a record: U and UT: requests unplugged; X: the sector where the
# rest begins; A: what `origin` packs, the stacked device and the sector there; C: status; message: its index.
ACTIONS: dict[int, tuple[str, str]] = {
    1: ("Q", "a bio is queued"),
    2: ("G", "a request is allocated for it"),
    4: ("M", "it is merged at the back of a request"),
    8: ("F", "it is merged at the front of a request"),
    16: ("X", "it is split: this part goes on, the rest is submitted again"),
    32: ("P", "a task's plug becomes used"),
    64: ("U", "a plug is flushed"),
    128: ("UT", "a plug is flushed because its task sleeps"),
    256: ("I", "a request is inserted in the scheduler or software queue"),
    512: ("D", "a request is issued to the driver"),
    1024: ("R", "a request is put back"),
    2048: ("C", "a request has completed"),
    4096: ("A", "a bio is remapped to another device"),
    8192: ("m", "a message of a scheduler or policy"),
    16384: ("S", "a task sleeps until a request is free (single queue only)"),
}
LETTERS = {letter: bit for bit, (letter, _) in ACTIONS.items()}


SECTOR_BITS = 44  # of extra of an A record: 8 PiB


class Record(NamedTuple):
    """One tracepoint in Python's terms; `rwbs` as blktrace prints it. Of A, `extra` is the sector on the stacked device
    and `source` that device's number."""

    time_ns: int
    action: str
    cpu: int
    pid: int
    device: int
    rwbs: str
    sector: int
    nr_sectors: int
    extra: int
    source: int = -1


class Tracer:
    """The records of one run. `mask`: which tracepoints are on (sum of TR_ bits)."""

    def __init__(self, host: Host, mask: int = 0, sink: Callable[[array[int]], object] | None = None) -> None:
        self.host = host
        self.mask = mask
        self.sink = sink
        self.blocks: list[array[int]] = []
        self.messages: list[str] = []
        self.count = 0
        self.position = 0
        self.block = array("q", bytes(8 * len(FIELDS) * BLOCK_RECORDS))
        self.cells = self.block

    def add(
        self, action: int, device: int, op: int, flags: int, sector: int, nr_sectors: int, extra: int
    ) -> int:
        """Write one record at the present time."""
        host = self.host
        cells = self.cells
        i = self.position
        cells[i] = host.clock.now_ns
        cells[i + 1] = action
        cells[i + 2] = host.cpu
        cells[i + 3] = host.task_id
        cells[i + 4] = device
        cells[i + 5] = op
        cells[i + 6] = flags
        cells[i + 7] = sector
        cells[i + 8] = nr_sectors
        cells[i + 9] = extra
        self.count += 1
        self.position = i + 10
        if self.position == 10 * BLOCK_RECORDS:
            self._full()
        return 0

    def remap(self, bio: Bio, upper: int, sector: int) -> int:
        """A: `bio` goes to the device of its queue now, from `sector` of the device numbered `upper`."""
        origin = upper << SECTOR_BITS | sector
        lower: RequestQueue = bio.queue  # type: ignore[assignment]
        return self.add(4096, lower.number, bio.op, bio.flags, bio.sector, bio.nr_sectors, origin)

    def message(self, device: int, text: str) -> int:
        """A message of a scheduler or policy ('m N ...')."""
        self.messages.append(text)
        return self.add(8192, device, 0, 0, 0, 0, len(self.messages) - 1)

    def _full(self) -> None:
        if self.sink is None:
            self.blocks.append(self.block)
        else:
            self.sink(self.block)
        self.block = array("q", bytes(8 * len(FIELDS) * BLOCK_RECORDS))
        self.cells = self.block
        self.position = 0

    def flush(self) -> None:
        """Hand to the sink what has been written since the last full block."""
        if self.sink is not None and self.position:
            self.sink(self.block[: self.position])
            self.position = 0

    def __iter__(self) -> Iterator[Record]:
        """All kept records, oldest first by the order they were written."""
        for block in [*self.blocks, self.block[: self.position]]:
            for i in range(0, len(block), len(FIELDS)):
                row = list(block[i : i + len(FIELDS)])
                letters = ACTIONS[row[1]][0], rwbs(row[5], row[6])
                source, extra = origin_of(row[9]) if letters[0] == "A" else (-1, row[9])
                yield Record(
                    row[0], letters[0], row[2], row[3], row[4], letters[1], row[7], row[8], extra, source
                )


def origin_of(extra: int) -> tuple[int, int]:
    """The number of the stacked device that a remapped bio came from, and its sector there, of an A record's
    `extra`."""
    return extra >> SECTOR_BITS, extra & ((1 << SECTOR_BITS) - 1)


def rwbs(op: int, flags: int) -> str:
    """The letters blktrace prints for an operation: F of a preflush, the operation, then FUA, readahead,
    sync, meta."""
    text = "F" if flags & F_PREFLUSH else ""
    letters = {OP_READ: "R", OP_WRITE: "W", OP_DISCARD: "D", OP_WRITE_ZEROES: "W"}
    text += letters.get(op, "N")
    if flags & F_FUA:
        text += "F"
    if flags & F_RAHEAD:
        text += "A"
    if flags & F_SYNC:
        text += "S"
    if flags & F_META:
        text += "M"
    return text
