"""CFQ's part of the control groups: a group's data on a device, its weights, and its files.

Files of cgroup v1, below blkio.: `weight` and `weight_device` for its share against its siblings, since 3.9
`leaf_weight` for that of its own tasks against its children (on the root `weight` is that one), statistics,
and since 3.9 the same with all groups below (`_recursive`). Of cgroup v2 (4.5 to 4.20) only `io.weight`.

Weights are taken over when the group is put on the tree next (`groups.py`). The root has twice the default.

Deliberate differences: statistics that the kernel keeps with CONFIG_DEBUG_BLK_CGROUP only are always there;
requests and bytes are counted at dispatch, as until 4.2, by all kernels; a weight below 100 is refused before
2.6.39.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, cast

from blklab.block.cgroup import POLICY_CFQ, BlkcgPolicy, Blkg, Cgroup, CgroupTree, device_number
from blklab.block.cgroup_files import CgroupFile, device_line, register_files
from blklab.block.rwstat import RwStat
from blklab.core.errors import BlklabError
from blklab.elevator.cfq.cfqq import CfqGroup
from blklab.elevator.cfq.params import (
    WEIGHT_DEFAULT,
    WEIGHT_MAX,
    WEIGHT_MIN,
    WEIGHT_MIN_BEFORE_2_6_39,
    WEIGHT_V2_DEFAULT,
    WEIGHT_V2_MAX,
    WEIGHT_V2_MIN,
)

if TYPE_CHECKING:
    from blklab.block.features import Features
    from blklab.block.queue import RequestQueue
    from blklab.elevator.cfq.data import CfqData


class Weights:
    """What a control group has for all devices (cfq_group_data)."""

    def __init__(self, weight: int) -> None:
        self.weight = weight
        self.leaf_weight = weight


def weights_of(cgroup: Cgroup, version: int) -> Weights:
    """The weights of a group in a tree of that version; the defaults, if none was written."""
    weights: Any = cgroup.cpd[POLICY_CFQ]  # not by its class: a copy of this module may have made it
    if weights is None:
        default = WEIGHT_DEFAULT if version == 1 else WEIGHT_V2_DEFAULT
        weights = Weights(default * 2 if cgroup.is_root else default)
        cgroup.cpd[POLICY_CFQ] = weights
    return cast(Weights, weights)


def new_group(queue: RequestQueue, now_ticks: int, blkg: Blkg | None, parent: CfqGroup | None) -> CfqGroup:
    """A group on a device; `blkg` None: the only one of a machine without control groups."""
    if blkg is None:
        cfqg = CfqGroup("/", None, None, now_ticks)
        cfqg.weight = 2 * WEIGHT_DEFAULT
        cfqg.leaf_weight = 2 * WEIGHT_DEFAULT
        return cfqg
    assert queue.blkcg is not None
    weights = weights_of(blkg.cgroup, queue.blkcg.tree.version)
    cfqg = CfqGroup(blkg.cgroup.name, parent, blkg, now_ticks)
    cfqg.weight = weights.weight
    cfqg.leaf_weight = weights.leaf_weight
    return cfqg


class CfqGroupPolicy(BlkcgPolicy):
    """CFQ's data of the groups on one device."""

    slot = POLICY_CFQ

    def __init__(self, cfqd: CfqData) -> None:
        self.cfqd = cfqd

    def pd_alloc(self, blkg: Blkg) -> object:
        """A new group."""
        parent = blkg.parent.pd[POLICY_CFQ] if blkg.parent is not None else None
        return new_group(self.cfqd.queue, self.cfqd.now(), blkg, parent)

    def pd_reset_stats(self, blkg: Blkg) -> None:
        """blkio.reset_stats."""
        cfqg: Any = blkg.pd[POLICY_CFQ]
        if cfqg is not None:
            cfqg.stats.reset()


# -- weights -----------------------------------------------------------------------------------


def groups_of(cgroup: Cgroup) -> Iterator[tuple[Blkg, CfqGroup]]:
    """The group on each device that CFQ schedules, the newest first."""
    for blkg in cgroup.newest_first():
        cfqg: Any = blkg.pd[POLICY_CFQ]
        if cfqg is not None:
            yield blkg, cfqg


def _limits(cgroup: Cgroup, tree: CgroupTree) -> tuple[int, int]:
    if tree.version == 2:
        return WEIGHT_V2_MIN, WEIGHT_V2_MAX
    old = any(queue.features.cfq_group_isolation for queue in tree.queues.values())
    return (WEIGHT_MIN_BEFORE_2_6_39 if old else WEIGHT_MIN), WEIGHT_MAX


def _number(cgroup: Cgroup, tree: CgroupTree, text: str, zero: bool) -> int:
    least, most = _limits(cgroup, tree)
    also = ", or 0 for none" if zero else ""
    if not text.strip().isdecimal():
        raise BlklabError(f"{text!r} is not a weight (EINVAL); {least} to {most}{also} is accepted")
    value = int(text)
    if not (least <= value <= most or (zero and value == 0)):
        raise BlklabError(f"{value} is out of range (ERANGE); {least} to {most}{also} is accepted")
    return value


