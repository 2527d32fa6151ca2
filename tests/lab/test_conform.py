"""The model beside a real kernel: every case of tests/reference, as `make conformance` runs it.

Cases that cannot be matched yet are strict xfails: when what is missing comes, they fail as passing, and their
line is taken out of NOT_YET.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

from blklab.lab.conform import details, judge, row
from blklab.lab.conform_capture import COMPACT_SUFFIX, find_cases, read_capture
from blklab.lab.conform_compare import EXACT, NOT_YET, WITHIN, load_tolerances, tolerance_of

REFERENCE = Path(__file__).resolve().parent.parent / "reference"
CASES = find_cases(REFERENCE)
TOLERANCES = load_tolerances()

# What is missing -> the cases that wait for it
MISSING: dict[str, tuple[str, ...]] = {
    "io.cost.model": ("cgroup/iocost-*",),
    "zones": ("split/zoned-*",),
    "buffered I/O": ("split/buffered-*",),
}

# Where nothing but the block layer decides, or where its order does not depend on what else ran in the guest
EXACT_CASES = (
    "basic/*",
    "busy/null-none-depth1",
    "busy/null-none-mbps",
    "flush/*-jobs1",
    "flush/virtio-dsync-no-fua",
    "plug/none-randread-*",
    "plug/none-seqread-batch*",
    "plug/none-seqwrite-*",
    "plug/none-two-devices-*",
    "split/default255-*",
    "split/discard-null",
    "split/dm-stripe*",
    "split/hugepage-*",
    "split/max128k-*",
    "split/max512k-*",
    "split/md-raid0-*",
    "split/virt-boundary",
)


def missing(case: str) -> str | None:
    for what, patterns in MISSING.items():
        if any(fnmatchcase(case, pattern) for pattern in patterns):
            return what
    return None


def parameters() -> list[ParameterSet]:
    marked = []
    for case in CASES:
        what = f"not yet: {missing(case)}" if missing(case) else ""
        if tolerance_of(read_capture(CASES[case]), TOLERANCES).known:
            what = "differs, and tolerances.toml says why"
        marks = [pytest.mark.xfail(reason=what, strict=True)] if what else []
        marked.append(pytest.param(case, marks=marks))
    return marked


@pytest.mark.parametrize("case", parameters())
def test_the_model_does_what_the_kernel_did(case: str) -> None:
    verdict = judge(read_capture(CASES[case]), TOLERANCES)

    report = "\n".join([row(verdict), *details(verdict)])
    assert verdict.status in (EXACT, WITHIN), report
    if any(fnmatchcase(case, pattern) for pattern in EXACT_CASES):
        assert verdict.status == EXACT, report


def test_all_cases_of_the_lab_are_there() -> None:
    assert len(CASES) >= 147
    assert len({case.split("/")[0] for case in CASES}) >= 11
    assert sum(path.stat().st_size for path in CASES.values()) < 3_000_000


def test_every_pattern_of_this_file_fits_a_case() -> None:
    for pattern in [*(pattern for patterns in MISSING.values() for pattern in patterns), *EXACT_CASES]:
        assert any(fnmatchcase(case, pattern) for case in CASES), pattern


def test_a_case_that_is_not_set_up_says_what_is_missing() -> None:
    verdict = judge(read_capture(CASES["split/buffered-read"]), TOLERANCES)

    assert (verdict.status, verdict.reason) == (NOT_YET, "bios like RA")


def test_a_case_runs_the_same_twice() -> None:
    capture = read_capture(CASES["busy/scsi-none-qdepth2"])

    assert judge(capture, TOLERANCES) == judge(capture, TOLERANCES)


def test_every_tolerance_has_its_reason_and_its_cases() -> None:
    used = {id(tolerance_of(read_capture(path), TOLERANCES)) for path in CASES.values()}

    for entry in TOLERANCES:
        assert len(entry.reason.split()) > 10, entry
        assert id(entry) in used, f"no case takes the entry {entry.cases}"


def test_the_compact_files_are_the_captures(shared: Path) -> None:
    # Each group's smallest: reading all of the lab's output takes a while
    folders = find_cases(shared / "reference")
    smallest: dict[str, str] = {}
    for case in CASES:
        group = case.split("/")[0]
        if group not in smallest or CASES[case].stat().st_size < CASES[smallest[group]].stat().st_size:
            smallest[group] = case
    for case in smallest.values():
        assert read_capture(folders[case]) == read_capture(CASES[case]), case
    assert set(folders) == set(CASES), f"make_reference.py makes the {COMPACT_SUFFIX} files"
