"""The options of fio 3.33, by name: what each is, and how its value is read.

One table drives the parser of job files and command lines, `blklab list options`, the documentation and the
error messages. Every option of fio 3.33 is in it (`fio --cmdhelp=all` and `--enghelp` list them), with one of
three statuses: modelled (it does here what it does in fio), no-effect (accepted and named in a note: it cannot
change a result in virtual time), not built (refused by name: it would change the result and is not modelled yet).

Theory of operation
    `option_rows` and `engine_rows` hold the rows; `find_option` finds one by name or alias; `read_value` turns
    the text after '=' into a value of the type its kind promises, and refuses what is not built. A choice option
    may have choices that are not built, and a not-built option values that change nothing: `fsync=0` is
    accepted, `fsync=1` is refused.

Deliberate differences
    fio takes the first of several comma-separated values where an option has one, and several where one of them
    is wrong as long as another is right (`bs=4k,foo`); both are errors here. fio refuses a blank between '=' and
    a word but not before a number; here blanks do not matter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from blklab.core.errors import BlklabError, nearest
from blklab.workload import units
from blklab.workload.engine_rows import ENGINE_OPTIONS, NEWER_OPTIONS
from blklab.workload.option import Kind, Option, Status
from blklab.workload.option_rows import JOB_OPTIONS
from blklab.workload.units import Percent

OPTIONS: tuple[Option, ...] = (*JOB_OPTIONS, *ENGINE_OPTIONS)

Split = tuple[tuple[int, int], ...]  # (bytes, percent), ascending percent: one direction of bssplit
Choice = tuple[str, str]  # the word and what stood after ':'
Numbers = tuple[int | None, ...]  # one a slot; None where the text left a slot empty
Value = (
    str
    | bool
    | int
    | Percent
    | Choice
    | Numbers
    | tuple[float, ...]
    | tuple[tuple[int, int] | None, ...]
    | tuple[Split, ...]
)

# Why the options of a group have no effect, where a row says nothing of its own.
NO_EFFECT_REASONS: dict[str, str] = {
    "target": "files are devices of the machine",
    "file": "devices are neither created, laid out nor removed",
    "buffer": "no data is kept, so what is in a buffer does not matter",
    "memory": "buffers have no addresses",
    "verify": "no data is kept, so there is nothing to verify: the read-back pass is left out",
    "log": "no log file is written",
    "job": "a simulated job has no process of its own",
    "profile": "it belongs to one of fio's ready-made tests",
}
BSSPLIT_MOST = 64  # entries of one direction, as in fio
PERCENTILES_MOST = 20
CPU_MOST = 1 << 16

_JOB_OPTIONS: dict[str, Option] = {name: option for option in JOB_OPTIONS for name in option.names}
_ENGINE_OPTIONS: dict[str, Option] = {name: option for option in ENGINE_OPTIONS for name in option.names}


def option_names() -> list[str]:
    """Every name and alias, for suggestions."""
    return [*_JOB_OPTIONS, *_ENGINE_OPTIONS]


def find_option(name: str, extra_names: Iterable[str] = ()) -> Option:
    """The option of this name or alias. BlklabError suggests the nearest of all names and `extra_names`."""
    option = _JOB_OPTIONS.get(name) or _ENGINE_OPTIONS.get(name)
    if option is not None:
        return option
    if name in NEWER_OPTIONS:
        raise BlklabError(f"option {name!r} is newer than fio 3.33, whose options are the ones accepted")
    raise BlklabError(f"unknown option {name!r}{nearest(name, [*option_names(), *extra_names])}")


def check_engine(option: Option, engine: str) -> None:
    """Refuse an engine's option in a job that uses another engine, as fio does."""
    if option.engines and engine not in option.engines:
        owners = " and ".join(option.engines)
        raise BlklabError(
            f"{option.name!r} is an option of ioengine {owners}; this job has ioengine={engine}"
        )


def no_effect_note(option: Option) -> str:
    """The note of a no-effect option: what was accepted and why it does nothing."""
    reason = option.why or NO_EFFECT_REASONS.get(option.group, "it cannot change a result in virtual time")
    return f"{option.name} has no effect: {reason}"


