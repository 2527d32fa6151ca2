"""What fio settles before the first I/O of a job: ranges of its files, its seeds, its start delay.

Theory of operation
    `lay_out` gives each file its start and its range from size, filesize, offset and their percentages, and refuses
    what leaves nothing to do. `rand_seeds` gives the seeds of all generators of a clone, which depend on its number
    among all threads; `Seeds` keeps them under fio's names for what each is for.

    A device has a known size, so nothing is created or extended. A file that is not there yet is made before the run:
    `file_names` and `created_size` say what fio would call it and how large it would make it.

Deliberate differences from fio 3.33
    An offset at or behind the end of a device is an error (there: no I/O, no message). `randrepeat=0` without
    randseed draws its seeds from the run's seed instead of /dev/urandom, so that runs repeat.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

from blklab.core.errors import BlklabError
from blklab.core.rand import RandomStream
from blklab.workload.jobspec import JobSpec, subjob_number

MASK_64 = 0xFFFFFFFFFFFFFFFF
REPEATABLE_SEED = 0xB1899BED  # fio's FIO_RANDSEED
SEED_MULTIPLIER = 0x9E370001


class Use(IntEnum):
    """What each of a thread's seeds is for, in fio's order (the position is part of the seed)."""

    BS_READ = 0
    BS_WRITE = 1
    BS_TRIM = 2
    VERIFY = 3
    MIX = 4
    FILE = 5
    BLOCK = 6
    FILE_SIZE = 7
    TRIM = 8
    BUFFER = 9
    SEQUENTIAL = 10
    SEQUENTIAL_WRITE = 11
    SEQUENTIAL_TRIM = 12
    START_DELAY = 13
    DEDUPE = 14
    POISSON_READ = 15
    ZONE = 16
    POISSON_WRITE = 17
    POISSON_TRIM = 18
    PRIORITY = 19
    WORKING_SET = 20


@dataclass(frozen=True, slots=True)
class FileRange:
    """Where a job works in one of its files: from `offset_bytes`, over `io_size_bytes`, within `real_size_bytes`."""

    offset_bytes: int
    io_size_bytes: int
    real_size_bytes: int


@dataclass(frozen=True, slots=True)
class Layout:
    """All files of a clone, and `size_bytes`: the bytes of one pass over them."""

    files: tuple[FileRange, ...]
    size_bytes: int


def rand_seeds(spec: JobSpec, clone: int, job_number: int, run_seed: int) -> list[int]:
    """The seeds of all generators of a clone, by `Use`. `job_number` counts threads from 1."""
    count = len(Use)
    if not spec.randrepeat and not spec.randseed_given:
        stream = RandomStream(run_seed, f"fio thread {job_number}")
        seeds = [stream.next64() for _ in range(count)]
    else:
        seed = spec.randseed * SEED_MULTIPLIER**4 & MASK_64
        seeds = []
        for use in range(count):
            seeds.append((seed * job_number + use) & MASK_64)
            seed = seed * SEED_MULTIPLIER & MASK_64
    if spec.allrandrepeat:
        seeds = [(REPEATABLE_SEED * job_number + use) & MASK_64 for use in range(count)]
    # fio notices that randseed turns randrepeat off only after it has seeded the first clone of a job
    if spec.randrepeat and spec.is_random and (clone == 0 or not spec.randseed_given):
        seeds[Use.BLOCK] = REPEATABLE_SEED * job_number & MASK_64
    return seeds


def start_offset(spec: JobSpec, subjob: int, real_size_bytes: int) -> int:
    """First byte that a clone touches of a file of this size."""
    percentage = spec.offset_percent > 0 or spec.offset_increment_percent > 0
    increment = spec.offset_increment_bytes
    if spec.offset_increment_percent:
        increment = spec.offset_increment_percent * real_size_bytes // 100
    start = spec.offset_bytes
    if spec.offset_percent:
        start = real_size_bytes * spec.offset_percent // 100
    offset = start + subjob * increment
    if percentage:
        unit = spec.offset_align_bytes or min(spec.min_bs_bytes)
        offset = -(-offset // unit) * unit
    return offset


def file_names(spec: JobSpec, clone: int) -> tuple[str, ...]:
    """The names of a clone's files: filename, or those that fio makes up in a directory; below the directory, if there
    is one, of several the one that is this clone's turn."""
    subjob = subjob_number(clone, spec.numjobs)
    names = spec.filenames
    if not spec.directories:
        return names
    if not names:
        made = spec.filename_format.replace("$jobname", spec.name).replace("$jobnum", str(subjob))
        names = tuple(made.replace("$filenum", str(index)) for index in range(spec.nr_files))
    directory = spec.directories[subjob % len(spec.directories)]
    return tuple(f"{directory}/{name}" for name in names)


