"""Makes tests/reference of the kernel lab's output: one small file a case, CASE.json.gz, without times.

    make_reference.py LAB_OUTPUT                    writes what is new or has changed
    make_reference.py LAB_OUTPUT 'busy/*' ...       only these cases
    make_reference.py LAB_OUTPUT --check            writes nothing; exit status 1 if a file is not what it would be

LAB_OUTPUT is the folder that holds GROUP/CASE/setup.json. `blklab.lab.conform_capture` describes the form. The same
captures give the same bytes, so that a changed file is a changed capture.
"""

from __future__ import annotations

import argparse
import sys
from fnmatch import fnmatchcase
from pathlib import Path

from blklab.core.errors import BlklabError
from blklab.lab.conform_capture import COMPACT_SUFFIX, encode, find_cases, read_capture

ROOT = Path(__file__).resolve().parent.parent
MOST_BYTES = 3_000_000  # of all files together


def main(argv: list[str]) -> int:
    """See the module's docstring."""
    parser = argparse.ArgumentParser(prog="make_reference.py", description="Makes tests/reference.")
    parser.add_argument("lab_output", type=Path)
    parser.add_argument("cases", nargs="*", metavar="CASE", help="names or patterns; all if none")
    parser.add_argument("--into", type=Path, default=ROOT / "tests" / "reference")
    parser.add_argument("--check", action="store_true", help="only say what would be written")
    given = parser.parse_args(argv)
    changed = total = 0
    try:
        found = find_cases(given.lab_output)
        if not found:
            raise BlklabError("holds no GROUP/CASE/setup.json", str(given.lab_output))
        for case, path in found.items():
            if given.cases and not any(fnmatchcase(case, pattern) for pattern in given.cases):
                continue
            data = encode(read_capture(path))
            total += len(data)
            target = given.into / f"{case}{COMPACT_SUFFIX}"
            if target.is_file() and target.read_bytes() == data:
                continue
            changed += 1
            print(f"{case}: {len(data)} bytes")
            if not given.check:
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(data)
    except BlklabError as error:
        print(error, file=sys.stderr)
        return 2
    print(f"{total} bytes in all, {changed} files {'to be written' if given.check else 'written'}")
    if total > MOST_BYTES:
        print(f"more than {MOST_BYTES} bytes: leave cases out", file=sys.stderr)
        return 1
    return 1 if given.check and changed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
