"""Starting stays quick: what only a run needs is imported by a run, not by `blklab --help`."""

from __future__ import annotations

import subprocess
import sys

import pytest

# Modules that take long to import, and what needs them.
HEAVY = {"pydantic": "machine files", "numpy": "reading traces", "multiprocessing": "experiments"}


@pytest.mark.parametrize("argument", ["--help", "--version"])
def test_help_and_version_import_nothing_heavy(argument: str) -> None:
    code = f"""
import sys
from blklab.cli.main import main
try:
    main([{argument!r}])
except SystemExit as stop:
    assert not stop.code, stop.code
print(sorted(set(sys.modules) & set({sorted(HEAVY)!r})))
"""
    result = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert result.stdout.splitlines()[-1] == "[]"
