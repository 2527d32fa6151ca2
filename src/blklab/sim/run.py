"""A run: fio's jobs on a built machine, from the first thread's start to the last one's end.

What: makes a `FioThread` of each clone of each job, starts them as fio does (stonewall, wait_for, startdelay), runs the
event queue in slices, samples bandwidth every half second, and gathers what fio would report.

Theory of operation
-------------------
Threads start in groups: a job with stonewall waits for all before it, one with wait_for for the clones of that job.
Threads are placed on the CPUs they may use, the one with the fewest threads first, and stay there.

A slice is a number of events; between slices Python runs, so that a signal arrives and progress is shown. How long a
slice is never changes a result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from blklab import __version__
from blklab.core.clock import Event
from blklab.core.errors import BlklabError
from blklab.metrics.result import JobResult, RunResult
from blklab.metrics.stats import JobStats
from blklab.sim.cgroups import JobGroups, cgroup_results
from blklab.sim.disk_util import disk_utils
from blklab.sim.fio_phases import ENGINE_IO_URING, ENGINE_LIBAIO, ENGINE_NULL, ENGINE_SYNC
from blklab.sim.fio_sync import OPENED, SyncingThread
from blklab.sim.fio_thread import FioThread
from blklab.sim.jobfiles import JobFiles
from blklab.sim.pace import Pace, has_pace
from blklab.sim.progress import Progress, StopFlag
from blklab.sim.timed import check_patterns, schedule, show
from blklab.workload.iostream import make_stream, start_delay_ns
from blklab.workload.jobspec import Clone, JobFile, JobSpec, expand

if TYPE_CHECKING:
    from blklab.block.cgroup import Cgroup
    from blklab.block.queue import RequestQueue
    from blklab.sim.build import BuiltMachine
    from blklab.sim.cpu import Task
    from blklab.workload.stream import Stream

SLICE_EVENTS = 200_000
SAMPLE_NS = 500_000_000
FIRST_PID = 2000
NEVER = (1 << 63) - 1
HUGE_PAGE_BYTES = 2 << 20  # Hugepagesize of x86
STALL_NS = 3_600_000_000_000

ENGINES = {
    "libaio": ENGINE_LIBAIO,
    "posixaio": ENGINE_SYNC,
    "io_uring": ENGINE_IO_URING,
    "null": ENGINE_NULL,
    "sync": ENGINE_SYNC,
    "psync": ENGINE_SYNC,
    "pvsync": ENGINE_SYNC,
    "pvsync2": ENGINE_SYNC,
}
STATUS_TEXT = {2: "Connection timed out", 10: "Input/output error"}


class Sampler(Event):
    """fio's helper thread: bandwidth and IOPS of every running job, twice a second."""

    def __init__(self, run: Run) -> None:
        self.run = run

    def fire(self, now_ns: int) -> int:
        """Half a second is over."""
        for member in self.run.members:
            thread = member.thread
            if thread is not None and thread.begun and not thread.ended_ns and not thread.ramping:
                thread.stats.sample(now_ns)
        self.run.built.events.at(now_ns + SAMPLE_NS, self)
        return 0


class Member:
    """One clone: its thread once it has been started."""

    def __init__(self, clone: Clone) -> None:
        self.clone = clone
        self.thread: FioThread | None = None
        self.done = False


