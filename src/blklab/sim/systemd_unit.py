"""The I/O settings of a systemd unit, as control files: IOWeight=, IOReadBandwidthMax= and their like.

    [Service]
    IOWeight=666                             io.weight "default 666", io.bfq.weight 151
    IODeviceWeight=/dev/sda 200              both files, for one device
    IOReadBandwidthMax=/dev/sda 5M           io.max "sda rbps=5000000 ..." (K, M, G ... are powers of 1000)
    IOWriteIOPSMax=/dev/sda 1000
    BlockIOWeight=500, BlockIODeviceWeight=, BlockIOReadBandwidth=, BlockIOWriteBandwidth=    the older names

What: `read_unit` reads a unit file, `UnitSettings.writes` says what systemd would write, for either version. Why: what
a service is allowed is said in its unit, and IOWeight= does not reach BFQ as it stands there.

Theory of operation
-------------------
As systemd v254 does it (src/core/cgroup.c, load-fragment.c), the last that knew both versions and all names. BFQ's
weights end at 1000, systemd's at 10000: above 100 they are scaled (`bfq_weight`). If a unit has any IO setting, its
BlockIO settings are not looked at; either kind is converted for the other version, where a BlockIO weight of 500 stands
for an IO weight of 100. Version 1 has no limits of I/Os from systemd. An empty value takes back what was said before.

systemd goes on where the kernel refuses a write, and says so in its log; here it is a note of the run.

Deliberate differences: values that systemd would ignore as invalid are errors. Drop-ins and the unit's slice are not
looked at: a slice is a group of its own in the machine file. Startup settings are for the time of booting.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from blklab.core.errors import BlklabError, nearest

# Limits and defaults of the weights (src/basic/cgroup-util.h)
WEIGHT_LEAST, WEIGHT_DEFAULT, WEIGHT_MOST = 1, 100, 10000
BFQ_WEIGHT_MOST = 1000
BLKIO_LEAST, BLKIO_DEFAULT, BLKIO_MOST = 10, 500, 1000
UNLIMITED = "max"
V1_UNLIMITED = (1 << 64) - 1

MAX_BYTES = 1 << 20
# parse_size with base 1000
SUFFIXES = {"E": 10**18, "P": 10**15, "T": 10**12, "G": 10**9, "M": 10**6, "K": 10**3, "B": 1, "": 1}
_SIZE = re.compile(r"\s*(\d{1,19})(?:\.(\d{1,9}))?\s*([EPTGMKB]?)")
_SECTIONS = ("Service", "Slice", "Scope", "Socket", "Mount", "Swap")

LIMITS = {
    "IOReadBandwidthMax": "rbps",
    "IOWriteBandwidthMax": "wbps",
    "IOReadIOPSMax": "riops",
    "IOWriteIOPSMax": "wiops",
}
BLOCKIO_LIMITS = {"BlockIOReadBandwidth": "rbps", "BlockIOWriteBandwidth": "wbps"}
IGNORED = {
    "StartupIOWeight": "it is for the time of booting",
    "StartupBlockIOWeight": "it is for the time of booting",
    "IOAccounting": "every group is accounted for here",
    "BlockIOAccounting": "every group is accounted for here",
}
NOT_BUILT = {"IODeviceLatencyTargetSec": "io.latency is not built yet"}
KEYS = (
    *("IOWeight", "IODeviceWeight", *LIMITS),
    *("BlockIOWeight", "BlockIODeviceWeight", *BLOCKIO_LIMITS),
    *IGNORED,
    *NOT_BUILT,
)


def bfq_weight(io_weight: int) -> int:
    """BFQ_WEIGHT: an IO weight (1 to 10000) on BFQ's scale (1 to 1000); 100 is the default of both."""
    if io_weight <= WEIGHT_DEFAULT:
        return io_weight
    above, scale = io_weight - WEIGHT_DEFAULT, WEIGHT_MOST - WEIGHT_DEFAULT
    return WEIGHT_DEFAULT + above * (BFQ_WEIGHT_MOST - WEIGHT_DEFAULT) // scale


