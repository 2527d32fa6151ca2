"""fio's JSON output (json and json+), with the keys, their order and the layout of version 3.36.

Theory of operation
-------------------
A document is built as nested dicts and lists, in fio's order, and written by `dumps`, because fio's layout is
not one that the standard library writes: `"key" : value`, two blanks a level, every float with six decimals.
What reads fio's JSON reads this.

Unlike the text, the JSON shows every direction, with zeros where nothing was done. Percentiles show where
their option is on and there are samples; json+ adds the histogram itself as "bins", value to count.

Differences from fio: the time is what the caller says it is, by default in UTC. Control characters in names
are escaped, as JSON demands. On request an object "blklab" at the end says how the result came about. A machine
with control groups has a list "cgroups" behind the disks, which fio does not have and its readers pass over.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from blklab.metrics.groups import (
    DDIRS,
    DEPTH_FLOOR,
    LATENCY_FLOOR,
    Entry,
    GroupTotals,
    PrioStats,
    cpu_shares,
    distribution,
    mixed_entry,
    share_of_group,
    summarize,
)
from blklab.metrics.histogram import LatencyHistogram
from blklab.metrics.result import DIRECTION_NAMES, READ, CgroupResult, DiskUtil, RunResult
from blklab.metrics.stats import Stat, ms_up
from blklab.report.fio_text import BATCH_NAMES, DEPTH_NAMES, LATENCY_LINES, average_of, time_text

FIO_VERSION = "fio-3.36"

Value = str | int | float | dict[str, "Value"] | list["Value"]
Object = dict[str, Value]


def render_json(result: RunResult, plus: bool = False, provenance: bool = False) -> str:
    """fio's JSON for a run; `plus` adds the histograms (json+), `provenance` blklab's own object."""
    return dumps(document(result, plus, provenance)) + "\n"


def document(result: RunResult, plus: bool = False, provenance: bool = False) -> Object:
    """The same as nested dicts and lists, in fio's order."""
    entries, groups = summarize(result)
    root: Object = {
        "fio version": FIO_VERSION,
        "timestamp": result.timestamp_ms // 1000,
        "timestamp_ms": result.timestamp_ms,
        "time": time_text(result),
    }
    if result.global_options:
        root["global options"] = dict(result.global_options)
    root["jobs"] = [job_object(entry, groups[entry.first.groupid], plus) for entry in entries]
    if result.disk_util:
        root["disk_util"] = [disk_object(disk) for disk in result.disk_util]
    if result.cgroups:
        root["cgroups"] = [cgroup_object(group) for group in result.cgroups]
    if provenance:
        root["blklab"] = {
            "version": result.version,
            "kernel": result.kernel,
            "machine": result.machine,
            "seed": result.seed,
            "notes": list(result.notes),
        }
    return root


def job_object(entry: Entry, group: GroupTotals, plus: bool) -> Object:
    """One job or reported group."""
    job, last, stats = entry.first, entry.last, entry.stats
    root: Object = {
        "jobname": job.name,
        "groupid": job.groupid,
        "job_start": job.job_start_ms,
        "error": entry.error,
        "eta": last.eta,
        "elapsed": last.elapsed_s,
    }
    if last.options:
        root["job options"] = dict(last.options)
    if job.unified_rw == "mixed":
        root["mixed"] = direction_object(entry, group, READ, plus)
    else:
        for ddir in DDIRS:
            root[DIRECTION_NAMES[ddir]] = direction_object(entry, group, ddir, plus)
    wanted = stats.clat_percentiles or stats.lat_percentiles
    sync: Object = {
        "total_ios": stats.sync_ios,
        "lat_ns": latency_object(stats.sync, stats.sync_hist if wanted else None, entry, plus),
    }
    if job.unified_rw != "mixed":
        root["sync"] = sync
    if job.unified_rw == "both":
        root["mixed"] = direction_object(mixed_entry(entry), group, READ, plus)
    root.update(tail_object(entry))
    return root


def direction_object(entry: Entry, group: GroupTotals, ddir: int, plus: bool) -> Object:
    """The reads, writes or trims of an entry."""
    stats = entry.stats
    d = stats.of(ddir)
    runtime_ms = ms_up(d.runtime_ns)
    bw_bytes = 1000 * d.bytes // runtime_ms if runtime_ms else 0
    out: Object = {
        "io_bytes": d.bytes,
        "io_kbytes": d.bytes // 1024,
        "bw_bytes": bw_bytes,
        "bw": bw_bytes // 1024,
        "iops": 1000.0 * d.ios / runtime_ms if runtime_ms else 0.0,
        "runtime": runtime_ms,
        "total_ios": d.ios,
        "short_ios": d.short_ios,
        "drop_ios": d.drop_ios,
        "slat_ns": latency_object(d.slat, d.slat_hist if stats.slat_percentiles else None, entry, plus),
        "clat_ns": latency_object(d.clat, d.clat_hist if stats.clat_percentiles else None, entry, plus),
        "lat_ns": latency_object(d.lat, d.lat_hist if stats.lat_percentiles else None, entry, plus),
    }
    prios = entry.prios[ddir]
    if len(prios) > 1:
        out["prios"] = [prio_object(ioprio, prio, entry, plus) for ioprio, prio in prios.items()]
    out |= {
        "bw_min": d.bw.min,
        "bw_max": d.bw.max,
        "bw_agg": share_of_group(group, ddir, d.bw.mean) if d.bw.n else 0.0,
        "bw_mean": d.bw.mean,
        "bw_dev": d.bw.stddev,
        "bw_samples": d.bw.n,
        "iops_min": d.iops.min,
        "iops_max": d.iops.max,
        "iops_mean": d.iops.mean,
        "iops_stddev": d.iops.stddev,
        "iops_samples": d.iops.n,
    }
    return out