def _write_weight(cgroup: Cgroup, text: str, tree: CgroupTree, leaf: bool) -> None:
    value = _number(cgroup, tree, text, False)
    weights = weights_of(cgroup, tree.version)
    setattr(weights, "leaf_weight" if leaf else "weight", value)
    for _, cfqg in groups_of(cgroup):
        if leaf and not cfqg.dev_leaf_weight:
            cfqg.new_leaf_weight = value
        elif not leaf and not cfqg.dev_weight:
            cfqg.new_weight = value


def _write_device_weight(cgroup: Cgroup, text: str, tree: CgroupTree, leaf: bool) -> None:
    queue, rest = device_line(text, tree)
    word = rest.strip()
    if word == "default":
        value = 0
    else:
        # Of version 2 "0" is no way to say default
        value = _number(cgroup, tree, word, tree.version == 1)
    if queue.blkcg is None or queue.blkcg.policies[POLICY_CFQ] is None:
        raise BlklabError(f"{queue.name} is not scheduled by cfq (EOPNOTSUPP)")
    cfqg: Any = queue.blkcg.lookup_create(cgroup).pd[POLICY_CFQ]
    assert cfqg is not None
    weights = weights_of(cgroup, tree.version)
    if leaf:
        cfqg.dev_leaf_weight = value
        cfqg.new_leaf_weight = value or weights.leaf_weight
    else:
        cfqg.dev_weight = value
        cfqg.new_weight = value or weights.weight


def _hierarchical(tree: CgroupTree) -> bool:
    return any(queue.features.cfq_hierarchical_weights for queue in tree.queues.values())


def _is_leaf(cgroup: Cgroup, tree: CgroupTree) -> bool:
    # On the root blkio.weight is its leaf_weight, once there is one
    return cgroup.is_root and _hierarchical(tree)


def _get_weight(cgroup: Cgroup, tree: CgroupTree) -> str:
    weights = weights_of(cgroup, tree.version)
    return str(weights.leaf_weight if _is_leaf(cgroup, tree) else weights.weight)


def _set_weight(cgroup: Cgroup, text: str, tree: CgroupTree) -> None:
    _write_weight(cgroup, text, tree, _is_leaf(cgroup, tree))


def _get_leaf_weight(cgroup: Cgroup, tree: CgroupTree) -> str:
    return str(weights_of(cgroup, tree.version).leaf_weight)


def _set_leaf_weight(cgroup: Cgroup, text: str, tree: CgroupTree) -> None:
    _write_weight(cgroup, text, tree, True)


def _device_weights(cgroup: Cgroup, leaf: bool) -> str:
    lines = []
    for blkg, cfqg in groups_of(cgroup):
        value = cfqg.dev_leaf_weight if leaf else cfqg.dev_weight
        if value:
            lines.append(f"{device_number(blkg.queue)} {value}")
    return "\n".join(lines)


def _get_weight_device(cgroup: Cgroup, tree: CgroupTree) -> str:
    return _device_weights(cgroup, _is_leaf(cgroup, tree))


def _set_weight_device(cgroup: Cgroup, text: str, tree: CgroupTree) -> None:
    _write_device_weight(cgroup, text, tree, _is_leaf(cgroup, tree))


def _get_leaf_weight_device(cgroup: Cgroup, tree: CgroupTree) -> str:
    return _device_weights(cgroup, True)


def _set_leaf_weight_device(cgroup: Cgroup, text: str, tree: CgroupTree) -> None:
    _write_device_weight(cgroup, text, tree, True)


def _get_io_weight(cgroup: Cgroup, tree: CgroupTree) -> str:
    lines = [f"default {weights_of(cgroup, tree.version).weight}"]
    devices = _device_weights(cgroup, False)
    return "\n".join([*lines, devices] if devices else lines)


def _set_io_weight(cgroup: Cgroup, text: str, tree: CgroupTree) -> None:
    words = text.split()
    if len(words) == 1 or words[:1] == ["default"]:
        _write_weight(cgroup, words[-1], tree, False)
    else:
        _write_device_weight(cgroup, text, tree, False)


# -- statistics ----------------------------------------------------------------------------------


def _sum(cgroup: Cgroup, queue: RequestQueue, pick: Callable[[Any], Any], zero: Any) -> Any:
    # Of the group and all below it on one device
    total = zero
    for blkg in cgroup.blkgs[queue.number].walk():
        cfqg: Any = blkg.pd[POLICY_CFQ]
        if cfqg is not None:
            value = pick(cfqg.stats)
            if isinstance(total, RwStat):
                total.add_all(value)
            else:
                total += value
    return total