def blkio_to_io(weight: int) -> int:
    """cgroup_weight_blkio_to_io: a BlockIO weight as an IO weight."""
    return min(max(weight * WEIGHT_DEFAULT // BLKIO_DEFAULT, WEIGHT_LEAST), WEIGHT_MOST)


def io_to_blkio(weight: int) -> int:
    """cgroup_weight_io_to_blkio: an IO weight as a BlockIO weight."""
    return min(max(weight * BLKIO_DEFAULT // WEIGHT_DEFAULT, BLKIO_LEAST), BLKIO_MOST)


def size(text: str) -> int:
    """parse_size with base 1000: 5M is 5000000, "1G 500M" their sum, largest unit first. Raises ValueError."""
    total = 0
    position = 0
    before = "above all"
    order = list(SUFFIXES)
    while position < len(text.rstrip()):
        match = _SIZE.match(text, position)
        if match is None or (before in order and order.index(match[3]) <= order.index(before)):
            raise ValueError(text)
        unit = SUFFIXES[match[3]]
        total += int(match[1]) * unit
        if match[2]:
            total += int(match[2]) * unit // 10 ** len(match[2])
        before = match[3]
        position = match.end()
    if not text.strip() or total >= 1 << 64:
        raise ValueError(text)
    return total


class UnitWrites(NamedTuple):
    """What is written: (file, text, where) in order; and what the user should know."""

    writes: list[tuple[str, str, str]]
    notes: list[str]


@dataclass
class Family:
    """The IO settings of a unit, or its BlockIO settings."""

    weight: int | None = None
    device_weights: dict[str, int] = field(default_factory=dict)
    limits: dict[str, dict[str, int | None]] = field(default_factory=dict)
    given: bool = False


@dataclass
class UnitSettings:
    """What a unit file says of I/O. `wheres`: where each key stood last."""

    source: str
    io: Family = field(default_factory=Family)
    blockio: Family = field(default_factory=Family)
    wheres: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def writes(self, version: int) -> UnitWrites:
        """What systemd writes to the control files of that version."""
        found = UnitWrites([], list(self.notes))
        family = self.io if self.io.given else self.blockio
        if not family.given:
            found.notes.append(f"{self.source}: says nothing of I/O")
            return found
        if self.io.given and self.blockio.given:
            found.notes.append(
                f"{self.source}: has IO settings, so systemd does not look at its BlockIO settings"
            )
        if version == 2:
            self._unified(family, found)
        else:
            self._legacy(family, found)
        return found

    def _place(self, key: str, family: Family) -> str:
        name = key if family is self.io else f"Block{key}"
        return self.wheres.get(name, self.source)

    def _unified(self, family: Family, found: UnitWrites) -> None:
        convert: Callable[[int], int] = int if family is self.io else blkio_to_io
        default = WEIGHT_DEFAULT if family is self.io else BLKIO_DEFAULT
        weight = convert(default if family.weight is None else family.weight)
        place = self._place("IOWeight", family)
        found.writes.append(("io.bfq.weight", str(bfq_weight(weight)), place))
        found.writes.append(("io.weight", f"default {weight}", place))
        for device, own in family.device_weights.items():
            weight = convert(own)
            place = self._place("IODeviceWeight", family)
            found.writes.append(("io.bfq.weight", f"{device} {bfq_weight(weight)}", place))
            found.writes.append(("io.weight", f"{device} {weight}", place))
        for device, limits in family.limits.items():
            text = " ".join(
                f"{key}={UNLIMITED if limits.get(key) is None else limits[key]}" for key in LIMITS.values()
            )
            found.writes.append(("io.max", f"{device} {text}", self._limit_place(limits)))

    def _legacy(self, family: Family, found: UnitWrites) -> None:
        convert: Callable[[int], int] = io_to_blkio if family is self.io else int
        default = WEIGHT_DEFAULT if family is self.io else BLKIO_DEFAULT
        weight = convert(default if family.weight is None else family.weight)
        place = self._place("IOWeight", family)
        found.writes.append(("blkio.bfq.weight", str(bfq_weight(weight)), place))
        found.writes.append(("blkio.weight", str(weight), place))
        for device, own in family.device_weights.items():
            place = self._place("IODeviceWeight", family)
            found.writes.append(("blkio.weight_device", f"{device} {convert(own)}", place))
        for device, limits in family.limits.items():
            for name in ("IOReadIOPSMax", "IOWriteIOPSMax"):
                if limits.get(LIMITS[name]) is not None:
                    found.notes.append(
                        f"{self.wheres[name]}: {name}: systemd sets no limits of I/Os a second with cgroup v1"
                    )
            for key, file in (("rbps", "read"), ("wbps", "write")):
                limit = limits.get(key)
                text = f"{device} {V1_UNLIMITED if limit is None else limit}"
                found.writes.append((f"blkio.throttle.{file}_bps_device", text, self._limit_place(limits)))

    def _limit_place(self, limits: dict[str, int | None]) -> str:
        for name, key in (*LIMITS.items(), *BLOCKIO_LIMITS.items()):
            if limits.get(key) is not None and name in self.wheres:
                return self.wheres[name]
        return self.source


def read_unit(path: Path, where: str | None = None) -> UnitSettings:
    """The I/O settings of a unit file; `where` asked for it. Raises BlklabError for a file that is none, or a value
    that systemd would not take."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
        text = data.decode()
    except OSError as error:
        raise BlklabError(f"cannot read the unit {path}: {error.strerror}", where) from None
    except UnicodeDecodeError:
        raise BlklabError(f"{path} is not UTF-8 text: it is no unit file", where) from None
    if len(data) > MAX_BYTES or "\0" in text:
        raise BlklabError(f"{path} is no unit file", where)
    unit = UnitSettings(str(path))
    section = ""
    for number, line in _lines(text):
        place = f"{path}:{number}"
        if line.startswith("["):
            section = line.strip("[]")
            continue
        key, equals, value = line.partition("=")
        key = key.strip()
        if not equals:
            raise BlklabError(f"{line!r} is neither a section nor KEY=VALUE", place)
        if section in _SECTIONS:
            _assign(unit, key, value.strip(), place)
    return unit


def _lines(text: str) -> list[tuple[int, str]]:
    # Lines with something in them, those that end in a backslash joined with the next
    found: list[tuple[int, str]] = []
    joined = ""
    start = 0
    for number, raw in enumerate(text.splitlines(), start=1):
        line = raw.strip()
        if line.startswith(("#", ";")) or (not line and not joined):
            continue
        start = start if joined else number
        if line.endswith("\\"):
            joined += line[:-1] + " "
            continue
        found.append((start, joined + line))
        joined = ""
    return [*found, (start, joined.strip())] if joined.strip() else found


def _assign(unit: UnitSettings, key: str, value: str, place: str) -> None:
    if key in IGNORED:
        unit.notes.append(f"{place}: {key} is not looked at: {IGNORED[key]}")
        return
    if key in NOT_BUILT:
        raise BlklabError(f"{key}: {NOT_BUILT[key]}", place)
    if key not in KEYS:
        if key.startswith(("IOR", "IOW", "IOD", "BlockIO")):
            raise BlklabError(f"unknown setting {key!r}{nearest(key, KEYS)}", place)
        return
    unit.wheres[key] = place
    family = unit.blockio if key.startswith("Block") else unit.io
    family.given = True
    if key in ("IOWeight", "BlockIOWeight"):
        family.weight = _weight(key, value, place) if value else None
    elif key in ("IODeviceWeight", "BlockIODeviceWeight"):
        if not value:
            family.device_weights.clear()
            return
        device, text = _pair(key, value, place)
        family.device_weights[device] = _weight(key, text, place)
    else:
        kind = LIMITS.get(key) or BLOCKIO_LIMITS[key]
        if not value:
            for limits in family.limits.values():
                limits[kind] = None
            return
        device, text = _pair(key, value, place)
        family.limits.setdefault(device, {})[kind] = _limit(key, text, place)


def _weight(key: str, text: str, place: str) -> int:
    least, most = (BLKIO_LEAST, BLKIO_MOST) if key.startswith("Block") else (WEIGHT_LEAST, WEIGHT_MOST)
    if not re.fullmatch(r"[0-9]{1,10}", text) or not least <= int(text) <= most:
        raise BlklabError(f"{key} is a weight from {least} to {most}, not {text!r}", place)
    return int(text)


def _limit(key: str, text: str, place: str) -> int | None:
    if text == "infinity" and key in LIMITS:
        return None
    try:
        number = size(text)
    except ValueError:
        number = 0
    if number <= 0:
        raise BlklabError(f"{key} is a limit as 5M or infinity, not {text!r}", place)
    return number


def _pair(key: str, value: str, place: str) -> tuple[str, str]:
    device, _, rest = value.partition(" ")
    rest = rest.strip()
    if not device.startswith("/dev/") or not rest:
        raise BlklabError(f"{key} is a device and a value, as in '/dev/sda 100', not {value!r}", place)
    return device.removeprefix("/dev/"), rest
