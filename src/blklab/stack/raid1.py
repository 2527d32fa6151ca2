"""md raid1: every member has everything.

Theory of operation (raid1.c of 6.1)
------------------------------------
Which member is read: the one whose last read ended where this one begins, so that a sequential reader stays where it
is. Else, if any member does not turn, or one of them has nothing to do: the one with the fewest I/Os under way; else
the one whose head is nearest to the sector. A solid-state member with an io_opt gives up a sequential reader only to
another one that it would be sequential on, too.

A bio is cut where a unit of 64 MiB ends, since I/O is held off (for a resync) in such units. md's common part cuts it
to the limits of the members, and mirror.py does the rest.

Deliberate differences: those of mirror.py. All members are in sync from the start (mdadm --assume-clean).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import cython

from blklab.block.models import DeviceModel, Settings, no_presets, no_tags
from blklab.core.errors import BlklabError
from blklab.stack.md import DATA_OFFSET, MEMBERS
from blklab.stack.mirror import MirrorDevice, MirrorIo
from blklab.stack.stacked import member_merge_bvec

if TYPE_CHECKING:
    from blklab.block.bio import Bio
    from blklab.block.queue import RequestQueue
    from blklab.block.submit import Submitter
    from blklab.core.host import Host
    from blklab.stack.md import Member

if not cython.compiled:
    from blklab.block.consts import UNLIMITED

BARRIER_UNIT_SECTORS = 1 << 17  # BARRIER_UNIT_SECTOR_SIZE
FAR = 1 << 62
MANY = 1 << 30


class Raid1(MirrorDevice):
    """One raid1."""

    def __init__(self, settings: Settings, host: Host, seed: int) -> None:
        MirrorDevice.__init__(self, settings, host, seed)
        if len(self.members) < 2:
            raise BlklabError("raid1 has 2 or more members")

    def run(self, queue: RequestQueue) -> None:
        """raid1_run: limits and size."""
        queue.limits.max_write_zeroes_sectors = 0
        for member in self.members:
            self.take_in(member.queue, member.data_offset)
        queue.size_sectors = min(member.nr_sectors for member in self.members)

    def can_lose(self, member: Member) -> bool:
        """Another one works."""
        return len(self.members) - self.degraded > 1

    def can_retry(self, member: Member) -> bool:
        """Another one works; one that is out itself is not counted as working."""
        working = len(self.members) - self.degraded
        return working > 1 or (working == 1 and member.faulty)

    def make_request(self, submitter: Submitter, bio: Bio) -> int:
        """raid1_make_request."""
        left = BARRIER_UNIT_SECTORS - bio.sector % BARRIER_UNIT_SECTORS
        if left < bio.nr_sectors:
            part = self.cut(bio, left)
            submitter.submit_noacct(bio)
            bio = part
        return self.start(submitter, MirrorIo(self, bio, self.legs, None))

    def read_balance(self, io: MirrorIo) -> int:
        """read_balance."""
        sector = io.sector
        best = -1
        nearest = -1
        nearest_distance = FAR
        least_busy = -1
        least_pending = MANY
        any_solid = False
        look_on = False
        for slot in range(len(self.legs)):
            leg = self.legs[slot]
            if leg.member.faulty:
                continue
            solid = not leg.disk.rotational
            any_solid = any_solid or solid
            distance = sector - leg.head_position
            if distance < 0:
                distance = -distance
            if distance == 0 or leg.next_seq_sector == sector:
                best = slot
                io_opt = leg.disk.limits.io_opt_bytes >> 9
                if solid and io_opt and leg.seq_start >= 0 and leg.next_seq_sector - io_opt >= leg.seq_start:
                    look_on = True
                    continue
                break
            if look_on:
                continue
            if leg.member.nr_pending < least_pending:
                least_pending = leg.member.nr_pending
                least_busy = slot
            if distance < nearest_distance:
                nearest_distance = distance
                nearest = slot
        if best < 0:
            best = least_busy if any_solid or least_pending == 0 else nearest
        if best >= 0:
            leg = self.legs[best]
            if leg.next_seq_sector != sector:
                leg.seq_start = sector
            leg.next_seq_sector = sector + io.nr_sectors
        return best

    def merge_bvec(self, queue: RequestQueue, sector: int) -> int:
        """raid1_mergeable_bvec: what every member takes."""
        most = UNLIMITED
        if self.merges_asked:
            for member in self.members:
                if not member.faulty:
                    most = min(most, member_merge_bvec(member.queue, sector + member.data_offset))
        return most


MODEL = DeviceModel(
    "raid1",
    "md raid1: every member has everything",
    (MEMBERS, DATA_OFFSET),
    Raid1,
    no_tags,
    no_presets,
)
