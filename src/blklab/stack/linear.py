"""dm-linear: one part of the device after another on other devices, as LVM's logical volumes are.

    [device.dm-0]
    model = "linear"
    members = ["sda", "sdb"]        # all of sda, then all of sdb
    starts = "1g, 0"                # from where on each; one for all, or one each
    sizes = "10g, 0"                # how much of each; 0: all that is left

A bio is cut where a part ends and nowhere else. Several linear devices may lie on one member.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import cython

from blklab.block.models import DeviceModel, Parameter, Settings, no_presets, no_tags, size_bytes
from blklab.core.errors import BlklabError
from blklab.stack.mapper import DmDevice, Target

if TYPE_CHECKING:
    from blklab.block.bio import Bio
    from blklab.block.queue import RequestQueue
    from blklab.core.host import Host

if not cython.compiled:
    from blklab.stack.answers import MAP_REMAPPED


class Linear(Target):
    """A part that lies on `lower`, from its sector `start` on."""

    def __init__(self, lower: RequestQueue, start: int, nr_sectors: int) -> None:
        Target.__init__(self, nr_sectors)
        self.lower = lower
        self.start = start
        self.takes_write_zeroes = True

    def devices(self) -> list[tuple[RequestQueue, int]]:
        """The one."""
        return [(self.lower, self.start)]

    def map(self, clone: Bio, number: int) -> int:
        """linear_map."""
        clone.queue = self.lower
        clone.sector = self.start + clone.sector - self.begin if clone.nr_sectors else 0
        return MAP_REMAPPED

    def merge(self, sector: int) -> tuple[RequestQueue, int]:
        """linear_merge."""
        return self.lower, self.start + sector - self.begin


def sizes_of(text: str, count: int, what: str) -> list[int]:
    """Sectors from "1g, 512m": one for all or one for each of `count`. Raises BlklabError."""
    words = text.replace(",", " ").split()
    try:
        nbytes = [size_bytes(word) for word in words]
    except ValueError:
        raise BlklabError(f"{what} are sizes like '1g, 512m', not {text!r}") from None
    if len(nbytes) not in (1, count):
        raise BlklabError(f"{what} has {len(nbytes)} sizes for {count} members: give one, or one each")
    if any(size < 0 or size % 512 for size in nbytes):
        raise BlklabError(f"{what} are whole sectors of 512 bytes, not {text!r}")
    return [size >> 9 for size in nbytes] * (count if len(nbytes) == 1 else 1)


def _make(settings: Settings, host: Host, seed: int) -> DmDevice:
    members: list[RequestQueue] = settings["members"]
    starts = sizes_of(settings["starts"], len(members), "starts")
    sizes = sizes_of(settings["sizes"], len(members), "sizes")
    targets: list[Target] = []
    for lower, start, size in zip(members, starts, sizes, strict=True):
        if start >= lower.size_sectors:
            raise BlklabError(
                f"{lower.name} is too small: it has {lower.size_sectors} sectors, the data would begin at {start}"
            )
        targets.append(Linear(lower, start, size or lower.size_sectors - start))
    return DmDevice(host, members, targets)


MODEL = DeviceModel(
    "linear",
    "dm-linear: parts of other devices, one after another",
    (
        Parameter("members", "devices", [], "the devices, in order", 1, 1024),
        Parameter("starts", "str", "0", "where the part of each begins: one size for all, or one each"),
        Parameter("sizes", "str", "0", "how large the part of each is, likewise; 0: to its end"),
    ),
    _make,
    no_tags,
    no_presets,
    shares_members=True,
)