def latency_object(stat: Stat, hist: LatencyHistogram | None, entry: Entry, plus: bool) -> Object:
    """A latency's figures in nanoseconds; with a histogram that holds samples, percentiles and bins."""
    out: Object = {"min": stat.min, "max": stat.max, "mean": stat.mean, "stddev": stat.stddev, "N": stat.n}
    if hist is not None and stat.n:
        wanted = sorted(entry.last.percentile_list)
        out["percentile"] = {
            f"{p:f}": value for p, value in zip(wanted, hist.percentiles(wanted), strict=True)
        }
        if plus:
            out["bins"] = {str(value): count for value, count in hist.bins()}
    return out


def prio_object(ioprio: int, prio: PrioStats, entry: Entry, plus: bool) -> Object:
    """The latencies of one I/O priority of a group that has several."""
    stats = entry.stats
    hist = prio.hist if stats.clat_percentiles or stats.lat_percentiles else None
    return {
        "prioclass": ioprio >> 13,
        "prio": ioprio & 7,
        "priohint": (ioprio >> 3) & 0x3FF,
        "lat_ns" if stats.lat_percentiles else "clat_ns": latency_object(prio.stat, hist, entry, plus),
    }


def tail_object(entry: Entry) -> Object:
    """What follows the directions: runtime, CPU, depths, latency distribution, errors, latency target."""
    stats, last = entry.stats, entry.last
    usr, sys = cpu_shares(entry)
    latencies = distribution(stats.latency_counts(), entry.total_ios, LATENCY_FLOOR)
    out: Object = {
        "job_runtime": stats.total_run_ns // 1_000_000,
        "usr_cpu": usr,
        "sys_cpu": sys,
        "ctx": stats.ctx,
        "majf": stats.majf,
        "minf": stats.minf,
        "iodepth_level": named(DEPTH_NAMES, distribution(stats.depths(), entry.total_ios, DEPTH_FLOOR)),
        "iodepth_submit": named(BATCH_NAMES, distribution(stats.submit_counts(), stats.submits, DEPTH_FLOOR)),
        "iodepth_complete": named(
            BATCH_NAMES, distribution(stats.complete_counts(), stats.completes, DEPTH_FLOOR)
        ),
    }
    for unit, start, names in LATENCY_LINES:
        out[f"latency_{unit[0]}s"] = named(names, latencies[start : start + len(names)])
    if last.continue_on_error:
        out["total_err"] = entry.total_errors
        out["first_error"] = last.first_error
    depth = last.iodepth if last.latency_depth is None else last.latency_depth
    if depth:
        out["latency_depth"] = depth
        out["latency_target"] = last.latency_target
        out["latency_percentile"] = last.latency_percentile
        out["latency_window"] = last.latency_window
    if entry.first.description:
        out["desc"] = entry.first.description
    return out


def disk_object(disk: DiskUtil) -> Object:
    """A block device, with the average of what is under it if it is a stacked one."""
    out: Object = {
        "name": disk.name,
        "read_ios": disk.read_ios,
        "write_ios": disk.write_ios,
        "read_sectors": disk.read_sectors,
        "write_sectors": disk.write_sectors,
        "read_merges": disk.read_merges,
        "write_merges": disk.write_merges,
        "read_ticks": disk.read_ticks_ms,
        "write_ticks": disk.write_ticks_ms,
        "in_queue": disk.in_queue_ms,
        "util": disk.util_pct,
    }
    if disk.members:
        agg = average_of(disk.members)
        out |= {
            "aggr_read_ios": agg.read_ios,
            "aggr_write_ios": agg.write_ios,
            "aggr_read_sectors": agg.read_sectors,
            "aggr_write_sectors": agg.write_sectors,
            "aggr_read_merges": agg.read_merges,
            "aggr_write_merge": agg.write_merges,  # fio's own spelling
            "aggr_read_ticks": agg.read_ticks_ms,
            "aggr_write_ticks": agg.write_ticks_ms,
            "aggr_in_queue": agg.in_queue_ms,
            "aggr_util": agg.util_pct,
        }
    return out


def cgroup_object(group: CgroupResult) -> Object:
    """A control group: its figures on each device, in those of io.stat, and the lines of that file."""
    devices: list[Value] = [
        {
            "name": device.name,
            "rbytes": device.rbytes,
            "wbytes": device.wbytes,
            "rios": device.rios,
            "wios": device.wios,
            "dbytes": device.dbytes,
            "dios": device.dios,
            "read_iops": group.rate(device.rios),
            "write_iops": group.rate(device.wios),
            "read_bw_bytes": group.rate(device.rbytes),
            "write_bw_bytes": group.rate(device.wbytes),
            "share": device.share,
        }
        for device in group.devices
    ]
    return {
        "path": group.path,
        "elapsed_ns": group.elapsed_ns,
        "devices": devices,
        "io.stat": list(group.io_stat),
    }


def named(names: Sequence[str], shares: Sequence[float]) -> Object:
    """Names and shares as an object."""
    return dict(zip(names, shares, strict=True))


def dumps(value: Value, level: int = 0) -> str:
    """JSON in fio's layout."""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, float):
        return f"{value:f}"
    if isinstance(value, int):
        return str(value)
    indent = "  " * (level + 1)
    if isinstance(value, dict):
        items = [
            f"{indent}{json.dumps(key, ensure_ascii=False)} : {dumps(item, level + 1)}"
            for key, item in value.items()
        ]
        left, right = "{", "}"
    else:
        items = [f"{indent}{dumps(item, level + 1)}" for item in value]
        left, right = "[", "]"
    body = ",\n".join(items)
    return f"{left}\n{body}\n{'  ' * level}{right}"
