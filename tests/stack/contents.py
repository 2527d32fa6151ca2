"""What is on the members: leaves that remember which write each sector has, for tests of redundancy."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

from stack_rig import LeafDriver, StackRig

from blklab.block.bio import Bio
from blklab.block.consts import OP_READ, OP_WRITE, STS_OK
from blklab.block.request import Request


def whose(bio: Bio) -> int:
    """The number of the bio that a task sent, of which this one is a clone, or a part, or a part of a clone."""
    at: Any = bio
    while True:
        if at.parent is not None:
            at = at.parent
        elif isinstance(at.io, Bio):  # counted by md, or a clone of dm's
            at = at.io
        elif hasattr(at.end_io, "bio"):  # of a MirrorIo, or an AlignedRead
            at = at.end_io.bio
        else:
            assert isinstance(at.io, int)
            return at.io


class Leaf(LeafDriver):
    """`contents`: the number of the last write of each sector; `read`: for each bio what its reads that succeeded
    found."""

    def __init__(self, size_sectors: int, service_ns: int | None = 10_000) -> None:
        super().__init__(size_sectors, service_ns)
        self.contents: dict[int, int] = {}
        self.read: dict[int, Counter[int]] = defaultdict(Counter)

    def end(self, rq: Request) -> int:
        bio = rq.bio
        if bio is not None and isinstance(bio.io, Request):  # a clone of dm-rq's, at the same sectors
            bio = bio.io.bio
        while bio is not None and rq.status == STS_OK:
            number = whose(bio)
            sectors = range(bio.sector, bio.sector + bio.nr_sectors)
            if bio.op == OP_WRITE:
                self.contents.update(dict.fromkeys(sectors, number))
            elif bio.op == OP_READ:
                self.read[number].update(self.contents.get(sector, -1) for sector in sectors)
            bio = bio.next
        return super().end(rq)


class ContentsRig(StackRig):
    """A machine whose leaves remember."""

    leaf_model = Leaf

    def found(self, number: int) -> Counter[int]:
        """What the bio of that number has read: how many sectors of which write."""
        total: Counter[int] = Counter()
        for driver in self.drivers.values():
            assert isinstance(driver, Leaf)
            total += driver.read[number]
        return total