class Run:
    """The run of a job file on a built machine; `at` and `show` as sim/timed.py says."""

    def __init__(
        self, built: BuiltMachine, job_file: JobFile, at: Sequence[str] = (), show: Sequence[str] = ()
    ) -> None:
        self.built = built
        self.job_file = job_file
        self.members = [Member(clone) for clone in expand(job_file.jobs)]
        self.waiting = list(self.members)
        self.load = [0] * built.host.nr_cpus
        self.files = JobFiles(built, [member.clone for member in self.members])
        self.groups = JobGroups(built, job_file)
        self.notes = [*built.notes, *job_file.notes, *self.files.notes, *self.groups.notes]
        for spec in job_file.jobs:
            self.notes += [note for note in spec.notes if note not in self.notes]
            self._check(spec)
        built.host.when_exited = self._exited
        self.later = schedule(built, at)
        self.show = show
        check_patterns(built, show, self.later)

    # -- before -----------------------------------------------------------------

    def _queues(self, spec: JobSpec) -> list[RequestQueue]:
        return self.files.queues(spec)

    def _check(self, spec: JobSpec) -> None:
        # What a job asks of its devices, before anything runs
        if spec.ioengine == "null":
            if self.built.machine.cpus.costs.free:
                raise BlklabError(
                    "ioengine=null takes no time with a cost table of zeros: there is nothing to simulate",
                    spec.where,
                )
            return
        if not spec.direct:
            raise BlklabError(
                "buffered I/O (direct=0, fio's default) is not built yet: set direct=1", spec.where
            )
        if spec.ioengine == "posixaio" and spec.iodepth > 1:
            raise BlklabError(
                "ioengine=posixaio is built for iodepth=1 only: glibc serves the I/Os of a file one after another, "
                "and how they wait there is not modelled yet; use libaio or io_uring",
                spec.where,
            )
        for queue in self._queues(spec):
            block = queue.limits.logical_block_bytes
            for size in spec.min_bs_bytes:
                if size % block:
                    raise BlklabError(
                        f"direct I/O of {size} bytes on {queue.name}, whose blocks are {block} bytes: EINVAL",
                        spec.where,
                    )
            if spec.trims and self.files.in_files(spec):
                raise BlklabError("fio trims devices only, and the job works on files", spec.where)
            if spec.trims and not queue.limits.max_discard_sectors:
                raise BlklabError(
                    f"{queue.name} takes no discards, and the job trims: EOPNOTSUPP", spec.where
                )
        for cpu in spec.cpus_allowed:
            if cpu >= self.built.host.nr_cpus:
                raise BlklabError(
                    f"cpus_allowed names CPU {cpu}; the machine has CPUs 0 to {self.built.host.nr_cpus - 1}",
                    spec.where,
                )

    def _thread(self, member: Member) -> FioThread:
        spec = member.clone.spec
        built = self.built
        clone = member.clone
        targets = self.files.targets(clone)
        queues = [target.queue for target in targets]
        stream = self._stream(clone, [target.size_bytes for target in targets])
        stats = JobStats(
            spec.clat_percentiles,
            spec.lat_percentiles,
            spec.slat_percentiles,
            spec.bwavgtime_ms,
            spec.iopsavgtime_ms,
        )
        cpu = self._place(spec, clone.clone)
        make = SyncingThread if spec.syncs and spec.ioengine != "null" else FioThread
        thread = make(built.host, cpu, FIRST_PID + clone.job_number, stream, stats, queues, [0] * len(queues))
        if isinstance(thread, SyncingThread):
            at_end = spec.end_fsync and spec.writes
            thread.set_syncs(spec.fsync_blocks, spec.fdatasync_blocks, at_end, OPENED[spec.sync])
        if any(target.file is not None for target in targets):
            thread.files = [target.file for target in targets]
        engine = ENGINES[spec.ioengine]
        depth = 1 if engine == ENGINE_SYNC else spec.iodepth
        thread.configure(
            engine,
            depth,
            min(spec.iodepth_batch, depth),
            spec.iodepth_low,
            spec.iodepth_batch_complete_min,
            spec.iodepth_batch_complete_max,
        )
        largest = max(spec.max_bs_bytes)
        thread.place_buffers(clone.job_number * depth * largest, largest)
        if spec.mem in ("shmhuge", "mmaphuge"):
            thread.place_buffers(0, largest)
            thread.dio.run_bytes = HUGE_PAGE_BYTES
        elif built.memory is not None:
            thread.dio.run_bytes = 0
            thread.dio.memory = built.memory
        thread.disable_slat = spec.disable_slat
        thread.disable_clat = spec.disable_clat
        thread.disable_lat = spec.disable_lat
        thread.dio.ioprio = (spec.prioclass << 13 | spec.prio) if spec.prio_given else 0
        thread.plug_threshold = built.machine.features.aio_plug_threshold
        thread.runtime_ns = spec.runtime_ns
        thread.ramp_ns = spec.ramp_time_ns
        if has_pace(spec):
            thread.pace = Pace(spec)
        group = self._group(clone)
        if built.cgroups is not None and group is not None:
            built.cgroups.attach(thread, group)
        return thread

    def _stream(self, clone: Clone, file_sizes_bytes: list[int]) -> Stream:
        # The I/Os of one clone; a run that replays recorded ones has another
        return make_stream(clone.spec, clone.clone, clone.job_number, file_sizes_bytes, self.built.seed)

    def _group(self, clone: Clone) -> Cgroup | None:
        return self.groups.of(clone)

    def _place(self, spec: JobSpec, clone: int) -> int:
        allowed = list(spec.cpus_allowed) or list(range(len(self.load)))
        if spec.cpus_allowed and spec.cpus_allowed_policy == "split":
            cpu = allowed[clone % len(allowed)]
        else:
            cpu = min(allowed, key=lambda c: (self.load[c], c))
        self.load[cpu] += 1
        return cpu

    # -- starting -----------------------------------------------------------------

    def _may_start(self, index: int) -> bool:
        member = self.waiting[index]
        spec = member.clone.spec
        position = self.members.index(member)
        before = self.members[:position]
        first = member.clone.clone == 0
        if first and spec.stonewall and not all(other.done for other in before):
            return False
        if spec.wait_for and not all(
            other.done for other in self.members if other.clone.spec.name == spec.wait_for
        ):
            return False
        # Clones start with the first of their job, and jobs not before those listed before them
        return all(
            other.thread is not None or other.done for other in before if self._holds_back(other, member)
        )

    def _holds_back(self, other: Member, member: Member) -> bool:
        return other.clone.spec.stonewall or other.clone.spec is member.clone.spec

    def _start_ready(self) -> None:
        now = self.built.events.now_ns
        index = 0
        while index < len(self.waiting):
            if not self._may_start(index):
                if self.waiting[index].clone.spec.stonewall:
                    break
                index += 1
                continue
            member = self.waiting.pop(index)
            clone = member.clone
            member.thread = self._thread(member)
            delay = start_delay_ns(clone.spec, clone.clone, clone.job_number, self.built.seed)
            self.built.host.start(member.thread, now + delay)

    def _exited(self, task: Task) -> None:
        for member in self.members:
            if member.thread is task:
                member.done = True
                self.load[task.cpu] -= 1
                if self.built.cgroups is not None:
                    self.built.cgroups.tasks.remove(member.thread)
                if member.clone.spec.exitall or (member.thread.error and member.clone.spec.exitall_on_error):
                    self.stop()
        if self.waiting:
            self._start_ready()

    def stop(self) -> None:
        """Let every thread finish what is outstanding and end; start no more."""
        for member in self.waiting:
            member.done = True
        self.waiting = []
        for member in self.members:
            if member.thread is not None:
                member.thread.stopping = True

    # -- running ------------------------------------------------------------------

    def run(
        self, progress: Callable[[Progress], object] | None = None, stop: StopFlag | None = None
    ) -> RunResult:
        """Run to the end, or until `stop` is set. Raises BlklabError if virtual time stands still."""
        events = self.built.events
        self._start_ready()
        events.at(SAMPLE_NS, Sampler(self))
        reporter = Reporter(self)
        watch = StallWatch(self)
        while self.built.host.live_tasks:
            turns = self.built.host.turns
            events.run(NEVER, SLICE_EVENTS)
            if self.built.host.stuck:
                raise BlklabError(
                    "time stands still: with a cost table of zeros and a device that takes no time, "
                    "I/Os never end; choose --costs or give the device a time",
                )
            if self.built.host.turns == turns and self.built.host.live_tasks:
                raise BlklabError(
                    "the run has come to a stand: every thread sleeps and nothing will wake it (a bug)"
                )
            watch.look()
            if progress is not None:
                progress(reporter.moment())
            if stop is not None and stop.stopped:
                self.stop()
        return self.result()

    def result(self) -> RunResult:
        """What fio would report of the run so far."""
        built = self.built
        now = built.events.now_ns
        result = RunResult(
            global_options=dict(self.job_file.global_options),
            seed=built.seed,
            kernel=built.machine.features.kernel,
            machine=built.machine.name,
            version=__version__,
            notes=[
                *self.notes,
                *(f"{w.where}: the run had ended by then" for w in self.later if not w.written),
                *(f"--show {p}: no attribute fits it at the end" for p in self.show if not show(built, [p])),
            ],
            attributes=show(built, self.show),
        )
        for member in self.members:
            if member.thread is not None and member.clone.spec.stats:
                result.jobs.append(_job_result(member, member.thread, now))
        if any(m.clone.spec.disk_util for m in self.members):
            used = {
                queue.name
                for m in self.members
                if m.clone.spec.ioengine != "null"
                for queue in self._queues(m.clone.spec)
            }
            result.disk_util = disk_utils([q for q in built.queues.values() if q.name in used], now)
        result.cgroups = cgroup_results(built, now)
        return result


