"""The model beside a real kernel, case by case: `python -m blklab.lab.conform [CASE...]`.

What: sets each captured case up in the model, runs it, and prints for each one whether the model did the same: exact,
within tolerance, differs, or not yet (with what is missing).

    python -m blklab.lab.conform                          all cases in tests/reference
    python -m blklab.lab.conform 'busy/null-*'            some of them
    python -m blklab.lab.conform --captures DIR           those of another folder, compact or as the lab writes them
    python -m blklab.lab.conform --json                   everything, for programs

Exit status: 1 if a case differs, 2 if something was asked that there is not, else 0.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from fnmatch import fnmatchcase
from pathlib import Path

from blklab.core.errors import BlklabError, nearest
from blklab.lab.conform_capture import find_cases, read_capture
from blklab.lab.conform_compare import (
    DIFFERS,
    EXACT,
    NOT_YET,
    WITHIN,
    Difference,
    Tolerance,
    Verdict,
    compare,
    load_tolerances,
    tolerance_of,
)
from blklab.lab.conform_model import COSTS, NotYet, run_case

STATUSES = (EXACT, WITHIN, DIFFERS, NOT_YET)
CAPTURES = Path("tests/reference")


def judge(path: Path, tolerances: Sequence[Tolerance], costs: str = COSTS) -> Verdict:
    """Run one case and compare it."""
    capture = read_capture(path)
    tolerance = tolerance_of(capture, tolerances)
    try:
        model = run_case(capture, costs)
    except NotYet as missing:
        return Verdict(capture.case, NOT_YET, str(missing))
    return compare(capture, model, tolerance)


def select(cases: Iterable[str], patterns: Sequence[str]) -> list[str]:
    """The cases that fit one of the patterns; all if there are none. Raises BlklabError for a pattern that fits nothing."""
    cases = list(cases)
    if not patterns:
        return cases
    for pattern in patterns:
        if not any(fnmatchcase(case, pattern) for case in cases):
            raise BlklabError(f"no case fits {pattern!r}{nearest(pattern, cases)}", "conform")
    return [case for case in cases if any(fnmatchcase(case, pattern) for pattern in patterns)]


# Reports


def row(verdict: Verdict) -> str:
    """One line: case, status, and counts where they are not the same, or what is missing."""
    text = f"{verdict.case:<58} {verdict.status:<17}"
    if verdict.status == NOT_YET:
        return f"{text} {verdict.reason}"
    parts = []
    several = len(verdict.counts or {}) > 1
    for device, counts in (verdict.counts or {}).items():
        shown = [
            f"{action} {one}" if one == two else f"{action} {one}/{two}" for action, (one, two) in counts.items()
        ]
        parts.append((f"{device}: " if several else "") + "  ".join(shown))
    return f"{text} {' | '.join(parts)}"


def details(verdict: Verdict) -> list[str]:
    """What the line does not say: failed checks, and the first event that differs with its neighbours."""
    lines = []
    if verdict.status == DIFFERS:
        lines.append(f"    failed: {verdict.reason}")
    if verdict.difference is not None:
        lines += _difference_lines(verdict.difference)
    return lines


def _difference_lines(difference: Difference) -> list[str]:
    lines = [
        f"    {difference.device}: event {difference.index} of {' '.join(difference.actions)} is the first that differs",
        f"      {'':>7}  {'captured':<32} modelled",
    ]
    for k in range(max(len(difference.captured), len(difference.modelled))):
        one = difference.captured[k] if k < len(difference.captured) else "-"
        two = difference.modelled[k] if k < len(difference.modelled) else "-"
        mark = ">" if difference.first + k == difference.index else " "
        lines.append(f"    {mark} {difference.first + k:>7}  {one:<32} {two}")
    return lines


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m blklab.lab.conform", description="The model beside a real kernel, case by case."
    )
    parser.add_argument("cases", nargs="*", metavar="CASE", help="names or patterns, as in busy/null-*; all if none")
    parser.add_argument("--captures", type=Path, metavar="DIR", help=f"where the captures are ({CAPTURES})")
    parser.add_argument("--costs", default=COSTS, help="the cost table, by name or file (%(default)s)")
    parser.add_argument("--json", action="store_true", help="print everything as JSON")
    parser.add_argument("--brief", action="store_true", help="one line a case, nothing else")
    return parser


def _folder(given: Path | None) -> Path:
    folder = given or CAPTURES
    if not folder.is_dir():
        raise BlklabError(f"no folder {folder} with captures; --captures says where they are", "conform")
    return folder


def main(arguments: Sequence[str] | None = None) -> int:
    """The program."""
    given = _arguments().parse_args(arguments)
    try:
        tolerances = load_tolerances()
        found = find_cases(_folder(given.captures))
        verdicts = []
        for case in select(found, given.cases):
            verdict = judge(found[case], tolerances, given.costs)
            verdicts.append(verdict)
            if not given.json:
                print(row(verdict))
                for line in [] if given.brief else details(verdict):
                    print(line)
                sys.stdout.flush()
    except BlklabError as error:
        print(error, file=sys.stderr)
        return 2
    if given.json:
        print(json.dumps([asdict(verdict) for verdict in verdicts], indent=1))
    else:
        number = Counter(verdict.status for verdict in verdicts)
        print(", ".join(f"{number[status]} {status}" for status in STATUSES) + f" of {len(verdicts)}")
    return 1 if any(verdict.status == DIFFERS for verdict in verdicts) else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
