"""Limits as a user meets them: cases 29 and 30, and direct I/O over memory whose pages lie together."""

from __future__ import annotations

import pytest

from blklab.block.consts import TR_ALL
from blklab.block.trace import Record, Tracer
from blklab.core.errors import BlklabError
from blklab.sim.build import build
from blklab.sim.machine import load_machine
from blklab.sim.run import Run
from blklab.workload.cmdline import parse_command_line

NULL = ("cpu/count=1", "device/irqmode=2", "device/max_sectors=8192")


def traced(words: str, *settings: str, seed: int = 1) -> list[Record]:
    job, _ = parse_command_line(f"--name=a --direct=1 --ioengine=libaio {words}".split())
    assert job is not None
    built = build(load_machine("null", settings=[*NULL, *settings]), seed)
    tracer = Tracer(built.host, TR_ALL)
    built.trace(tracer, TR_ALL)
    Run(built, job).run()
    return list(tracer)


def sizes(records: list[Record], action: str) -> list[int]:
    return [r.nr_sectors for r in records if r.action == action]


def test_no_request_is_above_max_sectors_kb() -> None:
    # ronekins.com 2024-01-16: max_sectors_kb from 4096 to 128, no request has more than 256 sectors then
    assert (
        max(sizes(traced("--rw=write --bs=512k --number_ios=10", "queue/max_sectors_kb=4096"), "D")) == 1024
    )
    small = traced("--rw=write --bs=512k --number_ios=10", "queue/max_sectors_kb=128")
    assert sizes(small, "D") == [256] * 40


def test_max_sectors_kb_above_the_hardware_is_refused() -> None:
    with pytest.raises(BlklabError, match=r"8192 is above max_hw_sectors_kb, which is 4096 .EINVAL."):
        traced("--rw=write --number_ios=1", "queue/max_sectors_kb=8192")


def test_a_write_of_more_than_128_pages_is_cut_at_512k() -> None:
    # CacheLib #302: 128 segments of 4 KiB are 524288 bytes; through the block layer more is cut there
    records = traced("--rw=write --bs=1m --number_ios=4", "queue/max_sectors_kb=4096")

    assert sizes(records, "Q") == [2048] * 4
    assert sizes(records, "D") == [1024] * 8


def test_passthrough_is_not_built_and_says_what_it_would_refuse() -> None:
    with pytest.raises(
        BlklabError, match=r"never cut: the kernel refuses one of more than max_segments .* EINVAL"
    ):
        parse_command_line(["--name=a", "--ioengine=io_uring_cmd", "--rw=write", "--bs=1m"])
    with pytest.raises(BlklabError) as other:
        parse_command_line(["--name=a", "--ioengine=rbd"])
    assert "cut" not in other.value.message


# Memory


def test_pages_that_lie_together_make_larger_requests_and_larger_bios() -> None:
    words = "--rw=read --bs=4m --number_ios=8"
    scattered = traced(words, "queue/max_sectors_kb=4096")
    half = traced(words, "queue/max_sectors_kb=4096", "memory/contiguous=0.5")
    whole = traced(words, "queue/max_sectors_kb=4096", "memory/contiguous=1")

    # 256 bio_vecs a bio and 128 segments a request, of 4 KiB, about 8 KiB, and all there is
    assert sizes(scattered, "Q") == [2048] * 32
    assert sizes(scattered, "D") == [1024] * 64
    assert all(3000 < size < 5500 for size in sizes(half, "Q")[:1])
    assert 16 <= len(sizes(half, "Q")) <= 24
    assert sizes(whole, "Q") == [8192] * 8
    assert sizes(whole, "D") == [8192] * 8
    for records in (scattered, half, whole):
        assert sum(sizes(records, "Q")) == sum(sizes(records, "C")) == 8 * 8192


def test_huge_pages_are_side_by_side_whatever_the_machine_says() -> None:
    # Capture split/hugepage-bs4m: one bio and one request of 4 MiB
    records = traced("--rw=read --bs=4m --number_ios=3 --mem=mmaphuge", "queue/max_sectors_kb=4096")

    assert sizes(records, "Q") == sizes(records, "D") == [8192] * 3


def test_the_seed_decides_where_pages_lie() -> None:
    words, setting = "--rw=read --bs=4m --number_ios=2", "memory/contiguous=0.5"

    assert traced(words, setting) == traced(words, setting)
    assert sizes(traced(words, setting), "Q") != sizes(traced(words, setting, seed=2), "Q")


def test_buffers_of_different_ios_are_different_memory() -> None:
    records = traced("--rw=read --bs=2m --iodepth=8 --number_ios=8", "memory/contiguous=0.5")

    first = [r.nr_sectors for r in records if r.action == "Q" and r.sector % 4096 == 0]
    assert len(first) == 8
    assert len(set(first)) > 2


@pytest.mark.parametrize("value", ["-0.1", "1.5", "much"])
def test_contiguous_is_a_share(value: str) -> None:
    with pytest.raises(BlklabError, match="memory/contiguous is 0 to 1"):
        traced("--rw=read", f"memory/contiguous={value}")


def test_memory_has_one_key() -> None:
    with pytest.raises(BlklabError, match="no memory/pages; there is contiguous"):
        traced("--rw=read", "memory/pages=1")
