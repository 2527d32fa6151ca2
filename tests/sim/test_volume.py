"""Volumes: where files lie, what direct I/O on them sends, and what fsync writes.

The sectors are those of captures of Linux 6.1.187 with xfsprogs 6.1 on null_blk: mkfs.xfs, four files of 8 MiB
made by fio (numjobs=4 in one directory), then direct I/O.
"""

from __future__ import annotations

from collections.abc import Mapping
from io import StringIO
from pathlib import Path
from types import MappingProxyType

import pytest
from dio_rig import Stack, old
from hypothesis import given, settings
from hypothesis import strategies as st

from blklab.block.consts import F_FUA, F_PREFLUSH
from blklab.core.errors import BlklabError
from blklab.core.steps import NR_STEPS, STEP_FILE_MAP
from blklab.sim.api import simulate
from blklab.sim.filemap import FileMap, Log
from blklab.sim.machine import load_machine
from blklab.sim.volume import Volume
from blklab.sim.volume_config import VolumeBuilder
from blklab.workload.jobfile import parse_job_text

MIB = 1 << 20
STRIPE = {"sunit": "64k", "swidth": "256k"}

JOB = """
[global]
ioengine=libaio
direct=1
bs=1m
size=8m
[w]
rw=write
directory=/mnt/data
numjobs=4
"""


def volume(size_sectors: int, keys: Mapping[str, str] = MappingProxyType({}), seed: int = 1) -> Volume:
    """A volume on a device of this size."""
    stack = Stack()
    queue = stack.leaf(2560, 128)
    queue.size_sectors = size_sectors
    builder = VolumeBuilder("data", "m.toml:1")
    builder.set("device", queue.name, "m.toml:2")
    for key, value in keys.items():
        builder.set(key, value, f"m.toml:{key}")
    return Volume(builder.build(), queue, seed)


def machine(tmp_path: Path, volume_lines: str, kernel: str = "6.1", more: str = "") -> str:
    """A machine file with one null device and a volume on it."""
    path = tmp_path / "m.toml"
    path.write_text(
        f'kernel = "{kernel}"\n[cpu]\ncount = 1\ncosts = "lab-guest"\n[device.nullb0]\nmodel = "null"\ngb = 2\n'
        f'queue.scheduler = "none"\n{more}\n[volume.data]\ndevice = "nullb0"\n{volume_lines}\n'
    )
    return str(path)


def trace_of(job: str, machine_file: str, *settings: str) -> list[tuple[str, str, int, int]]:
    """(action, rwbs, sector, sectors) of all Q, X and D."""
    out = StringIO()
    simulate(parse_job_text(job, "job"), machine=machine_file, settings=settings, trace=out)
    found = []
    for line in out.getvalue().splitlines():
        words = line.split()
        if words[5] in ("Q", "X", "D"):
            found.append((words[5], words[6], int(words[7]), int(words[9]) if words[8] == "+" else 0))
    return found


# -- geometry ------------------------------------------------------------------------------------------


def test_geometry_of_a_stripe_as_mkfs_made_it() -> None:
    # 1,200 MiB on 4 x 64 KiB: agcount=8, agsize=38384 blks, sunit=16, swidth=64, log 16384 blocks in group 4
    made = volume(1200 * 2048 - 1024, STRIPE)
    assert len(made.groups) == 8
    assert made.groups[1][0] == 38384 * 8
    assert made.log.start_sector == 4 * 38384 * 8 + 128
    assert made.log.record_sectors == 128
    assert made.log.nr_sectors == 16384 * 8
    # the capture's first record: sector 1229184, the seventh
    assert [made.log.next_record() for _ in range(7)][-1] == 1229184


def test_geometry_without_stripe() -> None:
    # 700 MiB: agcount=4, agsize=44800 blks, log 16384 blocks; records of 2 sectors, seen at 716874
    made = volume(700 * 2048)
    assert [start for start, _ in made.groups] == [0, 358400, 716800, 1075200]
    assert made.log.start_sector == 716864
    assert made.log.record_sectors == 2
    assert [made.log.next_record() for _ in range(6)][-1] == 716874


@pytest.mark.parametrize(
    ("gib", "stripe", "groups"),
    [(1, {}, 4), (2000, {}, 4), (4, STRIPE, 8), (100, STRIPE, 16), (1000, STRIPE, 32)],
)
def test_number_of_groups(gib: int, stripe: dict[str, str], groups: int) -> None:
    assert len(volume(gib << 21, stripe).groups) in (groups, groups + 1)


