"""A stream of recorded I/Os: their order, places and sizes, never their times.

A thread that is given one sends what was sent once, when its own job (iodepth, batches, engine) and the model's
completions let it.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from blklab.core.errors import BlklabError
from blklab.workload.stream import Stream


class ReplayStream(Stream):
    """I/Os as columns of equal length: direction (0 read, 1 write, 2 trim), file, offset and length in bytes."""

    def __init__(
        self,
        ddirs: Sequence[int],
        file_indices: Sequence[int],
        offsets_bytes: Sequence[int],
        lengths_bytes: Sequence[int],
    ) -> None:
        Stream.__init__(self)
        if len({len(ddirs), len(file_indices), len(offsets_bytes), len(lengths_bytes)}) != 1:
            raise BlklabError("the columns of recorded I/Os differ in length")
        self.ddirs = array("q", ddirs)
        self.file_indices = array("q", file_indices)
        self.offsets = array("q", offsets_bytes)
        self.lengths = array("q", lengths_bytes)
        self.count = len(self.ddirs)
        self.position = 0

    def advance(self) -> int:
        """The next recorded I/O, or 0 behind the last one."""
        i = self.position
        if i >= self.count:
            return 0
        self.position = i + 1
        self.ddir = self.ddirs[i]
        self.file_index = self.file_indices[i]
        self.offset_bytes = self.offsets[i]
        self.length_bytes = self.lengths[i]
        return 1

    def draw_ddir(self) -> int:
        """The direction of the next recorded I/O."""
        return self.ddirs[self.position] if self.position < self.count else self.ddir
