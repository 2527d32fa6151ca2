"""Asks fio 3.33 which I/Os its jobs make, and blklab too.

Many jobs are asked about in one run of fio: a job file with a section for each, which both programs read, each
section with a log of its own (write_iolog). So the seeds of all jobs but the first come from their number.
"""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from blklab.workload.filesetup import start_offset
from blklab.workload.iostream import make_stream
from blklab.workload.jobfile import parse_job_file
from blklab.workload.jobspec import Clone, expand

Io = tuple[str, int, int, int]  # direction, which of the job's files, offset, length
DIRECTIONS = ("read", "write", "trim")


@dataclass(frozen=True)
class Answer:
    """What fio did for one section: a list of I/Os for each clone; and the clones as blklab sees them."""

    clones: list[Clone]
    ios: list[list[Io]]


def ask_fio(fio: Path, folder: Path, sections: dict[str, str], common: str = "") -> dict[str, Answer]:
    """Run all sections (name: options separated by blanks) in one fio; `common` are options of each."""
    job_file = folder / "job.fio"
    text = []
    for name, options in sections.items():
        text += [f"[{name}]", *common.split(), *options.split(), f"write_iolog={folder / name}.log"]
    job_file.write_text("\n".join(text) + "\n")
    command = [str(fio), str(job_file), f"--output={folder / 'out'}"]
    run = subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=120, check=False)
    clones = expand(parse_job_file(job_file).jobs)
    answers = {}
    for name in sections:
        log = folder / f"{name}.log"
        assert log.exists(), f"{name}: fio wrote no log: {run.stderr} {(folder / 'out').read_text()}"
        answers[name] = Answer([c for c in clones if c.spec.name == name], read_log(log.read_text()))
    return answers


def read_log(text: str) -> list[list[Io]]:
    """The I/Os of each clone, in the order of fio's threads.

    Clones write to one log when they end. Without filename their files carry fio's number of the clone, which puts
    them in order; the log of such a clone must fit fio's buffer (8 KiB, 300 I/Os) or it is torn.
    """
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


def compare(answer: Answer, sizes: list[int] | None = None, endless: bool = False) -> int:
    """Assert that blklab makes the I/Os of the answer, and no more unless `endless`. Returns how many.

    `sizes` are those of the devices; None: what the null engine takes them to be.
    """
    assert len(answer.clones) == len(answer.ios)
    for clone, wanted in zip(answer.clones, answer.ios, strict=True):
        most = len(wanted) if endless else len(wanted) + 100
        found = blklab_ios(clone, sizes or null_sizes(clone), most)
        found_difference = difference(wanted, found)
        assert not found_difference, f"clone {clone.clone}: {found_difference}"
    return sum(len(ios) for ios in answer.ios)
