"""What holds for every stream, whatever the options; and that both forms of the code make the same one."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.workload.test_against_fio import ENDLESS_CASES, FILE_CASES, NULL_CASES, QUEUE_CASES, listed

from blklab.workload.iostream import IoStream, make_stream, start_delay_ns
from blklab.workload.jobfile import parse_job_text
from blklab.workload.jobspec import expand

DEVICE_BYTES = 8 << 20


def stream_of(options: str, sizes: list[int] | None = None, clone: int = 0, run_seed: int = 0) -> IoStream:
    spec = parse_job_text("[a]\nioengine=libaio\niodepth=8\n" + "\n".join(options.split()), "job.fio").jobs[0]
    sizes = sizes or [DEVICE_BYTES] * spec.nr_files
    return make_stream(spec, clone, clone + 1, sizes, run_seed)


def take(stream: IoStream, most: int = 1 << 30) -> list[tuple[int, int, int, int]]:
    found: list[tuple[int, int, int, int]] = []
    while len(found) < most and stream.advance():
        found.append((stream.ddir, stream.file_index, stream.offset_bytes, stream.length_bytes))
    return found


@pytest.mark.parametrize("generator", ["tausworthe", "lfsr", "tausworthe64"])
@pytest.mark.parametrize("size", ["4k", "36k", "1m", "1000k"])
def test_a_map_covers_each_block_once(generator: str, size: str) -> None:
    ios = take(stream_of(f"rw=randread size={size} random_generator={generator}"))
    offsets = [offset for _, _, offset, _ in ios]
    assert sorted(offsets) == list(range(0, len(offsets) * 4096, 4096))
    assert len(ios) * 4096 == {"4k": 4096, "36k": 36864, "1m": 1 << 20, "1000k": 1024000}[size]


@settings(max_examples=150, deadline=None)
@given(
    rw=st.sampled_from(
        ["read", "write", "rw", "randread", "randwrite", "randrw", "trim", "randtrim", "trimwrite"]
    ),
    bs=st.sampled_from(["bs=4k", "bs=512", "bsrange=1k-16k", "bssplit=4k/50:16k", "bs=3000", "bs=4k,8k,16k"]),
    place=st.sampled_from(
        ["", "offset=1m", "offset=10%", "size=50%", "size=256k", "size=1m offset=7m", "size=9m"]
    ),
    more=st.sampled_from(
        ["", "norandommap", "loops=2", "number_ios=20", "io_size=64k", "ba=512", "filename=x:y"]
    ),
)
def test_ios_stay_within_the_device_and_end(rw: str, bs: str, place: str, more: str) -> None:
    stream = stream_of(f"rw={rw} {bs} {place} {more}")
    ios = take(stream, 70_000)
    assert ios
    assert len(ios) < 70_000
    for ddir, file, offset, length in ios:
        assert ddir in (0, 1, 2)
        assert 0 <= file < (2 if "filename" in more else 1)
        assert length > 0
        assert 0 <= offset <= DEVICE_BYTES - length
    assert not stream.advance()
    # 256 KiB are but 16 I/Os of the 16 KiB that `bs=4k,8k,16k` gives to trims
    if more == "number_ios=20" and not (place == "size=256k" and "16k" in bs):
        assert len(ios) == (40 if rw == "trimwrite" else 20)


def test_time_based_goes_on_and_counts_passes() -> None:
    stream = stream_of("rw=read size=16k time_based runtime=1 filename=x:y")
    assert len(take(stream, 100)) == 100
    assert stream.pass_number == 24


def test_time_based_ends_if_a_pass_can_issue_nothing() -> None:
    stream = stream_of("rw=randread bs=4k size=4k offset=8384512 time_based runtime=1", [DEVICE_BYTES - 2048])
    assert take(stream, 10) == []


def test_randrepeat_0_follows_the_seed_of_the_run() -> None:
    options = "rw=randrw size=1m randrepeat=0"
    first = take(stream_of(options, run_seed=1))
    assert first == take(stream_of(options, run_seed=1))
    assert first != take(stream_of(options, run_seed=2))
    assert take(stream_of("rw=randrw size=1m", run_seed=1)) == take(
        stream_of("rw=randrw size=1m", run_seed=2)
    )


def test_clones_differ() -> None:
    options = "rw=randread size=1m numjobs=2"
    assert take(stream_of(options)) != take(stream_of(options, clone=1))


def test_the_end_of_ramp_time_forgets_the_mix_and_the_count() -> None:
    stream = stream_of("rw=randrw size=1m number_ios=30")
    take(stream, 20)
    stream.ramp_over(5, 5 * 4096)
    assert len(take(stream)) == 25


def test_a_rate_may_turn_the_direction() -> None:
    stream = stream_of("rw=rw size=1m")
    drawn = stream.draw_ddir()
    assert stream.draw_ddir() == drawn
    assert stream.advance() and stream.ddir == drawn
    wanted = 1 - stream.draw_ddir()
    stream.turn_ddir(wanted)
    assert stream.advance() and stream.ddir == wanted
    plain, asked = stream_of("rw=randrw size=1m"), stream_of("rw=randrw size=1m")
    while plain.advance():
        asked.draw_ddir()
        assert asked.advance() and asked.offset_bytes == plain.offset_bytes


def test_start_delays() -> None:
    def delays(options: str, seed: int = 0) -> list[int]:
        clones = expand(parse_job_text("[a]\nnumjobs=4\n" + options, "job.fio").jobs)
        return [start_delay_ns(c.spec, c.clone, c.job_number, seed) for c in clones]

    assert delays("startdelay=2") == [2 * 10**9] * 4
    drawn = delays("startdelay=1-3")
    assert len(set(drawn)) == 4
    assert all(10**9 <= delay <= 3 * 10**9 for delay in drawn)
    assert drawn == delays("startdelay=1-3")


# Over all sets of options of test_against_fio, 500 I/Os of each clone; made by the uncompiled form.
DIGEST = "c0b666761bae3ccc4095ecc5e505733a0860c8c45dbb6dfd9d013ae32075dd34"


def test_both_forms_make_the_same_ios() -> None:
    digest = hashlib.sha256()
    cases = listed(NULL_CASES + FILE_CASES + QUEUE_CASES)
    cases += [f"{options} time_based runtime=1" for options in listed(ENDLESS_CASES)]
    for options in cases:
        text = "\n".join(["[a]", "ioengine=libaio", "iodepth=8", *options.split()])
        for clone in expand(parse_job_text(text, "job.fio").jobs):
            spec = clone.spec
            size = max(DEVICE_BYTES, spec.size_bytes + spec.offset_bytes + (8 << 20))
            stream = make_stream(spec, clone.clone, clone.job_number, [size] * spec.nr_files)
            digest.update(repr(take(stream, 500)).encode())
    assert digest.hexdigest() == DIGEST
