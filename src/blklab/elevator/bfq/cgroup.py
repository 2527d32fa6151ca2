"""BFQ's part of the control groups: a group's data on a device, its weight, and its files.

What: `BfqGroupPolicy` gives each group of a device its `BfqGroup` while bfq is the device's scheduler. The files are
`io.bfq.weight` (version 2), `blkio.bfq.weight`, `blkio.bfq.weight_device` and the statistics (version 1).

Theory of operation
-------------------
A group has one weight for all devices (`Cgroup.cpd`), which is there whether or not any device has bfq, and may have
one of its own on a device ("MAJ:MIN 500"). Writing the first takes it over on all devices, whatever their own was. A
weight takes effect when the group is put into its tree next (`Group.set_weight`).

`io.weight` is not BFQ's: it belongs to iocost.

Statistics count requests as they are inserted, before they are merged with others, in groups of version 1 only.
blkio.reset_stats does not clear them.

Deliberate differences: lines for one device are taken on every kernel (since 5.4). The statistics that kernels have
with CONFIG_BFQ_CGROUP_DEBUG, which distributions do not set, are known by name only.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from blklab.block.cgroup import POLICY_BFQ, BlkcgPolicy, Blkg, Cgroup, CgroupTree, device_number
from blklab.block.cgroup_files import CgroupFile, device_line, register_files
from blklab.block.rwstat import RwStat, print_rwstat
from blklab.core.errors import BlklabError
from blklab.elevator.bfq.entity import DEFAULT_GROUP_WEIGHT
from blklab.elevator.bfq.group import BfqGroup
from blklab.elevator.bfq.weights import MAX_WEIGHT, MIN_WEIGHT

if TYPE_CHECKING:
    from blklab.block.features import Features
    from blklab.elevator.bfq.moving import Moves

ACCEPTED = f"{MIN_WEIGHT} to {MAX_WEIGHT}"


def weight_of(cgroup: Cgroup) -> int:
    """The weight of a group on devices where it has none of its own."""
    weight = cgroup.cpd[POLICY_BFQ]
    return weight if isinstance(weight, int) else DEFAULT_GROUP_WEIGHT


class BfqGroupPolicy(BlkcgPolicy):
    """BFQ's data of the groups on one device."""

    slot = POLICY_BFQ

    def __init__(self, moves: Moves, legacy: bool) -> None:
        self.moves = moves
        self.legacy = legacy

    def pd_alloc(self, blkg: Blkg) -> BfqGroup:
        """The group below its parent's; the root's is there."""
        if blkg.parent is None:
            group = self.moves.bfqd.root_group
        else:
            parent = blkg.parent.pd[POLICY_BFQ]
            assert isinstance(parent, BfqGroup)
            group = BfqGroup(parent, weight_of(blkg.cgroup))
        if self.legacy:
            group.bytes = RwStat()
            group.ios = RwStat()
        return group

    def pd_offline(self, blkg: Blkg) -> None:
        """The queues of a group go to the root."""
        group = blkg.pd[POLICY_BFQ]
        assert isinstance(group, BfqGroup)
        self.moves.offline(group)


# -- weights -----------------------------------------------------------------------------------


def _group(blkg: Blkg) -> BfqGroup | None:
    # Not by its class: the scheduler may be a copy of this one, loaded by its path, and the files belong to both
    return cast("BfqGroup | None", blkg.pd[POLICY_BFQ])


def _set_default(cgroup: Cgroup, value: int) -> None:
    if not MIN_WEIGHT <= value <= MAX_WEIGHT:
        raise BlklabError(f"{value} is out of range (ERANGE); a weight is {ACCEPTED}")
    cgroup.cpd[POLICY_BFQ] = value
    for blkg in cgroup.blkgs.values():
        group = _group(blkg)
        if group is not None:
            group.set_weight(value, 0)


def _number(text: str) -> int | None:
    # As simple_strtoull takes it: decimal, 0x and octal
    if re.fullmatch(r"0[xX][0-9a-fA-F]+", text):
        return int(text, 16)
    if re.fullmatch(r"0[0-7]+", text):
        return int(text, 8)
    return int(text) if re.fullmatch(r"[0-9]+", text) else None


def _set_weight(cgroup: Cgroup, text: str, tree: CgroupTree) -> None:
    value = _number(text)
    if value is None:
        raise BlklabError(f"{text!r} is not a weight (EINVAL); accepted is {ACCEPTED}")
    _set_default(cgroup, value)


