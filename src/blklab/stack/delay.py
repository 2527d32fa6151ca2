"""dm-delay: holds bios for some milliseconds before it sends them on.

Theory of operation
-------------------
Reads, writes and flushes have a delay each, and writes (with flushes) may go to a device of their own. A held bio waits
in one list; a timer fires when the first is due, and a worker (kdelayd) then sends on all that are, in order of
arrival. The timer is one of the kernel's timer wheel: whole jiffies, never early, and the further away the coarser
(from 63 jiffies on in steps of 8, from 504 on in steps of 64), so at HZ=250 a delay of 1 ms is 4 to 8 ms, and one of
500 ms up to 36 ms longer. Discards count as writes.

Deliberate differences: the list has no lock (a mutex there).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import cython

from blklab.block.daemon import Daemon
from blklab.block.models import DeviceModel, Parameter, Settings, no_presets, no_tags
from blklab.core.clock import Event
from blklab.core.errors import BlklabError
from blklab.stack.flakey import check_room
from blklab.stack.mapper import DmDevice, Target

if TYPE_CHECKING:
    from blklab.block.bio import Bio
    from blklab.block.queue import RequestQueue
    from blklab.core.host import Host

if not cython.compiled:
    from blklab.block.consts import DONE, F_PREFLUSH, WAIT, YIELD
    from blklab.stack.answers import MAP_REMAPPED, MAP_SUBMITTED

WHEEL_LEVELS = 8
WHEEL_START = 63  # jiffies from which on level 1 is used; each level is 8 times as coarse


class Delay(Target):
    """All of a device, later. Delays are in jiffies here."""

    def __init__(self, settings: Settings, host: Host, nr_sectors: int) -> None:
        Target.__init__(self, nr_sectors)
        self.accounts = True
        self.host = host
        self.read_lower: RequestQueue = settings["device"]
        self.write_lower: RequestQueue = settings["write_device"] or settings["device"]
        self.start = settings["start"] >> 9
        write_ms = settings["write_delay"] if settings["write_delay"] >= 0 else settings["delay"]
        flush_ms = settings["flush_delay"] if settings["flush_delay"] >= 0 else write_ms
        self.read_jiffies = self._jiffies(settings["delay"])
        self.write_jiffies = self._jiffies(write_ms)
        self.flush_jiffies = self._jiffies(flush_ms)
        self.held: list[Held] = []
        self.timer: DelayTimer | None = None
        self.kdelayd = Kdelayd(host, self)

    def _jiffies(self, milliseconds: int) -> int:
        # msecs_to_jiffies
        jiffy_ms = self.host.jiffy_ns // 1_000_000
        return (milliseconds + jiffy_ms - 1) // jiffy_ms

    def devices(self) -> list[tuple[RequestQueue, int]]:
        """That of reads, and that of writes."""
        return [(self.read_lower, self.start), (self.write_lower, self.start)]

    def map(self, clone: Bio, number: int) -> int:
        """delay_map."""
        wait = self.read_jiffies
        sector = clone.sector
        clone.queue = self.read_lower
        if clone.op & 1:
            wait = self.flush_jiffies if clone.flags & F_PREFLUSH else self.write_jiffies
            clone.queue = self.write_lower
        clone.sector = self.start + sector - self.begin
        if wait == 0:
            return MAP_REMAPPED
        jiffies = self.host.clock.now_ns // self.host.jiffy_ns
        self.held.append(Held(clone, sector, jiffies + wait))
        self._start_timer(jiffies + wait)
        return MAP_SUBMITTED

    def _start_timer(self, expires: int) -> int:
        # queue_timeout
        if self.timer is not None and self.timer.expires <= expires:
            return 0
        self.timer = DelayTimer(self, expires)
        clock = self.host.clock
        jiffy_ns = self.host.jiffy_ns
        return clock.at(wheel_expiry(clock.now_ns // jiffy_ns, expires) * jiffy_ns, self.timer)

    def expired(self, timer: DelayTimer) -> int:
        """The timer has fired; one that was re-timed is not the one we wait for."""
        if self.timer is not timer:
            return 0
        self.timer = None
        self.kdelayd.flush_expired = True
        return self.kdelayd.wake_up()

    def take_expired(self, due: list[Held]) -> int:
        """flush_delayed_bios: move what is due to `due`; the timer waits for the first of the others."""
        jiffies = self.host.clock.now_ns // self.host.jiffy_ns
        waiting: list[Held] = []
        for held in self.held:
            if held.expires <= jiffies:
                due.append(held)
            else:
                waiting.append(held)
        self.held = waiting
        if waiting:
            self._start_timer(min([held.expires for held in waiting]))
        return 0

    def send_on(self, held: Held) -> int:
        """dm_submit_bio_remap, in the worker."""
        clone = held.clone
        if clone.end_io is self:
            return self.device.send(self.kdelayd, clone, held.sector)
        self.device.trace_remap(clone, held.sector)
        return self.kdelayd.submit_noacct(clone)

    def merge(self, sector: int) -> tuple[RequestQueue, int]:
        """delay_merge; for reads."""
        return self.read_lower, self.start + sector - self.begin


class Held:
    """A held clone, its sector on the delay device, and the jiffy at which it is due."""

    def __init__(self, clone: Bio, sector: int, expires: int) -> None:
        self.clone = clone
        self.sector = sector
        self.expires = expires


class DelayTimer(Event):
    """The timer of one expiry."""

    def __init__(self, target: Delay, expires: int) -> None:
        self.target = target
        self.expires = expires

    def fire(self, now_ns: int) -> int:
        """It is time."""
        return self.target.expired(self)


class Kdelayd(Daemon):
    """The worker that sends on what is due, one bio after another."""

    def __init__(self, host: Host, target: Delay) -> None:
        Daemon.__init__(self, host, "kdelayd")
        self.target = target
        self.flush_expired = False
        self.due: list[Held] = []
        self.next_due = 0

    def step(self) -> int:
        """One section."""
        self.cpu = self.host.cpu
        result = self.advance()
        if result == WAIT:
            self.sleeping = True
            return DONE
        if result == YIELD:
            return YIELD
        if self.next_due == len(self.due):
            self.due.clear()
            self.next_due = 0
            if not self.flush_expired:
                return DONE
            self.flush_expired = False
            self.target.take_expired(self.due)
            return YIELD
        held = self.due[self.next_due]
        self.next_due += 1
        self.target.send_on(held)
        return YIELD


def wheel_expiry(jiffies: int, expires: int) -> int:
    """The jiffy at which a timer of the timer wheel (4.8 and later) fires that is to expire at jiffy `expires`."""
    delta = expires - jiffies
    start = WHEEL_START
    shift = 0
    while delta >= start and shift < 3 * (WHEEL_LEVELS - 1):
        start <<= 3
        shift += 3
    return (expires + (1 << shift)) >> shift << shift


def _make(settings: Settings, host: Host, seed: int) -> DmDevice:
    lower: RequestQueue = settings["device"]
    check_room(lower, settings["start"])
    slaves = [lower]
    nr_sectors = lower.size_sectors - (settings["start"] >> 9)
    if settings["write_device"] is not None:
        if settings["write_device"] is lower:
            raise BlklabError("delay: write_device is device itself; leave it out")
        slaves.append(settings["write_device"])
    return DmDevice(host, slaves, [Delay(settings, host, nr_sectors)])


MODEL = DeviceModel(
    "delay",
    "dm-delay: holds bios for some milliseconds",
    (
        Parameter("device", "device", "", "the device that it lies on"),
        Parameter("start", "bytes", 0, "where it begins there, bytes"),
        Parameter("delay", "int", 0, "of reads, and of what has none of its own, ms", 0, 1 << 31),
        Parameter("write_delay", "int", -1, "of writes, ms; -1: as reads", -1, 1 << 31),
        Parameter("flush_delay", "int", -1, "of flushes, ms; -1: as writes", -1, 1 << 31),
        Parameter("write_device", "device", "", "where writes and flushes go; none: to device"),
    ),
    _make,
    no_tags,
    no_presets,
)
