"""Speed of the simulator: I/Os per wall second and memory of each workload, as JSON on standard output.

    throughput.py                 all workloads, and the ratios to SimPy and to fio's null engine in one run
    throughput.py NAME ...        only these, without the ratios

Shape: {"workloads": {NAME: {"ios_per_wall_second", "rss_mb"}}, "scheduler_ratios": {SCHEDULER: to none},
"simpy_ratio", "fio_null_ratio", "rss_mb_at_100m_ios"}. The ratios are those of `random-4k`; fio_null_ratio is
null where fio is not installed.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import fio_null
import measure
import simpy_model
import workloads

MEMORY_LENGTHS = (1_000_000, 5_000_000)
MEMORY_WANTED = 100_000_000


def main(argv: list[str]) -> int:
    """See the module's docstring. What runs is named on standard error, when it is a terminal."""
    unknown = [name for name in argv if name not in workloads.WORKLOADS]
    if unknown:
        known = ", ".join(workloads.WORKLOADS)
        print(f"no workload {', '.join(unknown)}; there are {known}", file=sys.stderr)
        return 2
    results: dict[str, Any] = {"workloads": {}}
    for name in argv or workloads.WORKLOADS:
        if sys.stderr.isatty():
            print(f"{name} ...", file=sys.stderr)
        results["workloads"][name] = measure.best_of(name, workloads.WORKLOADS[name].ios)
    if not argv:
        rates = {name: w["ios_per_wall_second"] for name, w in results["workloads"].items()}
        results["scheduler_ratios"] = {
            scheduler: round(rates[f"random-4k-{scheduler}"] / rates["random-4k"], 2)
            for scheduler in workloads.SCHEDULERS
        }
        rate = results["workloads"]["random-4k"]["ios_per_wall_second"]
        fio_rate = fio_null.ios_per_wall_second()
        results["simpy_ratio"] = round(rate / simpy_model.ios_per_wall_second(), 1)
        results["fio_null_ratio"] = None if fio_rate is None else round(rate / fio_rate, 2)
        results["rss_mb_at_100m_ios"] = measure.rss_at("random-4k", *MEMORY_LENGTHS, MEMORY_WANTED)
    print(json.dumps(results, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
