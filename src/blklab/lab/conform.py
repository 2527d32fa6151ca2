"""The model beside a real kernel, case by case: `python -m blklab.lab.conform [CASE...]`.

What: sets each captured case up in the model, runs it, and prints for each one whether the model did the same: exact,
within tolerance, differs, or not yet (with what is missing).

    python -m blklab.lab.conform                          all cases in tests/reference
    python -m blklab.lab.conform 'busy/null-*'            some of them
    python -m blklab.lab.conform --captures DIR           those of another folder, compact or as the lab writes them
    python -m blklab.lab.conform --gaps CASE              time from event to event, captured and modelled
    python -m blklab.lab.conform --json                   everything, for programs

Without --captures, captures of $BLKLAB_SHARED/reference (or ../shared/reference) that are not in tests/reference, or
not the same there, are run as well.

Exit status: 1 if a case differs that is not known to, 2 if something was asked that there is not, else 0.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from fnmatch import fnmatchcase
from pathlib import Path

from blklab.core.errors import BlklabError, nearest
from blklab.lab.conform_capture import Capture, find_cases, read_capture
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
from blklab.lab.conform_model import COSTS, ModelRun, NotYet, run_case

STATUSES = (EXACT, WITHIN, DIFFERS, NOT_YET)
CAPTURES = Path("tests/reference")
SHARED = Path(os.environ.get("BLKLAB_SHARED", "../shared"))


def judge(capture: Capture, tolerances: Sequence[Tolerance], costs: str = COSTS) -> Verdict:
    """Run one case and compare it."""
    tolerance = tolerance_of(capture, tolerances)
    try:
        model = run_case(capture, costs)
    except NotYet as missing:
        return Verdict(capture.case, NOT_YET, str(missing))
    return compare(capture, model, tolerance)


def select(cases: Iterable[str], patterns: Sequence[str]) -> list[str]:
    """The cases that fit one of the patterns; all if there are none. BlklabError: a pattern fits nothing."""
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
            f"{action} {one}" if one == two else f"{action} {one}/{two}"
            for action, (one, two) in counts.items()
        ]
        parts.append((f"{device}: " if several else "") + "  ".join(shown))
    return f"{text} {' | '.join(parts)}"


def details(verdict: Verdict) -> list[str]:
    """What the line does not say: failed checks, and the first event that differs with its neighbours."""
    lines = []
    if verdict.status == DIFFERS:
        lines.append(f"    failed: {verdict.reason}")
        lines += textwrap.wrap(verdict.explained, 110, initial_indent="    why: ", subsequent_indent="    ")
    if verdict.difference is not None:
        lines += _difference_lines(verdict.difference)
    return lines


def _difference_lines(difference: Difference) -> list[str]:
    lines = [
        f"    {difference.device}: event {difference.index} of {' '.join(difference.actions)} "
        "is the first that differs",
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
    parser.add_argument(
        "cases", nargs="*", metavar="CASE", help="names or patterns, as in busy/null-*; all if none"
    )
    parser.add_argument("--captures", type=Path, metavar="DIR", help=f"where the captures are ({CAPTURES})")
    parser.add_argument("--costs", default=COSTS, help="the cost table, by name or file (%(default)s)")
    parser.add_argument("--json", action="store_true", help="print everything as JSON")
    parser.add_argument("--brief", action="store_true", help="one line a case, nothing else")
    parser.add_argument("--gaps", action="store_true", help="show the time from event to event instead")
    return parser


def _captures(given: Path | None, patterns: Sequence[str]) -> Iterator[Capture]:
    # Those of the folder, then those that only the shared folder has like that
    folder = given or CAPTURES
    if not folder.is_dir():
        raise BlklabError(f"no folder {folder} with captures; --captures says where they are", "conform")
    found = find_cases(folder)
    shared = find_cases(SHARED / "reference") if given is None else {}
    for case in select([*found, *(case for case in shared if case not in found)], patterns):
        mine = read_capture(found[case]) if case in found else None
        if mine is not None:
            yield mine
        if case in shared:
            theirs = read_capture(shared[case])
            if theirs != mine:
                yield theirs


def gap_lines(capture: Capture, model: ModelRun) -> list[str]:
    """A table: how often an event followed another, and the median time between, on both sides."""
    title = f"{capture.case}: ns from an event to the next of the same task"
    lines = [title, f"    {'':<8}{'captured':>18}{'modelled':>18}"]
    for pair in sorted({*capture.gaps, *model.gaps}):
        sides = [side.get(pair) for side in (capture.gaps, model.gaps)]
        cells = [f"{found[1]:>9} x{found[0]:<7}" if found else "" for found in sides]
        lines.append(f"    {pair.replace(' ', '>'):<8}{cells[0]:>18}{cells[1]:>18}".rstrip())
    return lines


def _print_gaps(capture: Capture, costs: str) -> None:
    try:
        print("\n".join(gap_lines(capture, run_case(capture, costs))))
    except NotYet as missing:
        print(f"{capture.case}: {NOT_YET}: {missing}")


def main(arguments: Sequence[str] | None = None) -> int:
    """The program."""
    given = _arguments().parse_args(arguments)
    try:
        tolerances = load_tolerances()
        verdicts = []
        for capture in _captures(given.captures, given.cases):
            if given.gaps:
                _print_gaps(capture, given.costs)
                continue
            verdict = judge(capture, tolerances, given.costs)
            verdicts.append(verdict)
            if not given.json:
                print(row(verdict))
                for line in [] if given.brief else details(verdict):
                    print(line)
                sys.stdout.flush()
    except BlklabError as error:
        print(error, file=sys.stderr)
        return 2
    if given.gaps:
        return 0
    if given.json:
        print(json.dumps([asdict(verdict) for verdict in verdicts], indent=1))
    else:
        number = Counter(verdict.status for verdict in verdicts)
        print(", ".join(f"{number[status]} {status}" for status in STATUSES) + f" of {len(verdicts)}")
    return 1 if any(verdict.status == DIFFERS and not verdict.explained for verdict in verdicts) else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
