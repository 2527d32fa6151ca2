"""fio's dialect of quantities: sizes, times, percentages, ranges, and parenthesised arithmetic.

No library reads it. The same letters mean other things elsewhere: in fio `4k`, `4KB` and `4Ki` are 4096 bytes
and `4KiB` is 4000, unless `kb_base=1000`, which turns them round; a time without a unit is seconds for one
option and microseconds for another.

Theory of operation
    `parse_size` and `parse_time_us` split a text into an optional sign, digits (decimal, or hexadecimal after
    0x) and a unit, and multiply. A text that begins with a parenthesis is an expression: numbers with or without
    units, + - * / % ^ and parentheses; integers stay integers, as in fio built with its expression parser.

Deliberate differences
    fio stops at the first character it does not understand and says nothing: `1.5g` is 1 byte, `5sec` is 5
    microseconds, `4q` is 4. Here each of these is an error that says what would be accepted. Fractions are
    accepted inside parentheses only, where fio accepts them too.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from blklab.core.errors import BlklabError

SIZE_LIMIT = 1 << 63  # a size must fit a signed 64-bit number of bytes

SIZE_HELP = "a whole number, alone or with k, m, g, t, p (powers of 1024) or KiB to PiB (powers of 1000)"
TIME_HELP = "a whole number, alone or with us, ms, s, m, h or d"

_POWERS = {"k": 1, "m": 2, "g": 3, "t": 4, "p": 5}
_TIMES_US = {
    "us": 1,
    "usec": 1,
    "usecs": 1,
    "ms": 1000,
    "msec": 1000,
    "msecs": 1000,
    "s": 1_000_000,
    "m": 60 * 1_000_000,
    "h": 3600 * 1_000_000,
    "d": 86400 * 1_000_000,
}

_NUMBER = re.compile(r"([+-]?)(0[xX][0-9a-fA-F]+|[0-9]+)(.*)", re.DOTALL)
_TOKEN = re.compile(
    r"\s*(?:(?P<real>[0-9]*\.[0-9]+(?:[eE][-+]?[0-9]+)?|[0-9]+[eE][-+]?[0-9]+)"
    r"|(?P<hex>0[xX][0-9a-fA-F]+)|(?P<int>[0-9]+)|(?P<unit>[a-zA-Z]+)|(?P<op>[-+*/%^()]))"
)


@dataclass(frozen=True, slots=True)
class Percent:
    """A size given as a share of the file, `size=20%`: whole percents, 0 to 100."""

    value: int


def parse_size(text: str, kb_base: int = 1024) -> int:
    """A size in bytes, which may be negative (`rw=read:-8k`). Raises BlklabError if `text` is none."""
    value = _parse_size(text, kb_base)
    if isinstance(value, Percent):
        raise BlklabError(f"{text!r} is a percentage; accepted here: {SIZE_HELP}")
    return value


def parse_size_or_percent(text: str, kb_base: int = 1024) -> int | Percent:
    """A size in bytes, or a percentage (`20%`) where the option accepts one. Raises BlklabError."""
    return _parse_size(text, kb_base)


def _parse_size(text: str, kb_base: int) -> int | Percent:
    text = text.strip()
    if text.startswith("("):
        return _evaluate(text, lambda unit: size_unit(unit, kb_base))
    match = _NUMBER.fullmatch(text)
    if not match:
        raise BlklabError(f"{text!r} is not a size; accepted: {SIZE_HELP}")
    sign, digits, unit = match.groups()
    number = _digits(digits)
    if unit == "%":
        if sign == "-" or number > 100:
            raise BlklabError(f"{text!r} is not a percentage; accepted: 0% to 100%")
        return Percent(number)
    if unit.endswith("z") and len(unit) == 1:
        raise BlklabError(f"{text!r} counts zones, which are not built yet; accepted: {SIZE_HELP}")
    multiplier = size_unit(unit.removesuffix("/s"), kb_base) if unit else 1
    if multiplier is None:
        raise BlklabError(f"{text!r} is not a size: {unit!r} is not a unit; accepted: {SIZE_HELP}")
    return _signed(sign, number * multiplier, text)


def size_unit(unit: str, kb_base: int = 1024) -> int | None:
    """Bytes of a unit's name (k, kb, ki, kib, ... in any case; b), or None if there is no such unit.

    `kib` and its kin are the other base than `kb_base`: 1000 for the default of 1024. `ki` without b is `k`.
    """
    unit = unit.lower()
    if unit == "b":
        return 1
    power = _POWERS.get(unit[:1])
    if power is None or unit[1:] not in ("", "b", "i", "ib"):
        return None
    base: int = kb_base
    if unit[1:] == "ib":
        base = 1000 if kb_base == 1024 else 1024
    return int(base**power)


def parse_time_us(text: str, seconds: bool) -> int:
    """A time in microseconds; a number without a unit counts seconds if `seconds`, else microseconds."""
    text = text.strip()
    implied = 1_000_000 if seconds else 1
    if text.startswith("("):
        return _evaluate(text, lambda unit: _TIMES_US.get(unit.lower()), implied)
    match = _NUMBER.fullmatch(text)
    multiplier: int | None = implied
    if match and match[3]:
        multiplier = _TIMES_US.get(match[3].lower())
    if not match or multiplier is None:
        default = "seconds" if seconds else "microseconds"
        raise BlklabError(f"{text!r} is not a time; accepted: {TIME_HELP} (alone: {default})")
    return _signed(match[1], _digits(match[2]) * multiplier, text)


def parse_size_range(text: str, kb_base: int = 1024) -> tuple[int, int]:
    """`4k-16k` or `4k:16k` as (low, high) in bytes; the two may stand in either order."""
    for separator in ("-", ":"):
        low, found, high = text.partition(separator)
        if found:
            first, second = parse_size(low, kb_base), parse_size(high, kb_base)
            return (first, second) if first <= second else (second, first)
    raise BlklabError(f"{text!r} is not a range; accepted: LOW-HIGH, such as 4k-64k")


def parse_integer(text: str) -> int:
    """What fio reads for a boolean or a count without units: decimal, or hexadecimal after 0x."""
    match = _NUMBER.fullmatch(text.strip())
    if not match or match[3]:
        raise BlklabError(f"{text!r} is not a whole number")
    return _signed(match[1], _digits(match[2]), text)


def parse_real(text: str) -> float:
    """A decimal fraction of a list such as `percentile_list`."""
    try:
        value = float(text)
    except ValueError:
        raise BlklabError(f"{text!r} is not a number") from None
    if value != value or value in (float("inf"), float("-inf")):
        raise BlklabError(f"{text!r} is not a finite number")
    return value


def _digits(digits: str) -> int:
    if len(digits) > 40:
        return SIZE_LIMIT  # too large for any option, and Python refuses to convert thousands of digits
    return int(digits, 16) if digits[:2] in ("0x", "0X") else int(digits)


def _signed(sign: str, value: int, text: str) -> int:
    if value >= SIZE_LIMIT:
        raise BlklabError(f"{text!r} is too large: it must be below 2^63")
    return -value if sign == "-" else value


class _Expression:
    """Precedence climbing over fio's grammar; from loose to tight: + -, a unit, * /, ^, %, unary -.

    A unit binds to the product left of it, not to the sum: `(2*3k)` is 6 KiB, `(1+2k)` is 2049. Division of
    integers drops the fraction towards zero.
    """

    LEVELS: ClassVar[dict[str, int]] = {"+": 1, "-": 1, "*": 3, "/": 3, "^": 4, "%": 5}
    UNIT_LEVEL = 2
    LARGEST = 1 << 100  # of any part of the expression: keeps a power tower from running for ever
    DEEPEST = 50

    def __init__(self, text: str, unit_value: Callable[[str], int | None]) -> None:
        self.text = text
        self.unit_value = unit_value
        self.units_seen = False
        self.depth = 0
        self.next = 0
        self.tokens: list[tuple[str, str]] = []
        position, stop = 0, len(text.rstrip())
        while position < stop:
            match = _TOKEN.match(text, position)
            if not match:
                raise self.error(f"unexpected {text[position]!r}")
            kind = match.lastgroup or ""
            self.tokens.append((kind, match.group(kind)))
            position = match.end()

    def error(self, what: str) -> BlklabError:
        accepted = "numbers, units, + - * / % ^ and parentheses"
        return BlklabError(f"{self.text!r} is not an expression: {what}; accepted: {accepted}")

    def peek(self) -> tuple[str, str]:
        return self.tokens[self.next] if self.next < len(self.tokens) else ("end", "")

    def parse(self, level: int = 0) -> int | float:
        """The value of the operand here and of all operators after it that bind as tight as `level`."""
        value = self.operand()
        while True:
            kind, word = self.peek()
            if kind == "unit" and level <= self.UNIT_LEVEL:
                factor = self.unit_value(word)
                if factor is None:
                    raise self.error(f"{word!r} is no unit")
                self.units_seen = True
                self.next += 1
                value = value * factor
            elif kind == "op" and word in self.LEVELS and self.LEVELS[word] >= level:
                self.next += 1
                right = self.parse(self.LEVELS[word] + (word != "^"))
                value = self.apply(word, value, right)
            else:
                return value
            if abs(value) > self.LARGEST:
                raise self.error("a part of it is too large")

    def operand(self) -> int | float:
        kind, word = self.peek()
        self.next += 1
        if kind == "real":
            return min(float(word), float(self.LARGEST))
        if kind in ("int", "hex"):
            return _digits(word)
        if kind == "op" and word in "-(":
            self.depth += 1
            if self.depth > self.DEEPEST:
                raise self.error("it is nested too deeply")
            value = -self.operand() if word == "-" else self.parse()
            if word == "(":
                if self.peek() != ("op", ")"):
                    raise self.error("a ')' is missing")
                self.next += 1
            self.depth -= 1
            return value
        raise self.error(f"a number is missing before {word!r}" if word else "it ends too early")

    def apply(self, operator: str, left: int | float, right: int | float) -> int | float:
        if operator == "+":
            return left + right
        if operator == "-":
            return left - right
        if operator == "*":
            return left * right
        if operator == "^":
            if abs(right) > 100 or (left == 0 and right < 0) or (left < 0 and right != int(right)):
                raise self.error("an exponent is out of range")
            try:
                power: int | float = left**right
            except OverflowError:
                raise self.error("a part of it is too large") from None
            return power
        if right == 0:
            raise self.error("division by zero")
        whole = isinstance(left, int) and isinstance(right, int)
        if operator == "%" and not whole:
            raise self.error("% needs whole numbers")
        if not whole:
            return left / right
        quotient = abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
        return quotient if operator == "/" else left - quotient * right


def _evaluate(text: str, unit_value: Callable[[str], int | None], implied: int = 1) -> int:
    expression = _Expression(text, unit_value)
    value = expression.parse()
    if expression.peek()[0] != "end":
        raise expression.error(f"unexpected {expression.peek()[1]!r}")
    if not expression.units_seen:
        value *= implied
    if abs(value) >= SIZE_LIMIT:
        raise BlklabError(f"{text!r} is too large: it must be below 2^63")
    return int(value)
