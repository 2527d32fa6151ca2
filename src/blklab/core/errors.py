"""Errors that a user can cause, and the suggestion of the nearest known word.

Every such error says where (file and line, option, attribute), what was found and what would be accepted.
The command line prints it as one line and exits with status 2; nothing else in the package prints errors.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class BlklabError(Exception):
    """A wrong input. `where` names the place: "job.fio:12", "--set queue/nr_requests", "machine.toml"."""

    def __init__(self, message: str, where: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.where = where

    def __str__(self) -> str:
        return f"{self.where}: {self.message}" if self.where else self.message


class AttributeRefused(BlklabError):
    """A write that the kernel refuses. `errno` is the kernel's name for it: EINVAL, ENOENT, EBUSY."""

    def __init__(self, message: str, where: str | None = None, errno: str = "EINVAL") -> None:
        super().__init__(message, where)
        self.errno = errno


def nearest(word: str, words: Iterable[str]) -> str:
    """'; did you mean X?' for the known word that is most like `word`, or '' if none is near."""
    close = difflib.get_close_matches(word, list(words), n=1, cutoff=0.6)
    return f"; did you mean {close[0]!r}?" if close else ""