def read_value(option: Option, text: str | None, kb_base: int = 1024) -> Value:
    """The value of `option` written as `text` (None: it stood alone), by the option's kind.

    TEXT: str. CHOICE: (word, postfix). INT, SIZE, TIME (microseconds): an int, or a tuple with None for an
    empty slot if the option has several. EXTENT: int or Percent. BOOL, FLAG: bool. RANGE: a tuple of (low, high)
    or None. SPLIT: three tuples of (bytes, percent). REALS: floats. CPUS, MASK: CPU numbers.
    Raises BlklabError.
    """
    if option.kind is Kind.DEPRECATED:
        raise BlklabError(f"option {option.name!r} ({option.help}) is gone from fio too; leave it out")
    missing = not (text or "").strip() if option.kind is Kind.TEXT else text is None
    if missing and option.takes_value and not option.alone:
        raise BlklabError(f"option {option.name!r} needs a value: {option.name}={_example(option)}")
    if option.status is Status.NOT_BUILT:
        _refuse_unless_harmless(option, text)
    try:
        value = _READERS[option.kind](option, "" if text is None else text.strip(), kb_base)
    except BlklabError as error:
        raise BlklabError(f"{option.name}={text}: {error.message}") from None
    return value


def _example(option: Option) -> str:
    return option.choices[0] if option.choices else option.default or "VALUE"


def _refuse_unless_harmless(option: Option, text: str | None) -> None:
    if text is not None and text.strip() in option.harmless:
        return
    accepted = f"; accepted: {option.name}={' or '.join(option.harmless)}" if option.harmless else ""
    raise BlklabError(f"option {option.name!r} ({option.help}) is not built yet{accepted}")


def _read_text(option: Option, text: str, kb_base: int) -> Value:
    return text


def _read_choice(option: Option, text: str, kb_base: int) -> Value:
    word, colon, postfix = text.partition(":") if option.postfix else (text, "", "")
    word = word.strip()
    if word in option.choices:
        if colon and not postfix.strip():
            raise BlklabError("something is missing after ':'")
        return (word, postfix.strip())
    if word.partition(":")[0] in option.not_built:
        why = f" ({option.why})" if word in option.why else ""
        raise BlklabError(f"{word!r} is not built yet{why}; accepted: {', '.join(option.choices)}")
    accepted = ", ".join(option.choices)
    raise BlklabError(f"unknown value {word!r}{nearest(word, option.choices)}; accepted: {accepted}")


def _pieces(option: Option, text: str) -> list[str]:
    """The slots of a value: separated by ',' or, without one, by ':' or '-' (but a leading '-' is a sign)."""
    pieces = [text]
    if option.slots > 1 and not text.startswith("("):
        separator = next((sign for sign in ",:-" if sign in text), "")
        if separator and not (separator == "-" and text.startswith("-")):
            pieces = text.split(separator)
    elif "," in text:
        raise BlklabError("it takes one value")
    if len(pieces) > option.slots:
        raise BlklabError(f"it takes at most {option.slots} values")
    return [piece.strip() for piece in pieces]


def _limits(option: Option, value: int) -> int:
    low, high = option.low, option.high
    if option.kind is Kind.INT and high is None:
        high = (1 << 32) - 1
    if value < (0 if low is None else low):
        raise BlklabError(f"{value} is too small; accepted: {0 if low is None else low} or more")
    if high is not None and value > high:
        raise BlklabError(f"{value} is too large; accepted: up to {high}")
    return value


def _numbers(option: Option, text: str, read: Callable[[str], int]) -> Value:
    pieces = _pieces(option, text)
    alone = len(pieces) == 1
    values: Numbers = tuple(_limits(option, read(piece)) if piece or alone else None for piece in pieces)
    if all(value is None for value in values):
        raise BlklabError("no value given")
    return values if option.slots > 1 else values[0] or 0


def _read_size(option: Option, text: str, kb_base: int) -> Value:
    return _numbers(option, text, lambda piece: units.parse_size(piece, kb_base))


def _read_time(option: Option, text: str, kb_base: int) -> Value:
    return _numbers(option, text, lambda piece: units.parse_time_us(piece, option.seconds))


def _read_extent(option: Option, text: str, kb_base: int) -> Value:
    value = units.parse_size_or_percent(_pieces(option, text)[0], kb_base)
    return value if isinstance(value, Percent) else _limits(option, value)


def _read_bool(option: Option, text: str, kb_base: int) -> Value:
    value = units.parse_integer(text)
    if value not in (0, 1):
        raise BlklabError(f"{text} is neither 0 nor 1")
    return bool(value)


