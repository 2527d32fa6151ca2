"""io.prio.class: the priority class of what a control group submits (blk-ioprio.c).

Theory of operation
-------------------
A number for each group, from no-change to idle, in the order of the classes: a bio gets the lower priority of its own
and of its group's class. A bio that takes its task's priority has one since 6.0 (best effort 4, as a task without a
nice value), so none-to-rt, which was for bios without any, has changed nothing from then on; promote-to-rt came in 6.5,
and made none-to-rt another name of it.

The class is applied when a task submits a bio (block/cgroup.py: associate), not to the parts and copies that stacked
devices make of it: they carry the bio's.

Deliberate differences: before 6.0 it was applied when a bio got its request, after it had been compared with requests
for a merge.
"""

from __future__ import annotations

from blklab.block.cgroup import POLICY_IOPRIO, Cgroup, CgroupTree
from blklab.block.cgroup_files import CgroupFile, register_files
from blklab.block.features import Features
from blklab.core.errors import BlklabError, nearest

IOPRIO_CLASS_RT = 1
CLASS_SHIFT = 13
# task_nice_ioprio: best effort, and the middle level for a nice value of 0
DEFAULT_IOPRIO = 2 << CLASS_SHIFT | 4
PROMOTED_IOPRIO = IOPRIO_CLASS_RT << CLASS_SHIFT | 4

# Value of the feature `io_prio_class`
PRIORITY_ALWAYS_SET = 2
PROMOTES = 3

NO_CHANGE, NONE_TO_RT, RESTRICT_TO_BE, IDLE = "no-change", "none-to-rt", "restrict-to-be", "idle"
PROMOTE_TO_RT = "promote-to-rt"
# What is written -> the class that a bio's priority is at most
CLASSES = {NO_CHANGE: 0, NONE_TO_RT: 1, PROMOTE_TO_RT: 1, RESTRICT_TO_BE: 2, IDLE: 3}


class PrioClass:
    """The class of one group."""

    def __init__(self, name: str, features: Features) -> None:
        self.name = name
        self.always_set = features.io_prio_class >= PRIORITY_ALWAYS_SET
        self.promotes = features.io_prio_class >= PROMOTES and name in (NONE_TO_RT, PROMOTE_TO_RT)
        self.least_ioprio = CLASSES[name] << CLASS_SHIFT

    def ioprio(self, ioprio: int) -> int:
        """The priority of a bio that would have had `ioprio` (0: none)."""
        if ioprio >> CLASS_SHIFT == 0 and self.always_set:
            ioprio = DEFAULT_IOPRIO
        if self.promotes:
            return ioprio if ioprio >> CLASS_SHIFT == IOPRIO_CLASS_RT else PROMOTED_IOPRIO
        return max(ioprio, self.least_ioprio)


def names(features: Features) -> list[str]:
    """What this kernel takes."""
    return [name for name in CLASSES if name != PROMOTE_TO_RT or features.io_prio_class >= PROMOTES]


def _get(cgroup: Cgroup, tree: CgroupTree) -> str:
    found = cgroup.cpd[POLICY_IOPRIO]
    return found.name if isinstance(found, PrioClass) else NO_CHANGE


def _set(cgroup: Cgroup, text: str, tree: CgroupTree) -> None:
    known = names(tree.features)
    if text not in known:
        raise BlklabError(
            f"{text!r} is not a class (EINVAL); there are {', '.join(known)}{nearest(text, known)}"
        )
    cgroup.cpd[POLICY_IOPRIO] = None if text == NO_CHANGE else PrioClass(text, tree.features)


def _exists(features: Features) -> bool:
    return bool(features.io_prio_class)


_HELP = "priority class of what the group submits: no-change, none-to-rt, restrict-to-be, idle; promote-to-rt"
CGROUP_FILES = (
    CgroupFile("io.prio.class", (2,), _HELP, _get, _set, exists=_exists),
    CgroupFile("blkio.prio.class", (1,), _HELP, _get, _set, exists=_exists),
)

register_files("ioprio", CGROUP_FILES)