def test_groups_of_a_stripe_begin_on_units_and_not_all_on_the_same_member() -> None:
    made = volume(4 << 21, STRIPE)
    assert all(start % 128 == 0 for start, _ in made.groups)
    assert len({start % 512 for start, _ in made.groups}) > 1


def test_stripe_comes_from_the_device() -> None:
    stack = Stack()
    queue = stack.leaf(2560, 128)
    queue.size_sectors = 4 << 21
    queue.limits.io_min_bytes = 32 << 10
    queue.limits.io_opt_bytes = 96 << 10
    builder = VolumeBuilder("data", "")
    builder.set("device", queue.name, "")
    made = Volume(builder.build(), queue, 1)
    assert (made.sunit, made.swidth) == (64, 192)
    queue.limits.io_opt_bytes = 0
    made = Volume(builder.build(), queue, 1)
    assert (made.sunit, made.swidth) == (0, 0)


def test_records_of_a_wide_stripe_unit_are_32_kib() -> None:
    assert volume(4 << 21, {"sunit": "512k", "swidth": "1m"}).log.record_sectors == 64


def test_the_log_is_a_circle() -> None:
    log = Log(100, 10, 4)
    assert [log.next_record() for _ in range(4)] == [100, 104, 100, 104]


# -- files ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("keys", "sectors"), [(STRIPE, [256, 16640, 33024, 49408]), ({}, [192, 16576, 32960, 49344])]
)
def test_files_lie_where_the_kernel_laid_them(keys: dict[str, str], sectors: list[int]) -> None:
    made = volume(1200 * 2048, keys)
    files = [made.create(f"w.{number}.0", 8 * MIB, "job") for number in (0, 3, 2, 1)]
    assert [file.extents for file in files] == [[(0, sector, 8 * MIB)] for sector in sectors]


def test_fio_makes_its_clones_files_in_this_order(tmp_path: Path) -> None:
    file = machine(tmp_path, 'sunit = "64k"\nswidth = "256k"')
    firsts = [
        sector
        for action, _, sector, _ in trace_of(JOB, file)
        if action == "Q" and (sector - 256) % 16384 == 0
    ]
    assert sorted(firsts) == [256, 16640, 33024, 49408]


def test_a_file_goes_on_in_the_next_group_around_headers_and_log() -> None:
    made = volume(700 * 2048)
    file = made.create("big", 500 * MIB, "job")
    assert file.extents[0] == (0, 192, (358400 - 192) << 9)
    assert file.extents[1][1] == 358400 + 64
    assert file.extents[2][1] == made.log.start_sector + made.log.nr_sectors
    assert sum(nbytes for _, _, nbytes in file.extents) == 500 * MIB


def test_no_space_left() -> None:
    made = volume(700 * 2048)
    with pytest.raises(BlklabError, match=r"job:3: no space left on volume data for big of .* ENOSPC"):
        made.create("big", 650 * MIB, "job:3")


