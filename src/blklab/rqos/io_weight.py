"""io.weight: the file of iocost, which is there on every machine with control groups v2 and does nothing without it.

Theory of operation
-------------------
A group's default weight can be written and read at any time. A weight for one device is refused (EOPNOTSUPP) as long as
iocost does not run on it, which takes a write to io.cost.qos. No scheduler looks at this file: BFQ has io.bfq.weight.
Who sets the one and wants the other is told so in a note (sim/cgroups.py).

Deliberate differences: iocost itself is not built, so nothing can be enabled.
"""

from __future__ import annotations

from blklab.block.cgroup import POLICY_IOCOST, Cgroup, CgroupTree
from blklab.block.cgroup_files import CgroupFile, device_line, register_files
from blklab.block.features import Features
from blklab.core.errors import BlklabError

# CGROUP_WEIGHT_MIN, _DFL, _MAX
LEAST, DEFAULT, MOST = 1, 100, 10000


def _get(cgroup: Cgroup, tree: CgroupTree) -> str:
    weight = cgroup.cpd[POLICY_IOCOST]
    return f"default {weight if isinstance(weight, int) else DEFAULT}"


def _set(cgroup: Cgroup, text: str, tree: CgroupTree) -> None:
    words = text.split()
    if len(words) > 1 and words[0] != "default":
        queue, _ = device_line(text, tree)
        raise BlklabError(
            f"a weight for {queue.name} alone is taken only where iocost runs (EOPNOTSUPP), and it is not built yet; "
            "accepted is one for all devices: 'default 100'"
        )
    word = words[-1] if words else ""
    if not (word.isdecimal() and len(word) <= 10 and LEAST <= int(word) <= MOST):
        raise BlklabError(f"{text!r} is not a weight (EINVAL): {LEAST} to {MOST}")
    cgroup.cpd[POLICY_IOCOST] = int(word)


def _exists(features: Features) -> bool:
    return bool(features.blkcg_iocost)


CGROUP_FILES = (
    CgroupFile(
        "io.weight",
        (2,),
        "weight for iocost, 1 to 10000; without effect, as iocost is not built (BFQ has io.bfq.weight)",
        _get,
        _set,
        on_root=False,
        exists=_exists,
    ),
)

register_files("iocost", CGROUP_FILES)
