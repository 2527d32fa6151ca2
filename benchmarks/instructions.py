"""Instruction counts of the small workloads, against those recorded in instructions.json (part of `make
check`).

    instructions.py            compare; exit status 1 where a count changed by more than 5%
    instructions.py --record   write the counts anew (a wanted change, to be committed with its reason)

Why instructions and not seconds: they hardly depend on what else the machine does, so a limit can be tight.

Theory of operation
    valgrind's callgrind counts what runs within the event loop (measure.py), which is the same to the last
    instruction from run to run. The counts belong to one Python, Cython, compiler and libc: where any of them
    is not the recorded one, nothing is compared and the file is written anew.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import measure
import workloads

RECORD = Path(__file__).with_name("instructions.json")
ALLOWED_CHANGE = 0.05


def environment() -> dict[str, str]:
    """The versions that the counts depend on."""
    compiler = subprocess.run(["cc", "--version"], check=True, capture_output=True, text=True).stdout
    return {
        "machine": platform.machine(),
        "python": sys.version,
        "cython": importlib.metadata.version("cython"),
        "compiler": compiler.splitlines()[0],
        "libc": " ".join(platform.libc_ver()),
    }


def count(name: str) -> float:
    """Instructions of one I/O of the workload `name`."""
    with tempfile.TemporaryDirectory() as folder:
        instructions = measure.under_callgrind(name, workloads.COUNTED_IOS, Path(folder) / "out")
    return round(instructions / workloads.COUNTED_IOS, 1)


def count_all() -> dict[str, float]:
    """Workload -> instructions of one I/O."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return dict(zip(workloads.COUNTED, pool.map(count, workloads.COUNTED), strict=True))


def compare(recorded: dict[str, float], counted: dict[str, float]) -> list[str]:
    """Prints both; returns the workloads whose count changed too much, is new or is gone."""
    wrong = []
    for name in sorted({*recorded, *counted}):
        before, now = recorded.get(name), counted.get(name)
        if before is None or now is None:
            print(f"{name:24} recorded {before}, counted {now}")
            wrong.append(name)
            continue
        change = now / before - 1
        print(f"{name:24} {before:10.1f} -> {now:10.1f} instructions an I/O ({change:+.1%})")
        if abs(change) > ALLOWED_CHANGE:
            wrong.append(name)
    return wrong


def main(argv: list[str]) -> int:
    """See the module's docstring. Without valgrind it says so and succeeds."""
    if shutil.which("valgrind") is None:
        print("instruction counts: valgrind is not installed, nothing compared")
        return 0
    present = environment()
    record = json.loads(RECORD.read_text()) if RECORD.is_file() else {}
    counted = count_all()
    if argv == ["--record"] or record.get("environment") != present:
        RECORD.write_text(
            json.dumps({"environment": present, "instructions_per_io": counted}, indent=2) + "\n"
        )
        print(f"{RECORD.name} written: {', '.join(f'{name} {count}' for name, count in counted.items())}")
        return 0
    wrong = compare(record["instructions_per_io"], counted)
    if wrong:
        print(
            f"changed by more than {ALLOWED_CHANGE:.0%}: {', '.join(wrong)}; if that is wanted, run",
            file=sys.stderr,
        )
        print("    .venv/bin/python benchmarks/instructions.py --record", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
