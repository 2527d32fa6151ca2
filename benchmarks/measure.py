"""Runs one workload in a process of its own: its rate, and the most memory it held.

    measure.py NAME IOS     prints {"ios", "seconds", "rss_mb"}

A process for each, so that no workload inherits the memory or the warm caches of another. Only the simulation
is timed: not starting Python, importing or reading the job.
"""

from __future__ import annotations

import json
import re
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import workloads

REPETITIONS = 3
MEGABYTE = 1_000_000


def measure_here(name: str, ios: int) -> dict[str, float]:
    """Runs the workload in this process. `rss_mb`: the process's peak resident memory, 10^6 bytes."""
    done, seconds = workloads.run(name, ios)
    peak_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"ios": done, "seconds": seconds, "rss_mb": round(peak_kib * 1024 / MEGABYTE, 1)}


def measure(name: str, ios: int) -> dict[str, float]:
    """The same in a fresh process. Raises subprocess.CalledProcessError if it fails."""
    command = [sys.executable, __file__, name, str(ios)]
    result = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    measured: dict[str, float] = json.loads(result.stdout)
    return measured


def best_of(name: str, ios: int, repetitions: int = REPETITIONS) -> dict[str, float]:
    """`ios_per_wall_second` and `rss_mb` of the fastest of several runs: other load only ever slows a run
    down."""
    runs = [measure(name, ios) for _ in range(repetitions)]
    fastest = max(runs, key=lambda run: run["ios"] / run["seconds"])
    return {
        "ios_per_wall_second": round(fastest["ios"] / fastest["seconds"]),
        "rss_mb": max(run["rss_mb"] for run in runs),
    }


def rss_at(name: str, shorter: int, longer: int, wanted: int) -> float:
    """Peak memory in 10^6 bytes at `wanted` I/Os, on the line through the runs of two shorter lengths."""
    low, high = measure(name, shorter)["rss_mb"], measure(name, longer)["rss_mb"]
    return round(high + (high - low) * (wanted - longer) / (longer - shorter), 1)


def profile(name: str, ios: int, functions: int = 10) -> list[tuple[float, str]]:
    """The functions that most instructions are spent in (callgrind): (share in percent, name).

    Needs valgrind. Includes start-up and imports, so `ios` should be some 100,000.
    """
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "out"
        command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={output}"]
        command += [sys.executable, __file__, name, str(ios)]
        subprocess.run(command, check=True, capture_output=True)
        listing = subprocess.run(
            ["callgrind_annotate", "--threshold=95", str(output)], check=True, capture_output=True, text=True
        ).stdout
    rows = re.findall(r"^ *[\d,]+ \( *([\d.]+)%\)  \S*?:(\S+)", listing, re.MULTILINE)
    return [(float(share), function) for share, function in rows[:functions]]


def main(argv: list[str]) -> int:
    """See the module's docstring; with a third argument `profile` prints the top ten functions instead."""
    name, ios = argv[0], int(argv[1])
    if argv[2:] == ["profile"]:
        for share, function in profile(name, ios):
            print(f"{share:5.1f}%  {function}")
    else:
        print(json.dumps(measure_here(name, ios)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
