"""Compiled and uncompiled give the same bytes: each job of tests/project/jobs is run both ways by the command
line.

The suite itself runs in both forms too (`make test`); this compares their results with each other.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import sources

BUILD = sources.ROOT / "build" / "dev" / "src"
JOBS = sorted(Path(__file__).with_name("jobs").glob("*.fio"))


def run(form: Path, arguments: list[str]) -> bytes:
    """Standard output of `blklab run` with the package found in `form`; the run must succeed."""
    command = [sys.executable, "-m", "blklab.cli.main", "run", *arguments]
    variables = {**os.environ, "PYTHONPATH": str(form)}
    result = subprocess.run(command, check=False, capture_output=True, env=variables, timeout=120)
    assert result.returncode == 0, result.stderr.decode()
    return result.stdout


def options(job: Path) -> list[str]:
    """What the first line of the job file asks for beside the job: "# options: --machine null"."""
    first = job.read_text().partition("\n")[0]
    return shlex.split(first.removeprefix("# options:")) if first.startswith("# options:") else []


def where(form: Path) -> str:
    """The file that the clock of `form` is loaded from."""
    code = "import blklab.core.clock as c; print(c.__file__)"
    variables = {**os.environ, "PYTHONPATH": str(form)}
    command = [sys.executable, "-c", code]
    return subprocess.run(command, check=True, capture_output=True, text=True, env=variables).stdout.strip()


@pytest.fixture(scope="module")
def build() -> Path:
    """The compiled package's folder."""
    if not BUILD.is_dir():
        pytest.skip("no development build: `make build` makes one")
    return BUILD


def test_the_two_forms_are_what_they_should_be(build: Path) -> None:
    assert where(build).endswith(".so")
    assert where(sources.SOURCE_FOLDER).endswith(".py")


def test_there_are_jobs() -> None:
    assert len(JOBS) >= 4


@pytest.mark.parametrize("job", JOBS, ids=lambda path: path.stem)
@pytest.mark.parametrize("output", ["normal", "json+"])
def test_same_bytes_in_both_forms(build: Path, job: Path, output: str) -> None:
    arguments = [str(job), *options(job), f"--output-format={output}"]
    assert run(build, arguments) == run(sources.SOURCE_FOLDER, arguments)
