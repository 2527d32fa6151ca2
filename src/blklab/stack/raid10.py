"""md raid10: chunks in turn, each of them on several members.

    layout = "n2"    near: copies side by side, in the same row or, where members run out, at the start of the next
    layout = "f2"    far: first everything once as raid0, then everything again, shifted by a member, further behind
    layout = "o2"    offset: each row once again in the row below, shifted by a member

Theory of operation (raid10.c of 6.1)
-------------------------------------
A bio is cut where a chunk ends (not traced, and what is behind the cut is sent to the array again), unless all members
hold the same. Of a chunk's members the one is read that has the fewest I/Os under way, if one of them does not turn;
among disks one that has nothing to do (near), the one where the chunk lies first (far), or that whose head is nearest.

An array can do without a member as long as all chunks have another one. mirror.py does the rest.

Deliberate differences: those of mirror.py; far and near copies at once, and the far sets of later mdadm, are not
built; a discard is cut at chunks as all else, where 6.1 gives each member one range if it is two stripes or longer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from blklab.block.models import DeviceModel, Parameter, Settings, no_presets, no_tags
from blklab.core.errors import BlklabError
from blklab.stack.md import CHUNK, DATA_OFFSET, MEMBERS
from blklab.stack.mirror import MirrorDevice, MirrorIo
from blklab.stack.stacked import check_block_multiple, member_merge_bvec

if TYPE_CHECKING:
    from blklab.block.bio import Bio
    from blklab.block.queue import RequestQueue
    from blklab.block.submit import Submitter
    from blklab.core.host import Host
    from blklab.stack.md import Member
    from blklab.stack.mirror import Leg

FAR = 1 << 62
MANY = 1 << 30


class Raid10(MirrorDevice):
    """One raid10."""

    def __init__(self, settings: Settings, host: Host, seed: int) -> None:
        MirrorDevice.__init__(self, settings, host, seed)
        check_block_multiple(settings["chunk"], self.slaves, "chunk")
        chunk = self.chunk_sectors
        if chunk & (chunk - 1):
            raise BlklabError(f"raid10: chunk is a power of two, not {settings['chunk']} bytes")
        self._set_layout(settings["layout"])
        self.nr_members = len(self.members)
        self.nr_copies = self.near_copies * self.far_copies
        if self.nr_copies > self.nr_members:
            raise BlklabError(f"raid10: {self.nr_copies} copies are too many for {self.nr_members} members")
        if self.nr_members < 2:
            raise BlklabError("raid10 has 2 or more members")
        # calc_sectors: how many chunks the array has, and how much of each member they take
        smallest = min(member.nr_sectors for member in self.members) // chunk
        self.nr_chunks = smallest // self.far_copies * self.nr_members // self.near_copies
        used = (self.nr_chunks * self.nr_copies + self.nr_members - 1) // self.nr_members
        self.stride = chunk if self.far_offset else used // self.far_copies * chunk

    def _set_layout(self, layout: str) -> None:
        kind, copies = layout[:1], layout[1:]
        if kind not in ("n", "f", "o") or not copies.isdigit() or not 1 <= int(copies) <= 255:
            raise BlklabError(
                f"raid10: layout is n2, f2 or o2, or with another number of copies, not {layout!r}"
            )
        self.near_copies = int(copies) if kind == "n" else 1
        self.far_copies = 1 if kind == "n" else int(copies)
        self.far_offset = kind == "o"

    def run(self, queue: RequestQueue) -> None:
        """raid10_run: limits and size."""
        limits = queue.limits
        limits.max_write_zeroes_sectors = 0
        chunk_bytes = self.chunk_sectors << 9
        limits.set_io_min(chunk_bytes)
        wide = self.nr_members
        if wide % self.near_copies == 0:
            wide //= self.near_copies
        limits.io_opt_bytes = chunk_bytes * wide
        for member in self.members:
            self.take_in(member.queue, member.data_offset)
        # raid10_size
        used = (self.nr_chunks * self.nr_copies + self.nr_members - 1) // self.nr_members
        queue.size_sectors = (
            used // self.far_copies * self.nr_members // self.near_copies * self.chunk_sectors
        )

    def enough_without(self, member: Member) -> bool:
        """enough: every chunk has a member that works, other than this one."""
        first = 0
        while True:
            this = first
            found = False
            for _ in range(self.nr_copies):
                if this != member.number and not self.members[this].faulty:
                    found = True
                this = (this + 1) % self.nr_members
            if not found:
                return False
            first = (first + self.near_copies) % self.nr_members
            if first == 0:
                return True

    def can_lose(self, member: Member) -> bool:
        """As raid10_error."""
        return self.enough_without(member)

    def can_retry(self, member: Member) -> bool:
        """As raid10_end_read_request."""
        return self.enough_without(member)

    def find_phys(self, sector: int, legs: list[Leg], sectors: list[int]) -> int:
        """raid10_find_phys: append the members that have a sector of the device, and where they have it."""
        chunk = self.chunk_sectors
        nr_members = self.nr_members
        number = sector // chunk * self.near_copies
        row = number // nr_members
        device = number % nr_members
        if self.far_offset:
            row *= self.far_copies
        there = row * chunk + sector % chunk
        for _ in range(self.near_copies):
            other = device
            place = there
            for copy in range(self.far_copies):
                if copy:
                    other = (other + self.near_copies) % nr_members
                    place += self.stride
                legs.append(self.legs[other])
                sectors.append(place)
            device += 1
            if device == nr_members:
                device = 0
                there += chunk
        return 0

    def make_request(self, submitter: Submitter, bio: Bio) -> int:
        """raid10_make_request."""
        chunk = self.chunk_sectors
        left = chunk - bio.sector % chunk
        if left < bio.nr_sectors and self.near_copies < self.nr_members:
            part = self.cut(bio, left)
            submitter.submit_noacct(bio)
            bio = part
        legs: list[Leg] = []
        sectors: list[int] = []
        self.find_phys(bio.sector, legs, sectors)
        return self.start(submitter, MirrorIo(self, bio, legs, sectors))

    def read_balance(self, io: MirrorIo) -> int:
        """read_balance."""
        nearest = -1
        nearest_distance = FAR
        least_busy = -1
        least_pending = MANY
        any_solid = False
        for slot in range(self.nr_copies):
            leg = io.legs[slot]
            if leg.member.faulty:
                continue
            there = io.sector_on(slot)
            pending = leg.member.nr_pending
            if not leg.disk.rotational:
                any_solid = True
                if pending < least_pending:
                    least_pending = pending
                    least_busy = slot
            if self.near_copies > 1 and pending == 0:
                distance = 0
            elif self.far_copies > 1:
                distance = there
            else:
                distance = there - leg.head_position
                if distance < 0:
                    distance = -distance
            if distance < nearest_distance:
                nearest_distance = distance
                nearest = slot
        return least_busy if any_solid else nearest

    def asks_to_merge(self) -> bool:
        """raid10_mergeable_bvec: it cuts bios."""
        return True

    def merge_bvec(self, queue: RequestQueue, sector: int) -> int:
        """raid10_mergeable_bvec: up to the end of the chunk, and what every member there takes."""
        most: int = self.chunk_sectors - sector % self.chunk_sectors
        if self.merges_asked:
            legs: list[Leg] = []
            sectors: list[int] = []
            self.find_phys(sector, legs, sectors)
            for leg, place in zip(legs, sectors, strict=True):
                if not leg.member.faulty:
                    most = min(most, member_merge_bvec(leg.member.queue, place + leg.member.data_offset))
        return most


MODEL = DeviceModel(
    "raid10",
    "md raid10: chunks in turn, each on several members",
    (
        MEMBERS,
        CHUNK,
        Parameter(
            "layout", "str", "n2", "where the copies are: n (near), f (far) or o (offset), and how many"
        ),
        DATA_OFFSET,
    ),
    Raid10,
    no_tags,
    no_presets,
)
