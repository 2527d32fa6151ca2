"""Kernel versions: which features "6.1" or "4.17" stands for, and flipping one of them.

The values and their sources are in kernels.toml beside this file; the names and meanings in
`block/features.py`.

Theory of operation
-------------------
A version is a tuple of numbers. It starts from the oldest set in the file and takes every change that is
not newer than itself, so 5.12 is what 5.10 was, plus nothing. "6.1" without a third number means the
release whose sources were read (6.1.187). A version older than the oldest set, or one that was never
released (4.21), is refused by name.
"""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Mapping
from importlib import resources
from typing import Any, NamedTuple

from blklab.block.features import FEATURE_TABLE, FEATURES, Features, scheduler_available
from blklab.core.errors import BlklabError, nearest

__all__ = [
    "DEFAULT_KERNEL",
    "Change",
    "feature_history",
    "kernel_release",
    "kernels",
    "load_features",
    "scheduler_available",
    "unbuilt_differences",
]

DEFAULT_KERNEL = "6.1"

Version = tuple[int, ...]

# The last release of a series, after which the first number went up
LAST_OF_SERIES = {(2, 6): (2, 6, 39), (3,): (3, 19), (4,): (4, 20), (5,): (5, 19), (6,): (6, 19)}
NEWEST_SERIES = 7

BOOL_WORDS = {"0": 0, "1": 1, "false": 0, "true": 1, "no": 0, "yes": 1, "off": 0, "on": 1}


class Change(NamedTuple):
    """One entry of kernels.toml: from `version` on `feature` is `value`."""

    version: str
    feature: str
    value: int
    read: bool
    source: str


@functools.cache
def _file() -> dict[str, Any]:
    text = resources.files("blklab.sim").joinpath("kernels.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def _base() -> dict[str, Any]:
    base: dict[str, Any] = _file()["base"]
    return base


@functools.cache
def changes() -> tuple[Change, ...]:
    """All changes, oldest first."""
    return tuple(Change(**entry) for entry in _file()["change"])


def kernels() -> list[tuple[str, list[Change]]]:
    """The versions at which something changed, oldest first, with what changed.

    The oldest is the whole base set.
    """
    found: dict[str, list[Change]] = {_base()["version"]: []}
    for change in changes():
        found.setdefault(change.version, []).append(change)
    return list(found.items())


def _numbers(version: str) -> Version:
    return tuple(int(part) for part in version.split("."))


def parse_version(kernel: str, where: str = "--kernel") -> Version:
    """The numbers of a version, e.g.

    "6.1" -> (6, 1). Suffixes of distributions ("6.1.0-53-amd64") are dropped.
    """
    match = re.fullmatch(r"(\d{1,3}(?:\.\d{1,5}){1,3})(?:[-+~].*)?", kernel.strip())
    oldest = _base()["version"]
    if match is None:
        raise BlklabError(
            f"{kernel!r} is not a kernel version; accepted are those from {oldest} on: 4.17, 5.10.13, 6.1",
            where,
        )
    version = _numbers(match[1])
    for series, last in LAST_OF_SERIES.items():
        if version[: len(series)] == series and version[: len(last)] > last:
            last_name = ".".join(map(str, last))
            raise BlklabError(f"there is no Linux {kernel}: the series ended with {last_name}", where)
    if version[0] > NEWEST_SERIES:
        raise BlklabError(f"there is no Linux {kernel}; known are {oldest} to {NEWEST_SERIES}.x", where)
    if (version[0] == 2 and version[:2] != (2, 6)) or version < _numbers(oldest):
        raise BlklabError(f"Linux {kernel} is older than what is known here; the oldest is {oldest}", where)
    return version


def kernel_release(kernel: str, where: str = "--kernel") -> str:
    """The version as reports name it: "6.1" -> "6.1.187"; others as written."""
    version = parse_version(kernel, where)
    plain = ".".join(map(str, version))
    releases: dict[str, str] = _file()["release"]
    return releases.get(plain, plain)


def _parse_value(name: str, text: str, where: str) -> int:
    feature = FEATURE_TABLE[name]
    word = text.strip().lower()
    if feature.kind == "bool":
        if word not in BOOL_WORDS:
            raise BlklabError(f"feature {name} is on or off, not {text!r}; accepted are 0 and 1", where)
        return BOOL_WORDS[word]
    if not re.fullmatch(r"\d{1,10}", word) or not feature.least <= int(word) <= feature.most:
        limits = f"from {feature.least} to {feature.most}"
        raise BlklabError(f"feature {name} is a number {limits}, not {text!r} ({feature.help})", where)
    return int(word)


def load_features(
    kernel: str = DEFAULT_KERNEL,
    overrides: Mapping[str, str] | None = None,
    where: str = "--kernel",
    override_wheres: Mapping[str, str] | None = None,
) -> Features:
    """The features of a kernel version, with some of them flipped.

    `kernel`: "X.Y" or "X.Y.Z". `overrides`: feature name -> value as text. `where` and `override_wheres`
    (by feature name) say in errors where the words came from.

    Raises BlklabError for a version that is not one or too old, an unknown feature, a value that does not
    fit, and a feature that no code asks for yet.
    """
    version = parse_version(kernel, where)
    features = Features()
    features.kernel = kernel_release(kernel, where)
    for name, value in _base().items():
        if name != "version":
            setattr(features, name, value)
    for change in changes():
        if _numbers(change.version) <= version:
            setattr(features, change.feature, change.value)
    for name, text in (overrides or {}).items():
        place = (override_wheres or {}).get(name, f"--set feature/{name}")
        if name not in FEATURE_TABLE:
            raise BlklabError(
                f"no feature {name!r}{nearest(name, FEATURE_TABLE)}; `blklab list features` shows all",
                place,
            )
        if not FEATURE_TABLE[name].built:
            raise BlklabError(f"feature {name} is not built yet: flipping it would change nothing", place)
        setattr(features, name, _parse_value(name, text, place))
    return features


def feature_history(name: str) -> list[tuple[str, int]]:
    """The values a feature has had: (first version, value), oldest first."""
    history: list[tuple[str, int]] = [(_base()["version"], _base()[name])]
    history += [(change.version, change.value) for change in changes() if change.feature == name]
    return history


def unbuilt_differences(features: Features) -> list[str]:
    """Features in which this kernel differs from 6.1 but that no code asks for: a run's notes name them."""
    return [
        feature.name
        for feature in FEATURES
        if not feature.built and getattr(features, feature.name) != feature.default
    ]
