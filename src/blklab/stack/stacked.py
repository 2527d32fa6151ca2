"""What all devices made of others have in common: members, limits stacked from theirs, clones and cut bios.

What: `Stacked` is the base of device mapper's devices (mapper.py) and md's (md.py). It is given a bio whole, and works
with two operations of the kernel's: `clone_bio` (bio_alloc_clone: another bio for the same data, which has an end of
its own) and `split_bio` (bio_split and bio_chain: the front part becomes a bio of its own, on which the rest waits).

Theory of operation
-------------------
Limits begin with `set_stacking_defaults`, then each member's are taken in (`take_in`) with the sector at which the data
begins on its disk, so that alignment is judged as the kernel does it. A partition has the limits of its disk.

A clone that is sent on is traced as A on the device that it goes to, with the sector that it had here, and then as Q
there. The bio that it was cloned from gets its C on this device when it ends (end_bio does that, for F_TRACED).

Before late_bio_split a device was asked how much a bio may have (`merge_bvec`); whether it answers less than it is
given matters to those above it (`asks_to_merge`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import cython

from blklab.block.driver import Driver
from blklab.core.errors import BlklabError

if TYPE_CHECKING:
    from blklab.block.bio import Bio
    from blklab.block.queue import RequestQueue
    from blklab.core.host import Host

if not cython.compiled:
    from blklab.block.consts import F_NOT_CLONED, TR_A
    from blklab.core.charging import charge
    from blklab.core.steps import STEP_MERGE_BVEC


class Stacked(Driver):
    """A device made of `slaves`, the queues below it (sysfs `slaves/`), in the order in which they were named."""

    def __init__(self, host: Host, slaves: list[RequestQueue]) -> None:
        Driver.__init__(self)
        self.bio_based = True
        self.host = host
        self.slaves = slaves
        self.queue: RequestQueue | None = None

    def attach(self, queue: RequestQueue) -> None:
        """The limits that allow everything; no C is taken to another CPU (no QUEUE_FLAG_SAME_COMP)."""
        Driver.attach(self, queue)
        self.queue = queue
        queue.limits.set_stacking_defaults()
        queue.rq_affinity = 0

    def asks_to_merge(self) -> bool:
        """Whether it has a merge_bvec_fn that must be asked (before late_bio_split)."""
        return True

    def take_in(self, member: RequestQueue, start_sector: int) -> None:
        """Stack the limits of a member, on which this device's data begins at `start_sector`."""
        disk = member.whole or member
        self.queue.limits.stack(disk.limits, member.start_sector + start_sector)

    def turns(self) -> bool:
        """Whether any member is a disk that turns."""
        return any((member.whole or member).rotational for member in self.slaves)

    def clone_bio(self, bio: Bio, nr_sectors: int) -> Bio:
        """Another bio for the first `nr_sectors` of the same data, on the same device for the moment."""
        clone = bio.queue.bios.get()
        clone.submitter = bio.submitter
        clone.queue = bio.queue
        clone.op = bio.op
        clone.flags = bio.flags & ~F_NOT_CLONED
        clone.ioprio = bio.ioprio
        clone.blkg = bio.blkg
        clone.sector = bio.sector
        clone.nr_sectors = nr_sectors
        clone.buffer_offset_bytes = bio.buffer_offset_bytes
        clone.run_bytes = bio.run_bytes
        return clone

    def split_bio(self, bio: Bio, nr_sectors: int) -> Bio:
        """Cut `nr_sectors` off the front; `bio` is what remains, and ends after both. Traces nothing."""
        part = self.clone_bio(bio, nr_sectors)
        part.flags = bio.flags
        part.part = bio.part
        part.parent = bio
        bio.remaining += 1
        bio.sector += nr_sectors
        bio.nr_sectors -= nr_sectors
        bio.buffer_offset_bytes += nr_sectors << 9
        return part

    def trace_remap(self, bio: Bio, sector: int) -> int:
        """A, on the device that `bio` goes to; it had `sector` here."""
        lower = bio.queue
        if lower.trace_mask & TR_A:
            lower.tracer.remap(bio, self.queue.number, sector)
        return 0


def member_asks(member: RequestQueue) -> bool:
    """Whether a member has a merge_bvec_fn that must be asked (before late_bio_split); no plain disk has."""
    driver = (member.whole or member).driver
    return isinstance(driver, Stacked) and driver.asks_to_merge()


def member_merge_bvec(member: RequestQueue, sector: int) -> int:
    """How many sectors a bio may have that begins at `sector` of a member."""
    disk = member.whole or member
    if disk.bio_based:
        charge(disk.host, STEP_MERGE_BVEC)
    return disk.driver.merge_bvec(disk, sector + member.start_sector)


def check_block_multiple(nbytes: int, members: list[RequestQueue], what: str) -> None:
    """A size must be whole logical blocks of every member. Raises BlklabError."""
    for member in members:
        block = (member.whole or member).limits.logical_block_bytes
        if nbytes % block:
            raise BlklabError(
                f"{what} is {nbytes} bytes, no multiple of the {block} byte blocks of {member.name}"
            )
