"""Reads fio's JSON back into a `RunResult`, so that a measured result and a modelled one are the same thing.

Theory of operation
-------------------
What fio measured is in its JSON as numbers, and they are taken as they are. What it shows as percentages
(CPU, depths, latency distribution) is turned back into the smallest counts that give the same percentages.
Histograms come from json+ ("bins"); from plain JSON, a histogram is made that has the same percentiles, which
is all that is known of it. Rendering what was read gives the same text and the same JSON again.

fio 3.20 and later write what is read here. Text around the JSON (fio's notes and warnings) is skipped.

Not in fio's JSON, hence not in the result: pid, how many jobs a reported group had, number of submission
calls, zone resets. Not read: "prios", "steadystate", "block", "cachehit".
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from blklab.core.errors import BlklabError
from blklab.metrics.buckets import NS_PER_MS
from blklab.metrics.groups import DEPTH_FLOOR, LATENCY_FLOOR
from blklab.metrics.histogram import LatencyHistogram
from blklab.metrics.percentile import percentile_rank
from blklab.metrics.result import (
    DIRECTION_NAMES,
    READ,
    CgroupDevice,
    CgroupResult,
    DiskUtil,
    JobResult,
    RunResult,
)
from blklab.metrics.stats import DirectionStats, JobStats, Stat
from blklab.report.fio_text import BATCH_NAMES, DEPTH_NAMES, LATENCY_LINES

# fio shows six decimals of a percentage: with this many calls, each of them is a whole number of calls
CALLS_IF_UNKNOWN = 100_000_000

UNIFIED = {"0": "none", "1": "mixed", "2": "both"}

Json = Mapping[str, Any]


def read_fio_json(text: str, source: str = "fio JSON") -> RunResult:
    """The result that `text` (fio's json or json+ output) holds; `source` names it in errors.

    Raises BlklabError if there is no JSON in it, or not that of a fio result.
    """
    start = text.find("{")
    if start < 0:
        raise BlklabError("no JSON found; expected the output of fio --output-format=json", source)
    try:
        root, _ = json.JSONDecoder().raw_decode(text, start)
    except json.JSONDecodeError as error:
        raise BlklabError(
            f"not JSON: {error}; expected the output of fio --output-format=json", source
        ) from None
    try:
        return run_from(root)
    except KeyError as error:
        raise BlklabError(f"JSON, but not a fio result: it has no {error}", source) from None
    except (TypeError, ValueError, AttributeError) as error:
        raise BlklabError(f"JSON, but not a fio result: {error}", source) from None


def run_from(root: Json) -> RunResult:
    """A whole document."""
    global_options = {name: str(value) for name, value in root.get("global options", {}).items()}
    own = root.get("blklab", {})
    timestamp_ms = root.get("timestamp_ms", 1000 * root["timestamp"])
    return RunResult(
        jobs=[job_from(job, global_options) for job in root["jobs"]],
        disk_util=[disk_from(disk) for disk in root.get("disk_util", [])],
        cgroups=[cgroup_from(group) for group in root.get("cgroups", [])],
        global_options=global_options,
        timestamp_ms=timestamp_ms,
        **{name: own[name] for name in ("seed", "kernel", "machine", "version", "notes") if name in own},
    )


def job_from(job: Json, global_options: Mapping[str, str]) -> JobResult:
    """One job or reported group."""
    own = {name: str(value) for name, value in job.get("job options", {}).items()}
    options = {**global_options, **own}
    unified = options.get("unified_rw_reporting", "none")
    result = JobResult(
        name=job["jobname"],
        groupid=job["groupid"],
        group_reporting=options.get("group_reporting", "0") != "0",
        options=own,
        description=job.get("desc", ""),
        job_start_ms=job.get("job_start", 0),
        elapsed_s=job["elapsed"],
        eta_s=job["eta"],
        rw=options.get("rw", options.get("readwrite", "read")),
        ioengine=options.get("ioengine", "psync"),
        iodepth=int(options.get("iodepth", "1")),
        percentile_precision=precision_of(options.get("percentile_list")),
        kb_base=int(options.get("kb_base", "1024")),
        unit_base=int(options.get("unit_base", "8")) or 8,
        sig_figs=int(options.get("significant_figures", "4")),
        unified_rw=UNIFIED.get(unified, unified),
        latency_depth=job.get("latency_depth", 0),
        latency_target=job.get("latency_target", 0),
        latency_window=job.get("latency_window", 0),
        latency_percentile=job.get("latency_percentile", 100.0),
        error=job["error"],
        continue_on_error="total_err" in job,
        total_errors=job.get("total_err", 0),
        first_error=job.get("first_error", 0),
    )
    shown = [job[name] for name in DIRECTION_NAMES if name in job] or [job["mixed"]]
    for latency in ("clat_ns", "slat_ns", "lat_ns"):
        for direction in shown:
            if direction[latency].get("percentile"):
                result.percentile_list = tuple(float(p) for p in direction[latency]["percentile"])
    result.stats = stats_from(job, shown)
    return result


def precision_of(percentile_list: str | None) -> int:
    """Decimals with which percentiles are shown: the most that the option's entries have."""
    if percentile_list is None:
        return 2
    return max(len(entry.partition(".")[2]) for entry in percentile_list.split(":"))


def stats_from(job: Json, shown: list[Json]) -> JobStats:
    """The counts of a job. `shown` are its directions, or "mixed" alone."""
    asked = [any("percentile" in d[latency] for d in shown) for latency in ("clat_ns", "lat_ns", "slat_ns")]
    stats = JobStats(*asked)
    for ddir, direction in enumerate(shown):
        direction_from(stats.of(READ + ddir), direction)
    sync = job.get("sync", {"total_ios": 0, "lat_ns": {"N": 0}})
    stats.sync_ios = sync["total_ios"]
    latency_from(stats.sync, stats.sync_hist, sync["lat_ns"])
    run_ms = job["job_runtime"]
    stats.total_run_ns = run_ms * NS_PER_MS
    stats.usr_ns = round(job["usr_cpu"] * run_ms / 100) * NS_PER_MS
    stats.sys_ns = round(job["sys_cpu"] * run_ms / 100) * NS_PER_MS
    stats.ctx, stats.majf, stats.minf = job["ctx"], job["majf"], job["minf"]
    ios = sum(d.ios for d in stats.directions())
    latencies: list[float] = []
    for unit, _, names in LATENCY_LINES:
        latencies += [job[f"latency_{unit[0]}s"][name] for name in names]
    submit = [job["iodepth_submit"][name] for name in BATCH_NAMES]
    complete = [job["iodepth_complete"][name] for name in BATCH_NAMES]
    stats.load_maps(
        counts_of([job["iodepth_level"][name] for name in DEPTH_NAMES], ios, DEPTH_FLOOR),
        counts_of(submit, CALLS_IF_UNKNOWN, DEPTH_FLOOR),
        counts_of(complete, CALLS_IF_UNKNOWN, DEPTH_FLOOR),
        counts_of(latencies, ios, LATENCY_FLOOR),
        CALLS_IF_UNKNOWN if any(submit) else 0,
        CALLS_IF_UNKNOWN if any(complete) else 0,
    )
    return stats


def counts_of(shares: list[float], total: int, floor: float) -> list[int]:
    """The counts that show as these percentages of `total`; one that is not 0 shows as `floor` at least."""
    return [(1 if share == floor else round(share * total / 100)) if share else 0 for share in shares]


def direction_from(d: DirectionStats, direction: Json) -> None:
    """Reads, writes or trims of a job."""
    d.bytes = direction["io_bytes"]
    d.runtime_ns = direction["runtime"] * NS_PER_MS
    d.ios = d.done_ios = direction["total_ios"]
    d.short_ios = direction["short_ios"]
    d.drop_ios = direction["drop_ios"]
    latency_from(d.slat, d.slat_hist, direction["slat_ns"])
    latency_from(d.clat, d.clat_hist, direction["clat_ns"])
    latency_from(d.lat, d.lat_hist, direction["lat_ns"])
    for stat, name, stddev in ((d.bw, "bw", "bw_dev"), (d.iops, "iops", "iops_stddev")):
        low, high = direction[f"{name}_min"], direction[f"{name}_max"]
        stat.load(direction[f"{name}_samples"], low, high, direction[f"{name}_mean"], direction[stddev])


def latency_from(stat: Stat, hist: LatencyHistogram, latency: Json) -> None:
    """One latency's figures, and its histogram as far as it is known."""
    n = latency["N"]
    if not n:
        return
    stat.load(n, latency["min"], latency["max"], latency["mean"], latency["stddev"])
    if "bins" in latency:
        for value, count in latency["bins"].items():
            hist.add_many(int(value), count)
    elif "percentile" in latency:
        below = 0
        for percent, value in sorted((float(p), value) for p, value in latency["percentile"].items()):
            rank = percentile_rank(percent, n)
            hist.add_many(value, rank - below)
            below = max(below, rank)
        hist.add_many(latency["max"], n - below)


def cgroup_from(group: Json) -> CgroupResult:
    """A control group, in a result of blklab's own."""
    fields = ("name", "rbytes", "wbytes", "rios", "wios", "dbytes", "dios", "share")
    devices = tuple(CgroupDevice(**{name: device[name] for name in fields}) for device in group["devices"])
    return CgroupResult(group["path"], devices, group["elapsed_ns"], tuple(group["io.stat"]))


def disk_from(disk: Json) -> DiskUtil:
    """A block device; of what is under a stacked one, only the average is known, which is given as one."""
    members: tuple[DiskUtil, ...] = ()
    if "aggr_util" in disk:
        members = (disk_figures(disk, "aggr_", "merge"),)
    util = disk_figures(disk, "", "merges")
    util.members = members
    return util


def disk_figures(disk: Json, prefix: str, write_merges: str) -> DiskUtil:
    """The counters whose names begin with `prefix`; fio has two spellings of `write_merges`."""
    return DiskUtil(
        name=disk["name"],
        read_ios=disk[f"{prefix}read_ios"],
        write_ios=disk[f"{prefix}write_ios"],
        read_merges=disk[f"{prefix}read_merges"],
        write_merges=disk[f"{prefix}write_{write_merges}"],
        read_sectors=disk.get(f"{prefix}read_sectors", 0),
        write_sectors=disk.get(f"{prefix}write_sectors", 0),
        read_ticks_ms=disk[f"{prefix}read_ticks"],
        write_ticks_ms=disk[f"{prefix}write_ticks"],
        in_queue_ms=disk[f"{prefix}in_queue"],
        util_pct=disk[f"{prefix}util"],
    )
