"""Reads the TOML files that users write (machines, cost tables): one clear error for what is not one, and
line numbers.

`tomllib` says nothing about where a key stood. `Lines` finds the line of a key again, so that an error
about `device.nvme0n1.queue.nr_requests` can say `my.toml:7`. It knows headers and dotted keys; keys inside
inline tables are found at the line of the whole.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

from blklab.core.errors import BlklabError

# Far above any machine one would write by hand, far below what makes parsing slow
MAX_BYTES = 1 << 20

_KEY = r"""(?:[A-Za-z0-9_-]+|"(?:[^"\\]|\\.)*"|'[^']*')"""
_DOTTED = rf"{_KEY}(?:\s*\.\s*{_KEY})*"
_HEADER = re.compile(rf"\s*\[\[?\s*({_DOTTED})\s*\]\]?\s*(?:#.*)?$")
_ASSIGNMENT = re.compile(rf"\s*({_DOTTED})\s*=")

Path_ = tuple[str, ...]


def _split_key(dotted: str) -> Path_:
    return tuple(part.strip("\"'") for part in re.findall(_KEY, dotted))


class Lines:
    """Where the keys of one TOML text stand."""

    def __init__(self, text: str, source: str) -> None:
        self.source = source
        self._lines: dict[Path_, int] = {}
        header: Path_ = ()
        for number, line in enumerate(text.splitlines(), start=1):
            if match := _HEADER.match(line):
                header = _split_key(match[1])
                found = header
            elif match := _ASSIGNMENT.match(line):
                found = header + _split_key(match[1])
            else:
                continue
            for length in range(1, len(found) + 1):
                self._lines.setdefault(found[:length], number)

    def where(self, path: Path_) -> str:
        """The place of a key as "FILE:LINE", or of the nearest table around it; "FILE" if there is none."""
        for length in range(len(path), 0, -1):
            if path[:length] in self._lines:
                return f"{self.source}:{self._lines[path[:length]]}"
        return self.source


def read_toml(path: Path, what: str) -> tuple[dict[str, Any], Lines]:
    """The content of a TOML file and where its keys stand. `what` names the kind in errors: "machine",
    "cost table".

    Raises BlklabError with one line for a file that is missing, not readable, a folder, too large, binary,
    empty, or not TOML.
    """
    source = str(path)
    # Opening a named pipe would wait for a writer, for ever perhaps; /dev/stdin and /dev/fd/N are meant
    if path.exists() and not path.is_file() and not path.is_dir() and path.parts[:2] != ("/", "dev"):
        raise BlklabError(f"not a regular file: this is no {what} file", source)
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise BlklabError(f"there is no such {what} file", source) from None
    except OSError as error:
        raise BlklabError(f"cannot read the {what} file: {error.strerror}", source) from None
    if len(data) > MAX_BYTES:
        raise BlklabError(f"larger than {MAX_BYTES} bytes: this is no {what} file", source)
    return parse_toml(data, source, what)


def parse_toml(data: bytes, source: str, what: str) -> tuple[dict[str, Any], Lines]:
    """As `read_toml`, for bytes at hand; `source` is how errors call them."""
    if b"\0" in data:
        raise BlklabError(f"a binary file, not the TOML text of a {what}", source)
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise BlklabError(f"not UTF-8 text (byte {error.start}): this is no {what} file", source) from None
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        message = str(error)
        if match := re.fullmatch(r"(.*) \(at line (\d+), column (\d+)\)", message):
            raise BlklabError(
                f"not valid TOML: {match[1]} (column {match[3]})", f"{source}:{match[2]}"
            ) from None
        raise BlklabError(f"not valid TOML: {message}", source) from None
    except RecursionError:
        raise BlklabError(f"nested too deeply: this is no {what} file", source) from None
    if not content:
        raise BlklabError(f"the {what} file is empty: no key is set in it", source)
    return content, Lines(text, source)
