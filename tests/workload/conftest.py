"""fio as the oracle of these tests, and the way to their helpers."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # for tests.workload.iolog


@pytest.fixture(scope="session")
def fio() -> Path:
    """The fio program, version 3.33; skips where there is none."""
    program = shutil.which("fio")
    if program is None:
        pytest.skip("fio is not installed")
    version = subprocess.run(
        [program, "--version"], capture_output=True, text=True, check=True
    ).stdout.strip()
    if version != "fio-3.33":
        pytest.skip(f"the oracle is fio-3.33, this is {version}")
    return Path(program)
