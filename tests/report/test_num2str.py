"""fio's way with large numbers."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blklab.report.num2str import byte_count, num2str, rate


# From outputs of fio 3.33, but for the last three, which are its rules at the edges.
@pytest.mark.parametrize(
    ("number", "digits", "binary", "unit", "shown"),
    [
        (528516, 4, False, "", "529k"),
        (1982000, 4, False, "", "1982k"),
        (18792, 4, False, "", "18.8k"),
        (9999, 4, False, "", "9999"),
        (3659221, 6, False, "", "3659.2k"),
        (67108864, 4, True, "B", "64.0MiB"),
        (67108864, 4, False, "B", "67.1MB"),
        (8118272, 4, True, "B", "7928KiB"),
        (2164804903, 4, True, "B/s", "2065MiB/s"),
        (67108864000, 4, True, "B/s", "62.5GiB/s"),
        (67108864000, 4, False, "B/s", "67.1GB/s"),
        (131072, 4, True, "B", "128KiB"),
        (0, 4, True, "B", "0B"),
        (4096, 4, True, "B", "4096B"),
        (99999, 4, False, "", "100.0k"),
        (1999999, 4, False, "", "2000k"),
        (16384, 2, True, "B", "16KiB"),
    ],
)
def test_as_fio_writes_it(number: int, digits: int, binary: bool, unit: str, shown: str) -> None:
    assert num2str(number, digits, binary, unit) == shown


@given(st.integers(0, 2**63), st.integers(1, 10), st.booleans())
def test_close_and_short(number: int, digits: int, binary: bool) -> None:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([kKMGTPE]?)(i?)B", byte_count(number, digits, binary))
    assert match
    power = " kMGTPE".index(match[2] or " ") if not binary else " KMGTPE".index(match[2] or " ")
    scale = (1024 if binary else 1000) ** power
    decimals = len(match[1].partition(".")[2])
    # the last remainder alone is rounded: what was cut off before adds less than one more unit of it
    unit = scale / 10**decimals
    assert (
        abs(float(match[1]) * scale - number)
        <= unit * 0.501 + scale / (1024 if binary else 1000) + number * 1e-15
    )
    assert bool(match[3]) == (binary and power > 0)
    if power < 6:
        assert len(match[1]) <= digits + 1


def test_rates_in_bits() -> None:
    assert rate(7_827_000_000, 4, True, 1) == "58.3Gibit/s"
    assert rate(7_827_000_000, 4, False, 8) == "7827MB/s"
