"""Asks fio 3.33 which I/Os a command line makes, and blklab too.

`fio_ios` runs fio with --write_iolog and reads the log back: one list of (direction, file, offset, length) for each
clone, in the order of the log. Null engine: nothing is read or written. With a file: a sparse one of a given size,
which stands for a device.
"""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

from blklab.workload.cmdline import parse_command_line
from blklab.workload.filesetup import start_offset
from blklab.workload.iostream import make_stream
from blklab.workload.jobspec import Clone, expand

Io = tuple[str, int, int, int]
DIRECTIONS = ("read", "write", "trim")


def fio_ios(fio: Path, options: str, folder: Path) -> list[list[Io]]:
    """The I/Os of each clone as fio makes them; files are numbered in the order in which the clone names them.

    Clones write to one log when they end. Without filename their files carry fio's number of the clone, which puts
    them in order; the log of such a clone must fit fio's buffer (8 KiB, 300 I/Os) or it is torn.
    """
    log = folder / "iolog"
    command = [str(fio), *shlex.split(options), f"--write_iolog={log}", f"--output={folder / 'out'}"]
    run = subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=60, check=False)
    text = log.read_text()
    log.unlink()
    assert "iolog" in text, run.stderr + (folder / "out").read_text()
    clones: list[tuple[int, list[Io]]] = []
    files: dict[str, int] = {}
    for line in text.splitlines():
        words = line.split()
        if words[:1] == ["fio"]:
            clones.append((0, []))
            files = {}
        elif words[2] == "add":
            files[words[1]] = len(files)
            numbered = re.fullmatch(r"\w+\.(\d+)\.0", words[1])
            if numbered:
                clones[-1] = (int(numbered[1]), [])
        elif words[2] in DIRECTIONS and len(words) == 5:
            clones[-1][1].append((words[2], files[words[1]], int(words[3]), int(words[4])))
    # fio numbers clones 0, n-1, ..., 1 in the order of its threads
    ordered = sorted(clones, key=lambda clone: (clone[0] > 0, -clone[0]))
    return [ios for _, ios in ordered]


def clones_of(options: str) -> list[Clone]:
    """All clones of a command line, in fio's order."""
    jobs, rest = parse_command_line(shlex.split(options))
    assert jobs is not None and not rest, rest
    return expand(jobs.jobs)


def null_sizes(clone: Clone) -> list[int]:
    """How large fio takes the files of its null engine to be: the range of the job, from 0 to its end."""
    spec = clone.spec
    share, extra = divmod(spec.size_bytes, spec.nr_files)
    extra //= min(spec.min_bs_bytes)
    sizes = []
    for index in range(spec.nr_files):
        range_bytes = share + (min(spec.min_bs_bytes) if index < extra else 0)
        sizes.append(range_bytes + start_offset(spec, clone.subjob_number, share))
    return sizes


def blklab_ios(clone: Clone, sizes: list[int], most: int) -> list[Io]:
    """The first `most` I/Os of a clone as blklab makes them."""
    stream = make_stream(clone.spec, clone.clone, clone.job_number, sizes)
    found: list[Io] = []
    while len(found) < most and stream.advance():
        io = (DIRECTIONS[stream.ddir], stream.file_index, stream.offset_bytes, stream.length_bytes)
        found.append(io)
    return found


def difference(wanted: list[Io], found: list[Io]) -> str:
    """Where two lists of I/Os first differ, or '' if they do not."""
    for index, (theirs, ours) in enumerate(zip(wanted, found, strict=False)):
        if theirs != ours:
            return f"I/O {index}: fio {theirs}, blklab {ours}; before it {wanted[max(index - 3, 0) : index]}"
    if len(wanted) != len(found):
        return f"fio makes {len(wanted)} I/Os, blklab {len(found)}"
    return ""
