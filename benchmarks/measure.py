"""Runs one workload in a process of its own: its rate, and the most memory it held.

    measure.py NAME IOS             prints {"ios", "seconds", "rss_mb"}
    measure.py NAME IOS profile     prints the ten functions with most instructions (valgrind's callgrind)

A process for each, so that no workload inherits the memory or the warm caches of another. Only the simulation
is timed: not starting Python, importing or reading the job.
"""

from __future__ import annotations

import json
import os
import re
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import workloads

# The C function of sim.events.EventQueue.run: what runs below it is the simulation.
EVENT_LOOP = "__pyx_f_6blklab_3sim_6events_10EventQueue_run"
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


def under_callgrind(name: str, ios: int, output: Path) -> int:
    """Runs the workload under valgrind; returns the instructions within the event loop, and writes the
    profile.

    Start-up, imports and reading the job are left out. Raises RuntimeError if the run fails or the loop's
    function is not found (uncompiled, or renamed).
    """
    # A fixed hash seed: the order of sets and collisions in dictionaries cost instructions too. Bytecode may
    # be written: parsing all modules anew would take longer than the simulation.
    variables = {**os.environ, "PYTHONHASHSEED": "0"}
    variables.pop("PYTHONDONTWRITEBYTECODE", None)
    run = [sys.executable, __file__, name, str(ios)]
    command = [
        "valgrind",
        "--tool=callgrind",
        f"--callgrind-out-file={output}",
        f"--toggle-collect={EVENT_LOOP}",
    ]
    result = subprocess.run([*command, *run], check=False, capture_output=True, text=True, env=variables)
    found = re.search(r"Collected : (\d+)", result.stderr)
    if result.returncode or found is None:
        raise RuntimeError(f"{name} failed under valgrind:\n{result.stdout}{result.stderr}")
    if found[1] == "0":
        raise RuntimeError(f"{name}: the event loop {EVENT_LOOP} was not seen; is the package compiled?")
    return int(found[1])


def readable(symbol: str) -> str:
    """The Python name of a function that Cython made: "__pyx_f_6blklab_4core_4host_4Host_charge" ->
    "core.host.Host.charge"."""
    rest = re.sub(r"^__pyx_(f|fuse|pw|pf)_", "", symbol)
    names = []
    while found := re.match(r"(\d+)", rest):
        end = found.end() + int(found[1])
        names.append(rest[found.end() : end])
        rest = rest[end:].removeprefix("_")
    return ".".join([*names, rest]).removeprefix("blklab.") if names else symbol


def profile(name: str, ios: int, functions: int = 10) -> list[tuple[float, str]]:
    """The functions of the event loop in which most instructions are: (share in percent, name). Needs
    valgrind."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "out"
        under_callgrind(name, ios, output)
        command = ["callgrind_annotate", "--threshold=100", str(output)]
        listing = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    rows = re.findall(r"^ *[\d,]+ \( *([\d.]+)%\)  \S*?:(\S+)", listing, re.MULTILINE)
    return [(float(share), readable(function)) for share, function in rows[:functions]]


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
