"""What all tests share: in which form the package runs, and where the project's shared folder lies.

The suite runs in two forms, with the very same tests: compiled (`.venv/bin/python -m pytest`, what `make
build` made) and uncompiled (`PYTHONPATH=src .venv/bin/python -m pytest`). The header of a run says which.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import hypothesis
import pytest

import blklab
import sources

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = Path(next(iter(blklab.__path__)))

# No deadline: an example's time says nothing on a busy machine. In continuous integration the examples are
# always the same, so that a failure belongs to the change it is shown for; elsewhere each run looks for new
# ones.
hypothesis.settings.register_profile("blklab", deadline=None, derandomize="CI" in os.environ)
hypothesis.settings.load_profile("blklab")


def pytest_report_header() -> list[str]:
    """Says which form of the package is tested."""
    libraries = sources.hot_libraries(PACKAGE)
    missing = [module for module, library in libraries.items() if library is None]
    if len(missing) == len(libraries):
        return [f"blklab: uncompiled, {PACKAGE}"]
    lines = [f"blklab: compiled, {PACKAGE}"]
    if missing:
        lines.append(f"blklab: NOT COMPILED: {' '.join(missing)}")
    stale = sources.stale_modules(PACKAGE)
    if stale:
        lines.append(f"blklab: older than their sources (run `make build`): {' '.join(stale)}")
    return lines


@pytest.fixture(scope="session")
def package() -> Path:
    """The folder of the package under test."""
    return PACKAGE


@pytest.fixture(scope="session")
def compiled() -> bool:
    """Whether the hot modules under test are compiled."""
    return any(sources.hot_libraries(PACKAGE).values())


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder with the captures, seeds and corpora that are too large for the repository; skips where
    there is none.

    The environment variable BLKLAB_SHARED names it; else it is `shared` beside the checkout.
    """
    folder = Path(os.environ.get("BLKLAB_SHARED", ROOT.parent / "shared"))
    if not folder.is_dir():
        pytest.skip(f"no shared folder: set BLKLAB_SHARED or put one at {folder}")
    return folder


@pytest.fixture(scope="session")
def fio() -> Path:
    """The fio command; skips where it is not installed."""
    found = shutil.which("fio")
    if found is None:
        pytest.skip("fio is not installed")
    return Path(found)
