"""How fio writes a large number: at most so many digits, and a unit prefix ("529k", "2065MiB/s", "64.0MiB").

Theory of operation
-------------------
The number is divided by 1000 or 1024 until its integer part has no more than `digits` digits. If something
was divided away and two digits or more are free (the point counts as one), the last remainder is shown as
decimals, else it rounds the integer part. Only the last remainder is looked at: 1,999,999 in 4 digits is 1999
k with remainder 999, hence "2000k".

Differences from fio: beyond the largest prefix fio shows the number without one; here it keeps "E".
"""

from __future__ import annotations

SI_PREFIXES = ("", "k", "M", "G", "T", "P", "E")
IEC_PREFIXES = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")

# fio's unit_base (0: bytes) -> (unit of a rate, how many of them a byte is)
RATE_UNITS = {0: ("B/s", 1), 8: ("B/s", 1), 1: ("bit/s", 8)}


def num2str(number: int, digits: int, binary: bool = False, unit: str = "") -> str:
    """`number` >= 0 in at most `digits` digits, with a prefix of 1024s (`binary`) or 1000s, and `unit`."""
    prefixes = IEC_PREFIXES if binary else SI_PREFIXES
    thousand = 1024 if binary else 1000
    power, remainder = 0, None
    while len(str(number)) > digits and power < len(prefixes) - 1:
        number, remainder = divmod(number, thousand)
        power += 1
    tail = prefixes[power] + unit
    if remainder is None:
        return f"{number}{tail}"
    decimals = digits - len(str(number)) - 1
    if decimals < 1:
        return f"{number + (remainder >= thousand // 2)}{tail}"
    fraction = f"{remainder / thousand:.{decimals}f}"  # "0.97", or "1.00" if it rounds up
    return f"{number + int(fraction[0])}.{fraction[2:]}{tail}"


def byte_count(number: int, digits: int, binary: bool) -> str:
    """An amount of bytes: "64.0MiB"."""
    return num2str(number, digits, binary, "B")


def rate(bytes_per_s: int, digits: int, binary: bool, unit_base: int) -> str:
    """A bandwidth in fio's unit_base (8: bytes, 1: bits): "2065MiB/s", "17.3Gbit/s"."""
    unit, factor = RATE_UNITS[unit_base]
    return num2str(bytes_per_s * factor, digits, binary, unit)