def _read_flag(option: Option, text: str, kb_base: int) -> Value:
    # Any number is true in fio ("thread=2"); only what is no number is refused.
    return bool(units.parse_integer(text)) if text else True


def _read_range(option: Option, text: str, kb_base: int) -> Value:
    pieces = text.split(",")
    if len(pieces) > option.slots:
        raise BlklabError(f"it takes at most {option.slots} ranges")
    ranges = tuple(units.parse_size_range(piece, kb_base) if piece.strip() else None for piece in pieces)
    for found in ranges:
        if found is not None:
            _limits(option, found[0])
    if all(found is None for found in ranges):
        raise BlklabError("no range given")
    return ranges


def _read_split(option: Option, text: str, kb_base: int) -> Value:
    """Three splits. One given is for all directions; of two, the second is for writes and trims."""
    pieces = text.split(",")
    if len(pieces) > 3:
        raise BlklabError("it takes at most 3 splits")
    splits = [_one_split(piece, kb_base) for piece in pieces]
    return (splits[0], splits[1 if len(splits) > 1 else 0], splits[-1])


def _one_split(text: str, kb_base: int) -> Split:
    entries: list[tuple[int, int | None]] = []
    for entry in text.split(":"):
        if not entry.strip():
            break
        size, _, share = entry.partition("/")
        percent = min(units.parse_integer(share), 100) if share.strip() else 0
        bytes_ = units.parse_size(size, kb_base)
        if bytes_ < 1 or percent < 0:
            raise BlklabError(f"{entry!r} is not BYTES/PERCENT")
        entries.append((bytes_, percent or None))  # fio takes a share of 0 for none given
    if len(entries) > BSSPLIT_MOST:
        raise BlklabError(f"{len(entries)} entries; at most {BSSPLIT_MOST} are accepted")
    given = sum(percent for _, percent in entries if percent is not None)
    missing = sum(percent is None for _, percent in entries)
    if given > 100 and missing:
        raise BlklabError(f"shares add up to {given}%, which leaves nothing for the entries without one")
    if missing == 1 and len(entries) == 1:
        given = 0
    shared = (100 - given) // missing if missing else 0
    filled = [(bytes_, shared if percent is None else percent) for bytes_, percent in entries]
    return tuple(sorted(filled, key=lambda entry: entry[1]))


def _read_reals(option: Option, text: str, kb_base: int) -> Value:
    values = tuple(units.parse_real(piece) for piece in text.split(":"))
    if len(values) > PERCENTILES_MOST:
        raise BlklabError(f"{len(values)} values; at most {PERCENTILES_MOST} are accepted")
    for value in values:
        if option.high is not None and not (option.low or 0) <= value <= option.high:
            raise BlklabError(f"{value:g} is out of range; accepted: {option.low} to {option.high}")
    return values


def _read_cpus(option: Option, text: str, kb_base: int) -> Value:
    cpus: set[int] = set()
    for piece in text.split(","):
        first, dash, last = (part.strip() for part in piece.partition("-"))
        if not first.isdecimal() or (dash and not last.isdecimal()) or len(first + last) > 12:
            raise BlklabError(f"{piece.strip()!r} is neither a CPU nor a range of CPUs; accepted: 0-3,7")
        low, high = int(first), int(last or first)
        if low > high or high >= CPU_MOST:
            raise BlklabError(f"CPUs {piece.strip()} do not exist; a range ascends and ends below {CPU_MOST}")
        cpus.update(range(low, high + 1))
    return tuple(sorted(cpus))


def _read_mask(option: Option, text: str, kb_base: int) -> Value:
    mask = units.parse_integer(text)
    if not 0 < mask < 1 << 32:
        raise BlklabError(f"{text} is not a mask of at least one of 32 CPUs")
    return tuple(cpu for cpu in range(32) if mask >> cpu & 1)


_READERS: dict[Kind, Callable[[Option, str, int], Value]] = {
    Kind.TEXT: _read_text,
    Kind.CHOICE: _read_choice,
    Kind.INT: _read_size,
    Kind.SIZE: _read_size,
    Kind.EXTENT: _read_extent,
    Kind.TIME: _read_time,
    Kind.BOOL: _read_bool,
    Kind.FLAG: _read_flag,
    Kind.RANGE: _read_range,
    Kind.SPLIT: _read_split,
    Kind.REALS: _read_reals,
    Kind.CPUS: _read_cpus,
    Kind.MASK: _read_mask,
}
