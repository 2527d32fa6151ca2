"""The sequence of I/Os is fio 3.33's own: many sets of options, each compared I/O by I/O with fio's log."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.workload.iolog import Answer, ask_fio, compare

DEVICE_BYTES = 8 << 20

# fio's null engine at depth 1, which is a synchronous engine; size= is always given.
NULL_CASES = """
rw=read size=100k
rw=write size=100k
rw=trim size=100k
rw=rw size=400k
rw=randread size=1m
rw=randwrite size=1m
rw=randtrim size=1m
rw=randrw size=2m
rw=trimwrite size=256k
rw=randtrimwrite size=256k
rw=randtrimwrite size=256k offset=64k
rw=rw size=1m rwmixread=70
rw=randrw size=1m rwmixwrite=90
rw=randrw size=1m rwmixread=0
rw=randrw size=1m rwmixread=100
rw=write:-8k size=256k
rw=read:8k size=256k
rw=read:-4k size=256k offset=1m
rw=read:-8k size=256k offset=64k
rw=read:4k size=256k offset=64k
rw=randread:8 size=1m
rw=randread:3 size=1m rw_sequencer=identical
rw=randrw:4 size=1m
rw=randwrite:4 size=1m norandommap
rw=randread:0 size=256k
rw=randread bs=8k size=1m
rw=randread bs=4k,8k size=1m
rw=randrw bs=4k,8k size=1m
rw=randrw bs=8k,4k size=1m
rw=rw bs=4k,16k size=1m
rw=randrw bs=,8k size=1m
rw=randrw bs=8k, size=1m
rw=randread bs=3k size=1m
rw=randread bs=5000 size=1m
rw=read bs=5000 size=64k
rw=randread bsrange=4k-64k size=1m
rw=randread bsrange=1k-7k size=1m
rw=randrw bsrange=4k-16k,8k-32k size=2m
rw=read bsrange=4k-64k size=1m
rw=randread bsrange=4k-16k bs_unaligned size=1m
rw=randwrite bsrange=4k-16k norandommap size=1m
rw=randread bssplit=4k/60:64k/40 size=2m
rw=randread bssplit=4k:64k:8k/10 size=2m
rw=randrw bssplit=4k/60:16k/40,8k/50:32k/50 size=2m
rw=write bssplit=4k/60:64k/40 size=2m
rw=trimwrite bssplit=4k/60:64k/40 size=1m
rw=randrw bs=4k,16k bs_is_seq_rand=1 size=1m
rw=randread bs=4k,16k bs_is_seq_rand=1 percentage_random=50 size=1m
rw=randread bs=4k ba=512 size=1m
rw=randread bs=4k ba=8k size=1m
rw=randrw bs=4k ba=4k,512 size=1m
rw=randread size=1m offset=2m
rw=read size=1m offset=2m
rw=randread size=200k numjobs=4 offset_increment=1m
rw=randread size=200k numjobs=4
rw=randread size=200k numjobs=4 randseed=12345
rw=randrw size=200k numjobs=3 randseed=12345 loops=2
rw=randrw size=200k numjobs=3 allrandrepeat=1 randrepeat=0
rw=randrw size=200k allrandrepeat=1
rw=randread size=1m randseed=42
rw=randread size=1m randseed=42 loops=2
rw=randread size=1m randrepeat=0 randseed=42
rw=randread size=1m loops=3
rw=randread size=1m loops=3 norandommap
rw=read size=100k loops=3
rw=rw size=1m loops=3
rw=randrw size=1m loops=2
rw=randread size=1m loops=0
rw=randread size=1m io_size=300k
rw=randread size=1m io_size=3m
rw=read size=1m io_size=3m
rw=randwrite size=1m io_size=3m norandommap
rw=read size=1m io_size=50%
rw=randread size=1m do_verify=0 io_size=3m
rw=randread size=1m number_ios=50
rw=read size=100k number_ios=500
rw=read size=100k number_ios=10 loops=3
rw=trimwrite size=1m number_ios=50
rw=trimwrite size=256k loops=2
rw=randtrimwrite size=256k loops=2
rw=randread size=1m norandommap
rw=randread size=1m softrandommap=1
rw=randread size=1m random_generator=lfsr
rw=randread size=1m random_generator=lfsr loops=2
rw=randwrite size=1000k random_generator=lfsr norandommap
rw=randread size=1m random_generator=lfsr randseed=99
rw=randread size=20k random_generator=lfsr
rw=randread size=1m random_generator=tausworthe64
rw=randrw size=1m random_generator=tausworthe64 bsrange=4k-32k
rw=randread size=1m random_generator=tausworthe64 bssplit=4k/60:64k/40 loops=2
rw=randread size=1m percentage_random=50
rw=randread size=1m percentage_random=0
rw=randrw size=1m percentage_random=30,80
rw=randread size=1m percentage_random=50 random_generator=tausworthe64
rw=randread:16 size=8m percentage_random=50
rw=randread size=1m filename=a:b:c
rw=randread size=1m filename=a:b:c file_service_type=roundrobin:4
rw=randread size=1m filename=a:b:c file_service_type=sequential
rw=randread size=1m filename=a:b:c file_service_type=random
rw=randread size=1m filename=a:b:c file_service_type=random:5
rw=read size=1m filename=a:b:c
rw=read size=1000k filename=a:b:c bs=16k
rw=write size=1m filename=a:b:c file_service_type=sequential
rw=rw size=1m filename=a:b file_service_type=random loops=2
rw=read size=1m filename=a:b:c openfiles=1
rw=randread size=1m filename=a:b:c openfiles=2
rw=randread size=1m filename=a:b:c openfiles=2 file_service_type=random
rw=read size=1m filename=a:b:c nrfiles=2
rw=randread size=1m filename=a:b offset=64k loops=2
rw=randrw size=1m verify=crc32c do_verify=0 bsrange=4k-16k
rw=rw size=1m verify=crc32c do_verify=0 bsrange=4k-16k
rw=randread size=10k
rw=randread size=1m bs=1m
rw=read size=1m bs=300k
rw=randread size=4097k
rw=randread size=64m
rw=randread size=64m thread
rw=randread size=1m kb_base=1000
rw=randread size=1t number_ios=3000
rw=randrw size=1t number_ios=3000 bsrange=4k-64k
rw=randread size=20t norandommap number_ios=2000
rw=randread size=20t norandommap number_ios=2000 random_generator=tausworthe
rw=randread size=1p bs=1m number_ios=3000
rw=randread size=1p bs=1m number_ios=3000 random_generator=lfsr
"""

# The same, until the runtime is over: what fio does at the end of a pass.
ENDLESS_CASES = """
rw=read size=100k
rw=randread size=100k
rw=randread size=1m norandommap
rw=rw size=200k
rw=randrw size=200k
rw=read size=50k
rw=read size=50k bs=7k
rw=randread size=100k filename=a:b
rw=read size=100k filename=a:b
rw=rw size=100k filename=a:b:c
rw=randread size=100k randseed=5
rw=read size=100k filename=a:b file_service_type=random
rw=read:-8k size=100k offset=64k
rw=read:8k size=100k
rw=trim size=100k
rw=randread size=100k random_generator=lfsr
rw=randread size=100k bsrange=4k-16k
rw=randread size=1m loops=3
rw=read size=100k number_ios=10
rw=trimwrite size=100k
rw=randtrimwrite size=100k
rw=randread size=100k ba=512
rw=randread:5 size=100k
rw=randrw bs=4k,8k size=1m
"""

# Files of 8 MiB under a synchronous engine: sizes of the device count.
FILE_CASES = """
rw=read
rw=randread
rw=read size=1m offset=10%
rw=randread size=1m offset=33% offset_align=64k
rw=randread size=1m offset=33%
rw=read size=100k numjobs=1 offset_increment=10%
rw=randread size=50%
rw=read size=30% offset=20%
rw=read size=100%
rw=randread offset=7m
rw=randread size=1m loops=3 norandommap
rw=read:-8k size=1m
rw=read:-8k
rw=read:-8k offset=1m size=1m
rw=read:64k size=1m offset=1m
rw=read bs=5000 size=1m
rw=read bs=3m
rw=read filesize=1m
rw=read filesize=1m size=512k
rw=randread io_size=1m
rw=randread size=1m io_size=20%
rw=randread bsrange=4k-1m
rw=read bsrange=4k-100k size=1m
rw=randread bssplit=4k/10:32k/90
rw=read:4k bs=1m
"""

# The same files under engines that queue, which end passes differently.
QUEUE_CASES = """
rw=randread size=1m loops=3 norandommap
rw=randread size=1m loops=3
rw=randwrite size=1m loops=3 norandommap
rw=randwrite size=1m io_size=3m norandommap
rw=randread size=1m io_size=3m norandommap
rw=rw size=1m loops=2
rw=randrw size=1m loops=2 number_ios=300
rw=randread:8 size=1m loops=2
rw=randrw size=1m loops=3 norandommap randseed=7
rw=read size=1m loops=2 bs=5000
rw=randread size=1m loops=2 percentage_random=40
"""

# A block device of 8 MiB: ranges that reach beyond its end, and trims.
DEVICE_CASES = """
rw=read size=9m
rw=randread size=9m
rw=read offset=7m size=3m
rw=randread offset=7m size=3m
rw=read offset=7m size=3m loops=3
rw=read size=9m bs=7168 loops=2
rw=randread size=33% offset=10% offset_align=64k
rw=trim size=1m loops=2
rw=randtrim size=1m
rw=trimwrite size=1m
rw=randtrimwrite size=1m
rw=trimwrite size=1m ioengine=libaio iodepth=4
rw=trim size=1m loops=2 ioengine=libaio iodepth=4
rw=randtrim size=1m loops=2 norandommap ioengine=libaio iodepth=4
rw=randwrite filesize=4m
rw=randread filesize=16m
rw=write:-8k size=9m
rw=read bsrange=4k-100k size=9m
rw=rw bsrange=4k-100k size=9m loops=2
rw=randread bssplit=4k/50:7k/50 size=9m
rw=read size=8m io_size=20m
rw=randread size=9m io_size=20m
"""


def listed(cases: str) -> list[str]:
    return cases.strip().splitlines()


def named(cases: str) -> dict[str, str]:
    return {f"c{index}": options for index, options in enumerate(listed(cases))}


@pytest.fixture(scope="session")
def null_answers(fio: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Answer]:
    folder = tmp_path_factory.mktemp("null")
    return ask_fio(fio, folder, named(NULL_CASES), "ioengine=null")


@pytest.fixture(scope="session")
def endless_answers(fio: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Answer]:
    folder = tmp_path_factory.mktemp("endless")
    return ask_fio(fio, folder, named(ENDLESS_CASES), "ioengine=null time_based runtime=20ms stonewall")


@pytest.fixture(scope="session")
def file_answers(fio: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Answer]:
    folder = tmp_path_factory.mktemp("file")
    sections = {}
    for name, options in named(FILE_CASES).items():
        sections[name] = f"ioengine=psync filename={sparse(folder / f'{name}.img')} {options}"
    for engine in ("libaio", "posixaio"):
        for name, options in named(QUEUE_CASES).items():
            path = sparse(folder / f"{engine}{name}.img")
            sections[engine + name] = f"ioengine={engine} iodepth=4 filename={path} {options}"
    return ask_fio(fio, folder, sections)


@pytest.fixture(scope="session")
def device_answers(fio: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Answer]]:
    folder = tmp_path_factory.mktemp("device")
    if os.geteuid() or not shutil.which("losetup"):
        pytest.skip("a loop device needs root and losetup")
    image = sparse(folder / "image")
    made = subprocess.run(["losetup", "-f", "--show", image], capture_output=True, text=True, check=False)
    if made.returncode:
        pytest.skip(f"no loop device: {made.stderr.strip()}")
    device = made.stdout.strip()
    common = f"ioengine=psync filename={device} allow_mounted_write=1"
    try:
        yield ask_fio(fio, folder, named(DEVICE_CASES), common)
    finally:
        subprocess.run(["losetup", "-d", device], check=True)


def sparse(path: Path) -> str:
    with path.open("wb") as file:
        file.truncate(DEVICE_BYTES)
    return str(path)


@pytest.mark.parametrize(("name", "options"), named(NULL_CASES).items(), ids=listed(NULL_CASES))
def test_null_engine(null_answers: dict[str, Answer], name: str, options: str) -> None:
    assert compare(null_answers[name]) > 0


@pytest.mark.parametrize(("name", "options"), named(ENDLESS_CASES).items(), ids=listed(ENDLESS_CASES))
def test_time_based(endless_answers: dict[str, Answer], name: str, options: str) -> None:
    assert compare(endless_answers[name], endless=True) > 300, "fio made too few I/Os to show a second pass"


@pytest.mark.parametrize(("name", "options"), named(FILE_CASES).items(), ids=listed(FILE_CASES))
def test_file(file_answers: dict[str, Answer], name: str, options: str) -> None:
    assert compare(file_answers[name], sizes=[DEVICE_BYTES]) > 0


@pytest.mark.parametrize("engine", ["libaio", "posixaio"])
@pytest.mark.parametrize(("name", "options"), named(QUEUE_CASES).items(), ids=listed(QUEUE_CASES))
def test_engine_that_queues(file_answers: dict[str, Answer], name: str, options: str, engine: str) -> None:
    assert compare(file_answers[engine + name], sizes=[DEVICE_BYTES]) > 0


@pytest.mark.parametrize(("name", "options"), named(DEVICE_CASES).items(), ids=listed(DEVICE_CASES))
def test_block_device(device_answers: dict[str, Answer], name: str, options: str) -> None:
    assert compare(device_answers[name], sizes=[DEVICE_BYTES]) >= 0
