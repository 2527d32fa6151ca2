"""md raid0: chunks of the members in turn.

Theory of operation (raid0.c of 6.1)
------------------------------------
Members are cut to whole chunks. If their sizes differ the device has zones: the first goes over all members up to the
end of the smallest, the next over those that have more, and so on. `layout` says on which member a later zone begins:
`original` goes on counting chunks from the start of the device, `alternate` (5.4 and later ask which) from that of the
zone.

max_hw_sectors is a chunk, so md's common part cuts a bio to a chunk's *length* (X) before it comes here; here it is cut
once more at the chunk's end, without X, and what is behind the cut is sent on first. So 777 sectors from sector 1 with
64 KiB chunks become 13 bios on the members, where dm's stripe makes 7 (captures split/md-raid0-*-odd, dm-stripe*-odd).

A discard is not cut to chunks: each member gets one, from the first chunk of it to the last.

Deliberate differences: no takeover from other levels, and a broken member does not stop the array.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import cython

from blklab.block.models import DeviceModel, Parameter, Settings, no_presets, no_tags
from blklab.core.errors import BlklabError
from blklab.stack.md import CHUNK, DATA_OFFSET, MEMBERS, MdDevice
from blklab.stack.stacked import check_block_multiple, member_asks, member_merge_bvec

if TYPE_CHECKING:
    from blklab.block.bio import Bio
    from blklab.block.queue import RequestQueue
    from blklab.block.submit import Submitter
    from blklab.core.host import Host
    from blklab.stack.md import Member

if not cython.compiled:
    from blklab.block.consts import DONE, OP_DISCARD, STS_OK
    from blklab.core.charging import charge
    from blklab.core.steps import STEP_BIO_ALLOC


class Zone:
    """A strip zone: `members` in turn, from `begin` to `end` of the device and from `dev_start` of each member."""

    def __init__(self, members: list[Member], begin: int, dev_start: int, nr_sectors: int) -> None:
        self.members = members
        self.nr_members = len(members)
        self.begin = begin
        self.end = begin + nr_sectors
        self.dev_start = dev_start


class Raid0(MdDevice):
    """One raid0."""

    def __init__(self, settings: Settings, host: Host, seed: int) -> None:
        MdDevice.__init__(self, settings, host, seed)
        if settings["layout"] not in ("original", "alternate"):
            raise BlklabError(f"raid0: layout is original or alternate, not {settings['layout']!r}")
        self.alternate = settings["layout"] == "alternate"
        check_block_multiple(settings["chunk"], self.slaves, "chunk")
        self.zones = self._make_zones()
        self.merges_asked = any(member_asks(queue) for queue in self.slaves)

    def _make_zones(self) -> list[Zone]:
        # create_strip_zones
        chunk = self.chunk_sectors
        for member in self.members:
            member.nr_sectors -= member.nr_sectors % chunk
        zones: list[Zone] = []
        begin = 0
        done = 0
        for size in sorted({member.nr_sectors for member in self.members}):
            members = [member for member in self.members if member.nr_sectors > done]
            zone = Zone(members, begin, done, (size - done) * len(members))
            zones.append(zone)
            begin = zone.end
            done = size
        return zones

    def run(self, queue: RequestQueue) -> None:
        """raid0_run: limits and size."""
        limits = queue.limits
        limits.set_max_hw_sectors(self.chunk_sectors, queue.features.default_max_sectors)
        limits.max_write_zeroes_sectors = self.chunk_sectors
        limits.set_io_min(self.chunk_sectors << 9)
        limits.io_opt_bytes = (self.chunk_sectors << 9) * len(self.members)
        for member in self.members:
            self.take_in(member.queue, member.data_offset)
        queue.size_sectors = sum(zone.end - zone.begin for zone in self.zones)

    def find_zone(self, sector: int) -> Zone:
        """The zone that holds a sector of the device."""
        zone: Zone
        for zone in self.zones:
            if sector < zone.end:
                return zone
        return zone

    def member_at(self, zone: Zone, sector: int) -> Member:
        """Which member a sector of the device is on."""
        within = sector - zone.begin if self.alternate else sector
        member: Member = zone.members[within // self.chunk_sectors % zone.nr_members]
        return member

    def member_sector(self, zone: Zone, sector: int) -> int:
        """Where on its member's data a sector of the device is."""
        chunk: int = self.chunk_sectors
        row = (sector - zone.begin) // (chunk * zone.nr_members)
        return row * chunk + sector % chunk + zone.dev_start

    def make_request(self, submitter: Submitter, bio: Bio) -> int:
        """raid0_make_request."""
        if bio.op == OP_DISCARD:
            return self._discard(submitter, bio)
        chunk = self.chunk_sectors
        left = chunk - bio.sector % chunk
        if left < bio.nr_sectors:
            part = self.cut(bio, left)
            self._map(submitter, bio)
            bio = part
        return self._map(submitter, bio)

    def _map(self, submitter: Submitter, bio: Bio) -> int:
        # raid0_map_submit_bio
        zone = self.find_zone(bio.sector)
        member = self.member_at(zone, bio.sector)
        sector = self.member_sector(zone, bio.sector)
        self.send(submitter, self.account_bio(bio), member, sector)
        return DONE

    def _discard(self, submitter: Submitter, bio: Bio) -> int:
        # raid0_handle_discard: one range of each member
        zone = self.find_zone(bio.sector)
        end = bio.sector + bio.nr_sectors
        if end > zone.end:
            part = self.cut(bio, zone.end - bio.sector)
            submitter.submit_noacct(bio)
            bio = part
            end = zone.end
        chunk = self.chunk_sectors
        stripe = chunk * zone.nr_members
        first = (bio.sector - zone.begin) // stripe
        last = (end - zone.begin) // stripe
        into_first = bio.sector - zone.begin - first * stripe
        into_last = end - zone.begin - last * stripe
        # Seen from the member that the zone's first chunk is on
        shift = 0 if self.alternate else zone.begin // chunk % zone.nr_members
        for index in range(zone.nr_members):
            place = (index + zone.nr_members - shift) % zone.nr_members
            begin = first * chunk + self._within(into_first, place)
            stop = last * chunk + self._within(into_last, place)
            if stop <= begin:
                continue
            member: Member = zone.members[index]
            charge(self.host, STEP_BIO_ALLOC)
            clone = self.clone_bio(bio, stop - begin)
            clone.flags = 0
            clone.parent = bio
            bio.remaining += 1
            self.send(submitter, clone, member, begin + zone.dev_start)
        return self.queue.end_bio(bio, STS_OK)

    def _within(self, into: int, place: int) -> int:
        # How much of a stripe's chunk number `place` lies before a point `into` the stripe
        chunk: int = self.chunk_sectors
        before = into - place * chunk
        if before <= 0:
            return 0
        return before if before < chunk else chunk

    def merge_bvec(self, queue: RequestQueue, sector: int) -> int:
        """raid0_mergeable_bvec: up to the end of the chunk, and what the member there says."""
        chunk: int = self.chunk_sectors
        most = chunk - sector % chunk
        if self.merges_asked:
            zone = self.find_zone(sector)
            member = self.member_at(zone, sector)
            lower = member_merge_bvec(member.queue, self.member_sector(zone, sector) + member.data_offset)
            most = min(most, lower)
        return most


MODEL = DeviceModel(
    "raid0",
    "md raid0: chunks of the members in turn",
    (
        MEMBERS,
        CHUNK,
        Parameter("layout", "str", "original", "where zones of larger members begin: original or alternate"),
        DATA_OFFSET,
    ),
    Raid0,
    no_tags,
    no_presets,
)
