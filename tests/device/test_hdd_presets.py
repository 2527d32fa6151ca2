"""Presets of disks: the fit that their files claim comes out again, and what is derived follows from its sources."""

from __future__ import annotations

import pytest

import fit_hdd
from blklab.device.presets import Preset, load_presets

DISKS = {preset.name: preset for preset in fit_hdd.fits()}


@pytest.mark.parametrize("preset", DISKS.values(), ids=lambda preset: preset.name)
def test_the_fit_of_a_disk_comes_out_again(preset: Preset) -> None:
    assert len(preset.fit) >= 4
    simulated = fit_hdd.simulate(preset)
    for row in preset.fit:
        value = simulated[row["run"]]
        assert value == pytest.approx(row["simulated"], rel=1e-3), row["run"]
        assert row["error_pct"] == pytest.approx(100 * (value / row["published"] - 1), abs=0.06), row["run"]
        assert abs(row["error_pct"]) < 4


def test_the_tracks_of_the_7k500_are_the_specifications_rates() -> None:
    s = DISKS["hitachi-7k500-500gb"].settings
    turns = s["rpm"] / 60
    assert s["outer_sectors"] * 512 * turns == pytest.approx(76.3e6, rel=1e-3)
    assert s["inner_sectors"] * 512 * turns == pytest.approx(36.5e6, rel=1e-3)
    switch_ms = (9 * s["head_switch_ns"] + s["cylinder_switch_ns"]) / 10 / 1e6
    assert switch_ms == pytest.approx((76.3 / 64.8 - 1) * 1e3 / turns, rel=2e-3)
    # As for the 60GXP: 1.4 and 1.8 ms
    assert s["cylinder_switch_ns"] / s["head_switch_ns"] == pytest.approx(1.8 / 1.4, rel=0.1)


def test_the_tracks_of_the_cheetah_follow_from_its_capacity() -> None:
    s = DISKS["seagate-cheetah-15k7-450gb"].settings
    mean = s["size"] / 512 / s["heads"] / 107_500
    assert (s["outer_sectors"] + s["inner_sectors"]) / 2 == pytest.approx(mean, rel=2e-3)
    assert s["outer_sectors"] / s["inner_sectors"] == pytest.approx(204 / 122, rel=2e-3)
    assert s["write_settle_ns"] == 500_000


def test_every_array_names_a_disk_that_there_is() -> None:
    arrays = [preset for preset in load_presets() if preset.model == "array"]
    assert arrays
    for preset in arrays:
        assert preset.settings["disk"] in DISKS
