"""A fio job with every option resolved to plain values.

`JobSpec` is what the rest of blklab reads of a job: nothing behind it looks at option texts again. Clones of a job
(`numjobs`) share one spec; `expand` lists them in the order in which fio numbers its threads.

Theory of operation
    `settings` makes specs out of option texts. A spec is frozen: two jobs with equal specs, equal job numbers and
    equal devices do the same I/O.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from blklab.workload.options import Split

SYNC_ENGINES = ("sync", "psync", "pvsync", "pvsync2")  # one I/O at a time, whatever iodepth says
MAX_JOBS = 4096  # as in fio, clones included
Triple = tuple[int, int, int]  # read, write, trim


@dataclass(frozen=True, slots=True)
class JobSpec:
    """One section of a job file (or one --name of a command line), resolved. Units are in the names.

    Triples are (read, write, trim). Sizes that were not given are 0. `filenames` is empty for the machine's
    first device, or for files of its own if there are `directories` (filesetup.file_names). `where` is
    "file:line" of the section. `options` are the options as the user wrote them, under fio's own names;
    `global_options` those of the [global] sections before the job. `notes` name what was accepted without
    effect and what was adjusted.
    """

    name: str
    where: str
    description: str
    # what is done
    ioengine: str
    rw: str
    rw_seq_nr: int
    rw_seq_add_bytes: int
    rw_sequencer: str
    rwmixread: int
    direct: bool
    # on what
    filenames: tuple[str, ...]
    directories: tuple[str, ...]
    filename_format: str
    nr_files: int
    open_files: int
    file_service_type: str
    file_service_nr: int
    size_bytes: int
    size_percent: int
    io_size_bytes: int
    io_size_percent: int
    filesize_low_bytes: int
    filesize_high_bytes: int
    offset_bytes: int
    offset_percent: int
    offset_increment_bytes: int
    offset_increment_percent: int
    offset_align_bytes: int
    # in what pieces
    min_bs_bytes: Triple
    max_bs_bytes: Triple
    ba_bytes: Triple
    bssplit: tuple[Split, Split, Split]
    bs_unaligned: bool
    bs_is_seq_rand: bool
    # random numbers
    randrepeat: bool
    allrandrepeat: bool
    randseed: int
    randseed_given: bool
    norandommap: bool
    softrandommap: bool
    random_generator: str
    random_generator_given: bool
    percentage_random: Triple
    verify: bool
    do_verify: bool
    # how many at a time
    iodepth: int
    iodepth_batch: int
    iodepth_batch_complete_min: int
    iodepth_batch_complete_max: int
    iodepth_low: int
    registerfiles: bool
    fixedbufs: bool
    # how long
    number_ios: int
    loops: int
    numjobs: int
    runtime_ns: int
    time_based: bool
    ramp_time_ns: int
    startdelay_ns: int
    startdelay_high_ns: int
    stonewall: bool
    wait_for: str
    exitall: bool
    exit_what: str
    exitall_on_error: bool
    # how fast
    thinktime_ns: int
    thinktime_spin_ns: int
    thinktime_blocks: int
    thinktime_blocks_type: str
    thinktime_iotime_ns: int
    rate_bytes_per_s: Triple
    rate_iops: Triple
    rate_process: str
    rate_ignore_thinktime: bool
    # memory
    mem: str
    # syncs: after so many writes (0: never), at the end, and how files are opened (none, dsync, sync)
    fsync_blocks: int
    fdatasync_blocks: int
    end_fsync: bool
    sync: str
    # where it runs
    thread: bool
    cpus_allowed: tuple[int, ...]
    cpus_allowed_policy: str
    prio: int
    prioclass: int
    prio_given: bool
    cgroup: str
    cgroup_weight: int
    # what is reported
    group_reporting: bool
    new_group: bool
    stats: bool
    clat_percentiles: bool
    lat_percentiles: bool
    slat_percentiles: bool
    percentile_list: tuple[float, ...]
    percentile_precision: int
    disable_lat: bool
    disable_clat: bool
    disable_slat: bool
    disable_bw: bool
    bwavgtime_ms: int
    iopsavgtime_ms: int
    significant_figures: int
    disk_util: bool
    kb_base: int
    unit_base: int
    # as given
    options: tuple[tuple[str, str], ...]
    global_options: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]

    @property
    def is_random(self) -> bool:
        """Random offsets (randread, randwrite, randrw, randtrim, randtrimwrite)."""
        return self.rw.startswith("rand")

    @property
    def reads(self) -> bool:
        """The job reads."""
        return self.rw in ("read", "randread", "rw", "randrw")

    @property
    def writes(self) -> bool:
        """The job writes."""
        return self.rw in ("write", "randwrite", "rw", "randrw", "trimwrite", "randtrimwrite")

    @property
    def syncs(self) -> bool:
        """The job flushes what it has written, now or at its end."""
        return bool(self.fsync_blocks or self.fdatasync_blocks or self.end_fsync or self.sync != "none")

    @property
    def trims(self) -> bool:
        """The job trims."""
        return "trim" in self.rw

    @property
    def is_sync(self) -> bool:
        """Each I/O is waited for before the next: a synchronous engine, or null at depth 1."""
        return self.ioengine in SYNC_ENGINES or (self.ioengine == "null" and self.iodepth == 1)


@dataclass(frozen=True, slots=True)
class JobFile:
    """All jobs of a job file or a command line, in order; `global_options` are those of every [global] section."""

    jobs: tuple[JobSpec, ...]
    notes: tuple[str, ...]
    global_options: tuple[tuple[str, str], ...]
    source: str


@dataclass(frozen=True, slots=True)
class Clone:
    """One thread of fio: a clone of a job. `job_number` counts all threads from 1, as fio's seeds need it.

    `clone` is the position among the clones of its job (0 first), `subjob_number` fio's own number for it: clones
    are numbered downwards, so that of 4 clones the second has number 3. `group` is the reporting group.
    """

    spec: JobSpec
    clone: int
    subjob_number: int
    job_number: int
    group: int


def expand(jobs: Sequence[JobSpec]) -> list[Clone]:
    """All clones of all jobs in fio's order, with thread and group numbers."""
    clones: list[Clone] = []
    group = jobs_of_group = 0
    for spec in jobs:
        for clone in range(spec.numjobs):
            if clone == 0 and (spec.stonewall or spec.new_group) and jobs_of_group:
                group += 1
                jobs_of_group = 0
            jobs_of_group += 1
            clones.append(Clone(spec, clone, subjob_number(clone, spec.numjobs), len(clones) + 1, group))
    return clones


def subjob_number(clone: int, numjobs: int) -> int:
    """fio's number of the clone at this position: 0, then numjobs-1 down to 1."""
    return numjobs - clone if clone else 0


def describe_options(spec: JobSpec) -> dict[str, dict[str, str]]:
    """The options as given, for a result: {"job options": {...}, "global options": {...}}, under fio's own names.

    An option that stood alone has the value "" (fio 3.33 leaves it out of its JSON).
    """
    return {"job options": dict(spec.options), "global options": dict(spec.global_options)}
