"""Running a captured case in the model: set up from setup.json, fed from bios.tsv, traced.

What: `run_case` makes the machine, gives every fio thread the bios that its counterpart sent, runs, and returns the
events of each traced device. Why bios are given and not generated: then nothing but the block layer is compared.

Theory of operation
-------------------
*What* a thread sends (device, offset, size, direction, order) comes from the capture; *when* it sends comes from
the job file (engine, iodepth, batches) and the model's own completions. The k-th clone of a job section in the order
of fio's threads gets the bios of that section's k-th task. With iodepth=1 the bios of one system call are one I/O,
which is cut into bios as it was. A job of blkdiscard is its range: there the bios are the model's own. A case that was
not traced runs its job files as they are: of it only rates are compared.

Whatever the model cannot set up raises `NotYet` with the reason; nothing in the model knows of any capture.

Where it was not recorded which pages of memory lay side by side, the case is run twice: with every page elsewhere,
and with all in one piece. What the kernel did lies between the two.

Deliberate differences: what else ran in the guest (blktrace, the shell that sampled attributes) is left out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from blklab.block.attributes import attribute_paths, read, write
from blklab.block.cgroup_files import files_of, write_file
from blklab.block.consts import MAX_BIO_BYTES, TR_ALL
from blklab.block.elevator import elevator_names
from blklab.block.models import models
from blklab.block.trace import Tracer
from blklab.core.errors import AttributeRefused, BlklabError
from blklab.lab.conform_capture import Capture, SentBio, TimedEvent, TracedEvent, gaps
from blklab.sim.build import BuiltMachine, build
from blklab.sim.discard import Range, run_blkdiscard
from blklab.sim.machine import Machine, MachineBuilder
from blklab.sim.run import Member, Run
from blklab.sim.timed import TimedWrite
from blklab.workload.jobfile import parse_job_text
from blklab.workload.jobspec import Clone, JobFile, expand
from blklab.workload.replay import ReplayStream

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from blklab.block.cgroup import Cgroup
    from blklab.sim.fio_thread import FioThread
    from blklab.workload.stream import Stream

COSTS = "lab-guest"
SEED = 1
# The kernel lab's names of device models -> ours
MODELS = {"null": "null", "scsi_debug": "scsi", "virtio": "virtio", "stripe": "stripe", "raid0": "raid0"}
# Keys of a device in setup.json that are not parameters of its model
NOT_PARAMETERS = ("name", "model", "size_sectors")
# What setup.json's `memory` means: bytes of memory that lie side by side behind a bio; "unknown" is run with both
RUN_BYTES = {"separate": 4096, "unknown": 4096, "contiguous": 2 << 20}
DDIRS = {"R": 0, "W": 1, "D": 2}
PLAIN_BIOS = frozenset({"R", "W", "WS"})
# The lab's guest waits for its host while that serves a virtio disk, and its clock stands still
VIRTIO_HOST = {"request_ns": 1, "flush_ns": 1, "bytes_per_s": 1 << 40}
# What jobs with `sync` or `fsync` send besides: FUA and flushes follow from these options, so flushes are not replayed
SYNC_BIOS = frozenset({"WFS", "FWS"})
FLUSH_BIO = "FWS"
# Kinds of jobs that are ranges and not fio's
RANGE_JOBS = frozenset({"discard", "zeroout"})


class NotYet(Exception):
    """The model cannot run the case: what it lacks."""


@dataclass(frozen=True)
class ModelRun:
    """What the model did with a case: events, IOPS and gaps as in `Capture`, and where its queues came out differently.
    `contiguous`: the events of the run with memory in one piece, where that was not known."""

    events: dict[str, list[TracedEvent]]
    iops: dict[str, tuple[float, float]]
    gaps: dict[str, tuple[int, int]]
    attribute_differences: list[str]
    contiguous: dict[str, list[TracedEvent]] | None = None


def run_case(capture: Capture, costs: str = COSTS) -> ModelRun:
    """Set the case up, run it, and return what happened. Raises NotYet, or BlklabError for a fault of the model."""
    _check_supported(capture)
    model = _run(capture, costs, RUN_BYTES[capture.setup["memory"]])
    if capture.setup["memory"] == "unknown":
        other = _run(capture, costs, RUN_BYTES["contiguous"])
        model = replace(model, contiguous=other.events)
    return model


def _run(capture: Capture, costs: str, run_bytes: int) -> ModelRun:
    ranges = capture.setup["jobs"][0]["kind"] in RANGE_JOBS
    machine = _machine(capture, costs)
    try:
        built = build(machine, SEED)
    except BlklabError as error:
        raise NotYet(str(error)) from None
    _write_attributes(capture, built)
    _make_groups(capture, built)
    differences = _compare_attributes(capture, built)
    if ranges:
        return _run_ranges(capture, built, differences)
    try:
        processes = _processes(capture, built)
        run = ReplayRun(built, processes, capture, run_bytes) if capture.bios else CaseRun(built, processes)
    except BlklabError as error:
        raise NotYet(str(error)) from None
    tracer = Tracer(built.host, TR_ALL)
    built.trace(tracer, TR_ALL)
    for action in capture.setup["actions"]:
        built.events.at(
            action["at_ns"], TimedWrite([built.queue(action["device"])], action["path"], action["value"])
        )
    run.run()
    iops = {
        name: _iops(member.thread)
        for name, member in zip(run.job_names, run.members, strict=True)
        if member.thread is not None
    }
    timed = _events(tracer, built, capture)
    events = {device: [item.event for item in found] for device, found in timed.items()}
    return ModelRun(events, iops, gaps(timed.values()), differences)


def _run_ranges(capture: Capture, built: BuiltMachine, differences: list[str]) -> ModelRun:
    # Jobs of blkdiscard, one after another
    tracer = Tracer(built.host, TR_ALL)
    built.trace(tracer, TR_ALL)
    for job in capture.setup["jobs"]:
        wanted = Range(job["offset"], job["length"], job["kind"] == "zeroout")
        run_blkdiscard(built, job["device"], [wanted])
    timed = _events(tracer, built, capture)
    events = {device: [item.event for item in found] for device, found in timed.items()}
    return ModelRun(events, {}, gaps(timed.values()), differences)


# Setting up


def _check_supported(capture: Capture) -> None:
    setup = capture.setup
    if setup["unsupported"]:
        raise NotYet(f"the lab cannot describe it: {setup['unsupported']}")
    have = models()
    for device in setup["devices"]:
        if MODELS[device["model"]] not in have:
            raise NotYet(f"device model {device['model']}")
    schedulers = elevator_names()
    for name in setup["initial_limits"].values():
        if name.get("scheduler", "none") not in schedulers:
            raise NotYet(f"scheduler {name['scheduler']}")
    for action in setup["actions"]:
        if action["path"] == "queue/scheduler" and action["value"] not in schedulers:
            raise NotYet(f"scheduler {action['value']}")
    if all(job["kind"] in RANGE_JOBS for job in setup["jobs"]):
        return
    for job in setup["jobs"]:
        if job["kind"] != "fio":
            raise NotYet(f"jobs of {job['kind']} beside others")
    if len({job["group"] for job in setup["jobs"]}) > 1:
        raise NotYet("fio processes one after another")
    for bio in capture.bios:
        if bio.rwbs not in PLAIN_BIOS | SYNC_BIOS:
            raise NotYet(f"bios like {bio.rwbs}")


def _machine(capture: Capture, costs: str) -> Machine:
    setup = capture.setup
    builder = MachineBuilder()
    builder.name = capture.case
    builder.source = capture.case
    builder.set_kernel(setup["kernel"], capture.case)
    builder.set_cpu("count", setup["cpus"], capture.case)
    builder.set_costs(costs, "--costs")
    parameters = {model.name: {p.name for p in model.parameters} for model in models().values()}
    for device in setup["devices"]:
        model = MODELS[device["model"]]
        made = builder.device(device["name"], capture.case)
        made.set_model(model, capture.case)
        if model == "virtio":
            for key, nanoseconds in VIRTIO_HOST.items():
                made.set_parameter(key, nanoseconds, capture.case)
        for key, value in device.items():
            if key in NOT_PARAMETERS:
                continue
            if key == "chunk_sectors":
                key, value = "chunk", value << 9
            if key not in parameters[model]:
                raise NotYet(f"parameter {key} of device model {model}")
            made.set_parameter(key, value, capture.case)
    if setup["cgroups"]:
        builder.cgroups.set_version(setup["cgroup_version"], capture.case)
    return builder.build()


def _make_groups(capture: Capture, built: BuiltMachine) -> None:
    # As they were set up, when the devices had their schedulers
    tree = built.cgroups
    if tree is None:
        return
    features = built.machine.features
    for given in capture.setup["cgroups"]:
        cgroup = tree.make(given["path"])
        for name, text in given["files"].items():
            if name not in files_of(cgroup, tree, features):
                raise NotYet(name)
            for line in text.splitlines():
                write_file(cgroup, tree, name, line, features)


def _write_attributes(capture: Capture, built: BuiltMachine) -> None:
    # In their order; what the kernel refused must be refused here
    for written in capture.setup["attributes"]:
        queue = built.queue(written["device"])
        try:
            write(queue, written["path"], written["value"])
        except AttributeRefused as error:
            if error.errno == "ENOENT":
                raise NotYet(f"attribute {written['path']}") from None
            if written.get("refused") != error.errno:
                raise
        else:
            if "refused" in written:
                raise BlklabError(f"takes {written['value']!r}, the kernel refused it", written["path"])


def _compare_attributes(capture: Capture, built: BuiltMachine) -> list[str]:
    # Queue attributes as they stood before the jobs, as far as the model has them
    differences = []
    for device, limits in capture.setup["initial_limits"].items():
        queue = built.queue(device)
        have = set(attribute_paths(queue))
        for name, wanted in limits.items():
            path = {"nr_hw_queues": "", "nr_tags": "hctx0/nr_tags"}.get(name, f"queue/{name}")
            if name == "scheduler":
                found: Any = queue.elevator_name
            elif name == "nr_hw_queues":
                found = queue.nr_hw_queues
            elif path in have:
                found = read(queue, path)
            else:
                continue
            if str(found) != str(wanted):
                differences.append(f"{device}/{path or name}: {found}, the kernel had {wanted}")
    return differences


def _processes(capture: Capture, built: BuiltMachine) -> list[Process]:
    # The fio processes of the case, which ran side by side
    found = []
    for job in capture.setup["jobs"]:
        name = job["file"]
        cgroup = None
        if built.cgroups is not None:
            cgroup = built.cgroups.make(job["cgroup"] or "/")
        found.append(Process(name.rsplit(".", 1)[0], parse_job_text(capture.files[name], name), cgroup))
    return found


# Running


class Process(NamedTuple):
    """A fio process: the name of its job file without suffix, its jobs, and its control group."""

    name: str
    job_file: JobFile
    cgroup: Cgroup | None


class CaseRun(Run):
    """A run of several fio processes at once: each numbers its threads from 1, which is what their seeds come from."""

    def __init__(self, built: BuiltMachine, processes: Sequence[Process]) -> None:
        jobs = [spec for process in processes for spec in process.job_file.jobs]
        self.processes = [
            (process, clone.job_number) for process in processes for clone in expand(process.job_file.jobs)
        ]
        super().__init__(built, JobFile(tuple(jobs), (), (), processes[0].job_file.source))
        self.job_names = [
            f"{process.name}/{member.clone.spec.name}.{member.clone.clone}"
            for (process, _), member in zip(self.processes, self.members, strict=True)
        ]

    def _stream(self, clone: Clone, file_sizes_bytes: list[int]) -> Stream:
        _, number = self.processes[clone.job_number - 1]
        return super()._stream(replace(clone, job_number=number), file_sizes_bytes)

    def _group(self, clone: Clone) -> Cgroup | None:
        return self.processes[clone.job_number - 1][0].cgroup


class ReplayRun(CaseRun):
    """A run whose threads send the bios of a capture."""

    def __init__(
        self, built: BuiltMachine, processes: Sequence[Process], capture: Capture, run_bytes: int
    ) -> None:
        super().__init__(built, processes)
        self.run_bytes = run_bytes
        self.sent: dict[int, list[list[SentBio]]] = {}
        tasks: dict[str, dict[int, list[SentBio]]] = {}
        for bio in capture.bios:
            if bio.rwbs == FLUSH_BIO:
                continue
            section = bio.job.rpartition(".")[0]
            tasks.setdefault(section, {}).setdefault(bio.task, []).append(bio)
        for (process, _), member in zip(self.processes, self.members, strict=True):
            clone = member.clone
            section = f"{process.name}/{clone.spec.name}"
            mine = list(tasks.get(section, {}).values())
            if sum(m.clone.spec is clone.spec for m in self.members) == 1:
                # blk-throttle's worker sends what it held back of a thread
                mine = [[bio for bios in mine for bio in bios]] if mine else mine
            if clone.clone >= len(mine):
                raise BlklabError(f"no bios of clone {clone.clone} of {section}", capture.case)
            bios = mine[clone.clone]
            self.sent[clone.job_number] = _calls(bios) if clone.spec.iodepth == 1 else [[bio] for bio in bios]

    def _stream(self, clone: Clone, file_sizes_bytes: list[int]) -> Stream:
        spec = clone.spec
        names = [name.removeprefix("/dev/") for name in spec.filenames] or [next(iter(self.built.queues))]
        ios = self.sent[clone.job_number]
        return ReplayStream(
            [DDIRS[bios[0].rwbs[0]] for bios in ios],
            [names.index(bios[0].device) for bios in ios],
            [bios[0].sector << 9 for bios in ios],
            [sum(bio.nr_sectors for bio in bios) << 9 for bios in ios],
        )

    def _thread(self, member: Member) -> FioThread:
        thread = super()._thread(member)
        thread.dio.run_bytes = self.run_bytes
        thread.dio.sizes = _large_bios(self.sent[member.clone.job_number])
        return thread


def _calls(bios: list[SentBio]) -> list[list[SentBio]]:
    # The I/Os of a task that sends one a call: the bios of each call, which must lie one behind the other
    ios: list[list[SentBio]] = []
    for bio in bios:
        if ios and ios[-1][0].batch == bio.batch:
            last = ios[-1][-1]
            if (last.device, last.sector + last.nr_sectors) != (bio.device, bio.sector):
                raise NotYet("bios of one call that are not one I/O")
            ios[-1].append(bio)
        else:
            ios.append([bio])
    return ios


def _large_bios(ios: list[list[SentBio]]) -> Iterator[int]:
    # Bytes of each bio of which the kernel had to ask how many pages it takes: it had more than 256 left
    for bios in ios:
        left = sum(bio.nr_sectors for bio in bios) << 9
        for bio in bios:
            if left > MAX_BIO_BYTES:
                yield bio.nr_sectors << 9
            left -= bio.nr_sectors << 9


def _iops(thread: FioThread) -> tuple[float, float]:
    ran_ms = max(1, (thread.ended_ns - thread.began_ns) // 1_000_000)
    stats = thread.stats
    return stats.read.done_ios * 1000 / ran_ms, stats.write.done_ios * 1000 / ran_ms


def _events(tracer: Tracer, built: BuiltMachine, capture: Capture) -> dict[str, list[TimedEvent]]:
    names = {queue.number: name for name, queue in built.queues.items()}
    events: dict[str, list[TimedEvent]] = {name: [] for name in capture.events}
    for record in tracer:
        device = names[record.device]
        if device not in events:
            continue
        if record.action in ("P", "U", "UT"):
            event = TracedEvent(record.action, "N", 0, 0, 0 if record.action == "P" else record.extra)
        elif record.action == "m":
            event = TracedEvent("m", "N", 0, 0)
        else:
            event = TracedEvent(record.action, record.rwbs, record.sector, record.nr_sectors)
        events[device].append(TimedEvent(record.time_ns, record.cpu, record.pid, event))
    return events
