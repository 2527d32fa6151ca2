"""Writing results: to the terminal, or to a file that is either complete or not there."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from blklab.core.errors import BlklabError


def check_writable(path: Path, where: str) -> None:
    """Raises BlklabError before a long run if its result could not be written to `path`."""
    folder = path.resolve().parent
    if path.is_dir():
        raise BlklabError(f"{path} is a folder, not a file to write", where)
    if not folder.is_dir():
        raise BlklabError(f"there is no folder {folder}", where)
    if not os.access(folder if not path.exists() else path, os.W_OK):
        raise BlklabError(f"cannot write {path}: permission denied", where)


def write_result(text: str, path: Path | None, where: str = "--output") -> None:
    """Writes `text` to `path`, or to standard output if there is no path. Raises BlklabError if that fails."""
    if path is None:
        sys.stdout.write(text)
        return
    with writing(path, where) as file:
        file.write(text)


@contextlib.contextmanager
def writing(path: Path, where: str) -> Iterator[IO[str]]:
    """A file to write, which becomes `path` when all has been written, and is gone if anything goes wrong.

    A file that is no regular one (/dev/stdout, a pipe) is written directly. Raises BlklabError if writing fails.
    """
    try:
        if path.exists() and not path.is_file():
            with path.open("w") as file:
                yield file
            return
        target = path.resolve()  # a symbolic link stays one
        mode = target.stat().st_mode & 0o777 if target.exists() else 0o666 & ~_umask()
        descriptor, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
        temporary = Path(name)
        try:
            with os.fdopen(descriptor, "w") as file:
                yield file
            temporary.chmod(mode)
            temporary.replace(target)
        except BaseException:
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise
    except OSError as error:
        raise BlklabError(f"cannot write {path}: {error.strerror}", where) from None


def _umask() -> int:
    # The only way to read it is to set it
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
