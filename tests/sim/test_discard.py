"""Discards and zeroes: the bios of a range, blkdiscard, and fio's trims with every engine."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blklab.block.consts import OP_DISCARD, OP_WRITE, OP_WRITE_ZEROES, STS_IOERR, STS_NOTSUPP, STS_OK, TR_ALL
from blklab.block.trace import Record, Tracer
from blklab.core.errors import BlklabError
from blklab.lab.rig import Rig
from blklab.sim.build import BuiltMachine, build
from blklab.sim.discard import BlkDiscard, Range, RangeBios, run_blkdiscard
from blklab.sim.machine import load_machine
from blklab.sim.run import Run
from blklab.workload.cmdline import parse_command_line

MIB = 1 << 20
NULL = ("device/memory_backed=1", "device/discard=1", "device/irqmode=2", "cpu/count=1", "device/gb=8")


def machine(*settings: str, preset: str = "null") -> BuiltMachine:
    built = build(load_machine(preset, settings=[*(NULL if preset == "null" else ()), *settings]))
    built.trace(Tracer(built.host, TR_ALL), TR_ALL)
    return built


def events(built: BuiltMachine, actions: str) -> list[str]:
    """The trace of some actions: 'Q DS 0+8'."""
    assert built.tracer is not None
    return [
        f"{r.action} {r.rwbs} {r.sector}+{r.nr_sectors}" for r in built.tracer if r.action in actions.split()
    ]


# blkdiscard


def test_a_range_off_a_granule_has_a_first_bio_up_to_it() -> None:
    # Only the last bio is what is waited for, so only it is synchronous
    built = machine("device/bs=4096")
    built.queue("nullb0").limits.discard_granularity_bytes = 65536

    run_blkdiscard(built, "nullb0", [Range(8 * 4096, MIB)])

    assert events(built, "Q") == ["Q D 64+64", "Q DS 128+1984"]


def test_a_bio_has_no_more_than_its_size_field_holds() -> None:
    built = machine()
    built.queue("nullb0").limits.discard_granularity_bytes = MIB

    run_blkdiscard(built, "nullb0", [Range(0, 5 << 30)])

    assert events(built, "Q") == [f"Q D 0+{4095 * 2048}", f"Q DS {4095 * 2048}+{1025 * 2048}"]


def test_zeroes_are_written_page_by_page_where_the_device_has_no_command_for_it() -> None:
    # Capture split/discard-null: each page is the same zero page, so 128 of them fill a request
    built = machine("device/max_sectors=2560")

    run_blkdiscard(built, "nullb0", [Range(0, 2 * MIB, zero=True)])

    assert events(built, "Q") == ["Q W 0+2048", "Q WS 2048+2048"]
    assert events(built, "G") == ["G W 0+1024", "G W 1024+1024", "G WS 2048+1024", "G WS 3072+1024"]


def test_a_device_that_can_zeroes_by_itself() -> None:
    built = machine("device/dev_size_mb=64", "device/ndelay=1000", preset="scsi-debug")

    task = run_blkdiscard(built, "sda", [Range(0, 48 * MIB, zero=True)])

    assert events(built, "Q") == ["Q W 0+65535", "Q WS 65535+32769"]
    assert (events(built, "D"), task.errors) == (["D W 0+65535", "D WS 65535+32769"], {})


def rig_with_zeroes(*endings: int) -> tuple[Rig, BlkDiscard]:
    rig = Rig()
    rig.queue.limits.max_write_zeroes_sectors = 2048
    rig.queue.limits.discard_granularity_bytes = 512
    rig.queue.limits.set_max_discard(2048)
    rig.driver.endings.extend(endings)
    ranges = [Range(0, MIB, zero=True), Range(MIB, MIB)]
    task = BlkDiscard(rig.host, 0, 500, rig.queue, ranges)
    rig.host.start(task, 0)
    rig.run()
    rig.assert_clean()
    return rig, task


def test_where_zeroing_fails_zeroes_are_written() -> None:
    rig, task = rig_with_zeroes(STS_NOTSUPP)

    assert rig.story("Q") == "Q0+2048 Q0+2048 Q2048+2048"
    assert [r.nr_sectors for r in rig.records("D")] == [2048, 1024, 1024, 2048]
    assert task.errors == {}


def test_errors_are_those_of_the_ioctl() -> None:
    # What a device does not support after all is no error of a discard, any other is
    _, quiet = rig_with_zeroes(STS_OK, STS_NOTSUPP)
    _, failed = rig_with_zeroes(STS_OK, STS_IOERR)

    assert quiet.errors == {}
    assert failed.errors == {Range(MIB, MIB): STS_IOERR}


@pytest.mark.parametrize(
    ("wanted", "errno"),
    [
        (Range(512, 4096), "EINVAL"),
        (Range(0, 4096 + 512), "EINVAL"),
        (Range(0, 0), "EINVAL"),
        (Range(8 << 30, 4096), "EINVAL"),
        (Range(100, 4096, zero=True), "EINVAL"),
    ],
)
def test_a_range_that_is_not_one_is_refused(wanted: Range, errno: str) -> None:
    with pytest.raises(BlklabError, match=errno):
        run_blkdiscard(machine("device/bs=4096"), "nullb0", [wanted])


def test_a_device_without_discards_refuses_them_and_takes_zeroes() -> None:
    built = machine("device/discard=0")
    with pytest.raises(BlklabError, match=r"takes no discards .EOPNOTSUPP."):
        run_blkdiscard(built, "nullb0", [Range(0, MIB)])

    run_blkdiscard(built, "nullb0", [Range(0, MIB, zero=True)])
    assert events(built, "Q") == ["Q WS 0+2048"]


@settings(max_examples=100)
@given(st.integers(1, 5000), st.integers(0, 100_000), st.integers(1, 1 << 26), st.integers(0, 70_000))
def test_the_bios_of_a_range_tile_it_and_begin_on_granules(
    granularity: int, start: int, length: int, partition: int
) -> None:
    rig = Rig()
    rig.queue.limits.discard_granularity_bytes = granularity << 9
    part = Rig().queue
    part.whole = rig.queue
    part.start_sector = partition
    bios = RangeBios(rig.senders[0], part)
    bios.start(OP_DISCARD, start, length)
    sector = start

    while bios.left_sectors:
        bio = bios.next_bio()
        assert (bio.op, bio.sector, bio.queue) == (OP_DISCARD, sector, part)
        assert 0 < bio.nr_sectors << 9 < 1 << 32
        assert sector == start or (sector + partition) % granularity == 0
        assert bio.is_sync() == (bios.left_sectors == 0)
        sector += bio.nr_sectors
    assert sector == start + length


@settings(max_examples=50)
@given(
    st.sampled_from([OP_WRITE, OP_WRITE_ZEROES]),
    st.integers(0, 1000),
    st.integers(1, 20_000),
    st.integers(1, 9000),
)
def test_the_bios_of_zeroes_tile_them(op: int, start: int, length: int, most: int) -> None:
    rig = Rig()
    rig.queue.limits.max_write_zeroes_sectors = most
    bios = RangeBios(rig.senders[0], rig.queue)
    bios.start(op, start, length)
    sizes = []
    while bios.left_sectors:
        sizes.append(bios.next_bio().nr_sectors)

    whole = 2048 if op == OP_WRITE else most
    assert sizes == [whole] * ((length - 1) // whole) + [(length - 1) % whole + 1]


# Discards of several ranges


def test_discards_of_several_ranges_merge_whatever_lies_between() -> None:
    rig = Rig()
    rig.queue.limits.discard_granularity_bytes = 512
    rig.queue.limits.set_max_discard(4096)
    rig.queue.limits.max_discard_segments = 4
    rig.send([rig.bio(sector, 8, OP_DISCARD) for sector in (800, 0, 400, 8, 16, 24)])
    rig.run()

    # Four ranges fill the first request; a merged range is not traced
    assert rig.story("Q G D C M F") == (
        "Q800+8 G800+8 Q0+8 Q400+8 Q8+8 Q16+8 G16+8 Q24+8 D16+16 D800+32 C16+16 C800+32"
    )
    assert rig.queue.stat.stat_line()[11:15] == [2, 4, 48, 0]
    rig.assert_clean()


def test_discards_of_one_range_merge_only_where_they_touch() -> None:
    rig = Rig()
    rig.queue.limits.discard_granularity_bytes = 512
    rig.queue.limits.set_max_discard(24)
    rig.send([rig.bio(sector, 8, OP_DISCARD) for sector in (800, 808, 792, 816, 100)])
    rig.run()

    assert rig.story("Q G M F") == "Q800+8 G800+8 Q808+8 M808+8 Q792+8 F792+8 Q816+8 G816+8 Q100+8 G100+8"
    assert [(r.sector, r.nr_sectors) for r in rig.records("C")] == [(100, 8), (816, 8), (792, 24)]
    assert rig.queue.stat.stat_line()[11:14] == [3, 2, 40]


# fio's trims


def run_fio(built: BuiltMachine, words: str) -> Run:
    job, _ = parse_command_line(f"--name=a --direct=1 {words}".split())
    assert job is not None
    run = Run(built, job)
    run.run()
    return run


def records(built: BuiltMachine, actions: str) -> list[Record]:
    assert built.tracer is not None
    return [r for r in built.tracer if r.action in actions.split()]


@pytest.mark.parametrize("engine", ["psync", "libaio", "io_uring"])
def test_a_trim_waits_whatever_the_engine(engine: str) -> None:
    built = machine()
    run = run_fio(built, f"--ioengine={engine} --iodepth=8 --rw=randtrim --bs=64k --number_ios=20")

    assert run.members[0].thread is not None
    trim = run.members[0].thread.stats.trim
    assert (trim.done_ios, trim.clat.n, trim.slat.n) == (20, 20, 0)
    order = [(r.action, r.sector) for r in records(built, "Q C")]
    assert [action for action, _ in order] == ["Q", "C"] * 20
    assert [r.rwbs for r in records(built, "Q")] == ["DS"] * 20
    # The task sleeps with its plug, so a worker issues it
    assert [r.action for r in records(built, "UT I D")] == ["UT", "I", "D"] * 20


def test_an_engine_submits_what_it_holds_before_it_trims() -> None:
    # FIO_Q_BUSY of libaio and io_uring: writes are submitted and one is waited for, then the trim is made alone
    built = machine()
    run = run_fio(
        built,
        "--ioengine=libaio --iodepth=16 --iodepth_batch=4 --rw=randtrimwrite --bs=4k --number_ios=40 --size=64m",
    )

    assert run.members[0].thread is not None
    stats = run.members[0].thread.stats
    assert (stats.trim.done_ios, stats.write.done_ios) == (40, 40)
    queued = records(built, "Q")
    trims = [r for r in queued if r.rwbs == "DS"]
    writes = [r for r in queued if r.rwbs == "WS"]
    assert [r.sector for r in trims] == [r.sector for r in writes]
    # Each write goes out before the next trim: never two held, though the batch is four
    assert [r.rwbs for r in queued] == ["DS", "WS"] * 40
    ended = {(r.rwbs, r.sector): r.time_ns for r in records(built, "C")}
    for write, trim in zip(writes, trims[1:], strict=False):
        assert ended["WS", write.sector] <= trim.time_ns
    assert stats.write.slat.n == 40
    assert stats.trim.slat.n == 0


def test_what_a_thread_has_in_flight_ends_while_it_trims() -> None:
    # With iodepth_batch=1 nothing is held: each write is under way when the next trim is made, and ends before it
    built = machine("device/completion_nsec=3000000")
    run = run_fio(built, "--ioengine=io_uring --iodepth=4 --rw=trimwrite --bs=64k --io_size=2m --size=16m")

    assert run.members[0].thread is not None
    stats = run.members[0].thread.stats
    assert stats.trim.done_ios == stats.write.done_ios
    assert len(records(built, "Q")) == len(records(built, "C")) == 2 * stats.trim.done_ios
    story = [f"{r.action} {r.rwbs}" for r in records(built, "Q C")]
    assert story[:6] == ["Q DS", "C DS", "Q WS", "Q DS", "C WS", "C DS"]
    assert stats.write.clat.n == stats.write.done_ios
    assert built.queue("nullb0").usage == 0


def test_the_null_engine_trims_nothing() -> None:
    built = machine()
    run = run_fio(built, "--ioengine=null --iodepth=4 --rw=trim --bs=4k --number_ios=10")

    assert run.members[0].thread is not None
    assert run.members[0].thread.stats.trim.done_ios == 10
    assert records(built, "Q") == []
