"""A built-in scheduler is the same in three forms: compiled, uncompiled, and copied out of the package.

In 2018 the series that let kyber merge broke it as a module, since it called what only the kernel proper
could see. Here that shows as a copy that does not load, or does something else.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from copies import copy_of
from traces import digest

import sources
from blklab.block.elevator import built_in_names

HERE = Path(__file__).parent


@pytest.mark.compiled_only
def test_compiled_uncompiled_and_copied_give_the_same_traces(compiled: bool, tmp_path: Path) -> None:
    names = built_in_names()
    mine = [digest(name) for name in names]
    copied = [digest(copy_of(name, tmp_path)) for name in names]
    done = subprocess.run(
        [sys.executable, str(HERE / "traces.py"), *names],
        capture_output=True,
        text=True,
        timeout=600,
        env={**os.environ, "PYTHONPATH": f"{sources.SOURCE_FOLDER}:{HERE}"},
    )
    assert done.returncode == 0, done.stderr
    uncompiled = done.stdout.split()
    assert dict(zip(names, mine, strict=True)) == dict(zip(names, copied, strict=True)), "copied"
    assert dict(zip(names, mine, strict=True)) == dict(zip(names, uncompiled, strict=True)), "uncompiled"


def test_a_digest_sees_a_change() -> None:
    assert len({digest(name, 4) for name in [*built_in_names(), "none"]}) == len(built_in_names()) + 1