def created_size(spec: JobSpec, clone: int, index: int, size_bytes: int, name: str) -> int:
    """How large the file `name`, the one numbered `index` of a clone, is when the clone starts: what other jobs have
    made of it (`size_bytes`, 0: it is not there), or as this one makes it. Raises BlklabError where fio could not
    know."""
    low, high = spec.filesize_low_bytes, spec.filesize_high_bytes
    percentages = spec.offset_percent or spec.offset_increment_percent
    if not size_bytes and (percentages or spec.size_percent):
        raise BlklabError(
            f"a percentage of {name}, which is not there yet: give size and offset in bytes", spec.where
        )
    offset = start_offset(spec, subjob_number(clone, spec.numjobs), size_bytes)
    if low:
        if low <= size_bytes <= high:
            return size_bytes
        if low != high:
            raise BlklabError("a range of filesize is not built yet for files that are made", spec.where)
        return max(low, size_bytes)
    smallest = min(spec.min_bs_bytes)
    share, extra = divmod(spec.size_bytes, spec.nr_files)
    length = share + (smallest if index < extra // smallest else 0)
    if not length and not size_bytes:
        raise BlklabError(f"{spec.name}: size is needed to make the file {name}", spec.where)
    return max(size_bytes, offset + length)


def lay_out(spec: JobSpec, clone: int, file_sizes_bytes: Sequence[int]) -> Layout:
    """The ranges of a clone on devices of these sizes. Raises BlklabError where nothing would be left to do."""
    smallest = min(spec.min_bs_bytes)
    subjob = subjob_number(clone, spec.numjobs)
    share, extra = divmod(spec.size_bytes, len(file_sizes_bytes))
    extra //= smallest  # so many files get one block more
    files: list[FileRange] = []
    total = 0
    for index, real_size in enumerate(file_sizes_bytes):
        offset = start_offset(spec, subjob, real_size)
        if offset >= real_size:
            raise BlklabError(_beyond(spec, index, offset, real_size, subjob), spec.where)
        low, high = spec.filesize_low_bytes, spec.filesize_high_bytes
        if low:
            io_size = real_size - offset
            if not low <= real_size <= high:
                if low != high:
                    raise BlklabError("a range of filesize is not built yet for devices", spec.where)
                io_size = low - offset
                if io_size <= 0:
                    raise BlklabError(f"offset {offset} is not below filesize {low}", spec.where)
        else:
            io_size = share + (smallest if index < extra else 0) or real_size - offset
        if spec.size_percent and spec.size_percent != 100:
            whole = io_size + offset
            io_size = min(whole * spec.size_percent // 100, whole - offset)
            io_size -= io_size % smallest
        total += io_size * (spec.io_size_percent or 100) // 100
        files.append(FileRange(offset, io_size, real_size))
    size = min(spec.size_bytes, total) if spec.size_bytes else total
    if size < smallest:
        message = f"bs is larger than the range of the job: {smallest} > {size} bytes"
        raise BlklabError(message, spec.where)
    return Layout(tuple(files), size)


def _beyond(spec: JobSpec, index: int, offset: int, real_size: int, subjob: int) -> str:
    name = spec.filenames[index] if index < len(spec.filenames) else "the device"
    clone = f" of clone {subjob}" if subjob else ""
    return f"offset {offset}{clone} is not below the size of {name}, {real_size} bytes"
