"""From jobs to what a report shows: one entry for each job or reported group, and the totals of each group.

Theory of operation
-------------------
fio goes through its jobs in order. A job opens a new entry, unless it has group_reporting and the job before
it is of the same group: then it is added to that one's entry. Latencies of the added jobs pool their samples,
bandwidth and IOPS samples add up, runtimes take the longest. Name, pid, units and description of an entry are
those of its first job; percentile settings, options and latency_target those of its last; the error is the
first that occurred.

If the jobs of an entry have different I/O priorities, each priority's latencies are kept apart as well.

"Run status group" lines are made from the entries, not from the jobs: with group_reporting a group's smallest
and largest bandwidth are equal.

Where the order of floating-point operations shows, it is that of the fio that distributions ship, which is
built with -ffast-math: a division by a constant or by the same number again is a multiplication by its
reciprocal.

Differences from fio: jobs with `stats=0` are expected to have been left out before; no per-priority
statistics within one job (cmdprio_percentage).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from blklab.metrics.histogram import LatencyHistogram
from blklab.metrics.result import DIRECTION_NAMES, READ, TRIM, WRITE, JobResult, RunResult
from blklab.metrics.stats import JobStats, Stat, ms_up

DDIRS = (READ, WRITE, TRIM)

# What fio shows at least, in percent, for a bucket that is not empty.
DEPTH_FLOOR = 0.1
LATENCY_FLOOR = 0.01


@dataclass(slots=True)
class PrioStats:
    """Latencies (total ones with lat_percentiles, else completion) of one I/O priority."""

    stat: Stat = field(default_factory=Stat)
    hist: LatencyHistogram = field(default_factory=LatencyHistogram)


@dataclass(slots=True)
class Entry:
    """One job or one reported group: `stats` are the sum of its `members` jobs."""

    first: JobResult
    last: JobResult
    members: int = 0
    stats: JobStats = field(default_factory=JobStats)
    prios: tuple[dict[int, PrioStats], ...] = ()
    error: int = 0
    verror: str = ""
    total_errors: int = 0

    def runtime_ms(self, ddir: int) -> int:
        """Milliseconds of the runtime of a direction, rounded as fio does."""
        return ms_up(self.stats.of(ddir).runtime_ns)

    @property
    def total_ios(self) -> int:
        """Reads, writes and trims issued."""
        return sum(d.ios for d in self.stats.directions())


@dataclass(slots=True)
class DirectionTotals:
    """One direction of a group: range of its entries' runtimes (ms) and bandwidths (bytes/s), and sums."""

    min_run: int = 0
    max_run: int = 0
    min_bw: int = 0
    max_bw: int = 0
    bytes: int = 0
    agg: int = 0


@dataclass(slots=True)
class GroupTotals:
    """What the "Run status group" lines show. Units are those of the group's last entry."""

    groupid: int
    kb_base: int = 1024
    unit_base: int = 8
    sig_figs: int = 4
    unified: set[str] = field(default_factory=set)
    directions: list[DirectionTotals] = field(
        default_factory=lambda: [DirectionTotals() for _ in DIRECTION_NAMES]
    )


def summarize(result: RunResult) -> tuple[list[Entry], list[GroupTotals]]:
    """The entries of a report in order, and the totals of groups 0 to the last."""
    members: list[list[JobResult]] = []
    for job in result.jobs:
        joins = members and job.group_reporting and members[-1][-1].groupid == job.groupid
        if joins:
            members[-1].append(job)
        else:
            members.append([job])
    entries = [merge_jobs(jobs) for jobs in members]
    return entries, total_groups(entries)


