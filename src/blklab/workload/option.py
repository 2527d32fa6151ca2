"""What an option of fio is: the row type of the option tables.

The tables (`option_rows`, `engine_rows`) are literal data of this type; `options` indexes them and reads values.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Status(StrEnum):
    """What blklab does with an option."""

    MODELLED = "modelled"  # it does here what it does in fio
    NO_EFFECT = "no-effect"  # accepted and named in a note
    NOT_BUILT = "not built"  # refused by name: it would change the result


class Kind(StrEnum):
    """How the text after '=' is read. Names in parentheses are fio's."""

    TEXT = "text"  # kept as it stands (STR_STORE, STR with a callback)
    CHOICE = "choice"  # one of `choices`, perhaps with ":postfix" (STR)
    INT = "int"  # 32 bits, units allowed: iodepth=1k is 1024 (INT)
    SIZE = "size"  # bytes, or a count, below 2^63 (ULL, STR_VAL)
    EXTENT = "extent"  # bytes or a percentage of the file (STR_VAL_ZONE)
    TIME = "time"  # microseconds; `seconds` says what a bare number means (STR_VAL_TIME, INT with is_time)
    BOOL = "bool"  # 0 or 1, must be given (BOOL)
    FLAG = "flag"  # may stand alone, which is 1 (STR_SET)
    RANGE = "range"  # LOW-HIGH in bytes (RANGE)
    SPLIT = "split"  # BYTES/PERCENT:BYTES/PERCENT:... (bssplit)
    REALS = "reals"  # numbers separated by ':' (FLOAT_LIST)
    CPUS = "cpus"  # 0-3,7 (cpus_allowed)
    MASK = "mask"  # a number whose bits are CPUs (cpumask)
    DEPRECATED = "deprecated"  # fio refuses it too


@dataclass(frozen=True, slots=True)
class Option:
    """One option of fio.

    `default` is written as a user would. `slots` is how many comma-separated values it has: 3 for read,write,trim.
    `low` and `high` are inclusive limits of the value as read. `seconds`: a bare number of a TIME is seconds.
    `not_built`: choices that are refused by name. `harmless`: values of a not-built option that change nothing.
    `engines`: I/O engines the option belongs to (empty for an option of jobs). `why`: the note of a no-effect option,
    or what to know of a not-built choice that it names.
    `alone`: a TEXT that may be left out (write_bw_log).
    """

    name: str
    kind: Kind
    default: str
    status: Status
    help: str
    group: str
    alias: str = ""
    choices: tuple[str, ...] = ()
    not_built: tuple[str, ...] = ()
    postfix: bool = False
    low: int | None = None
    high: int | None = None
    slots: int = 1
    seconds: bool = False
    harmless: tuple[str, ...] = ()
    engines: tuple[str, ...] = ()
    why: str = ""
    alone: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """The name and, where there is one, the alias."""
        return (self.name, self.alias) if self.alias else (self.name,)

    @property
    def takes_value(self) -> bool:
        """False if the option may stand alone on a command line (its value then needs '=')."""
        return self.kind is not Kind.FLAG
