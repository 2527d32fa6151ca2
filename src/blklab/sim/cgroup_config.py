"""[cgroup] of a machine file: the control groups of a machine, as settings; sim/cgroups.py makes them.

    [cgroup."/db"]                       # with its parents, as mkdir -p makes them
    io.bfq.weight = 500                  # control files under their own names
    io.max = "nvme0n1 riops=20000"       # what echo would write; a list for several lines
    jobs = ["db*"]                       # fio's jobs that are in it, by name
    unit = "db.service"                  # what systemd would write for this unit (sim/systemd_unit.py)

    [cgroup]
    version = 1                          # only needed where no file name says it

Theory of operation
-------------------
The version follows from the names: `io.` files are those of version 2, `blkio.` files those of version 1, and a machine
has one of them. Without any it is 2 where the kernel has it (4.5). A key in a file that extends another replaces what
was written to the same file of the same group there; `--set` writes behind it, as a shell would.

Whether a file exists and takes a value is the simulated kernel's business: it is asked when the machine is built, and
its refusal is reported with the place kept here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from blklab.block.features import Features
from blklab.core.errors import BlklabError
from blklab.sim.systemd_unit import UnitSettings, read_unit

# Keys of a group that are not control files; those have a dot in their name, but for `tasks`
GROUP_KEYS = ("jobs", "unit")
# What a control file's name begins with -> version
PREFIXES = {"io.": 2, "blkio.": 1, "tasks": 1}


class FileWrite(NamedTuple):
    """One write to a control file. `optional`: the kernel may refuse it, which is told as a note."""

    file: str
    text: str
    where: str
    optional: bool = False


@dataclass(frozen=True, slots=True)
class CgroupConfig:
    """One control group: its path, what is written to its files, in order, and which jobs are in it (patterns)."""

    path: str
    writes: tuple[FileWrite, ...]
    jobs: tuple[str, ...]
    where: str


@dataclass(frozen=True, slots=True)
class CgroupsConfig:
    """The control groups of a machine. `notes`: what the user should know of them."""

    version: int
    groups: tuple[CgroupConfig, ...]
    notes: tuple[str, ...] = ()


def group_path(name: str, where: str) -> str:
    """A group's path with its leading slash. Raises BlklabError for one that no directory can have."""
    parts = [part for part in name.split("/") if part]
    if any(part in (".", "..") or len(part) > 255 or "\0" in part for part in parts):
        raise BlklabError(
            f"{name!r} is not the path of a control group, as in /system.slice/db.service", where
        )
    return "/" + "/".join(parts)


def version_of(file: str) -> int | None:
    """The version that a control file's name belongs to, or None: there in both, or unknown."""
    return next((version for prefix, version in PREFIXES.items() if file.startswith(prefix)), None)


def file_lines(value: object, what: str, where: str) -> list[str]:
    """What is written, line by line: a text, a number or a list of texts. Raises BlklabError for anything else."""
    values = value if isinstance(value, list) else [value]
    if not values or not all(isinstance(item, str | int) and not isinstance(item, bool) for item in values):
        raise BlklabError(f"{what} should be text, a number, or a list of lines, found {value!r}", where)
    return [line for item in values for line in str(item).splitlines()] or [""]


class GroupBuilder:
    """Collects the settings of one group."""

    def __init__(self, path: str, where: str) -> None:
        self.path = path
        self.where = where
        self.files: dict[str, list[FileWrite]] = {}
        self.later: list[FileWrite] = []
        self.jobs: list[str] = []
        self.unit: UnitSettings | None = None

    def set(self, key: str, value: object, where: str, base: Path | None = None, later: bool = False) -> None:
        """One key: a control file, `jobs` or `unit` (a file's name, relative to `base`). `later`: written behind what
        was set before."""
        if key == "jobs":
            self.jobs = [
                word for line in file_lines(value, key, where) for word in line.replace(",", " ").split()
            ]
        elif key == "unit":
            if not isinstance(value, str) or not value:
                raise BlklabError(f"unit should be the name of a unit file, found {value!r}", where)
            self.unit = read_unit((base or Path()) / value, where)
        elif "." not in key and key != "tasks":
            raise BlklabError(
                f"unknown key {key!r}; accepted are control files as io.max, and {', '.join(GROUP_KEYS)}",
                where,
            )
        else:
            writes = [FileWrite(key, line, where) for line in file_lines(value, key, where)]
            if later:
                self.later += writes
            else:
                self.files[key] = writes

    def writes(self) -> list[FileWrite]:
        """All writes but those of the unit."""
        return [*(write for writes in self.files.values() for write in writes), *self.later]


class CgroupsBuilder:
    """Collects the control groups of a machine."""

    def __init__(self) -> None:
        self.groups: dict[str, GroupBuilder] = {}
        self.version: tuple[int, str] | None = None

    def group(self, name: str, where: str) -> GroupBuilder:
        """The group of that path, made if it is new."""
        path = group_path(name, where)
        return self.groups.setdefault(path, GroupBuilder(path, where))

    def set_version(self, value: object, where: str) -> None:
        """Version 1 or 2. Raises BlklabError for another."""
        if isinstance(value, bool) or str(value) not in ("1", "2"):
            raise BlklabError(f"cgroup/version is 1 or 2, not {value!r}", where)
        self.version = (int(str(value)), where)

    def build(self, features: Features) -> CgroupsConfig | None:
        """The groups, or None if nothing was said of any. Raises BlklabError for what does not go together."""
        if not self.groups and self.version is None:
            return None
        version = self._version(features)
        groups = []
        notes: list[str] = []
        for builder in self.groups.values():
            writes: list[FileWrite] = []
            if builder.unit is not None:
                found = builder.unit.writes(version)
                writes += [FileWrite(*write, optional=True) for write in found.writes]
                notes += found.notes
            writes += builder.writes()
            groups.append(CgroupConfig(builder.path, tuple(writes), tuple(builder.jobs), builder.where))
        _check_jobs(groups)
        return CgroupsConfig(version, tuple(groups), tuple(notes))

    def _version(self, features: Features) -> int:
        said = [
            (version, f"{write.file} of {builder.path}", write.where)
            for builder in self.groups.values()
            for write in builder.writes()
            if (version := version_of(write.file)) is not None
        ]
        if self.version is not None:
            said.insert(0, (self.version[0], f"version = {self.version[0]}", self.version[1]))
        for version, what, where in said:
            if version != said[0][0]:
                raise BlklabError(
                    f"{what} is of cgroup v{version}, and {said[0][1]} ({said[0][2]}) of v{said[0][0]}: a machine has "
                    "one version",
                    where,
                )
        if not said:
            return default_version(features)
        version, what, where = said[0]
        if version == 2 and not features.cgroup_v2:
            raise BlklabError(
                f"{what} is of cgroup v2, which came with Linux 4.5; Linux {features.kernel} has v1 (blkio.* files)",
                where,
            )
        return version


def default_version(features: Features) -> int:
    """The version of a machine that says nothing: the newest that its kernel has."""
    return 2 if features.cgroup_v2 else 1


def _check_jobs(groups: Sequence[CgroupConfig]) -> None:
    seen: dict[str, CgroupConfig] = {}
    for group in groups:
        for pattern in group.jobs:
            other = seen.setdefault(pattern, group)
            if other is not group:
                raise BlklabError(
                    f"jobs {pattern!r} are in {other.path} already ({other.where}), and in {group.path}",
                    group.where,
                )