def merge_jobs(jobs: list[JobResult]) -> Entry:
    """The entry of one or more jobs that are reported together."""
    first, last = jobs[0], jobs[-1]
    options = last.stats
    stats = JobStats(options.clat_percentiles, options.lat_percentiles, options.slat_percentiles)
    entry = Entry(first, last, len(jobs), stats, prios=tuple({} for _ in DDIRS))
    mixed = first.unified_rw == "mixed"
    several_prios = any(job.ioprio != first.ioprio for job in jobs)
    for job in jobs:
        stats.merge(job.stats, mixed)
        entry.total_errors += job.total_errors
        if not entry.error:
            entry.error = job.error or (job.first_error if job.continue_on_error else 0)
            entry.verror = job.verror if entry.error else ""
        if several_prios:
            add_prio(entry, job, mixed)
    return entry


def add_prio(entry: Entry, job: JobResult, mixed: bool) -> None:
    """Add the latencies of a job, all of one priority, to the entry's figures for that priority."""
    for ddir, d in zip(DDIRS, job.stats.directions(), strict=True):
        stat = d.lat if job.stats.lat_percentiles else d.clat
        if stat.n:
            prio = entry.prios[READ if mixed else ddir].setdefault(job.ioprio, PrioStats())
            prio.stat.merge(stat)
            prio.hist.merge(d.lat_hist if job.stats.lat_percentiles else d.clat_hist)


def total_groups(entries: list[Entry]) -> list[GroupTotals]:
    """The totals of each group from 0 to the highest number."""
    groups = [GroupTotals(i) for i in range(1 + max((e.first.groupid for e in entries), default=-1))]
    for entry in entries:
        group = groups[entry.first.groupid]
        group.kb_base = entry.first.kb_base
        group.unit_base = entry.first.unit_base
        group.sig_figs = entry.first.sig_figs
        group.unified.add(entry.first.unified_rw)
        for ddir in DDIRS:
            runtime_ms = entry.runtime_ms(ddir)
            if not runtime_ms:
                continue
            d = group.directions[ddir]
            moved = entry.stats.of(ddir).bytes
            bw = moved * 1000 // runtime_ms
            if d.max_run:
                d.min_run = min(d.min_run, runtime_ms)
                d.min_bw = min(d.min_bw, bw)
            else:
                d.min_run, d.min_bw = runtime_ms, bw
            d.max_run = max(d.max_run, runtime_ms)
            d.max_bw = max(d.max_bw, bw)
            d.bytes += moved
    for group in groups:
        for d in group.directions:
            if d.max_run:
                d.agg = d.bytes * 1000 // d.max_run
    return groups


def mixed_entry(entry: Entry) -> Entry:
    """All directions of an entry counted as one ("both" of unified_rw_reporting shows this too)."""
    options = entry.stats
    stats = JobStats(options.clat_percentiles, options.lat_percentiles, options.slat_percentiles)
    stats.merge(entry.stats, mixed=True)
    return Entry(entry.first, entry.last, entry.members, stats, prios=tuple({} for _ in DDIRS))


def share_of_group(group: GroupTotals, ddir: int, mean_kib: float) -> float:
    """Percent of the group's bandwidth that a mean (KiB/s, cut to an integer) is: "per=", "bw_agg"."""
    agg = group.directions[ddir].agg
    return min(int(mean_kib) * 102400.0 / agg, 100.0) if agg > 1024 else 100.0


def distribution(counts: list[int], total: int, floor: float) -> list[float]:
    """Percent of `total` that each count is; a count that is not 0 shows as `floor` at least."""
    if not total:
        return [0.0] * len(counts)
    reciprocal = 1.0 / total
    shares = [count * reciprocal for count in counts]
    return [floor if 0.0 < share < floor / 100.0 else share * 100.0 for share in shares]


def cpu_shares(entry: Entry) -> tuple[float, float]:
    """(usr, sys) percent of the run. fio has both in whole milliseconds."""
    stats = entry.stats
    run_ms = stats.total_run_ns // 1_000_000
    if not run_ms:
        return 0.0, 0.0
    return stats.usr_ns // 1_000_000 * 100 / run_ms, stats.sys_ns // 1_000_000 * 100 / run_ms
