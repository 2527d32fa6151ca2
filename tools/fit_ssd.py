"""Fits the SSD presets on published fio results, and writes the fit into their files.

    fit_ssd.py                 the table of each preset as it is: published, simulated, error
    fit_ssd.py --fit NAME      search for better settings of a preset, from those it has, and print them
    fit_ssd.py --write         put simulated values and errors into the files

The published values stand in the presets themselves ([[fit]]). Those of samsung-980pro-1tb are the rows of
validation/icpe24.csv that are marked `calibrate`, scheduler none; nothing else is ever looked at here.

Theory of operation
    Each row is run on the preset's machine as it was measured, long enough for `ios` I/Os. The error of a row
    is of mean, p50, p99 and p99.9 of clat, as far as they were published (IOPS follow from the mean by
    Little's law); the fit minimizes the root of the mean square of their logarithms, p99.9 counting half.
    FITTED are the parameters that are fitted, with the step of the search: one parameter at a time, and unit
    time against latency, until none gets better; then half the steps.
"""

from __future__ import annotations

import argparse
import math
import re
import sys
from collections.abc import Mapping
from csv import DictReader
from pathlib import Path
from typing import Any

import sources
from blklab.device.presets import Preset, load_presets
from blklab.metrics.groups import summarize
from blklab.sim.api import simulate
from blklab.sim.machine import load_machine
from blklab.workload.jobfile import parse_job_text

FOLDER = sources.PACKAGE_FOLDER / "device" / "presets"
SEED = 1
IOS = 100_000
RAMP_MS = 20
WEIGHTS = {"clat_ns": 1.0, "p50_ns": 1.0, "p99_ns": 1.0, "p999_ns": 0.5}
VALUES = ("iops", *WEIGHTS)

# Preset -> parameter -> step of the search, and the smallest step
FITTED = {
    "samsung-980pro-1tb": {
        "units": (2, 1),
        "read_ns": (1000, 250),
        "read_sense_ns": (400, 100),
        "read_jitter_ns": (1000, 250),
        "latency_ns": (1000, 250),
        "read_retry_ppm": (2000, 1000),
        "read_retry_ns": (2000, 1000),
    },
    "intel-ssdpekkr128g7": {"read_iops": (1000, 250)},
}
ENGINES = {
    "icpe24": "ioengine=io_uring\nregisterfiles=1\nfixedbufs=1",
    "kyber-thread": "ioengine=libaio\nsize=256m",
}
JOB = """\
[job]
{engine}
direct=1
rw={rw}
bs=4k
norandommap
filename=nvme0n1
iodepth={iodepth}
numjobs={numjobs}
group_reporting
ramp_time={ramp}ms
runtime={runtime}ms
time_based
{cpus}
"""

Settings = dict[str, Any]
Row = dict[str, Any]
Pair = tuple[Row, dict[str, float]]


def calibration_rows(path: Path) -> list[dict[str, str]]:
    """The rows of the study that samsung-980pro-1tb may be fitted on."""
    with path.open(newline="") as file:
        return [row for row in DictReader(file) if row["role"] == "calibrate" and row["scheduler"] == "none"]


def simulate_row(row: Row, settings: Settings, ios: int = IOS) -> dict[str, float]:
    """What the model gives for a row: IOPS, and mean and percentiles of clat, as far as they were published.

    Without a scheduler, also where the row had one that does not change what the device does.
    """
    name = row["machine"]
    changes = [f"device/{key}={value}" for key, value in settings.items()]
    machine = load_machine(name, settings=["queue/scheduler=none", *changes], costs=row["costs"])
    text = JOB.format(
        engine=ENGINES[name],
        rw=row.get("rw", "randread"),
        iodepth=row["iodepth"],
        numjobs=row.get("numjobs", 1),
        ramp=RAMP_MS,
        runtime=max(50, round(ios * 1000 / row["published"]["iops"])),
        cpus=f"cpus_allowed={row['cpus_allowed']}" if "cpus_allowed" in row else "",
    )
    result = simulate(parse_job_text(text, row["run"]), machine=machine, seed=SEED)
    stats = summarize(result)[0][0].stats.read
    p50, p99, p999 = stats.clat_hist.percentiles([50.0, 99.0, 99.9])
    values = {
        "iops": stats.done_ios * 1e9 / stats.runtime_ns,
        "clat_ns": stats.clat.mean,
        "p50_ns": p50,
        "p99_ns": p99,
        "p999_ns": p999,
    }
    return {key: value for key, value in values.items() if key in row["published"]}


