"""XFS on a striped device, as the thread on late splitting asked for it: how many bios, cuts and requests a MiB of
direct I/O is in each kernel, and what that costs (tools/late_split.py); and what dm-stripe's merge function changed."""

from __future__ import annotations

import functools

import pytest

from late_split import COSTS, DEVICE, MACHINE, STRIPES, WAYS, Row, main, measure


@functools.cache
def row(way: int, stripe: int) -> Row:
    """One run."""
    return measure(WAYS[way], STRIPES[stripe])


def test_bios_of_a_mib_on_4_members_with_64_kib_chunks() -> None:
    # One bio, or one for each chunk; 16 children, 4 for each member, which lie side by side there
    for way, bios in ((0, 16), (1, 1), (2, 1), (3, 1)):
        found = row(way, 0)
        assert (found.bios, found.pieces, found.cuts) == (bios, 16, 0)
        assert found.requests == 4
        assert found.merges == 12


def test_bios_of_a_mib_on_3_members_with_8_kib_chunks() -> None:
    for way, bios in ((0, 128), (2, 1)):
        found = row(way, 2)
        assert (found.bios, found.pieces, found.requests) == (bios, 128, 3)


def test_each_page_was_asked_for_and_is_no_more() -> None:
    assert row(0, 0).asked == 256 + 15
    assert row(0, 2).asked == 256 + 127
    assert row(1, 0).asked == row(2, 0).asked == 0


def test_a_file_in_pieces_is_limited_by_them() -> None:
    # Pieces of 40 KiB: 26 a MiB, and where they meet chunks and I/Os as many again
    old, late = row(0, 1), row(2, 1)
    assert 25.6 <= late.bios < old.bios <= 25.6 + 1 + 16
    assert old.pieces == late.pieces == old.bios


@pytest.mark.parametrize("stripe", range(len(STRIPES)))
def test_late_splitting_saves_cpu_time_and_large_bios_more(stripe: int) -> None:
    old, _, late, large = (row(way, stripe) for way in range(4))
    assert old.cpu_us > late.cpu_us > large.cpu_us
    assert old.mib_per_s < late.mib_per_s < large.mib_per_s


def test_dm_does_not_copy_segments() -> None:
    # The cuts that 52cc6eead909 made cheaper are those of a queue with requests: dm clones without copying
    assert row(1, 0)[1:] == row(2, 0)[1:]


def test_the_table_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--costs", "zero"]) == 0
    out = capsys.readouterr().out
    assert out.count("| way | bios |") == len(STRIPES)
    assert "| 4.2: bios are built to fit | 16 | 16 | 0 | 12 | 4 |" in out


def over_linear(members: int, chunk: str, merge: int) -> Row:
    """A stripe over linear devices over null devices, before late splitting, with dm_stripe_merge or without."""
    numbers = range(members)
    devices = "".join(DEVICE.format(i) for i in numbers)
    devices += "".join(f'[device.dm-{i + 1}]\nmodel = "linear"\nmembers = ["nullb{i}"]\n' for i in numbers)
    names = ", ".join(f'"dm-{i + 1}"' for i in numbers)
    text = MACHINE.format(costs=COSTS, devices=devices, members=names, chunk=chunk, max_extent="0")
    way = ("4.2", "4.2", (f"feature/dm_stripe_merge={merge}",))
    return measure(way, (members, chunk, "0"), text=text)


@pytest.mark.parametrize(
    ("members", "chunk", "bios"), [(4, "64k", 16), (3, "64k", 16), (3, "8k", 128), (4, "8k", 128)]
)
def test_merge_function_of_stripe(members: int, chunk: str, bios: int) -> None:
    # 29915202006c: without it a bio of one page at a time over devices that must be asked themselves. Its +12 to +35%
    # (64 KiB, 2^n members) were measured on arrays; here nothing but CPU time is in the way
    without, with_it = over_linear(members, chunk, 0), over_linear(members, chunk, 1)
    assert (without.bios, with_it.bios) == (256, bios)
    assert without.requests == with_it.requests == members
    # the stripe is asked, and for it the linear device below; without merge function the stripe alone
    assert without.asked == 256
    assert with_it.asked == 2 * (256 + bios - 1)
    assert with_it.cpu_us < without.cpu_us


def test_merge_function_gains_most_with_large_chunks() -> None:
    # The commit's -5 to -7% (8 KiB, 3 members) does not come out: it came from divisions that one merge_bvec step does
    # not tell from shifts. That the gain is far smaller there does
    gains = [
        over_linear(members, chunk, 1).mib_per_s / over_linear(members, chunk, 0).mib_per_s
        for members, chunk in ((4, "64k"), (3, "8k"))
    ]
    assert gains[0] > 2 * gains[1]
