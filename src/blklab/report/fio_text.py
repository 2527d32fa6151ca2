"""fio's normal output, as version 3.33 prints it, to the letter.

Theory of operation
-------------------
`render_text` prints what fio prints to a file: the job lines and "Starting ..." (`render_header`), then one
block for each job or reported group (`metrics.groups`), the "Run status group" lines and the disk statistics.
fio's progress line is not part of it.

What is shown depends on what was counted:

- a job that has done nothing has no block; a direction shows if it moved bytes in a runtime of at least 1 ms;
- slat, clat, lat each show if they have samples (engines that submit and wait in one call have no slat),
  likewise the percentiles, and the bw and iops lines (none in a run shorter than one window);
- "lat (nsec/usec/msec)" lines show their buckets that are not empty, five to a line;
- a latency line is in msec or usec only if minimum, maximum and deviation are all large enough, so that no
  digit that matters is lost; percentiles look at minimum and maximum alone.

Differences from fio: the time is what the caller says it is, by default in UTC. In the "mixed" line of
unified_rw_reporting=both fio 3.33 shows 0 for IOPS and bandwidth; here they are the real ones. Not rendered:
steadystate, block lifetime, cache hits, idle profile. On a machine with control groups a table of them follows the disk
statistics.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence

from blklab.metrics.groups import (
    DDIRS,
    DEPTH_FLOOR,
    LATENCY_FLOOR,
    DirectionTotals,
    Entry,
    GroupTotals,
    cpu_shares,
    distribution,
    mixed_entry,
    share_of_group,
    summarize,
)
from blklab.metrics.histogram import LatencyHistogram
from blklab.metrics.result import DIRECTION_NAMES, READ, WRITE, CgroupResult, DiskUtil, JobResult, RunResult
from blklab.metrics.stats import DirectionStats, Stat
from blklab.report.num2str import byte_count, num2str, rate

FIO_VERSION = "fio-3.33"

# label of the lat lines, first bucket of the distribution, names of the buckets
LATENCY_LINES = (
    ("nsec", 0, ("2", "4", "10", "20", "50", "100", "250", "500", "750", "1000")),
    ("usec", 10, ("2", "4", "10", "20", "50", "100", "250", "500", "750", "1000")),
    ("msec", 20, ("2", "4", "10", "20", "50", "100", "250", "500", "750", "1000", "2000", ">=2000")),
)
DEPTH_NAMES = ("1", "2", "4", "8", "16", "32", ">=64")
BATCH_NAMES = ("0", "4", "8", "16", "32", "64", ">=64")
LATENCIES_PER_LINE = 5


def render_text(result: RunResult, header: bool = True) -> str:
    """fio's normal output for a run; without `header` from the empty line before the first job on."""
    entries, groups = summarize(result)
    lines = [render_header(result)] if header else []
    lines.append("\n")
    for entry in entries:
        lines += job_lines(entry, groups[entry.first.groupid], time_text(result))
    for group in groups:
        lines += group_lines(group)
    lines += disk_lines(result.disk_util)
    lines += cgroup_lines(result.cgroups)
    return "".join(lines)


def render_header(result: RunResult) -> str:
    """What fio prints before it starts: a line for each job, "..." for its clones, version, how many jobs."""
    lines = []
    for job in result.jobs:
        if job.clone == 0:
            lines.append(job_header(job))
        elif job.clone == 1:
            lines.append("...\n")
    threads = sum(job.thread for job in result.jobs)
    processes = len(result.jobs) - threads
    kinds = []
    if threads:
        kinds.append(f"{threads} thread{'s' if threads > 1 else ''}")
    if processes:
        kinds.append(f"{processes} process{'es' if processes > 1 else ''}")
    lines.append(f"{FIO_VERSION}\nStarting {' and '.join(kinds)}\n")
    return "".join(lines)


