"""The result of a run: what `report/` renders and `lab/` compares.

Plain data. `RunResult` holds one `JobResult` for each fio job (each clone of `numjobs` is one), in the order
in which they were started, and one `DiskUtil` for each block device. How jobs of a group are put together for
the report is not decided here but in `metrics.groups`.

Nothing here reads a clock: `timestamp_ms` and `job_start_ms` are the caller's to set, and fixed by default,
so that the same run gives the same bytes.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from blklab.metrics.percentile import DEFAULT_PERCENTILES
from blklab.metrics.stats import JobStats

ETA_UNKNOWN = 2_147_483_647
ETA_KNOWN_FROM_S = 3

READ, WRITE, TRIM = 0, 1, 2
DIRECTION_NAMES = ("read", "write", "trim")

BlockSizes = tuple[tuple[int, int], tuple[int, int], tuple[int, int]]


@dataclass(slots=True)
class JobResult:
    """One fio job: its statistics, and what of its options shows in a report.

    `options` are the job's own as the user wrote them, in order, "" for one without a value; JSON shows them.
    `bs` is (smallest, largest) bytes of reads, writes and trims; `rw` as fio names it ("randread", "rw").
    `clone` counts the clones of one numjobs, from 0. `unit_base` is 8 for bytes, 1 for bits; `kb_base` 1024
    or 1000. `unified_rw` is "none", "mixed" or "both". `ioprio` is class * 8192 + level, 0 where the job sets
    none. `latency_target` is in nanoseconds, `latency_window` in microseconds; `latency_depth` is the depth
    found by latency_target, without it the iodepth (None: that). `error` is an errno, `verror` its text;
    `first_error` and `total_errors` show with continue_on_error. `elapsed_s` is wall seconds since the run
    began; `eta_s` None: fio's, which is 0 at the end and unknown (2147483647) in the first 3 seconds.
    """

    name: str
    stats: JobStats = field(default_factory=JobStats)
    groupid: int = 0
    group_reporting: bool = False
    options: dict[str, str] = field(default_factory=dict)
    description: str = ""
    pid: int = 0
    job_start_ms: int = 0
    elapsed_s: int = 1
    eta_s: int | None = None

    rw: str = "read"
    bs: BlockSizes = ((4096, 4096), (4096, 4096), (4096, 4096))
    ioengine: str = "psync"
    iodepth: int = 1
    thread: bool = False
    clone: int = 0
    ioprio: int = 0

    percentile_list: tuple[float, ...] = DEFAULT_PERCENTILES
    percentile_precision: int = 2
    kb_base: int = 1024
    unit_base: int = 8
    sig_figs: int = 4
    unified_rw: str = "none"

    latency_depth: int | None = None
    latency_target: int = 0
    latency_window: int = 0
    latency_percentile: float = 100.0

    error: int = 0
    verror: str = ""
    continue_on_error: bool = False
    total_errors: int = 0
    first_error: int = 0

    @property
    def eta(self) -> int:
        """Seconds to the end, as fio would have it at the end of the run."""
        if self.eta_s is not None:
            return self.eta_s
        return 0 if self.elapsed_s >= ETA_KNOWN_FROM_S else ETA_UNKNOWN


@dataclass(slots=True)
class DiskUtil:
    """A block device's counters over the run, from /sys/block/NAME/stat (or its model).

    `ticks` are milliseconds of all requests added up, `in_queue_ms` the weighted time, `util_pct` the share
    of the run in which the device was busy, 0 to 100. `members` are the devices under a stacked one: fio adds
    their average to its line (and lists them themselves as well, which is the caller's to do).
    """

    name: str
    read_ios: int = 0
    write_ios: int = 0
    read_merges: int = 0
    write_merges: int = 0
    read_sectors: int = 0
    write_sectors: int = 0
    read_ticks_ms: int = 0
    write_ticks_ms: int = 0
    in_queue_ms: int = 0
    util_pct: float = 0.0
    members: tuple[DiskUtil, ...] = ()


@dataclass(slots=True)
class CgroupDevice:
    """What a control group, with those below it, has done on one device, in the figures of io.stat: submitted bytes and
    bios. `share`: of all bytes read and written there, 0 to 1."""

    name: str
    rbytes: int = 0
    wbytes: int = 0
    rios: int = 0
    wios: int = 0
    dbytes: int = 0
    dios: int = 0
    share: float = 0.0


@dataclass(slots=True)
class CgroupResult:
    """A control group: `path`, the devices on which it did something, the ns in which it did that (all of the run), and
    the lines of its io.stat, where it has that file."""

    path: str
    devices: tuple[CgroupDevice, ...] = ()
    elapsed_ns: int = 0
    io_stat: tuple[str, ...] = ()

    def rate(self, count: int) -> float:
        """So many a second."""
        return count * 1e9 / self.elapsed_ns if self.elapsed_ns else 0.0


@dataclass(slots=True)
class RunResult:
    """A whole run.

    `timestamp_ms` is milliseconds since 1970 at which the results were printed. Text and JSON show it as
    `time_text`, or in UTC where that is empty.
    `global_options` are those of a job file's [global] sections. `seed`, `kernel`, `machine`, `version` (of
    blklab) and `notes` say how the result came about; `attributes`: lines of those
    asked for with --show. `cgroups`: the control groups, parents first; empty for a machine without.
    """

    jobs: list[JobResult] = field(default_factory=list)
    disk_util: list[DiskUtil] = field(default_factory=list)
    cgroups: list[CgroupResult] = field(default_factory=list)
    global_options: dict[str, str] = field(default_factory=dict)
    timestamp_ms: int = 0
    time_text: str = ""
    seed: int = 0
    kernel: str = ""
    machine: str = ""
    version: str = ""
    notes: list[str] = field(default_factory=list)
    attributes: list[str] = field(default_factory=list)
