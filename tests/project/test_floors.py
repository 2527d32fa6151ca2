"""The floors of the house for what import-linter does not read: the cimports of .pxd and .py files."""

from __future__ import annotations

import tomllib

import pytest

import sources

CONTRACT = tomllib.loads((sources.ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"][
    0
]
FLOORS = {
    folder.strip(): height
    for height, line in enumerate(reversed(CONTRACT["layers"]))
    for folder in line.split("|")
}


def upward_cimports(module: str, cimported: set[str]) -> list[str]:
    """What `module` ("block/tags") cimports from a floor that is not below its own."""
    folder = module.split("/")[0]
    return sorted(
        name
        for name in cimported
        if name.split("/")[0] != folder and FLOORS[name.split("/")[0]] >= FLOORS[folder]
    )


@pytest.mark.parametrize("module", sources.hot_modules())
def test_a_hot_module_cimports_only_from_floors_below(module: str) -> None:
    assert upward_cimports(module, sources.cimports(module)) == []


def test_an_upward_and_a_sideward_cimport_are_seen() -> None:
    assert upward_cimports("block/tags", {"core/bits", "block/request"}) == []
    assert upward_cimports("block/tags", {"device/ssd"}) == ["device/ssd"]
    assert upward_cimports("device/ssd", {"elevator/kyber", "block/request"}) == ["elevator/kyber"]


def test_every_folder_of_the_package_has_a_floor() -> None:
    folders = {name.split("/")[0] for name in sources.installed_files() if "/" in name}
    assert folders <= set(FLOORS)
