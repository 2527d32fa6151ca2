"""Presets of device models: one TOML file each in `device/presets/`, named as the preset.

    model = "ssd"
    about = "..."                    # what device, in one line
    sources = ["..."]                # where the figures are from
    [settings]                       # parameters of the model
    read_ns = 55000
    [[fit]]                          # what it was fitted on: published, and what the model gives
    run = "..."

`settings` is what a machine gets; the rest is for people and for the test that runs the fit again.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from importlib import resources
from typing import Any, NamedTuple

from blklab.core.errors import BlklabError

KEYS = ("model", "about", "sources", "settings", "fit")


class Preset(NamedTuple):
    """One preset. `fit`: rows of the calibration, each with what was published and what the model gave."""

    name: str
    model: str
    about: str
    sources: list[str]
    settings: dict[str, Any]
    fit: list[dict[str, Any]]


def read_preset(name: str, text: str) -> Preset:
    """The preset of a file's text. Raises BlklabError if it is not one."""
    where = f"{name}.toml"
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BlklabError(f"is not TOML: {error}", where) from None
    unknown = [key for key in content if key not in KEYS]
    missing = [key for key in KEYS[:4] if key not in content]
    if unknown or missing:
        raise BlklabError(f"a preset has {', '.join(KEYS)}; unknown: {unknown}, missing: {missing}", where)
    return Preset(name=name, fit=content.pop("fit", []), **content)


def load_presets() -> list[Preset]:
    """All presets that come with blklab, sorted by name."""
    folder = resources.files("blklab.device") / "presets"
    files = sorted((item.name, item) for item in folder.iterdir() if item.name.endswith(".toml"))
    return [read_preset(name.removesuffix(".toml"), item.read_text(encoding="utf-8")) for name, item in files]


def presets_of(model: str) -> Mapping[str, dict[str, Any]]:
    """Name -> settings of the presets of one model."""
    return {preset.name: preset.settings for preset in load_presets() if preset.model == model}
