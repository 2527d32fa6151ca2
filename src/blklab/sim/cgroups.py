"""The control groups of a built machine: made and written to, jobs put into them, files written and read during a run.

    cgroup/system.slice/db.service/io.max       a control file, as `--set`, `--at` and `--show` name it
    cgroup/io.stat                              one of the root

Theory of operation
-------------------
A machine has control groups if its file, a `--set` or a job's `cgroup=` names one: then every device accounts its bios
to them, else nothing of it is there. Jobs are in the root unless a group's `jobs` says otherwise (as systemd would have
put fio there), or the job moves itself: `cgroup=` makes the group as fio 3.33 does (cgroup.c), which is one directory
below what is there, with `cgroup_weight` in blkio.weight, which only version 1 has. What the kernel or fio would refuse
is an error before anything runs.

Deliberate differences: fio removes the groups that it has made; here they stay, so that results can be read. They are
made before the first job starts. Threads of the kernel (workers, md's) are in the root, and what they submit by
themselves is the root's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from blklab.block.cgroup import Cgroup, CgroupTree
from blklab.block.cgroup_files import files_of, read_file, write_file
from blklab.block.cgroup_stat import FIELDS, group_stat
from blklab.core.clock import Event
from blklab.core.errors import BlklabError, nearest
from blklab.metrics.result import CgroupDevice, CgroupResult
from blklab.sim.cgroup_config import CgroupsConfig, FileWrite, default_version, group_path

if TYPE_CHECKING:
    from blklab.sim.build import BuiltMachine
    from blklab.sim.machine import Machine
    from blklab.workload.jobspec import Clone, JobFile, JobSpec

ROOT_NAME = "cgroup"
IO_WEIGHT = "io.weight"
DEFAULT_IO_WEIGHT = "default 100"


def with_groups_for(machine: Machine, job_file: JobFile) -> Machine:
    """The machine, with control groups if a job asks for one and it has none."""
    if machine.cgroups is not None or not any(spec.cgroup for spec in job_file.jobs):
        return machine
    return replace(machine, cgroups=CgroupsConfig(default_version(machine.features), ()))


def set_up_groups(built: BuiltMachine) -> None:
    """Make the machine's groups and write their files, in order. Raises BlklabError for what the kernel refuses."""
    config, tree = built.machine.cgroups, built.cgroups
    if config is None or tree is None:
        return
    built.notes += config.notes
    for group in config.groups:
        cgroup = tree.make(group.path)
        for write in group.writes:
            try:
                write_file(cgroup, tree, write.file, write.text, built.machine.features)
            except BlklabError as error:
                if not write.optional:
                    raise BlklabError(f"{error.where}: {error.message}", write.where) from None
                if "(ENOENT)" not in error.message:
                    built.notes.append(f"{write.where}: {error.where} is not written: {error.message}")
    _note_io_weight(built, [write for group in config.groups for write in group.writes])


def _note_io_weight(built: BuiltMachine, writes: Sequence[FileWrite]) -> None:
    # Who sets io.weight expects it to do something; before 5.0 it was CFQ's, and did
    if not built.machine.features.blkcg_iocost:
        return
    given = [write for write in writes if write.file == IO_WEIGHT and write.text != DEFAULT_IO_WEIGHT]
    bfq = any(queue.elevator_name == "bfq" for queue in built.queues.values())
    reached = [write for write in given if not (write.optional and bfq)]  # a unit's reaches BFQ as well
    if reached:
        hint = "BFQ goes by io.bfq.weight" if bfq else "without BFQ and io.bfq.weight nothing goes by weights"
        built.notes.append(
            f"{reached[0].where}: io.weight is iocost's, which does not run on any device: it has no effect; {hint}"
        )


# -- jobs --------------------------------------------------------------------------


class JobGroups:
    """Which group each job is in. Raises BlklabError for a job whose `cgroup` fio could not set up."""

    def __init__(self, built: BuiltMachine, job_file: JobFile) -> None:
        self.notes: list[str] = []
        self.tree = built.cgroups
        self.places: list[tuple[str, Cgroup]] = []
        self.own: dict[str, Cgroup] = {}
        for spec in job_file.jobs:
            if spec.cgroup:
                self.own[spec.cgroup] = self._set_up(built, spec)
            elif spec.cgroup_weight:
                self.notes.append(f"{spec.where}: cgroup_weight has no effect without cgroup, as in fio")
        config = built.machine.cgroups
        if config is None or self.tree is None:
            return
        for group in config.groups:
            for pattern in group.jobs:
                self.places.append((pattern, self.tree.make(group.path)))
                if not any(_fits(spec, pattern) for spec in job_file.jobs):
                    self.notes.append(f"{group.where}: no job fits {pattern!r}")

    def _set_up(self, built: BuiltMachine, spec: JobSpec) -> Cgroup:
        # cgroup_setup of fio
        tree = self.tree
        if tree is None:
            raise BlklabError("the machine has no control groups", spec.where)
        path = group_path(spec.cgroup, spec.where)
        parent = path.rpartition("/")[0] or "/"
        if tree.find(parent) is None:
            raise BlklabError(
                f"cgroup={spec.cgroup}: fio makes {path} but not {parent}, which there is not (ENOENT): add "
                f'[cgroup."{parent}"] to the machine, or use a name without a slash',
                spec.where,
            )
        cgroup = tree.make(path)
        if spec.cgroup_weight:
            if tree.version == 2:
                raise BlklabError(
                    "cgroup_weight does not work with cgroup v2, fio says: set a weight in the machine's [cgroup] "
                    "section, or take v1 with --set cgroup/version=1",
                    spec.where,
                )
            try:
                write_file(cgroup, tree, "blkio.weight", str(spec.cgroup_weight), built.machine.features)
            except BlklabError as error:
                raise BlklabError(
                    f"cgroup_weight={spec.cgroup_weight}: {error.where}: {error.message}", spec.where
                ) from None
        return cgroup

    def of(self, clone: Clone) -> Cgroup | None:
        """The group of a thread, None where there are no groups."""
        spec = clone.spec
        if spec.cgroup:
            return self.own[spec.cgroup]
        for pattern, cgroup in self.places:
            if fnmatchcase(spec.name, pattern) or fnmatchcase(f"{spec.name}.{clone.clone}", pattern):
                return cgroup
        return None if self.tree is None else self.tree.root


