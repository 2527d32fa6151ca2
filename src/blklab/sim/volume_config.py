"""[volume.NAME] of a machine file: a file system on a device, as settings; sim/volume.py makes the volume of it.

    [volume.data]
    device = "dm-0"
    mount = "/mnt/data"      # where its files are; default /mnt/NAME
    sunit = "64k"            # stripe unit and width, as mkfs.xfs has them; default: what the device says
    swidth = "256k"
    max_extent = "1m"        # files lie in pieces of at most so many bytes, apart; default: in one piece

What a key may be is checked here, for machine files and `--set` alike; whether it fits the device, when the volume is
made.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from blklab.core.errors import BlklabError, nearest

FILESYSTEMS = ("xfs",)
BLOCK_BYTES = 4096
MAX_AGS = 4096

# key, default, what it says
VOLUME_KEYS: list[tuple[str, str, str]] = [
    ("device", "", "the device that the file system is on"),
    ("filesystem", "xfs", "xfs"),
    ("mount", "/mnt/NAME", "the directory that its files are in"),
    (
        "sunit",
        "io_min of the device",
        "stripe unit: where files begin, and how long log records are; 0: none",
    ),
    ("swidth", "io_opt of the device", "stripe width, a multiple of sunit"),
    ("agcount", "as mkfs.xfs", "allocation groups"),
    ("log_size", "as mkfs.xfs", "bytes of the log"),
    (
        "max_extent",
        "0",
        "files lie in pieces of at most so many bytes, apart from each other; 0: in one piece",
    ),
]
KEYS = tuple(key for key, _, _ in VOLUME_KEYS)
SIZES = ("sunit", "swidth", "log_size", "max_extent")


@dataclass(frozen=True, slots=True)
class VolumeConfig:
    """A volume. Sizes that are None are as the device says or as mkfs.xfs would choose them; `agcount` 0 likewise.
    `wheres`: where each key was set."""

    name: str
    device: str
    filesystem: str
    mount: str
    sunit_bytes: int | None
    swidth_bytes: int | None
    agcount: int
    log_bytes: int | None
    max_extent_bytes: int
    wheres: Mapping[str, str]

    def where(self, key: str) -> str:
        """Where a key was set, or the volume was named."""
        return self.wheres.get(key) or self.wheres.get("", self.name)


def _bytes(key: str, value: object, where: str) -> int:
    text = str(value).strip().lower()
    match = re.fullmatch(r"(\d{1,15})([kmgt]?)(?:ib?)?b?", text)
    if isinstance(value, bool) or match is None:
        raise BlklabError(f"volume/{key} is a size like 64k or 1m, not {value!r}", where)
    nbytes = int(match[1]) << {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}[match[2]]
    if nbytes % BLOCK_BYTES:
        raise BlklabError(
            f"volume/{key} = {value} is not a whole number of blocks of {BLOCK_BYTES} bytes", where
        )
    return nbytes


class VolumeBuilder:
    """Collects the settings of one volume."""

    def __init__(self, name: str, where: str) -> None:
        self.name = name
        self.values: dict[str, int | str] = {}
        self.wheres: dict[str, str] = {"": where}

    def set(self, key: str, value: object, where: str) -> None:
        """One key. Raises BlklabError for one that there is not, or a value that it cannot have."""
        if key not in KEYS:
            raise BlklabError(
                f"unknown key volume/{key}{nearest(key, KEYS)}; accepted are {', '.join(KEYS)}", where
            )
        self.wheres[key] = where
        if key in SIZES:
            self.values[key] = _bytes(key, value, where)
        elif key == "agcount":
            if not re.fullmatch(r"\d{1,5}", str(value)) or not 1 <= int(str(value)) <= MAX_AGS:
                raise BlklabError(f"volume/agcount is 1 to {MAX_AGS}, not {value!r}", where)
            self.values[key] = int(str(value))
        elif not isinstance(value, str):
            raise BlklabError(f"volume/{key} is text, not {value!r}", where)
        elif key == "filesystem" and value not in FILESYSTEMS:
            raise BlklabError(f"volume/filesystem is {', '.join(FILESYSTEMS)}, not {value!r}", where)
        elif key == "mount" and (not value.startswith("/") or value.startswith("/dev") or value == "/"):
            raise BlklabError(f"volume/mount is a directory like /mnt/data, not {value!r}", where)
        else:
            self.values[key] = value

    def build(self) -> VolumeConfig:
        """The volume's configuration. Raises BlklabError for keys that contradict each other."""
        values = self.values
        if "device" not in values:
            raise BlklabError(f'volume {self.name} has no device; say `device = "nvme0n1"`', self.wheres[""])
        sunit, swidth = values.get("sunit"), values.get("swidth")
        if sunit is None and swidth:
            raise BlklabError("volume/swidth needs a sunit", self.wheres["swidth"])
        if sunit and swidth is None:
            raise BlklabError("volume/sunit needs a swidth, a multiple of it", self.wheres["sunit"])
        if bool(sunit) != bool(swidth) or (sunit and int(swidth) % int(sunit)):  # type: ignore[arg-type]
            raise BlklabError(
                f"volume/swidth is a multiple of sunit, {sunit} bytes, not {swidth}", self.wheres["swidth"]
            )
        return VolumeConfig(
            name=self.name,
            device=str(values["device"]).removeprefix("/dev/"),
            filesystem=str(values.get("filesystem", FILESYSTEMS[0])),
            mount=str(values.get("mount", f"/mnt/{self.name}")).rstrip("/"),
            sunit_bytes=None if sunit is None else int(sunit),
            swidth_bytes=None if swidth is None else int(swidth),
            agcount=int(values.get("agcount", 0)),
            log_bytes=int(values["log_size"]) if "log_size" in values else None,
            max_extent_bytes=int(values.get("max_extent", 0)),
            wheres=self.wheres,
        )


def check_volumes(volumes: list[VolumeConfig], devices: list[str]) -> None:
    """Raises BlklabError for a device that there is not, or two volumes on one device or in one place."""
    for number, volume in enumerate(volumes):
        if volume.device not in devices:
            raise BlklabError(
                f"volume {volume.name} is on {volume.device!r}, which there is not; the machine has "
                f"{', '.join(devices)}{nearest(volume.device, devices)}",
                volume.where("device"),
            )
        for other in volumes[:number]:
            if other.device == volume.device:
                raise BlklabError(
                    f"volumes {other.name} and {volume.name} are both on {volume.device}",
                    volume.where("device"),
                )
            if other.mount == volume.mount:
                raise BlklabError(
                    f"volumes {other.name} and {volume.name} are both mounted on {volume.mount}",
                    volume.where("mount"),
                )
