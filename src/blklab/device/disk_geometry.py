"""Where a sector lies on a disk that turns: zone, cylinder, head, and angle.

The surface is cut into zones; a track has as many sectors as its zone gives it, more outside than inside. The sectors
of a cylinder follow each other head by head, then comes the next cylinder inwards.

Theory of operation
-------------------
An angle is written as the time in which the disk turns that far: 0 <= angle < `rev_ns`. At time t the angle under the
heads is t % rev_ns, so that rotational latency is exact and needs no state.

The first sector of a track is turned against the last one of the track before it by the time that changing tracks
takes (the skew): `head_switch_ns`, or `cylinder_switch_ns` where the arm moves. So a long transfer takes

    sectors / sectors a track * rev_ns + changes of head * head_switch_ns + of cylinder * cylinder_switch_ns

which is the formula by which data sheets get from the instantaneous to the sustained rate (Hitachi: A/(B+C+D)).

Deliberate differences: zones are equally wide and their tracks shrink evenly from `outer` to `inner` sectors; no
spares, no defects, no servo sectors; heads are changed at each track, where disks of today stay on one for a group of
tracks (there the two switches cost nearly the same, so that the rates are).
"""

from __future__ import annotations

from array import array

from blklab.core.errors import BlklabError


class Geometry:
    """A disk of `size_sectors`. `locate` sets `cylinder`, `head`, `angle_ns`, and `left`, the sectors from
    there to the end of the track, of which each takes `rev_ns` / `track_sectors`."""

    def __init__(
        self,
        size_sectors: int,
        heads: int,
        zones: int,
        outer: int,
        inner: int,
        rev_ns: int,
        head_switch_ns: int,
        cylinder_switch_ns: int,
    ) -> None:
        if inner > outer:
            raise BlklabError(f"hdd: a track inside has {inner} sectors, more than one outside, {outer}")
        tracks = [outer - (outer - inner) * i // max(zones - 1, 1) for i in range(zones)]
        width = -(-size_sectors // (heads * sum(tracks)))  # cylinders of a zone
        starts = [0]
        start = 0
        for track in tracks:
            start += width * heads * track
            starts.append(start)
        self.size_sectors = size_sectors
        self.heads = heads
        self.zones = zones
        self.rev_ns = rev_ns
        self.head_switch_ns = head_switch_ns
        self.cylinder_switch_ns = cylinder_switch_ns
        self.zone_cylinders = width
        self.zone_starts = array("q", starts)
        self.zone_tracks = array("q", tracks)
        self.cylinder = 0
        self.head = 0
        self.angle_ns = 0
        self.left = 0
        self.track_sectors = 0
        self.locate(size_sectors - 1)
        self.cylinders = self.cylinder + 1

    def locate(self, sector: int) -> int:
        """Sets the fields to where `sector` lies. Returns its angle."""
        starts = self.zone_starts
        low = 0
        high = self.zones
        while high - low > 1:
            middle = (low + high) >> 1
            if starts[middle] <= sector:
                low = middle
            else:
                high = middle
        per_track = self.zone_tracks[low]
        rest = sector - starts[low]
        track = rest // per_track
        place = rest - track * per_track
        cylinder = track // self.heads
        head = track - cylinder * self.heads
        cylinder += low * self.zone_cylinders
        self.cylinder = cylinder
        self.head = head
        self.track_sectors = per_track
        self.left = per_track - place
        skew = cylinder * ((self.heads - 1) * self.head_switch_ns + self.cylinder_switch_ns)
        skew += head * self.head_switch_ns
        self.angle_ns = (skew + place * self.rev_ns // per_track) % self.rev_ns
        return self.angle_ns

    def transfer_ns(self, sector: int, nr_sectors: int) -> int:
        """How long `nr_sectors` from `sector` on take to pass under the heads, from when the first is
        there."""
        self.locate(sector)
        left = nr_sectors
        taken = 0
        while left > self.left:
            left -= self.left
            sector += self.left
            taken += self.left * self.rev_ns // self.track_sectors
            taken += self.head_switch_ns if self.head + 1 < self.heads else self.cylinder_switch_ns
            self.locate(sector)
        return taken + left * self.rev_ns // self.track_sectors
