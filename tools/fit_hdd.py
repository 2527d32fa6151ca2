"""Shows and writes the fit of the presets of disks that turn: what the data sheet says, what the model gives.

    fit_hdd.py            the table of each preset: published, simulated, error
    fit_hdd.py --write    put simulated values and errors into the files

Theory of operation
    A row of a preset of `hdd` names one quantity of MEASURES, which is run on the model without a host: seeks as data
    sheets define them (averages over all pairs of cylinders), and sequential reads of 64 MB at either end of the disk.
    Nothing is searched: `disk_seek.fit_curve` solves for the curve, and tracks follow from the rates.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from typing import Any

import sources
from blklab.block.models import find_model, settings_of
from blklab.core.clock import Clock
from blklab.device.disk_driver import DiskDriver
from blklab.device.disk_unit import DiskUnit
from blklab.device.presets import Preset, load_presets
from blklab.sim.cpu import MachineHost
from blklab.sim.events import EventQueue

FOLDER = sources.PACKAGE_FOLDER / "device" / "presets"
MODEL = "hdd"
LONG_BYTES = 64_000_000
PAIRS = 400


def make_unit(settings: dict[str, Any]) -> DiskUnit:
    """The disk of a preset's settings, without a host."""
    checked = settings_of(find_model(MODEL), None, settings, lambda name: name)
    events = EventQueue()
    clock: Clock = events
    return DiskUnit(checked, clock, DiskDriver(checked, MachineHost(events, 1)))


def average_seek_ms(unit: DiskUnit, write: bool) -> float:
    """Mean over pairs of cylinders on one surface, evenly spread over the disk."""
    cylinders = unit.geometry.cylinders
    settle_ns = unit.mechanics.write_settle_ns if write else 0
    total = pairs = 0
    # Pairs at a distance d: cylinders - d of them in each direction
    for i in range(PAIRS):
        distance = 1 + (cylinders - 2) * i // (PAIRS - 1)
        weight = cylinders - distance
        total += weight * (unit.mechanics.seek_ns(distance) + settle_ns)
        pairs += weight
    return total / pairs / 1e6


def sustained_mb_per_s(unit: DiskUnit, inside: bool) -> float:
    """A long read, with all changes of track, where the disk begins or ends."""
    nr_sectors = LONG_BYTES >> 9
    first = unit.geometry.size_sectors - nr_sectors if inside else 0
    return nr_sectors * 512 / unit.geometry.transfer_ns(first, nr_sectors) * 1e3


MEASURES: dict[str, Callable[[DiskUnit], float]] = {
    "track seek, ms": lambda unit: unit.mechanics.seek_ns(1) / 1e6,
    "average seek of a read, ms": lambda unit: average_seek_ms(unit, False),
    "average seek of a write, ms": lambda unit: average_seek_ms(unit, True),
    "full stroke, ms": lambda unit: unit.mechanics.seek_ns(unit.geometry.cylinders - 1) / 1e6,
    "sustained outside, MB/s": lambda unit: sustained_mb_per_s(unit, False),
    "sustained inside, MB/s": lambda unit: sustained_mb_per_s(unit, True),
    "cylinders": lambda unit: unit.geometry.cylinders,
}


def fits() -> list[Preset]:
    """The presets of disks."""
    return [preset for preset in load_presets() if preset.model == MODEL]


def simulate(preset: Preset) -> dict[str, float]:
    """What the model gives for each quantity that the preset has a row of."""
    unit = make_unit(preset.settings)
    return {row["run"]: MEASURES[row["run"]](unit) for row in preset.fit}


def write(preset: Preset, simulated: dict[str, float]) -> None:
    """Puts values and errors into the preset's file."""
    path = FOLDER / f"{preset.name}.toml"
    text = path.read_text(encoding="utf-8")
    for row in preset.fit:
        value = simulated[row["run"]]
        error = 100 * (value / row["published"] - 1)
        text = re.sub(
            rf'(run = "{re.escape(row["run"])}"\npublished = [^\n]+\nsimulated = )[^\n]+\nerror_pct = [^\n]+',
            rf"\g<1>{value:.4g}\nerror_pct = {error:.1f}",
            text,
        )
    path.write_text(text, encoding="utf-8")


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write values and errors into the files")
    chosen = parser.parse_args()
    for preset in fits():
        simulated = simulate(preset)
        print(preset.name)
        for row in preset.fit:
            value = simulated[row["run"]]
            print(
                f"  {row['run']:30}{row['published']:>10}{value:12.4g}{100 * (value / row['published'] - 1):8.1f}%"
            )
        if chosen.write:
            write(preset, simulated)


if __name__ == "__main__":
    main()
