"""Presets: what their files say, and that the fits they claim come out again."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

import fit_ssd
from blklab.block.models import find_model, settings_of
from blklab.core.errors import BlklabError
from blklab.device.presets import Preset, load_presets, presets_of, read_preset

FITTED = [preset for preset in load_presets() if preset.fit and preset.model == "ssd"]


@pytest.mark.parametrize("preset", load_presets(), ids=lambda preset: preset.name)
def test_a_preset_says_what_it_is_and_where_from(preset: Preset) -> None:
    assert preset.about
    assert preset.sources
    assert preset.name in presets_of(preset.model)
    settings_of(find_model(preset.model), preset.name, {}, lambda name: name)


@pytest.mark.parametrize("preset", FITTED, ids=lambda preset: preset.name)
def test_a_fit_has_fewer_fitted_numbers_than_values_and_its_errors_are_in_the_file(
    preset: Preset,
) -> None:
    values = sum(len(row["published"]) - ("iops" in row["published"]) for row in preset.fit)
    assert len(fit_ssd.FITTED[preset.name]) < values
    for row in preset.fit:
        for name, published in row["published"].items():
            error = 100 * (row["simulated"][name] / published - 1)
            assert row["error_pct"][name] == pytest.approx(error, abs=0.06), (row["run"], name)


@pytest.mark.compiled_only
@pytest.mark.parametrize("preset", FITTED, ids=lambda preset: preset.name)
def test_the_fit_comes_out_again(preset: Preset, compiled: bool) -> None:
    """Runs each row again: the values in the file, but for what later changes of the block layer move a
    little."""
    if not compiled:
        pytest.skip("too slow uncompiled")
    pairs = [(row, fit_ssd.simulate_row(row, preset.settings)) for row in preset.fit]
    for row, simulated in pairs:
        for name, claimed in row["simulated"].items():
            allowed = {"p99_ns": 0.04, "p999_ns": 0.15}.get(name, 0.015)
            assert simulated[name] == pytest.approx(claimed, rel=allowed), (row["run"], name)
    claimed_misfit = fit_ssd.misfit([(row, row["simulated"]) for row in preset.fit])
    assert fit_ssd.misfit(pairs) < claimed_misfit + 0.01


def test_the_980_pro_is_fitted_on_rows_marked_for_it_and_on_all_of_them(shared: Path) -> None:
    rows = fit_ssd.calibration_rows(shared / "validation" / "icpe24.csv")
    preset = next(p for p in load_presets() if p.name == "samsung-980pro-1tb")
    published = [row["published"] for row in preset.fit]
    assert len(rows) == len(published) == 11
    for row in rows:
        assert {
            "iops": pytest.approx(float(row["iops"]), abs=0.06),
            "clat_ns": int(row["clat_ns"]),
            "p50_ns": int(row["clat_p50_ns"]),
            "p99_ns": int(row["clat_p99_ns"]),
            "p999_ns": int(row["clat_p999_ns"]),
        } in published


def test_the_fit_of_the_980_pro_is_as_good_as_its_file_says() -> None:
    preset = next(p for p in load_presets() if p.name == "samsung-980pro-1tb")
    assert fit_ssd.misfit([(row, row["simulated"]) for row in preset.fit]) < 0.03
    for row in preset.fit:
        assert abs(row["error_pct"]["clat_ns"]) < 3
        assert abs(row["error_pct"]["p99_ns"]) < 8


def test_derived_figures_of_the_980_pro_follow_from_its_sources() -> None:
    s = next(p for p in load_presets() if p.name == "samsung-980pro-1tb").settings
    page = 32 << 10
    assert s["program_ns"] == pytest.approx(s["units"] * page / 2_314_893_629 * 1e9, rel=1e-3)
    assert s["cache_program_ns"] == pytest.approx(s["units"] * page / 5e9 * 1e9, rel=1e-3)
    move_ns = s["read_ns"] + s["program_ns"]
    slower = (s["program_ns"] + (s["gc_amplification"] - 1) * move_ns) / s["program_ns"]
    assert slower == pytest.approx(2_314_893_629 / (4096 * 84_113), rel=5e-3)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("model = ", "is not TOML"),
        ('model = "ssd"\nabout = "x"\nsources = []\n', r"missing: \['settings'\]"),
        ('model = "ssd"\nabout = "x"\nsources = []\n[settings]\n[extra]\n', r"unknown: \['extra'\]"),
    ],
)
def test_a_wrong_preset_file_gives_one_clear_error(text: str, message: str) -> None:
    with pytest.raises(BlklabError, match=message) as caught:
        read_preset("mine", text)
    assert caught.value.where == "mine.toml"


def test_the_misfit_is_a_weighted_root_mean_square() -> None:
    row = {"run": "x", "published": {"iops": 1, "clat_ns": 100, "p50_ns": 100, "p99_ns": 100, "p999_ns": 100}}
    simulated = {
        "iops": 1.0,
        "clat_ns": 100.0,
        "p50_ns": 100.0,
        "p99_ns": 100.0 * math.e,
        "p999_ns": 100.0 * math.e,
    }
    assert fit_ssd.misfit([(row, simulated)]) == pytest.approx(math.sqrt(1.5 / 3.5))