@settings(max_examples=40)
@given(
    sizes=st.lists(st.integers(1, 3 * MIB), min_size=1, max_size=5),
    max_extent=st.sampled_from([0, 4, 16, 64, 256]),
    striped=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_files_never_overlap_and_find_agrees(
    sizes: list[int], max_extent: int, striped: bool, seed: int
) -> None:
    made = volume(1 << 21, {"max_extent": f"{max_extent}k", **(STRIPE if striped else {})}, seed)
    used: set[int] = set()
    for number, size in enumerate(sizes):
        file = made.create(f"f{number}", size, "job")
        assert file.size_bytes == size
        offset = 0
        while offset < size:
            nbytes = file.find(offset)
            blocks = set(range(file.sector // 8, -(-(file.sector * 512 + nbytes) // 4096)))
            assert not blocks & used
            used |= blocks
            assert nbytes > 0
            if max_extent and nbytes > max_extent << 10:
                assert (offset, file.sector, nbytes) in file.extents  # two pieces that happen to touch
            offset += nbytes
        assert offset == size
    log = made.log
    assert not used & set(range(log.start_sector // 8, (log.start_sector + log.nr_sectors) // 8))
    assert max(used) * 8 < 1 << 21


def test_the_same_seed_lays_the_same_files() -> None:
    layouts = [
        volume(1 << 21, {"max_extent": "64k"}, seed).create("f", MIB, "job").extents for seed in (7, 7, 8)
    ]
    assert layouts[0] == layouts[1] != layouts[2]


# -- direct I/O on files -------------------------------------------------------------------------------

PIECES = [(0, 1000, 8192), (8192, 5000, 4096), (12288, 3000, 20480), (32768, 3040, 8192)]


@pytest.mark.parametrize(
    ("old_way", "offset", "length", "bios"),
    [
        (False, 0, 40960, "Q1000+16 Q5000+8 Q3000+40 Q3040+16"),
        (False, 4096, 8192, "Q1008+8 Q5000+8"),
        (True, 4096, 8192, "Q1008+8 Q5000+8"),
        (False, 13312, 1024, "Q3002+2"),
        (True, 0, 40960, "Q1000+16 Q5000+8 Q3000+32 Q3032+8 Q3040+16"),
    ],
)
def test_a_bio_ends_with_its_extent(old_way: bool, offset: int, length: int, bios: str) -> None:
    stack = Stack(old()) if old_way else Stack()
    leaf = stack.leaf(max_sectors=32, max_segments=128)
    stack.host.set_costs([1] * NR_STEPS)
    thread = stack.thread([(0, offset, length)], leaf)
    thread.files = [FileMap("f", leaf, PIECES, Log(0, 64, 2))]
    stack.host.start(thread, 0)
    while stack.host.live_tasks:
        stack.events.run((1 << 63) - 1, 1000)
    assert stack.story("Q", leaf) == bios
    extents = len([1 for start, _, nbytes in PIECES if start < offset + length and offset < start + nbytes])
    assert stack.host.charged[STEP_FILE_MAP] == extents


def test_a_synchronous_write_finishes_its_plug_before_it_waits(tmp_path: Path) -> None:
    # blkdev_write_iter waits with its plug (UT, a worker issues); iomap does not (U)
    out = StringIO()
    job = "[w]\nioengine=psync\ndirect=1\nrw=write\nbs=4k\nsize=16k\nfilename={}\n"
    file = machine(tmp_path, "")
    simulate(parse_job_text(job.format("nullb0"), "job"), machine=file, trace=out)
    assert " UT " in out.getvalue()
    out = StringIO()
    simulate(parse_job_text(job.format("/mnt/data/f"), "job"), machine=file, trace=out)
    assert " UT " not in out.getvalue()
    assert out.getvalue().count(" P ") == 4


def test_fragmented_files_need_more_bios(tmp_path: Path) -> None:
    file = machine(tmp_path, "")
    whole = [event for event in trace_of(JOB, file) if event[0] == "Q"]
    pieces = [event for event in trace_of(JOB, file, "volume/max_extent=64k") if event[0] == "Q"]
    assert len(whole) == 32
    assert 450 < len(pieces) <= 512
    assert sum(event[3] for event in whole) == sum(event[3] for event in pieces) == 32 * 2048


# -- names and sizes -----------------------------------------------------------------------------------


def test_jobs_that_name_the_same_file_share_it(tmp_path: Path) -> None:
    job = """
[global]
ioengine=libaio
direct=1
bs=64k
filename=/mnt/data/shared
[small]
rw=read
size=256k
[large]
rw=read
size=1m
[all]
rw=read
"""
    events = [event for event in trace_of(job, machine(tmp_path, "")) if event[0] == "Q"]
    assert {sector for _, _, sector, _ in events} == set(range(192, 192 + 2048, 128))
    assert len(events) == 4 + 16 + 16


def test_files_of_their_own_have_fios_names(tmp_path: Path) -> None:
    loaded = load_machine(machine(tmp_path, ""))
    from blklab.sim.build import build
    from blklab.sim.run import Run

    built = build(loaded)
    text = "[a]\nioengine=libaio\ndirect=1\ndirectory=/mnt/data\nnrfiles=2\nsize=1m\nnumjobs=2\n"
    Run(built, parse_job_text(text, "job"))
    assert {name: file.size_bytes for name, file in built.volumes[0].files.items()} == {
        f"/mnt/data/a.{job}.{number}": MIB // 2 for job in (0, 1) for number in (0, 1)
    }
    built = build(loaded)
    Run(built, parse_job_text(text + "filename_format=f.$filenum\nfilesize=64k\n", "job"))
    assert {name: file.size_bytes for name, file in built.volumes[0].files.items()} == {
        "/mnt/data/f.0": 65536,
        "/mnt/data/f.1": 65536,
    }


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (
            "size=1m\nfilename=/mnt/other/f",
            "job:1: the machine m has no volume that /mnt/other/f is on; it has volumes on /mnt/data",
        ),
        ("filename=/mnt/data/f", "job:1: w: size is needed to make the file /mnt/data/f"),
        ("size=50%\nfilename=/mnt/data/f", "a percentage of /mnt/data/f, which is not there yet"),
        ("size=1m\nfilename=/mnt/data/f\nrw=trim", "fio trims devices only"),
        ("size=1m\nfilename=/mnt/data/f\ndirect=0", "buffered I/O"),
        ("size=4g\nfilename=/mnt/data/f", "ENOSPC"),
    ],
)
def test_what_a_job_cannot_ask_of_files(tmp_path: Path, lines: str, message: str) -> None:
    text = f"[w]\nioengine=libaio\ndirect=1\nrw=write\nbs=4k\n{lines}\n"
    with pytest.raises(BlklabError) as error:
        simulate(parse_job_text(text, "job"), machine=machine(tmp_path, ""))
    assert message in str(error.value)


def test_without_volumes_a_directory_has_no_effect_and_says_so() -> None:
    job = "[w]\nioengine=libaio\ndirect=1\nrw=read\nbs=4k\nnumber_ios=4\ndirectory=/data\n"
    result = simulate(parse_job_text(job, "job"), machine="null")
    assert "directory=/data has no effect: the machine has no [volume.NAME]" in result.notes
    assert result.jobs[0].stats.read.done_ios == 4


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ('sunit = "64k"', "m.toml:12: volume/sunit needs a swidth"),
        ('swidth = "64k"', "m.toml:12: volume/swidth needs a sunit"),
        ('sunit = "64k"\nswidth = "100k"', "m.toml:13: volume/swidth is a multiple of sunit"),
        ('sunit = "1000"\nswidth = "4k"', "not a whole number of blocks"),
        ('sunits = "64k"', "unknown key volume/sunits; did you mean 'sunit'?"),
        ('filesystem = "ext4"', "volume/filesystem is xfs, not 'ext4'"),
        ('mount = "data"', "volume/mount is a directory"),
        ("agcount = 0", "volume/agcount is 1 to 4096"),
        ("agcount = 4000", "are too small"),
        ('log_size = "1g"', "does not fit"),
        ("max_extent = true", "volume/max_extent is a size"),
        ('[volume.more]\ndevice = "nullb0"', "volumes data and more are both on nullb0"),
        ('[volume.more]\ndevice = "nullb1"', "volume more is on 'nullb1', which there is not"),
        ("[volume.more]", "volume more has no device"),
        (
            '[volume.more]\ndevice = "nullb1"\nmount = "/mnt/data"\n[device.nullb1]\nmodel = "null"',
            "both mounted on /mnt/data",
        ),
    ],
)
def test_wrong_volumes_are_refused(tmp_path: Path, lines: str, message: str) -> None:
    with pytest.raises(BlklabError) as error:
        simulate(parse_job_text(JOB, "job"), machine=machine(tmp_path, lines))
    assert message in str(error.value)


def test_setting_a_volumes_key_needs_a_volume() -> None:
    with pytest.raises(BlklabError, match="--set volume/sunit: the machine has no volume"):
        load_machine("null", ["volume/sunit=64k"])


# -- fsync ---------------------------------------------------------------------------------------------


def test_fsync_writes_a_log_record_once_a_jiffy_and_flushes_otherwise() -> None:
    stack = Stack()
    leaf = stack.leaf(2560, 128)
    file = FileMap("f", leaf, PIECES, Log(1000, 1024, 128))
    sender = stack.thread([(0, 0, 512)], leaf)
    found = []
    for at_ns in (0, 100_000, 3_900_000, 4_000_000, 4_100_000):
        stack.events.now_ns = at_ns
        file.wrote()
        for datasync in (True, False):
            bio = file.sync_bio(sender, datasync)
            assert bool(bio.flags & F_PREFLUSH)
            assert bool(bio.flags & F_FUA) == (bio.nr_sectors > 0)
            found.append(bio.sector if bio.nr_sectors else None)
    assert found == [None, 1000, None, None, None, None, None, 1128, None, None]
