"""A built-in scheduler as a user's own: copied out of the package, renamed, to be loaded by its path."""

from __future__ import annotations

import hashlib
import re
import shutil
from pathlib import Path

import blklab.elevator
from blklab.block.elevator import find_elevator

FOLDER = Path(next(iter(blklab.elevator.__path__)))


def copy_of(name: str, folder: Path) -> str:
    """Copies the sources of a scheduler into `folder`; returns 'file.py:Class' of the copy."""
    found = find_elevator(name)
    assert isinstance(found, type)
    module = name.replace("-", "_")
    theirs = f"their_{module}_{hashlib.sha256(str(folder).encode()).hexdigest()[:8]}"
    if (FOLDER / module).is_dir():
        source = FOLDER / module
        (folder / theirs).mkdir()
        for path in source.glob("*.py"):
            text = path.read_text().replace(f"blklab.elevator.{module}", theirs)
            (folder / theirs / path.name).write_text(_renamed(text, name))
        where = found.__module__.rsplit(".", 1)[1]
        return f"{folder / theirs / where}.py:{found.__name__}"
    shutil.copy(FOLDER / f"{module}.py", folder / f"{theirs}.py")
    path = folder / f"{theirs}.py"
    path.write_text(_renamed(path.read_text(), name))
    return f"{path}:{found.__name__}"


def _renamed(text: str, name: str) -> str:
    return re.sub(rf'register\("{name}"\)', f'register("their-{name}")', text)