def _fits(spec: JobSpec, pattern: str) -> bool:
    names = [spec.name, *(f"{spec.name}.{clone}" for clone in range(spec.numjobs))]
    return any(fnmatchcase(name, pattern) for name in names)


# -- files during a run ----------------------------------------------------------------


class TimedFileWrite(Event):
    """A control file that is written during the run. `written`: whether it has been."""

    def __init__(self, built: BuiltMachine, cgroup: Cgroup, file: str, text: str, where: str) -> None:
        self.built = built
        self.cgroup = cgroup
        self.file = file
        self.text = text
        self.where = where
        self.path = f"{ROOT_NAME}{cgroup.name}/{file}"
        self.written = False

    def fire(self, now_ns: int) -> int:
        """Its time has come."""
        self.written = True
        tree = tree_of(self.built, self.where)
        try:
            write_file(self.cgroup, tree, self.file, self.text, self.built.machine.features)
        except BlklabError as error:
            raise BlklabError(f"{error.where}: {error.message}", self.where) from None
        return 0


def tree_of(built: BuiltMachine, where: str) -> CgroupTree:
    """The machine's groups. Raises BlklabError if it has none."""
    if built.cgroups is None:
        raise BlklabError('the machine has no control groups: add a [cgroup."/NAME"] to its file', where)
    return built.cgroups


def timed_write(built: BuiltMachine, path: str, text: str, where: str) -> TimedFileWrite:
    """A write to "GROUP/FILE", to be put into the event queue. Raises BlklabError if there is no such group or file."""
    tree = tree_of(built, where)
    group, _, file = path.rpartition("/")
    cgroup = tree.find(group)
    if cgroup is None:
        known = [found.name.lstrip("/") for found in tree.root.walk() if not found.is_root]
        raise BlklabError(
            f"there is no control group /{group}{nearest(group, known)}; there are {', '.join(known) or 'none'}",
            where,
        )
    known = sorted(files_of(cgroup, tree, built.machine.features))
    if file not in known:
        raise BlklabError(
            f"{cgroup.name} has no file {file!r}{nearest(file, known)}; it has {', '.join(known)}", where
        )
    return TimedFileWrite(built, cgroup, file, text, where)


def show_files(built: BuiltMachine, patterns: Sequence[str]) -> list[str]:
    """Lines "cgroup/db/io.stat: ..." of all files whose path fits a pattern, one for each line of the file."""
    tree = built.cgroups
    lines: list[str] = []
    if tree is None:
        return lines
    features = built.machine.features
    for cgroup in tree.root.walk():
        for file in files_of(cgroup, tree, features).values():
            path = f"{ROOT_NAME}{cgroup.name.rstrip('/')}/{file.name}"
            if file.get is not None and any(fnmatchcase(path, pattern) for pattern in patterns):
                text = read_file(cgroup, tree, file.name, features)
                lines += [f"{path}: {line}".rstrip() for line in text.split("\n")]
    return lines


# -- results -----------------------------------------------------------------------------


def cgroup_results(built: BuiltMachine, now_ns: int) -> list[CgroupResult]:
    """What each group and those below it have done on each device, parents first; empty without control groups."""
    tree = built.cgroups
    if tree is None:
        return []
    results = []
    totals = {number: group_stat(blkg) for number, blkg in tree.root.blkgs.items()}
    for cgroup in tree.root.walk():
        devices = []
        for number, blkg in sorted(cgroup.blkgs.items()):
            done = group_stat(blkg)
            if not any(done.values()):
                continue
            whole = totals[number]["rbytes"] + totals[number]["wbytes"]
            share = (done["rbytes"] + done["wbytes"]) / whole if whole else 0.0
            devices.append(
                CgroupDevice(blkg.queue.name, **{field: done[field] for field in FIELDS}, share=share)
            )
        io_stat: list[str] = []
        if tree.version == 2:
            text = read_file(cgroup, tree, "io.stat")
            io_stat = text.split("\n") if text else []
        results.append(CgroupResult(cgroup.name, tuple(devices), now_ns, tuple(io_stat)))
    return results
