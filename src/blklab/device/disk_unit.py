"""One disk that turns, without the host: commands in, and each done once. `hdd` puts a host before one,
`array` a controller with a cache before several.

Theory of operation
-------------------
A command costs `command_ns` of the disk's processor, one after the other. Then:

    read    in the buffer, or among what waits to be written: over the link, done. Else it waits for the arm
    write   with the write cache on, and without FUA: into the cache as soon as there is room, done. What is
            there is written when the arm has nothing else to do. Else it waits for the arm
    flush   done when all that the cache held has been written. Writes that come meanwhile wait. With
            `exclusive_flush` (SATA: FLUSH CACHE is not a queued command) reads wait too

The arm does one thing at a time. What it does next is chosen when it gets free (`_next`): of the `window`
commands that wait for longest the one that the head can reach first (shortest positioning time first), unless
one has waited longer than `starve_ns`: then that. Of what is in the cache the runs are weighed that follow
the head in a sweep over the disk (as many as `window`, of at most `destage_sectors` each): only if no command
waits, or the cache is fuller than `destage_high`, in which case they take part in the choice; every other
time one of them must be taken while a write or a flush waits for it.

One event is pending for each command that is being served and none else: read-ahead is worked out from the
time (`disk_buffer`), and so is the angle (`disk_geometry`).

`journal`: set it to a list, and each time the arm works (begin, media begins, media ends, cylinder before,
first sector, sectors, whether it writes) is appended.

Deliberate differences: positions are exact, where a real disk has to allow for its own error; `window` makes
up for it. The last 4 KiB of a read go over the link after the rest of it has been read; a link that is busy
with another command does not hold it up. A read that finds part of what it wants in the cache reads all of it
from the media.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from blklab.core.clock import Event
from blklab.device.disk_buffer import ReadBuffer
from blklab.device.disk_extents import Extents
from blklab.device.disk_geometry import Geometry
from blklab.device.disk_mechanics import Mechanics
from blklab.device.disk_seek import fit_curve

if TYPE_CHECKING:
    from blklab.block.models import Settings
    from blklab.core.clock import Clock
    from blklab.device.disk_driver import DiskDriver

TAIL_SECTORS = 8  # of a read that go over the link when the media has been read
MIB_SHIFT = 20

# What becomes of a command when its event fires
REPLY = 0  # it is done
ACCEPT = 1  # its data is in the write cache
MEDIA = 2  # the arm has done it


class DiskCommand(Event):
    """A command. `rq`, `index`: whose it is, for the owner of the disk. Used again: `DiskUnit.command`."""

    def __init__(self, unit: DiskUnit) -> None:
        self.unit = unit
        self.rq: Any = None
        self.index = 0
        self.sector = 0
        self.end = 0
        self.write = False
        self.through = False
        self.flush = False
        self.state = REPLY
        self.joined = False
        self.cylinder = 0
        self.head = 0
        self.angle_ns = 0
        self.arrived_ns = 0
        self.ready_ns = 0
        self.media_end_ns = 0
        self.following: DiskCommand | None = None
        self.preceding: DiskCommand | None = None

    def fire(self, now_ns: int) -> int:
        """Its time has come."""
        return self.unit.fired(self)


class DiskUnit:
    """A disk. `owner.disk_done(command)` is called once for each command; `stroke_ns`, `wait_ns`, `media_ns`:
    how long the arm has moved (and settled), waited, and read or written."""

    def __init__(self, settings: Settings, clock: Clock, owner: DiskDriver) -> None:
        self.clock = clock
        self.owner = owner
        rev_ns = (60_000_000_000 + settings["rpm"] // 2) // settings["rpm"]
        self.rev_ns = rev_ns
        self.geometry = Geometry(
            settings["size"] >> 9,
            settings["heads"],
            settings["zones"],
            settings["outer_sectors"],
            settings["inner_sectors"],
            rev_ns,
            settings["head_switch_ns"],
            settings["cylinder_switch_ns"],
        )
        self.curve = fit_curve(
            settings["seek_track_ns"], settings["seek_average_ns"], settings["seek_full_ns"]
        )
        self.mechanics = Mechanics(self.geometry, self.curve, settings["write_settle_ns"])
        self.buffer = ReadBuffer(
            self.geometry,
            settings["segments"],
            max(settings["segment"] >> 9, 1),
            settings["readahead"] >> 9,
        )
        self.command_ns = settings["command_ns"]
        self.link_mib_ns = max(1, (1_000_000_000 << MIB_SHIFT) // settings["link_bytes_per_s"])
        self.window = settings["window"] or 1 << 30
        self.starve_ns = settings["starve_ns"]
        self.cached = settings["write_cache"]
        self.cache_sectors = settings["cache"] >> 9
        self.cache_runs = settings["cache_runs"]
        self.high_sectors = self.cache_sectors * settings["destage_high"] // 100
        self.high_runs = self.cache_runs * settings["destage_high"] // 100
        self.destage_sectors = settings["destage_bytes"] >> 9
        self.exclusive_flush = settings["exclusive_flush"]
        self.dirty = Extents()
        self.reserved = 0
        self.reserved_runs = 0
        self.writing_start = 0
        self.writing_end = 0
        self.destage = DiskCommand(self)
        self.destage.write = True
        self.destaged_last = False
        self.waiting_writes: deque[DiskCommand] = deque()
        self.flushes: deque[DiskCommand] = deque()
        self.first: DiskCommand | None = None
        self.last: DiskCommand | None = None
        self.waiting = 0
        self.active: DiskCommand | None = None
        self.processor_free_ns = 0
        self.link_free_ns = 0
        self.free: DiskCommand | None = None
        self.in_service = 0
        self.strokes = 0
        self.hits = 0
        self.joins = 0
        self.destages = 0
        self.run_ns = 0
        self.starved = 0
        self.stroke_ns = 0
        self.wait_ns = 0
        self.media_ns = 0
        self.journal: list[tuple[int, int, int, int, int, int, bool]] | None = None

    # -- commands in and out -----------------------------------------------------------

    def command(self, rq: Any, sector: int, nr_sectors: int, write: bool) -> DiskCommand:
        """A command to be filled in and submitted."""
        cmd = self.free
        if cmd is None:
            cmd = DiskCommand(self)
        else:
            self.free = cmd.following
            cmd.following = None
        cmd.rq = rq
        cmd.sector = sector
        cmd.end = sector + nr_sectors
        cmd.write = write
        cmd.through = False
        cmd.flush = False
        return cmd

    def submit(self, cmd: DiskCommand) -> int:
        """The disk has the command now."""
        now = self.clock.now_ns
        self.in_service += 1
        cmd.arrived_ns = now
        ready = now if now > self.processor_free_ns else self.processor_free_ns
        ready += self.command_ns
        self.processor_free_ns = ready
        cmd.ready_ns = ready
        if cmd.flush:
            return self._flush(cmd)
        if not cmd.write:
            return self._read(cmd)
        if self.cached and not cmd.through:
            if self.flushes or self.waiting_writes or not self._has_room(cmd):
                self.waiting_writes.append(cmd)
                return self._next()
            return self._accept(cmd)
        cmd.ready_ns = self._over_link(ready, cmd.end - cmd.sector)
        return self._queue(cmd)

    def fired(self, cmd: DiskCommand) -> int:
        """The time of a command has come: see REPLY, ACCEPT, MEDIA."""
        if cmd.state == MEDIA:
            self._media_done(cmd)
            if cmd is self.destage:
                return self._next()
        elif cmd.state == ACCEPT:
            self.reserved -= cmd.end - cmd.sector
            self.reserved_runs -= 1
            self.dirty.add(cmd.sector, cmd.end)
            self.buffer.forget(cmd.sector, cmd.end)
        self._next()
        self.in_service -= 1
        # What the owner needs of it, it takes before it asks for another command
        cmd.following = self.free
        self.free = cmd
        return self.owner.disk_done(cmd)

    def _over_link(self, begin_ns: int, nr_sectors: int) -> int:
        if begin_ns < self.link_free_ns:
            begin_ns = self.link_free_ns
        self.link_free_ns = begin_ns + ((nr_sectors << 9) * self.link_mib_ns >> MIB_SHIFT)
        return self.link_free_ns

    def _reply(self, cmd: DiskCommand, at_ns: int) -> int:
        cmd.state = REPLY
        return self.clock.at(at_ns, cmd)

    # -- reads, writes, flushes --------------------------------------------------------

    def _read(self, cmd: DiskCommand) -> int:
        buffer = self.buffer
        buffer.advance(self.clock.now_ns)
        if buffer.hit(cmd.sector, cmd.end):
            self.hits += 1
            self._reply(cmd, self._over_link(cmd.ready_ns, cmd.end - cmd.sector))
            if buffer.asked(cmd.end) and self.active is None:
                self._read_on(cmd.ready_ns)
            return 0
        if self.cached and self._in_cache(cmd):
            self.hits += 1
            return self._reply(cmd, self._over_link(cmd.ready_ns, cmd.end - cmd.sector))
        return self._queue(cmd)

    def _in_cache(self, cmd: DiskCommand) -> bool:
        if self.writing_start <= cmd.sector and cmd.end <= self.writing_end:
            return True
        covered: bool = self.dirty.covers(cmd.sector, cmd.end)
        return covered

    def _read_on(self, now_ns: int) -> int:
        # Reading ahead had come to its end, and there is room again
        self._follow(now_ns)
        end = self.buffer.ends[self.buffer.active]
        self.geometry.locate(end)
        moved = self.mechanics.position_ns(
            self.geometry.cylinder,
            self.geometry.head,
            self.geometry.angle_ns,
            False,
            now_ns % self.rev_ns,
        )
        self.mechanics.stand_at(end)
        return self.buffer.resume(now_ns + moved)

    def _has_room(self, cmd: DiskCommand) -> bool:
        nr_sectors = cmd.end - cmd.sector
        held = self.dirty.sectors + self.reserved + self.writing_end - self.writing_start
        if held == 0:
            return True  # also what is larger than all of the cache
        return bool(
            held + nr_sectors <= self.cache_sectors
            and self.dirty.count + self.reserved_runs < self.cache_runs
        )

    def _accept(self, cmd: DiskCommand) -> int:
        self.reserved += cmd.end - cmd.sector
        self.reserved_runs += 1
        cmd.state = ACCEPT
        ready = cmd.ready_ns if cmd.ready_ns > self.clock.now_ns else self.clock.now_ns
        return self.clock.at(self._over_link(ready, cmd.end - cmd.sector), cmd)

    def _flush(self, cmd: DiskCommand) -> int:
        if self.dirty.count == 0 and self.active is not self.destage and not self.flushes:
            return self._reply(cmd, cmd.ready_ns)
        self.flushes.append(cmd)
        return self._next()

    def _flushed(self) -> int:
        # The cache is empty: flushes are done, and writes that waited for them come in
        now = self.clock.now_ns
        while self.flushes:
            cmd = self.flushes.popleft()
            self._reply(cmd, cmd.ready_ns if cmd.ready_ns > now else now)
        return 0

    def _admit(self) -> int:
        while self.waiting_writes and not self.flushes and self._has_room(self.waiting_writes[0]):
            self._accept(self.waiting_writes.popleft())
        return 0

    # -- the arm -----------------------------------------------------------------------

    def _queue(self, cmd: DiskCommand) -> int:
        geometry = self.geometry
        geometry.locate(cmd.sector)
        cmd.cylinder = geometry.cylinder
        cmd.head = geometry.head
        cmd.angle_ns = geometry.angle_ns
        cmd.following = None
        cmd.preceding = self.last
        if self.last is None:
            self.first = cmd
        else:
            self.last.following = cmd
        self.last = cmd
        self.waiting += 1
        return self._next()

    def _unqueue(self, cmd: DiskCommand) -> int:
        if cmd.preceding is None:
            self.first = cmd.following
        else:
            cmd.preceding.following = cmd.following
        if cmd.following is None:
            self.last = cmd.preceding
        else:
            cmd.following.preceding = cmd.preceding
        cmd.preceding = None
        cmd.following = None
        self.waiting -= 1
        return 0

    def _next(self) -> int:
        """Gives the arm its next work, if it has none and there is some."""
        if self.active is not None:
            return 0
        commands = self.first is not None and not (self.flushes and self.exclusive_flush)
        destage = self.dirty.count > 0
        if destage and (self.flushes or self.waiting_writes):
            if not self.destaged_last:
                commands = False
        elif commands:
            destage = destage and (
                self.dirty.sectors >= self.high_sectors or self.dirty.count >= self.high_runs
            )
        if commands:
            return self._next_command(destage)
        if destage:
            return self._next_run()
        return 0

    def _next_command(self, destage: bool) -> int:
        now = self.clock.now_ns
        mechanics = self.mechanics
        buffer = self.buffer
        self._follow(now)
        now_angle = now % self.rev_ns
        cmd = self.first
        best: DiskCommand | None = None
        best_ns = 0
        joined = False
        left = self.window
        if now - cmd.arrived_ns > self.starve_ns and self.waiting > 1:  # type: ignore[union-attr]
            # Its turn, wherever it is
            self.starved += 1
            left = 1
            destage = False
        while cmd is not None and left > 0:
            left -= 1
            at = now if cmd.ready_ns <= now else cmd.ready_ns
            if not cmd.write and buffer.running and buffer.joins(cmd.sector, at):
                best = cmd
                joined = True
                break
            taken = at - now
            taken += mechanics.position_ns(
                cmd.cylinder,
                cmd.head,
                cmd.angle_ns,
                cmd.write,
                now_angle if at == now else at % self.rev_ns,
            )
            if best is None or taken < best_ns:
                best = cmd
                best_ns = taken
            cmd = cmd.following
        if destage and not joined:
            i = self._nearest_run(now)
            if self.run_ns < best_ns:
                return self._write_run(i, now)
        self._unqueue(best)  # type: ignore[arg-type]
        return self._begin(best, now, joined)  # type: ignore[arg-type]

    def _follow(self, now_ns: int) -> int:
        # The arm has followed what it read ahead
        if self.buffer.following:
            self.mechanics.stand_at(self.buffer.advance(now_ns) - 1)
        return 0

    def _begin(self, cmd: DiskCommand, now: int, joined: bool) -> int:
        buffer = self.buffer
        geometry = self.geometry
        at = now if cmd.ready_ns <= now else cmd.ready_ns
        cylinder = self.mechanics.cylinder
        nr_sectors = cmd.end - cmd.sector
        if joined:
            self.joins += 1
            buffer.reach(cmd.end)
            begin = at
            end = buffer.joined_ns(cmd.end)
            if end < at:
                end = at
        else:
            buffer.stop(at)
            moved = self.mechanics.move_ns(cmd.cylinder, cmd.head, cmd.write)
            begin = at + self.mechanics.position_ns(
                cmd.cylinder, cmd.head, cmd.angle_ns, cmd.write, at % self.rev_ns
            )
            end = begin + geometry.transfer_ns(cmd.sector, nr_sectors)
            self.strokes += 1
            self.stroke_ns += moved
            self.wait_ns += begin - at - moved
        self.media_ns += end - begin
        if cmd.write:
            buffer.forget(cmd.sector, cmd.end)
        if self.journal is not None:
            self.journal.append((at, begin, end, cylinder, cmd.sector, nr_sectors, cmd.write))
        self.active = cmd
        self.destaged_last = cmd is self.destage
        cmd.state = MEDIA
        cmd.joined = joined
        cmd.media_end_ns = end
        if not cmd.write:
            tail = nr_sectors if nr_sectors < TAIL_SECTORS else TAIL_SECTORS
            end += (tail << 9) * self.link_mib_ns >> MIB_SHIFT
        return self.clock.at(end, cmd)

    def _media_done(self, cmd: DiskCommand) -> int:
        self.active = None
        self.mechanics.stand_at(cmd.end - 1)
        if not cmd.write:
            if cmd.joined:
                self._follow(
                    self.clock.now_ns
                )  # where the arm is by now, which may be far beyond what was asked for
            else:
                self.buffer.filled(cmd.sector, cmd.end, cmd.media_end_ns)
        elif cmd is self.destage:
            self.writing_start = 0
            self.writing_end = 0
            if self.dirty.count == 0:
                self._flushed()
            self._admit()
        elif self.cached:
            self.dirty.remove(cmd.sector, cmd.end)
            if self.dirty.count == 0:
                self._flushed()
            self._admit()
        return 0

    # -- destage -----------------------------------------------------------------------

    def _next_run(self) -> int:
        now = self.clock.now_ns
        self._follow(now)
        return self._write_run(self._nearest_run(now), now)

    def _nearest_run(self, now: int) -> int:
        """Which run of the cache the head reaches first, of those that follow it in a sweep; `run_ns`: in
        what time."""
        geometry = self.geometry
        dirty = self.dirty
        now_angle = now % self.rev_ns
        i = dirty.first_from(self.destage.end)
        best = i
        self.run_ns = -1
        left = self.window if self.window < dirty.count else dirty.count
        while left > 0:
            left -= 1
            geometry.locate(dirty.start_of(i))
            taken = self.mechanics.position_ns(
                geometry.cylinder, geometry.head, geometry.angle_ns, True, now_angle
            )
            if self.run_ns < 0 or taken < self.run_ns:
                self.run_ns = taken
                best = i
            i += 1
            if i == dirty.count:
                i = 0
        return best

    def _write_run(self, i: int, now: int) -> int:
        cmd = self.destage
        dirty = self.dirty
        dirty.take(i, self.destage_sectors)
        self.writing_start = dirty.taken_start
        self.writing_end = dirty.taken_end
        cmd.sector = dirty.taken_start
        cmd.end = dirty.taken_end
        cmd.ready_ns = now
        self.geometry.locate(cmd.sector)
        cmd.cylinder = self.geometry.cylinder
        cmd.head = self.geometry.head
        cmd.angle_ns = self.geometry.angle_ns
        self.destages += 1
        return self._begin(cmd, now, False)