class StallWatch:
    """Notices that I/Os wait for ever while time goes on: a scheduler that says it has work and gives none, say."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.done = -1
        self.since_ns = 0

    def look(self) -> None:
        """Between two slices. Raises BlklabError with where the I/Os are."""
        threads = [member.thread for member in self.run.members if member.thread is not None]
        done = sum(thread.ios_done for thread in threads)
        now = self.run.built.events.now_ns
        waiting = sum(thread.cur_depth for thread in threads)
        if done != self.done or not waiting:
            self.done = done
            self.since_ns = now
        elif now - self.since_ns > STALL_NS:
            holds = ", ".join(
                f"{queue.name} has {queue.usage} requests (scheduler {queue.elevator_name})"
                for queue in self.run.built.queues.values()
                if queue.usage
            )
            raise BlklabError(
                f"no I/O has completed for an hour of the run's time, and {waiting} wait: {holds or 'no request'}. A "
                "scheduler whose has_work is True must give a request, and must ask for a run when it has one again"
            )


class Reporter:
    """Progress between slices."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.before_ns = 0
        self.before = [0] * 6

    def moment(self) -> Progress:
        """Where the run is now, and how fast since the last time."""
        run = self.run
        now = run.built.events.now_ns
        letters = []
        counts = [0] * 6
        running = 0
        files = 0
        eta_ns = 0
        known = True
        for member in run.members:
            thread = member.thread
            if thread is None:
                letters.append("P")
                known = False
                continue
            for ddir, d in enumerate((thread.stats.read, thread.stats.write, thread.stats.trim)):
                counts[ddir] += d.bytes
                counts[3 + ddir] += d.done_ios
            if member.done:
                letters.append("_")
                continue
            running += 1
            files += len(thread.queues)
            letters.append(_letter(member.clone.spec, thread))
            if thread.end_ns != NEVER and thread.runtime_ns:
                eta_ns = max(eta_ns, thread.end_ns - now)
            else:
                known = False
        passed = max(1, now - self.before_ns)
        rates = [max(0, b - a) * 1_000_000_000 // passed for a, b in zip(self.before, counts, strict=True)]
        self.before_ns = now
        self.before = counts
        return Progress(
            running=running,
            files_open=files,
            run_map="".join(letters),
            elapsed_s=now / 1e9,
            eta_s=eta_ns / 1e9 if known else None,
            bytes_per_s=(rates[0], rates[1], rates[2]),
            iops=(rates[3], rates[4], rates[5]),
        )


def _letter(spec: JobSpec, thread: FioThread) -> str:
    if thread.ramping:
        return "/"
    if spec.trims:
        letter = "D"
    elif spec.reads and spec.writes:
        letter = "M"
    else:
        letter = "R" if spec.reads else "W"
    return letter.lower() if spec.is_random else letter


def _job_result(member: Member, thread: FioThread, now_ns: int) -> JobResult:
    spec = member.clone.spec
    stats = thread.stats
    ended = thread.ended_ns or now_ns
    ran = max(0, ended - thread.began_ns) if thread.begun else 0
    for direction in (stats.read, stats.write, stats.trim):
        direction.runtime_ns = ran if direction.bytes else 0
    stats.total_run_ns = ran
    stats.usr_ns = thread.usr_ns
    stats.sys_ns = thread.sys_ns
    stats.ctx = thread.switches + thread.preempted
    error = 0 if not thread.error else (110 if thread.error == 2 else 5)
    return JobResult(
        name=spec.name,
        stats=stats,
        groupid=member.clone.group,
        group_reporting=spec.group_reporting,
        options=dict(spec.options),
        description=spec.description,
        pid=int(thread.pid),
        job_start_ms=thread.epoch_ns // 1_000_000,
        elapsed_s=ended // 1_000_000_000 + 1,
        rw=spec.rw,
        bs=tuple(zip(spec.min_bs_bytes, spec.max_bs_bytes, strict=True)),  # type: ignore[arg-type]
        ioengine=spec.ioengine,
        iodepth=spec.iodepth,
        thread=spec.thread,
        clone=member.clone.clone,
        ioprio=thread.dio.ioprio,
        percentile_list=spec.percentile_list,
        percentile_precision=spec.percentile_precision,
        kb_base=spec.kb_base,
        unit_base=spec.unit_base,
        sig_figs=spec.significant_figures,
        error=error,
        verror=STATUS_TEXT.get(thread.error, "") if error else "",
    )
