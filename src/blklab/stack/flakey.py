"""dm-flakey and dm-error: devices that fail, to see what those above make of it.

Theory of operation
-------------------
flakey: for `up_interval` seconds all is well, then for `down_interval` seconds all bios fail; and so on from time 0.
With `drop_writes` writes are dropped silently while it is down (they succeed, and never reach the device) and reads
work; with `error_writes` writes fail and reads work.

error: every bio fails. It has no members, only a size.

Deliberate differences: no corruption of bytes, since there is no data.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import cython

from blklab.block.models import DeviceModel, Parameter, Settings, no_presets, no_tags
from blklab.core.errors import BlklabError
from blklab.stack.linear import Linear
from blklab.stack.mapper import DmDevice, Target

if TYPE_CHECKING:
    from blklab.block.bio import Bio
    from blklab.block.features import Features
    from blklab.block.queue import RequestQueue
    from blklab.core.host import Host

if not cython.compiled:
    from blklab.block.consts import STS_IOERR
    from blklab.stack.answers import MAP_ENDED, MAP_KILL

SECOND_NS = 1_000_000_000


class Flakey(Linear):
    """All of a device, which is down from time to time."""

    def __init__(self, settings: Settings, host: Host) -> None:
        lower: RequestQueue = settings["device"]
        start = settings["start"] >> 9
        Linear.__init__(self, lower, start, max(0, lower.size_sectors - start))
        self.takes_write_zeroes = False
        self.host = host
        self.up_s = settings["up_interval"]
        self.down_s = settings["down_interval"]
        self.drop_writes = settings["drop_writes"]
        self.error_writes = settings["error_writes"]

    def map(self, clone: Bio, number: int) -> int:
        """flakey_map."""
        elapsed_s = self.host.clock.now_ns // SECOND_NS
        if elapsed_s % (self.up_s + self.down_s) >= self.up_s:
            if clone.op & 1 == 0:
                if not self.drop_writes and not self.error_writes:
                    return MAP_KILL
            elif self.drop_writes:
                return MAP_ENDED
            elif self.error_writes:
                clone.status = STS_IOERR
                return MAP_ENDED
            else:
                return MAP_KILL
        return Linear.map(self, clone, number)

    def can_merge(self, features: Features) -> bool:
        """flakey_merge."""
        return True


class Error(Target):
    """Every bio fails."""

    def devices(self) -> list[tuple[RequestQueue, int]]:
        """None."""
        return []

    def map(self, clone: Bio, number: int) -> int:
        """io_err_map."""
        return MAP_KILL

    def can_merge(self, features: Features) -> bool:
        """No."""
        return False


def _make(settings: Settings, host: Host, seed: int) -> DmDevice:
    if settings["up_interval"] + settings["down_interval"] == 0:
        raise BlklabError("flakey: up_interval and down_interval are both 0")
    if settings["drop_writes"] and settings["error_writes"]:
        raise BlklabError("flakey: drop_writes and error_writes contradict each other")
    check_room(settings["device"], settings["start"])
    return DmDevice(host, [settings["device"]], [Flakey(settings, host)])


def check_room(lower: RequestQueue | None, start: int) -> None:
    """Something must be left of a device behind `start` bytes, which are whole sectors. Raises BlklabError."""
    if lower is None:
        raise BlklabError("device is missing: the name of the device that it lies on")
    if start % 512:
        raise BlklabError("start is whole sectors of 512 bytes")
    if start >> 9 >= lower.size_sectors:
        raise BlklabError(
            f"{lower.name} is too small: it has {lower.size_sectors << 9} bytes, the data would begin at {start}"
        )


def _make_error(settings: Settings, host: Host, seed: int) -> DmDevice:
    if settings["size"] % 512:
        raise BlklabError("error: size is whole sectors of 512 bytes")
    return DmDevice(host, [], [Error(settings["size"] >> 9)])


MODEL = DeviceModel(
    "flakey",
    "dm-flakey: a device that fails from time to time",
    (
        Parameter("device", "device", "", "the device that it lies on"),
        Parameter("start", "bytes", 0, "where it begins there, bytes"),
        Parameter("up_interval", "int", 60, "seconds in which all is well", 0, 1 << 31),
        Parameter("down_interval", "int", 0, "seconds in which bios fail, after that", 0, 1 << 31),
        Parameter("drop_writes", "bool", False, "while it is down, drop writes silently; reads work"),
        Parameter("error_writes", "bool", False, "while it is down, only writes fail"),
    ),
    _make,
    no_tags,
    no_presets,
)

ERROR_MODEL = DeviceModel(
    "error",
    "dm-error: every bio fails",
    (Parameter("size", "bytes", 1 << 30, "size, bytes", 512),),
    _make_error,
    no_tags,
    no_presets,
)
