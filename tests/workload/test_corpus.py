"""Public job files: each is read, or refused with one clear error; what fio 3.33 refuses is not accepted silently."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from blklab.core.errors import BlklabError
from blklab.workload.jobfile import parse_job_file
from blklab.workload.jobspec import expand

REASONS = {  # what a refusal says, in order of looking
    "not built": r"not built",
    "newer": r"newer than fio 3\.33",
    "unknown": r"unknown (option|value)",
    "fragment": r"before the first",  # meant to be included by others
    "value": r"is not a|needs a value",
}


def outcomes(folder: Path) -> dict[str, str]:
    found = {}
    for path in sorted(folder.rglob("*.fio")):
        try:
            clones = expand(parse_job_file(path).jobs)
            assert clones
            found[path.name] = "read"
        except BlklabError as error:
            assert "\n" not in str(error)
            assert error.where, error
            assert re.search(r"\.fio:\d+$", error.where), error
            reason = next(
                (name for name, pattern in REASONS.items() if re.search(pattern, error.message)), None
            )
            assert reason, error
            found[path.name] = reason
    return found


def test_job_files_of_fio_and_others(shared: Path) -> None:
    count = Counter(outcomes(shared / "corpus/fio").values())
    assert sum(count.values()) == len({p.name for p in (shared / "corpus/fio").rglob("*.fio")})
    assert count["read"] >= 61
    assert count["value"] <= 1


def test_job_files_of_the_captures(shared: Path) -> None:
    refused: Counter[str] = Counter()
    read = 0
    for path in sorted((shared / "reference").rglob("*.fio")):
        try:
            parse_job_file(path)
            read += 1
        except BlklabError as error:
            refused[path.parent.parent.name] += 1
            assert re.search("'fsync'|sync=dsync", str(error)), error
    assert read >= 137
    assert set(refused) <= {"flush"}


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("axboe-fio-examples/1mbs_clients.fio", 7),
        ("axboe-fio-examples/rand-zones.fio", 11),
        ("kbench/bw-include.fio", 1),
    ],
)
def test_the_line_is_the_one_to_change(shared: Path, file: str, line: int) -> None:
    with pytest.raises(BlklabError, match=rf"{Path(file).name}:{line}: "):
        parse_job_file(shared / "corpus/fio" / file)
