"""The fio program, and the way to the helpers of these tests."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # for tests.report.fio_output


@pytest.fixture
def fio() -> str:
    """The fio program, version 3.33; skips where there is none."""
    program = shutil.which("fio")
    if program is None:
        pytest.skip("fio is not installed")
    version = subprocess.run(
        [program, "--version"], capture_output=True, text=True, check=True
    ).stdout.strip()
    if version != "fio-3.33":
        pytest.skip(f"the oracle is fio-3.33, this is {version}")
    return program