def _plain(pick: Callable[[Any], int], recursive: bool) -> Callable[[Cgroup, CgroupTree], str]:
    def get(cgroup: Cgroup, tree: CgroupTree) -> str:
        lines = []
        for blkg, cfqg in groups_of(cgroup):
            value = _sum(cgroup, blkg.queue, pick, 0) if recursive else pick(cfqg.stats)
            lines.append(f"{device_number(blkg.queue)} {value}")
        return "\n".join(lines)

    return get


def _by_direction(pick: Callable[[Any], RwStat], recursive: bool) -> Callable[[Cgroup, CgroupTree], str]:
    def get(cgroup: Cgroup, tree: CgroupTree) -> str:
        lines = []
        total = 0
        for blkg, cfqg in groups_of(cgroup):
            value = _sum(cgroup, blkg.queue, pick, RwStat()) if recursive else pick(cfqg.stats)
            device = device_number(blkg.queue)
            for name in ("Read", "Write", "Sync", "Async"):
                lines.append(f"{device} {name} {getattr(value, FIELDS[name])}")
            lines.append(f"{device} Total {value.read + value.write}")
            total += value.read + value.write
        return "\n".join([*lines, f"Total {total}"])

    return get


FIELDS = {"Read": "read", "Write": "write", "Sync": "sync", "Async": "async_"}


def _cfq(features: Features) -> bool:
    return bool(features.sched_cfq)


def _cfq_hierarchical(features: Features) -> bool:
    return bool(features.sched_cfq and features.cfq_hierarchical_weights)


# name, help, what of GroupStats
BY_DIRECTION: tuple[tuple[str, str, Callable[[Any], RwStat]], ...] = (
    ("io_service_bytes", "bytes dispatched", lambda s: s.service_bytes),
    ("io_serviced", "requests dispatched", lambda s: s.serviced),
    ("io_service_time", "ns from issue to completion", lambda s: s.service_time),
    ("io_wait_time", "ns from arrival to issue", lambda s: s.wait_time),
    ("io_merged", "bios and requests merged into others", lambda s: s.merged),
    ("io_queued", "requests queued now", lambda s: s.queued),
)
PLAIN: tuple[tuple[str, str, Callable[[Any], int]], ...] = (
    ("time", "disk time charged: jiffies, since 4.8 ns", lambda s: s.time_ticks),
    ("sectors", "sectors dispatched", lambda s: s.service_bytes.total() >> 9),
)
# Not with those of groups below
DEBUG: tuple[tuple[str, str, Callable[[Any], int]], ...] = (
    (
        "avg_queue_size",
        "mean of requests queued when a slice begins",
        lambda s: s.avg_queue_size_sum // s.avg_queue_size_samples if s.avg_queue_size_samples else 0,
    ),
    ("group_wait_time", "ns with requests, before it was served", lambda s: s.group_wait_time_ns),
    ("idle_time", "ns that the device idled for it", lambda s: s.idle_time_ns),
    ("empty_time", "ns without requests between slices", lambda s: s.empty_time_ns),
    ("dequeue", "how often it left the tree", lambda s: s.dequeue),
    ("unaccounted_time", "disk time not charged, in the same unit", lambda s: s.unaccounted_ticks),
)

CGROUP_FILES: tuple[CgroupFile, ...] = (
    CgroupFile("blkio.weight", (1,), "share against siblings", _get_weight, _set_weight, exists=_cfq),
    CgroupFile(
        "blkio.weight_device",
        (1,),
        "the same on one device: DEVICE WEIGHT",
        _get_weight_device,
        _set_weight_device,
        exists=_cfq,
    ),
    CgroupFile(
        "blkio.leaf_weight",
        (1,),
        "share of its tasks against its children",
        _get_leaf_weight,
        _set_leaf_weight,
        exists=_cfq_hierarchical,
    ),
    CgroupFile(
        "blkio.leaf_weight_device",
        (1,),
        "the same on one device: DEVICE WEIGHT",
        _get_leaf_weight_device,
        _set_leaf_weight_device,
        exists=_cfq_hierarchical,
    ),
    *(CgroupFile(f"blkio.{n}", (1,), h, _plain(p, False), exists=_cfq) for n, h, p in (*PLAIN, *DEBUG)),
    *(CgroupFile(f"blkio.{n}", (1,), h, _by_direction(p, False), exists=_cfq) for n, h, p in BY_DIRECTION),
    *(
        CgroupFile(
            f"blkio.{n}_recursive",
            (1,),
            f"{h}, and by groups below",
            _plain(p, True),
            exists=_cfq_hierarchical,
        )
        for n, h, p in PLAIN
    ),
    *(
        CgroupFile(
            f"blkio.{n}_recursive",
            (1,),
            f"{h}, and by groups below",
            _by_direction(p, True),
            exists=_cfq_hierarchical,
        )
        for n, h, p in BY_DIRECTION
    ),
    CgroupFile(
        "io.weight",
        (2,),
        "share against siblings: [default] WEIGHT, or DEVICE WEIGHT",
        _get_io_weight,
        _set_io_weight,
        on_root=False,
        exists=_cfq_hierarchical,
    ),
)

register_files("cfq", CGROUP_FILES)