def _set_weights(cgroup: Cgroup, text: str, tree: CgroupTree) -> None:
    value = _number(text)
    if value is None:
        found = re.match(r"default\s*([0-9]+)", text)
        value = int(found[1]) if found else None
    if value is not None:
        _set_default(cgroup, value)
    elif len(text.split()) < 2:
        raise BlklabError(
            f"{text!r} is not a weight (EINVAL); accepted is {ACCEPTED}, 'default WEIGHT' or 'DEVICE WEIGHT'"
        )
    else:
        _set_device(cgroup, text, tree)


def _set_device(cgroup: Cgroup, text: str, tree: CgroupTree) -> None:
    queue, word = device_line(text, tree)
    if queue.blkcg is None or queue.blkcg.policies[POLICY_BFQ] is None:
        raise BlklabError(
            f"{queue.name} has scheduler {queue.elevator_name}, not bfq (EOPNOTSUPP); its own weight is set when it has"
        )
    found = re.match(r"[0-9]+", word)
    value = int(found[0]) if found else 0
    if found is None and word != "default":
        raise BlklabError(f"{word!r} is not a weight (EINVAL); accepted is {ACCEPTED} or 'default'")
    if found is not None and not MIN_WEIGHT <= value <= MAX_WEIGHT:
        raise BlklabError(f"{value} is out of range (ERANGE); accepted is {ACCEPTED} or 'default'")
    group = _group(queue.blkcg.lookup_create(cgroup))
    assert group is not None
    # kernel: the weight that "default" leaves is the one in use, not that of the other devices
    group.set_weight(group.weight, value)


def _get_weight(cgroup: Cgroup, tree: CgroupTree) -> str:
    return str(weight_of(cgroup))


def _get_weights(cgroup: Cgroup, tree: CgroupTree) -> str:
    lines = [f"default {weight_of(cgroup)}"]
    for blkg in cgroup.newest_first():
        group = _group(blkg)
        if group is not None and group.dev_weight:
            lines.append(f"{device_number(blkg.queue)} {group.dev_weight}")
    return "\n".join(lines)


# -- statistics ----------------------------------------------------------------------------------


def _bytes(blkg: Blkg) -> RwStat | None:
    group = _group(blkg)
    return None if group is None else group.bytes


def _ios(blkg: Blkg) -> RwStat | None:
    group = _group(blkg)
    return None if group is None else group.ios


def _stat(pick: Callable[[Blkg], RwStat | None], recursive: bool) -> Callable[[Cgroup, CgroupTree], str]:
    return lambda cgroup, tree: print_rwstat(cgroup, pick, recursive)


def _bfq(features: Features) -> bool:
    return bool(features.sched_bfq)


def _debug(features: Features) -> bool:
    return False


_WEIGHTS_HELP = "weight of the group for BFQ, 1 to 1000, and 'DEVICE WEIGHT' for one device; 100 at first"
_DEBUG_HELP = "only with CONFIG_BFQ_CGROUP_DEBUG, which distributions do not set"

CGROUP_FILES: tuple[CgroupFile, ...] = (
    CgroupFile("io.bfq.weight", (2,), _WEIGHTS_HELP, _get_weights, _set_weights, on_root=False, exists=_bfq),
    CgroupFile(
        "blkio.bfq.weight",
        (1,),
        "weight of the group for BFQ, 1 to 1000; 100 at first",
        _get_weight,
        _set_weight,
        on_root=False,
        exists=_bfq,
    ),
    CgroupFile(
        "blkio.bfq.weight_device", (1,), _WEIGHTS_HELP, _get_weights, _set_weights, on_root=False, exists=_bfq
    ),
    CgroupFile("blkio.bfq.io_service_bytes", (1,), "bytes of requests", _stat(_bytes, False), exists=_bfq),
    CgroupFile("blkio.bfq.io_serviced", (1,), "requests", _stat(_ios, False), exists=_bfq),
    CgroupFile(
        "blkio.bfq.io_service_bytes_recursive",
        (1,),
        "bytes of requests, with those of groups below",
        _stat(_bytes, True),
        exists=_bfq,
    ),
    CgroupFile(
        "blkio.bfq.io_serviced_recursive",
        (1,),
        "requests, with those of groups below",
        _stat(_ios, True),
        exists=_bfq,
    ),
    *(
        CgroupFile(f"blkio.bfq.{name}{part}", (1,), _DEBUG_HELP, exists=_debug)
        for name in ("time", "sectors", "io_service_time", "io_wait_time", "io_merged", "io_queued")
        for part in ("", "_recursive")
    ),
    *(
        CgroupFile(f"blkio.bfq.{name}", (1,), _DEBUG_HELP, exists=_debug)
        for name in ("avg_queue_size", "group_wait_time", "idle_time", "empty_time", "dequeue")
    ),
)

register_files("bfq", CGROUP_FILES)
