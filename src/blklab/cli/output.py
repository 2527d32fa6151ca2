"""Writing results: to the terminal, or to a file that is either complete or not there."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from pathlib import Path

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
    """Writes `text` to `path` by way of a temporary file beside it, or to standard output if there is no
    path.

    A file that is no regular one (/dev/stdout, a pipe) is written directly. Raises BlklabError if that fails.
    """
    if path is None:
        sys.stdout.write(text)
        return
    try:
        if path.exists() and not path.is_file():
            path.write_text(text)
            return
        target = path.resolve()  # a symbolic link stays one
        mode = target.stat().st_mode & 0o777 if target.exists() else 0o666 & ~_umask()
        descriptor, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
        temporary = Path(name)
        try:
            with os.fdopen(descriptor, "w") as file:
                file.write(text)
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