def errors(row: Row, simulated: Mapping[str, float]) -> dict[str, float]:
    """Relative errors in percent."""
    return {name: 100 * (value / row["published"][name] - 1) for name, value in simulated.items()}


def misfit(pairs: list[Pair]) -> float:
    """The weighted root mean square of the logarithms of all rows' ratios."""
    total = weight = 0.0
    for row, simulated in pairs:
        for name, share in WEIGHTS.items():
            if name in row["published"]:
                total += share * math.log(simulated[name] / row["published"][name]) ** 2
                weight += share
    return math.sqrt(total / weight)


def run_all(settings: Settings, rows: list[Row]) -> list[Pair]:
    """Every row with what the model gives."""
    return [(row, simulate_row(row, settings)) for row in rows]


def fit(preset: Preset, rounds: int) -> Settings:
    """Search from the preset's settings; prints each step forward."""
    fitted = FITTED[preset.name]
    best = dict(preset.settings)
    score = misfit(run_all(best, preset.fit))
    print(f"{score:.5f}", {name: best[name] for name in fitted}, flush=True)
    steps = {name: step for name, (step, _) in fitted.items()}
    moves = [{name: sign} for name in fitted for sign in (1, -1)]
    if "latency_ns" in fitted:
        moves += [{"read_ns": sign, "latency_ns": -sign} for sign in (1, -1)]
    for _ in range(rounds):
        moved = True
        while moved:
            moved = False
            for move in moves:
                trial = dict(best)
                for name, sign in move.items():
                    trial[name] = max(1, trial[name] + sign * steps[name])
                trial_score = misfit(run_all(trial, preset.fit))
                if trial_score < score:
                    best, score, moved = trial, trial_score, True
                    print(f"{score:.5f}", {name: best[name] for name in fitted}, flush=True)
        steps = {name: max(fitted[name][1], step // 2) for name, step in steps.items()}
    return best


def table(pairs: list[Pair]) -> str:
    """Published / simulated, error, as text; latencies in microseconds."""
    lines = [f"{'run':28}" + "".join(f"{name:>28}" for name in VALUES)]
    for row, simulated in pairs:
        error = errors(row, simulated)
        cells = ""
        for name in simulated:
            scale = 1 if name == "iops" else 1000
            published = row["published"][name] / scale
            cells += f"{f'{published:.1f} / {simulated[name] / scale:.1f} {error[name]:+.1f}%':>28}"
        lines.append(f"{row['run']:28}{cells}")
    return "\n".join([*lines, f"weighted rms of the logarithms: {misfit(pairs):.4f}"])


def write(preset: Preset, pairs: list[Pair]) -> None:
    """Put the simulated values and errors into the preset's file."""
    file = FOLDER / f"{preset.name}.toml"
    text = file.read_text()
    for row, simulated in pairs:
        values = ", ".join(f"{name} = {round(value)}" for name, value in simulated.items())
        rounded = {name: round(value) for name, value in simulated.items()}
        error = ", ".join(f"{name} = {value:.1f}" for name, value in errors(row, rounded).items())
        start = text.index(f'run = "{row["run"]}"')
        head, tail = text[:start], text[start:]
        tail = re.sub(r"^simulated = .*$", f"simulated = {{ {values} }}", tail, count=1, flags=re.MULTILINE)
        tail = re.sub(r"^error_pct = .*$", f"error_pct = {{ {error} }}", tail, count=1, flags=re.MULTILINE)
        text = head + tail
    file.write_text(text)
    print(f"written: {file.name}")


def main(argv: list[str]) -> int:
    """See the module's docstring."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--fit", metavar="NAME", choices=sorted(FITTED))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args(argv)
    for preset in load_presets():
        if preset.name not in FITTED or arguments.fit not in (None, preset.name):
            continue
        settings = preset.settings
        if arguments.fit:
            settings = fit(preset, arguments.rounds)
            print({name: settings[name] for name in FITTED[preset.name]})
        pairs = run_all(settings, preset.fit)
        print(preset.name)
        print(table(pairs))
        if arguments.write and not arguments.fit:
            write(preset, pairs)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
