"""Sizes, times, percentages and expressions as fio 3.33 reads them, and clear refusals of what it misreads."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blklab.core.errors import BlklabError
from blklab.workload import units
from blklab.workload.units import Percent

SIZES = {
    "0": 0,
    "512": 512,
    "4k": 4096,
    "4K": 4096,
    "4kb": 4096,
    "4KB": 4096,
    "4ki": 4096,
    "4KiB": 4000,
    "1m": 1 << 20,
    "1MB": 1 << 20,
    "1Mi": 1 << 20,
    "1MiB": 1_000_000,
    "2g": 2 << 30,
    "1t": 1 << 40,
    "1p": 1 << 50,
    "1PiB": 10**15,
    "0x1000": 4096,
    "-8k": -8192,
    "+8k": 8192,
    " 8k ": 8192,
    "10m/s": 10 << 20,
    "100b": 100,
    "(4*1024)": 4096,
    "(4k)": 4096,
    "(1+2k)": 2049,
    "(2*3k)": 6144,
    "(2^10)": 1024,
    "(2^3^2)": 512,
    "(7/2)": 3,
    "(-7/2)": -3,
    "(-7%4)": -3,
    "(1.5g)": 3 << 29,
    "(0x10*2)": 32,
    "(2*(3+4))": 14,
    "(1m-4k)": (1 << 20) - 4096,
}

TIMES = {  # text: (bare numbers are seconds, bare numbers are microseconds)
    "5": (5_000_000, 5),
    "5s": (5_000_000, 5_000_000),
    "5us": (5, 5),
    "5usec": (5, 5),
    "5ms": (5000, 5000),
    "2m": (120_000_000, 120_000_000),
    "1h": (3_600_000_000, 3_600_000_000),
    "1d": (86_400_000_000, 86_400_000_000),
    "1D": (86_400_000_000, 86_400_000_000),
    "(2+3)": (5_000_000, 5),
    "(2m)": (120_000_000, 120_000_000),
    "(1.5)": (1_500_000, 1),
}

NO_SIZES = [
    "", "k", "4q", "1.5g", "4kx", "4 k", "1,2", "0xg", "(", "(1", "(1+)", "(1/0)", "(5%0)", "(1.5%2)", "(4x)", "()",
    "(1 2)", "(" * 400 + "1" + ")" * 400, "(9^9^9)", "(9^99^99)", "9" * 30, "9" * 5000, "(1e300^9)", "10z", "(1)2",
]  # fmt: skip


@pytest.mark.parametrize(("text", "value"), SIZES.items())
def test_sizes(text: str, value: int) -> None:
    assert units.parse_size(text) == value


def test_kb_base_1000_turns_the_units_round() -> None:
    assert units.parse_size("4k", 1000) == 4000
    assert units.parse_size("4kb", 1000) == 4000
    assert units.parse_size("4KiB", 1000) == 4096
    assert units.parse_size("1TiB", 1000) == 1 << 40


@pytest.mark.parametrize(("text", "values"), TIMES.items())
def test_times(text: str, values: tuple[int, int]) -> None:
    assert (units.parse_time_us(text, True), units.parse_time_us(text, False)) == values


@pytest.mark.parametrize("text", NO_SIZES, ids=lambda text: text[:20])
def test_what_is_no_size_is_refused_and_the_accepted_forms_named(text: str) -> None:
    with pytest.raises(BlklabError) as refusal:
        units.parse_size(text)
    assert len(str(refusal.value)) < 20_000
    assert "accepted" in str(refusal.value) or "below 2^63" in str(refusal.value)


@pytest.mark.parametrize("text", ["5sec", "1.5", "1m30s", "s", "", "5k", "(5x)"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(BlklabError):
        units.parse_time_us(text, True)


def test_percentages() -> None:
    assert units.parse_size_or_percent("20%") == Percent(20)
    assert units.parse_size_or_percent("4k") == 4096
    for text in ("101%", "-1%", "%"):
        with pytest.raises(BlklabError):
            units.parse_size_or_percent(text)
    with pytest.raises(BlklabError, match="percentage"):
        units.parse_size("20%")


def test_ranges_may_stand_in_either_order() -> None:
    assert units.parse_size_range("4k-16k") == (4096, 16384)
    assert units.parse_size_range("16k:4k") == (4096, 16384)
    with pytest.raises(BlklabError, match="LOW-HIGH"):
        units.parse_size_range("4k")


@given(st.text(max_size=40))
def test_any_text_is_a_size_or_an_error(text: str) -> None:
    for candidate in (text, f"({text})"):
        with contextlib.suppress(BlklabError):
            assert isinstance(units.parse_size(candidate), int)
        with contextlib.suppress(BlklabError):
            assert isinstance(units.parse_time_us(candidate, True), int)


@given(st.integers(-(2**62), 2**62))
def test_plain_numbers_are_themselves(number: int) -> None:
    assert units.parse_size(str(number)) == number
    assert units.parse_integer(str(number)) == number


def test_reals() -> None:
    assert units.parse_real("99.95") == 99.95
    for text in ("nan", "inf", "", "x"):
        with pytest.raises(BlklabError):
            units.parse_real(text)
