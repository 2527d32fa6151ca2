"""The read-ahead buffer of a disk: what it has read and holds, and what it goes on reading while nobody asks.

Theory of operation
-------------------
The buffer has segments, each a run of sectors. A read that a segment covers needs no arm. Each read of the media goes
to the segment that it continues, or to the one that was not used for longest; a segment keeps the last
`segment_sectors` of its run.

After a read the heads stay, and what passes under them behind it is read too, up to `readahead_sectors` beyond what the
host has asked for: free while nothing else is to be done, and given up when the arm is needed elsewhere. It costs no
events: `advance` works out from the time how far it has come. A read that begins where the read-ahead is, or in what it
has brought, just goes on: no positioning (`joins`).

A write takes its sectors out of every segment.

Deliberate differences: no adaptive size or number of segments; read-ahead is neither started nor stopped by guesses
about whether the reader is sequential.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from blklab.device.disk_geometry import Geometry


class ReadBuffer:
    """Segments `starts`..`ends`. `running`: reading ahead into segment `active`, whose sector `ahead_from`
    began to pass under the head at `ahead_begin_ns`, up to `ahead_end`. `following`: the arm stands where
    that has come to, also if it has ended."""

    def __init__(
        self, geometry: Geometry, segments: int, segment_sectors: int, readahead_sectors: int
    ) -> None:
        self.geometry = geometry
        self.segments = segments
        self.segment_sectors = segment_sectors
        self.readahead_sectors = readahead_sectors
        self.starts = array("q", [0] * segments)
        self.ends = array("q", [0] * segments)
        self.used = array("q", [0] * segments)
        self.stamp = 0
        self.active = 0
        self.running = False
        self.following = False
        self.ahead_from = 0
        self.ahead_begin_ns = 0
        self.ahead_end = 0

    def advance(self, now_ns: int) -> int:
        """Brings the segment that is read ahead into up to a time. Returns its end."""
        i = self.active
        if not self.running:
            return self.ends[i]
        geometry = self.geometry
        while self.ahead_from < self.ahead_end:
            passed_ns = now_ns - self.ahead_begin_ns
            if passed_ns <= 0:
                break
            geometry.locate(self.ahead_from)
            track_ns = geometry.left * geometry.rev_ns // geometry.track_sectors
            if passed_ns < track_ns:
                end = self.ahead_from + passed_ns * geometry.track_sectors // geometry.rev_ns
                self._grow(i, end if end < self.ahead_end else self.ahead_end)
                break
            # A whole track: count from the next one
            self.ahead_begin_ns += track_ns
            self.ahead_begin_ns += (
                geometry.head_switch_ns if geometry.head + 1 < geometry.heads else geometry.cylinder_switch_ns
            )
            self.ahead_from += geometry.left
            self._grow(i, self.ahead_from if self.ahead_from < self.ahead_end else self.ahead_end)
        if self.ends[i] >= self.ahead_end:
            self.running = False
        return self.ends[i]

    def _grow(self, i: int, end: int) -> int:
        if end > self.ends[i]:
            self.ends[i] = end
            if end - self.starts[i] > self.segment_sectors:
                self.starts[i] = end - self.segment_sectors
        return 0

    def stop(self, now_ns: int) -> int:
        """The arm goes elsewhere."""
        self.advance(now_ns)
        self.running = False
        self.following = False
        return 0

    def hit(self, sector: int, end: int) -> bool:
        """Whether a segment has all of it (as of the last `advance`)."""
        for i in range(self.segments):
            if self.starts[i] <= sector and end <= self.ends[i]:
                self.stamp += 1
                self.used[i] = self.stamp
                return True
        return False

    def joins(self, sector: int, now_ns: int) -> bool:
        """Whether a read from `sector` on finds the head on its way there."""
        if not self.running:
            return False
        end = self.advance(now_ns)
        return self.running and self.starts[self.active] <= sector <= end

    def joined_ns(self, end: int) -> int:
        """When read-ahead that `joins` said yes to has passed `end`; 0 if it has by then. (The head may be between two
        tracks, so that the time at which `ahead_from` passes is yet to come.)"""
        if end <= self.ends[self.active]:
            return 0
        return self.ahead_begin_ns + self.geometry.transfer_ns(self.ahead_from, end - self.ahead_from)

    def filled(self, sector: int, end: int, now_ns: int) -> int:
        """The media has been read from `sector` to `end`; what follows passes under the head from now on."""
        i = 0
        for k in range(self.segments):
            if self.starts[k] <= sector <= self.ends[k] and self.ends[k] > self.starts[k]:
                i = k
                break
            if self.used[k] < self.used[i]:
                i = k
        else:
            self.starts[i] = sector
            self.ends[i] = sector
        self.stamp += 1
        self.used[i] = self.stamp
        self._grow(i, end)
        self.active = i
        self.ahead_from = end
        self.ahead_begin_ns = now_ns
        self.ahead_end = end
        self.reach(end)
        self.following = True
        self.running = self.ahead_from < self.ahead_end
        return 0

    def resume(self, begin_ns: int) -> int:
        """Read ahead again from the end of the active segment, which is under the head at `begin_ns`."""
        self.ahead_from = self.ends[self.active]
        self.ahead_begin_ns = begin_ns
        self.running = self.ahead_from < self.ahead_end
        return 0

    def asked(self, end: int) -> bool:
        """The host has taken up to `end` from the active segment: read on that much further. Whether reading
        ahead had come to its end and is worth to be taken up again: half of it has been used."""
        i = self.active
        if not self.starts[i] < end <= self.ends[i]:
            return False
        self.reach(end)
        return not self.running and self.ahead_end - self.ends[i] > self.readahead_sectors >> 1

    def reach(self, end: int) -> int:
        """Read ahead as far as belongs to a host that has asked for everything up to `end`."""
        end += self.readahead_sectors
        if end > self.geometry.size_sectors:
            end = self.geometry.size_sectors
        if end > self.ahead_end:
            self.ahead_end = end
        return 0

    def forget(self, sector: int, end: int) -> int:
        """These sectors have been written."""
        for i in range(self.segments):
            if self.starts[i] < end and sector < self.ends[i]:
                if i == self.active:
                    self.running = False
                    self.following = False
                if sector > self.starts[i]:
                    self.ends[i] = sector
                elif end < self.ends[i]:
                    self.starts[i] = end
                else:
                    self.ends[i] = self.starts[i]
        return 0
