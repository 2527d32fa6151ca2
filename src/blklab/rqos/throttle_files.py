"""io.max (cgroup v2) and blkio.throttle.* (v1): the control files of blk-throttle.

Theory of operation
-------------------
    io.max                              259:0 rbps=1048576 wiops=max    rbps, wbps, riops, wiops of a device
    blkio.throttle.read_iops_device     259:0 500                       one file a limit; 0: none
    blkio.throttle.io_serviced          I/Os that were submitted, by kind and device

A line sets what it names and leaves the rest; `max` takes a limit away. A line is taken as a whole or not at
all, but even a refused one makes the kernel carry over what bios had waited for, and so does it here. Limits
are 64 bits, those of I/Os are cut at 32. 0 is refused with ERANGE, as is 1 with EINVAL. Reading shows devices
that have a limit.

Deliberate differences: none known in io.max of 6.1. The `_recursive` files of v1 exist in all kernels here.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from blklab.block.cgroup import POLICY_THROTL, Blkg, Cgroup, CgroupTree, device_number
from blklab.block.cgroup_files import CgroupFile, device_line, register_files
from blklab.core.errors import BlklabError, nearest
from blklab.rqos.throttle import throttle_of
from blklab.rqos.throttle_group import U32_MAX, U64_MAX, ThrottleGroup

if TYPE_CHECKING:
    from collections.abc import Iterator

    from blklab.block.features import Features
    from blklab.block.queue import RequestQueue
    from blklab.rqos.throttle import BlkThrottle


class Limit(NamedTuple):
    """One of the four limits: its key in io.max, its file of v1, whether of writes, and of I/Os."""

    key: str
    file: str
    write: bool
    ios: bool


LIMITS = (
    Limit("rbps", "blkio.throttle.read_bps_device", False, False),
    Limit("wbps", "blkio.throttle.write_bps_device", True, False),
    Limit("riops", "blkio.throttle.read_iops_device", False, True),
    Limit("wiops", "blkio.throttle.write_iops_device", True, True),
)
KEYS = {limit.key: limit for limit in LIMITS}
TOKEN = re.compile(r"\S{1,26}")  # the kernel reads so much of a word, and takes the rest for the next one
NUMBER = re.compile(r"\d+")
# Lines of blkio.throttle.io_serviced and the figure of `ThrottleGroup.stat_ios` that each shows
KINDS = (("Read", 0), ("Write", 1), ("Sync", 2), ("Async", 3), ("Discard", 4))


def _groups(cgroup: Cgroup) -> Iterator[tuple[Blkg, ThrottleGroup]]:
    # The group on each device that has blk-throttle
    for blkg in cgroup.newest_first():
        data = blkg.pd[POLICY_THROTL]
        if data is not None:
            yield blkg, data.group  # type: ignore[attr-defined]


def _value(group: ThrottleGroup, limit: Limit) -> int:
    side = group.side(limit.write)
    value: int = side.iops if limit.ios else side.bps
    return value


def _is_set(group: ThrottleGroup, limit: Limit) -> bool:
    return _value(group, limit) != (U32_MAX if limit.ios else U64_MAX)


def _change(throttle: BlkThrottle, blkg: Blkg, values: dict[Limit, int]) -> None:
    group: ThrottleGroup = blkg.pd[POLICY_THROTL].group  # type: ignore[attr-defined]
    for limit, value in values.items():
        side = group.side(limit.write)
        if limit.ios:
            side.iops = value
        else:
            side.bps = value
    throttle.changed(blkg)


def _prepare(cgroup: Cgroup, queue: RequestQueue) -> tuple[BlkThrottle, Blkg]:
    assert queue.blkcg is not None
    throttle = throttle_of(queue)
    return throttle, queue.blkcg.lookup_create(cgroup)


# -- io.max ------------------------------------------------------------------------------


def _get_max(cgroup: Cgroup, tree: CgroupTree) -> str:
    lines = []
    for blkg, group in _groups(cgroup):
        if any(_is_set(group, limit) for limit in LIMITS):
            words = [
                f"{limit.key}={_value(group, limit) if _is_set(group, limit) else 'max'}" for limit in LIMITS
            ]
            lines.append(f"{device_number(blkg.queue)} {' '.join(words)}")
    return "\n".join(lines)


def _set_max(cgroup: Cgroup, text: str, tree: CgroupTree) -> None:
    queue, body = device_line(text, tree)
    throttle, blkg = _prepare(cgroup, queue)
    throttle.before_change(blkg)
    _change(throttle, blkg, dict(map(_parse, TOKEN.findall(body))))


def _parse(word: str) -> tuple[Limit, int]:
    accepted = f"accepted are {', '.join(KEYS)} with a number above 1, or max: {LIMITS[0].key}=1048576"
    key, _, text = word.partition("=")
    number = NUMBER.match(text)
    if number is None and text != "max":
        raise BlklabError(f"{word!r} is not a limit (EINVAL); {accepted}")
    value = U64_MAX if number is None else int(number[0]) & U64_MAX
    if value == 0:
        raise BlklabError(f"{word!r}: 0 is not a limit (ERANGE); {accepted}")
    if key not in KEYS:
        raise BlklabError(f"{key!r} is not a limit (EINVAL){nearest(key, KEYS)}; {accepted}")
    if value == 1:
        raise BlklabError(f"{word!r} is too low (EINVAL); {accepted}")
    limit = KEYS[key]
    return limit, min(value, U32_MAX) if limit.ios else value


# -- blkio.throttle.* -------------------------------------------------------------------------


def _get_limit(limit: Limit) -> Callable[[Cgroup, CgroupTree], str]:
    def get(cgroup: Cgroup, tree: CgroupTree) -> str:
        return "\n".join(
            f"{device_number(blkg.queue)} {_value(group, limit)}"
            for blkg, group in _groups(cgroup)
            if _is_set(group, limit)
        )

    return get


def _set_limit(limit: Limit) -> Callable[[Cgroup, str, CgroupTree], None]:
    def set_(cgroup: Cgroup, text: str, tree: CgroupTree) -> None:
        queue, body = device_line(text, tree)
        number = NUMBER.match(body)
        if number is None:
            raise BlklabError(f"{body!r} is not a limit (EINVAL); accepted is a number, 0 for none")
        value = (int(number[0]) & U64_MAX) or U64_MAX
        throttle, blkg = _prepare(cgroup, queue)
        throttle.before_change(blkg)
        _change(throttle, blkg, {limit: value & U32_MAX if limit.ios else value})

    return set_


def _rwstat(field: str, recursive: bool) -> Callable[[Cgroup, CgroupTree], str]:
    def get(cgroup: Cgroup, tree: CgroupTree) -> str:
        lines = []
        total = 0
        for blkg, _ in _groups(cgroup):
            figures = [0] * len(KINDS)
            for one in blkg.walk() if recursive else (blkg,):
                found = getattr(one.pd[POLICY_THROTL].group, field)  # type: ignore[attr-defined]
                figures = [a + b for a, b in zip(figures, found, strict=True)]
            number = device_number(blkg.queue)
            lines += [f"{number} {name} {figures[kind]}" for name, kind in KINDS]
            done = figures[0] + figures[1] + figures[4]
            lines.append(f"{number} Total {done}")
            total += done
        return "\n".join([*lines, f"Total {total}"])

    return get


def _exists(features: Features) -> bool:
    return bool(features.blk_throttle)


CGROUP_FILES = (
    CgroupFile(
        "io.max",
        (2,),
        "limits of a device: rbps, wbps (bytes a second), riops, wiops; 'nvme0n1 riops=500 wbps=max'",
        _get_max,
        _set_max,
        on_root=False,
        exists=_exists,
    ),
    *(
        CgroupFile(
            limit.file,
            (1,),
            f"{'I/Os' if limit.ios else 'bytes'} a second of {'writes' if limit.write else 'reads'}: "
            "'sda 500'; 0: no limit",
            _get_limit(limit),
            _set_limit(limit),
            exists=_exists,
        )
        for limit in LIMITS
    ),
    *(
        CgroupFile(
            f"blkio.throttle.{name}{'_recursive' if recursive else ''}",
            (1,),
            f"{what} that were submitted, by device and kind{', groups below too' if recursive else ''}",
            _rwstat(field, recursive),
            exists=_exists,
        )
        for name, field, what in (
            ("io_service_bytes", "stat_bytes", "bytes"),
            ("io_serviced", "stat_ios", "I/Os"),
        )
        for recursive in (False, True)
    ),
)

register_files("throttle", CGROUP_FILES)
