"""The arm of a disk and the turning of its platters: how long until a sector is under a head.

Theory of operation
-------------------
From where the arm stands a target costs, in this order: moving (the
seek curve, or a head switch, whichever takes longer; nothing on the same track), the settling that a write
needs in addition (not on the same track: it has been done), and waiting until the disk has turned to the
target's angle. Both come out exactly, since the angle is a function of the time (`disk_geometry`).

`position_ns` is called for each command that waits, whenever one is to be chosen (shortest positioning time
first), so it takes the cylinder, head and angle of the target ready made, and the angle of now.

Deliberate differences: seeks inwards and outwards cost the same; no seek errors, no recalibration; no thermal
or acoustic modes; a read that begins in the middle of its own sectors does not take the rest first (zero
latency read).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from blklab.device.disk_seek import EXACT, SeekCurve, seek_tables

if TYPE_CHECKING:
    from blklab.device.disk_geometry import Geometry

NEAR = EXACT


class Mechanics:
    """An arm over `geometry`. `cylinder` and `head`: where it stands."""

    def __init__(self, geometry: Geometry, curve: SeekCurve, write_settle_ns: int) -> None:
        self.geometry = geometry
        self.rev_ns = geometry.rev_ns
        self.head_switch_ns = geometry.head_switch_ns
        self.write_settle_ns = write_settle_ns
        self.near, self.far, self.far_shift = seek_tables(curve, geometry.cylinders)
        self.near_cylinders = min(NEAR, geometry.cylinders)
        self.cylinder = 0
        self.head = 0

    def seek_ns(self, distance: int) -> int:
        """A seek over so many cylinders."""
        if distance < self.near_cylinders:
            return self.near[distance]
        step = distance >> self.far_shift
        before = self.far[step]
        part = distance - (step << self.far_shift)
        return before + ((self.far[step + 1] - before) * part >> self.far_shift)

    def move_ns(self, cylinder: int, head: int, write: bool) -> int:
        """Moving and settling, without waiting for the sector."""
        distance = cylinder - self.cylinder
        if distance == 0:
            if head == self.head:
                return 0
            taken = self.head_switch_ns
        else:
            taken = self.seek_ns(distance if distance > 0 else -distance)
            if head != self.head and taken < self.head_switch_ns:
                taken = self.head_switch_ns
        return taken + self.write_settle_ns if write else taken

    def position_ns(self, cylinder: int, head: int, angle_ns: int, write: bool, now_angle_ns: int) -> int:
        """From a time when `now_angle_ns` is under the heads until the target is."""
        moved = self.move_ns(cylinder, head, write)
        wait = angle_ns - now_angle_ns - moved
        while wait < 0:
            wait += self.rev_ns
        return moved + wait

    def stand_at(self, sector: int) -> int:
        """The arm has followed to this sector."""
        self.geometry.locate(sector)
        self.cylinder = self.geometry.cylinder
        self.head = self.geometry.head
        return 0