def job_header(job: JobResult) -> str:
    """The line that introduces a job."""
    sizes = [byte_count(size, job.sig_figs, job.kb_base == 1024) for bounds in job.bs for size in bounds]
    bs = "bs=(R) {}-{}, (W) {}-{}, (T) {}-{}".format(*sizes)
    return (
        f"{job.name}: (g={job.groupid}): rw={job.rw}, {bs}, ioengine={job.ioengine}, iodepth={job.iodepth}\n"
    )


def time_text(result: RunResult) -> str:
    """Date and time of the result in C's format: "Mon Nov 30 17:52:43 2026"."""
    return result.time_text or time.asctime(time.gmtime(result.timestamp_ms // 1000))


def job_lines(entry: Entry, group: GroupTotals, when: str) -> list[str]:
    """The block of one job or reported group; nothing if it has done nothing."""
    job, stats = entry.first, entry.stats
    directions = stats.directions()
    if not entry.total_ios and not any(d.bytes for d in directions):
        return []
    error = f"{entry.error:2d} ({entry.verror})" if entry.error else " 0"
    who = f"{job.name}: (groupid={job.groupid}, jobs={entry.members})"
    lines = [f"{who}: err={error}: pid={job.pid}: {when}\n"]
    if job.description:
        lines.append(f"  Description  : [{job.description}]\n")
    for ddir in DDIRS:
        if directions[ddir].bytes:
            name = "mixed" if job.unified_rw == "mixed" else DIRECTION_NAMES[ddir]
            lines += direction_lines(entry, group, ddir, name)
    if job.unified_rw == "both":
        lines += direction_lines(mixed_entry(entry), group, READ, "mixed")
    lines += latency_lines(distribution(stats.latency_counts(), entry.total_ios, LATENCY_FLOOR))
    if stats.sync.n:
        lines += ["  fsync/fdatasync/sync_file_range:\n", stat_line("sync", stats.sync)]
        lines += percentile_lines("sync", stats.sync_hist, entry.last)
    return lines + tail_lines(entry)


def direction_lines(entry: Entry, group: GroupTotals, ddir: int, name: str) -> list[str]:
    """Everything about the reads, writes or trims of an entry."""
    d = entry.stats.of(ddir)
    runtime_ms = entry.runtime_ms(ddir)
    if not runtime_ms:
        return []
    job = entry.first
    digits, binary = job.sig_figs, job.kb_base == 1024
    iops = num2str(1000 * d.ios // runtime_ms, digits)
    bytes_per_s = 1000 * d.bytes // runtime_ms
    bw = rate(bytes_per_s, digits, binary, job.unit_base)
    other_bw = rate(bytes_per_s, digits, not binary, job.unit_base)
    zones = f"; {entry.stats.zone_resets} zone resets" if ddir == WRITE else ""
    moved = byte_count(d.bytes, digits, binary)
    lines = [f"  {name}: IOPS={iops}, BW={bw} ({other_bw})({moved}/{runtime_ms}msec){zones}\n"]
    for label, stat in (("slat", d.slat), ("clat", d.clat), (" lat", d.lat)):
        if stat.n:
            lines.append(stat_line(label, stat))
    return (
        lines
        + prio_stat_lines(entry, ddir)
        + all_percentile_lines(entry, ddir, d)
        + window_lines(d, group, ddir)
    )


def all_percentile_lines(entry: Entry, ddir: int, d: DirectionStats) -> list[str]:
    """The percentile tables that the options ask for and that have samples."""
    stats = entry.stats
    lines: list[str] = []
    for label, wanted, hist in (
        ("slat", stats.slat_percentiles, d.slat_hist),
        ("clat", stats.clat_percentiles, d.clat_hist),
        ("lat", stats.lat_percentiles, d.lat_hist),
    ):
        if wanted:
            lines += percentile_lines(label, hist, entry.last)
    if stats.clat_percentiles or stats.lat_percentiles:
        lines += prio_percentile_lines(entry, ddir, d)
    return lines


def unit_of(low: int, high: int, stddev: float | None = None) -> tuple[str, int]:
    """(unit, nanoseconds a unit) in which fio shows latencies from `low` to `high` ns with this deviation."""
    if low > 2_000_000 and high > 99_999_999 and (stddev is None or stddev > 1_000_000):
        return "msec", 1_000_000
    if low > 2_000 and high > 99_999 and (stddev is None or stddev > 1_000):
        return "usec", 1_000
    return "nsec", 1


def stat_line(label: str, stat: Stat) -> str:
    """A latency's minimum, maximum, mean and deviation."""
    unit, scale = unit_of(stat.min, stat.max, stat.stddev)
    low, high = num2str(stat.min // scale, 6), num2str(stat.max // scale, 6)
    mean, stddev = stat.mean * (1.0 / scale), stat.stddev * (1.0 / scale)
    return f"    {label} ({unit}): min={low}, max={high}, avg={mean:5.2f}, stdev={stddev:5.2f}\n"


def percentile_lines(label: str, hist: LatencyHistogram, job: JobResult) -> list[str]:
    """A percentile table; nothing if there are no samples or no percentiles are wanted."""
    wanted = sorted(job.percentile_list)
    values = hist.percentiles(wanted)
    if not values:
        return []
    unit, scale = unit_of(min(values), max(values))
    width = max(5, len(str(max(values) // scale)))
    precision = job.percentile_precision
    per_line = (80 - 7) // (precision + 10 + width)
    cells = [
        f" {p:{precision + 3}.{precision}f}th=[{round_up(v, scale):{width}d}]"
        for p, v in zip(wanted, values, strict=True)
    ]
    rows = [cells[i : i + per_line] for i in range(0, len(cells), per_line)]
    table = ",\n".join("     |" + ",".join(row) for row in rows)
    return [f"    {label} percentiles ({unit}):\n{table}\n"]


def round_up(ns: int, scale: int) -> int:
    """Nanoseconds in units of `scale` (1, 1000, 1000000), rounded up at each thousand as fio does."""
    while scale > 1:
        ns = (ns + 999) // 1000
        scale //= 1000
    return ns


def prio_name(entry: Entry, ioprio: int) -> str:
    """ "clat prio 2/0": class and level of an I/O priority."""
    return f"{'lat' if entry.stats.lat_percentiles else 'clat'} prio {ioprio >> 13}/{ioprio & 7}"


def prio_stat_lines(entry: Entry, ddir: int) -> list[str]:
    """The latency line of each I/O priority, if there are several."""
    prios = entry.prios[ddir]
    if len(prios) < 2:
        return []
    return [stat_line(prio_name(entry, ioprio), prio.stat) for ioprio, prio in prios.items()]


def prio_percentile_lines(entry: Entry, ddir: int, d: DirectionStats) -> list[str]:
    """The percentile table of each I/O priority, if there are several."""
    prios = entry.prios[ddir]
    if len(prios) < 2:
        return []
    total = d.lat.n if entry.stats.lat_percentiles else d.clat.n
    lines: list[str] = []
    for ioprio, prio in prios.items():
        share = 100.0 * prio.stat.n / total
        lines += percentile_lines(f"{prio_name(entry, ioprio)} ({share:.2f}% of IOs)", prio.hist, entry.last)
    return lines


def window_lines(d: DirectionStats, group: GroupTotals, ddir: int) -> list[str]:
    """The bw and iops lines, from the samples of the run's windows."""
    lines: list[str] = []
    if d.bw.n:
        low, high, mean, stddev = d.bw.min, d.bw.max, d.bw.mean, d.bw.stddev
        unit = "KiB" if group.kb_base == 1024 else "kB"
        share = share_of_group(group, ddir, mean)
        if mean > group.kb_base**2:
            unit = "MiB"
            part = 1.0 / group.kb_base
            low, high, mean, stddev = int(low * part), int(high * part), mean * part, stddev * part
        spread = f"min={low:5d}, max={high:5d}, per={share:3.2f}%, avg={mean:5.2f}, stdev={stddev:5.2f}"
        lines.append(f"   bw ({unit:>5}/s): {spread}, samples={d.bw.n}\n")
    if d.iops.n:
        spread = (
            f"min={d.iops.min:5d}, max={d.iops.max:5d}, avg={d.iops.mean:5.2f}, stdev={d.iops.stddev:5.2f}"
        )
        lines.append(f"   iops        : {spread}, samples={d.iops.n}\n")
    return lines


def latency_lines(shares: list[float]) -> list[str]:
    """The latency distribution: the share of each bucket that is not empty."""
    lines: list[str] = []
    for unit, start, names in LATENCY_LINES:
        shown = [
            f"{name}={shares[start + i]:3.2f}%" for i, name in enumerate(names) if shares[start + i] > 0.0
        ]
        for i in range(0, len(shown), LATENCIES_PER_LINE):
            lines.append(f"  lat ({unit})   : {', '.join(shown[i : i + LATENCIES_PER_LINE])}\n")
    return lines


def shares_text(names: Sequence[str], shares: Sequence[float]) -> str:
    """ "1=100.0%, 2=0.0%, ..." """
    return ", ".join(f"{name}={share:3.1f}%" for name, share in zip(names, shares, strict=True))


def tail_lines(entry: Entry) -> list[str]:
    """CPU, depths, and counts of I/Os, errors and the latency target."""
    stats, last = entry.stats, entry.last
    usr, sys = cpu_shares(entry)
    depths = distribution(stats.depths(), entry.total_ios, DEPTH_FLOOR)
    submit = distribution(stats.submit_counts(), stats.submits, DEPTH_FLOOR)
    complete = distribution(stats.complete_counts(), stats.completes, DEPTH_FLOOR)
    issued = ",".join(str(d.ios) for d in stats.directions())
    short = ",".join(str(d.short_ios) for d in stats.directions())
    dropped = ",".join(str(d.drop_ios) for d in stats.directions())
    faults = f"ctx={stats.ctx}, majf={stats.majf}, minf={stats.minf}"
    lines = [
        f"  cpu          : usr={usr:3.2f}%, sys={sys:3.2f}%, {faults}\n",
        f"  IO depths    : {shares_text(DEPTH_NAMES, depths)}\n",
        f"     submit    : {shares_text(BATCH_NAMES, submit)}\n",
        f"     complete  : {shares_text(BATCH_NAMES, complete)}\n",
        f"     issued rwts: total={issued},{stats.sync_ios} short={short},0 dropped={dropped},0\n",
    ]
    if last.continue_on_error:
        text = os.strerror(last.first_error) if last.first_error else "Success"
        lines.append(
            f"     errors    : total={entry.total_errors}, first_error={last.first_error}/<{text}>\n"
        )
    depth = last.iodepth if last.latency_depth is None else last.latency_depth
    if depth:
        target = f"target={last.latency_target}, window={last.latency_window}"
        lines.append(f"     latency   : {target}, percentile={last.latency_percentile:.2f}%, depth={depth}\n")
    return lines


def group_lines(group: GroupTotals) -> list[str]:
    """A "Run status group" and the line of each direction that ran."""
    lines = [f"\nRun status group {group.groupid} (all jobs):\n"]
    ran = [(name, d) for name, d in zip(DIRECTION_NAMES, group.directions, strict=True) if d.max_run]
    unified = group.unified - {"none"}
    for name, d in ran:
        lines.append(totals_line("MIXED" if unified == {"mixed"} else name.upper(), d, group))
    if unified == {"both"} and ran:
        both = [d for _, d in ran]
        total = DirectionTotals(
            min_run=min(d.min_run for d in both),
            max_run=max(d.max_run for d in both),
            min_bw=min(d.min_bw for d in both),
            max_bw=max(d.max_bw for d in both),
            bytes=sum(d.bytes for d in both),
            agg=sum(d.agg for d in both),
        )
        lines.append(totals_line("MIXED", total, group))
    return lines


def totals_line(name: str, d: DirectionTotals, group: GroupTotals) -> str:
    """Bandwidth, amount and runtime of one direction of a group."""
    digits, binary = group.sig_figs, group.kb_base == 1024
    bw, low, high = (rate(value, digits, binary, group.unit_base) for value in (d.agg, d.min_bw, d.max_bw))
    bw2, low2, high2 = (
        rate(value, digits, not binary, group.unit_base) for value in (d.agg, d.min_bw, d.max_bw)
    )
    io, io2 = byte_count(d.bytes, digits, binary), byte_count(d.bytes, digits, not binary)
    spread = f"{low}-{high} ({low2}-{high2})"
    return f"{name:>7}: bw={bw} ({bw2}), {spread}, io={io} ({io2}), run={d.min_run}-{d.max_run}msec\n"


def disk_lines(disks: Sequence[DiskUtil]) -> list[str]:
    """ "Disk stats", and for stacked devices the average of what is under them."""
    if not disks:
        return []
    lines = ["\nDisk stats (read/write):\n"]
    for disk in disks:
        line = f"  {disk.name}: {disk_text(disk, '')}"
        if disk.members:
            line = f"  {line}, {disk_text(average_of(disk.members), 'aggr')}"
        lines.append(line + "\n")
    return lines


def disk_text(disk: DiskUtil, prefix: str) -> str:
    """The counters of a device, their names preceded by `prefix`."""
    figures = {
        "ios": f"{disk.read_ios}/{disk.write_ios}",
        "merge": f"{disk.read_merges}/{disk.write_merges}",
        "ticks": f"{disk.read_ticks_ms}/{disk.write_ticks_ms}",
        "in_queue": f"{disk.in_queue_ms}",
        "util": f"{disk.util_pct:3.2f}%",
    }
    return ", ".join(f"{prefix}{name}={figure}" for name, figure in figures.items())


def cgroup_lines(cgroups: Sequence[CgroupResult]) -> list[str]:
    """ "Cgroups", which fio does not have: what each group with those below it did a second on each device, and its
    share of the bytes there. Nothing without control groups."""
    if not cgroups:
        return []
    rows = [["cgroup", "device", "iops", "bw (KiB/s)", "share"]]
    for group in cgroups:
        for device in group.devices or (None,):
            if device is None:
                rows.append([group.path, "-", "0/0", "0/0", "0.00%"])
                continue
            iops = f"{group.rate(device.rios):.0f}/{group.rate(device.wios):.0f}"
            kib = f"{group.rate(device.rbytes) / 1024:.0f}/{group.rate(device.wbytes) / 1024:.0f}"
            rows.append([group.path, device.name, iops, kib, f"{100 * device.share:.2f}%"])
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [
        "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() + "\n"
        for row in rows
    ]
    return ["\nCgroups (read/write):\n", *lines]


def average_of(members: Sequence[DiskUtil]) -> DiskUtil:
    """The mean of the members' counters, rounded down, and the highest utilisation: fio's "aggr" figures."""
    n = len(members)
    return DiskUtil(
        name="",
        read_ios=sum(m.read_ios for m in members) // n,
        write_ios=sum(m.write_ios for m in members) // n,
        read_merges=sum(m.read_merges for m in members) // n,
        write_merges=sum(m.write_merges for m in members) // n,
        read_sectors=sum(m.read_sectors for m in members) // n,
        write_sectors=sum(m.write_sectors for m in members) // n,
        read_ticks_ms=sum(m.read_ticks_ms for m in members) // n,
        write_ticks_ms=sum(m.write_ticks_ms for m in members) // n,
        in_queue_ms=sum(m.in_queue_ms for m in members) // n,
        util_pct=max(m.util_pct for m in members),
    )
