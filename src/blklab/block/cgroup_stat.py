"""The files that every control group has, whatever policies there are: io.stat, the tasks, the controllers.

What: `io.stat` and `cgroup.*` of version 2, `blkio.reset_stats` and `tasks` of version 1; `group_stat` for reports. Why
here: they belong to the tree and to no policy.

Theory of operation
-------------------
A group has a line in io.stat for each device on which it is known: one that it, or a group below it, has sent a bio
to, or for which a limit was set. The newest comes first. The figures are those of the group and all below it; the
root's are the device's own (they are counted there anyway, merged I/Os as one). A line without reads and writes ends
behind the device's number, even if the group has discarded.

Deliberate differences: the format is that of 6.1 on every kernel. All groups have the io controller, as if each
cgroup.subtree_control had been written.
"""

from __future__ import annotations

from blklab.block.cgroup import Blkg, BlkgStat, Cgroup, CgroupTree, device_number
from blklab.block.cgroup_files import CgroupFile, register_files
from blklab.block.iostat import DISCARD, READ, WRITE
from blklab.core.errors import BlklabError

FIELDS = ("rbytes", "wbytes", "rios", "wios", "dbytes", "dios")


def group_stat(blkg: Blkg) -> dict[str, int]:
    """What a group and those below it have done on a device, by the fields of io.stat."""
    total = dict.fromkeys(FIELDS, 0)
    for one in blkg.walk():
        for field in FIELDS:
            total[field] += getattr(one.stat, field)
    return total


def device_stat(blkg: Blkg) -> dict[str, int]:
    """The same of a whole device: from its own counters, which count what completed."""
    stat = blkg.queue.stat
    return {
        "rbytes": stat.sectors[READ] << 9,
        "wbytes": stat.sectors[WRITE] << 9,
        "rios": stat.ios[READ],
        "wios": stat.ios[WRITE],
        "dbytes": stat.sectors[DISCARD] << 9,
        "dios": stat.ios[DISCARD],
    }


def _io_stat(cgroup: Cgroup, tree: CgroupTree) -> str:
    lines = []
    for blkg in cgroup.newest_first():
        done = device_stat(blkg) if cgroup.is_root else group_stat(blkg)
        shown = any(done[field] for field in ("rbytes", "wbytes", "rios", "wios"))
        figures = " ".join(f"{field}={value}" for field, value in done.items()) if shown else ""
        lines.append(f"{device_number(blkg.queue)} {figures}")
    return "\n".join(lines)


def _reset_stats(cgroup: Cgroup, text: str, tree: CgroupTree) -> None:
    if not text.isdecimal():
        raise BlklabError(f"{text!r} is not a number (EINVAL)")
    for blkg in cgroup.blkgs.values():
        _clear(blkg.stat)
        assert blkg.queue.blkcg is not None
        for policy in blkg.queue.blkcg.policies:
            reset = getattr(policy, "pd_reset_stats", None)
            if reset is not None:
                reset(blkg)


def _clear(stat: BlkgStat) -> None:
    for field in FIELDS:
        setattr(stat, field, 0)


def _procs(cgroup: Cgroup, tree: CgroupTree) -> str:
    return "\n".join(str(task.pid) for task in tree.tasks if task.cgroup is cgroup)


def _move_task(cgroup: Cgroup, text: str, tree: CgroupTree) -> None:
    for task in tree.tasks:
        if text == str(task.pid):
            task.cgroup = cgroup
            return
    pids = " ".join(str(task.pid) for task in tree.tasks)
    raise BlklabError(f"no task {text!r} (ESRCH); those of jobs with a control group are {pids or 'none'}")


def _controllers(cgroup: Cgroup, tree: CgroupTree) -> str:
    return "io"


def _enable(cgroup: Cgroup, text: str, tree: CgroupTree) -> None:
    for word in text.split():
        if word == "-io":
            raise BlklabError("every group has the io controller here; it cannot be taken away")
        if word != "+io":
            raise BlklabError(f"{word!r} is not built (EINVAL); the only controller is io: +io")


CGROUP_FILES = (
    CgroupFile(
        "io.stat", (2,), "bytes and I/Os that were submitted, by device, with those of groups below", _io_stat
    ),
    CgroupFile(
        "cgroup.procs", (1, 2), "pids of the jobs in the group; writing one moves it", _procs, _move_task
    ),
    CgroupFile("tasks", (1,), "the same", _procs, _move_task),
    CgroupFile("cgroup.controllers", (2,), "the controllers that the group has: io", _controllers),
    CgroupFile("cgroup.subtree_control", (2,), "those that groups below have: io", _controllers, _enable),
    CgroupFile("blkio.reset_stats", (1,), "writing a number sets all statistics to 0", None, _reset_stats),
)

register_files("cgroup", CGROUP_FILES)
