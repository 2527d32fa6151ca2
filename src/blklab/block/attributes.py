"""Attributes: the state of a queue under its sysfs and debugfs names, readable, and writable where the kernel's are.

`read(queue, "queue/nr_requests")`, `write(queue, "queue/max_sectors_kb", "128")`, `read(queue, "hctx0/dispatch_busy")`.
The tables below are the only list of them: reading, writing, `blklab list attributes` and error messages use it.

A write that the kernel refuses is refused with its errno and the reason. A written value is taken as the kernel parses
it: a decimal number where it wants one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from blklab.block.elevator import ELEVATORS, elevator_names
from blklab.block.features import SINGLE_QUEUE_SCHEDULERS, scheduler_available
from blklab.block.stacking import alignment_offset, discard_alignment
from blklab.block.switch import set_elevator, set_nr_requests
from blklab.core.errors import AttributeRefused, BlklabError, nearest

if TYPE_CHECKING:
    from blklab.block.hwqueue import HardwareQueue
    from blklab.block.queue import RequestQueue

Value = int | str

UINT_MAX = (1 << 32) - 1
ALL_ONES = (1 << 64) - 1

# kstrtol: digits, perhaps a sign before them and one newline behind
NUMBER = re.compile(r"[+-]?[0-9]{1,20}\n?", re.ASCII)


class Attribute(NamedTuple):
    """One attribute. `get` and `set` take what it belongs to: the queue, a hardware queue, a scheduler, a driver."""

    path: str
    help: str
    get: Callable[[Any], Value]
    set: Callable[[Any, str], object] | None = None


def number(text: str, least: int = 0, most: int = (1 << 63) - 1) -> int:
    """A number as the kernel's kstrtoul takes it, or kstrtol if `least` is negative, within limits. Raises
    AttributeRefused (EINVAL)."""
    if not NUMBER.fullmatch(text) or (text[0] == "-" and least >= 0):
        raise AttributeRefused(f"{text!r} is not a decimal number (EINVAL)")
    value = int(text)
    if not least <= value <= most:
        span = f"at least {least}" if most == (1 << 63) - 1 else f"{least} to {most}"
        raise AttributeRefused(f"{value} is out of range, {span} is accepted (EINVAL)")
    return value


def tunable(
    name: str, help: str, least: int = 0, most: int = (1 << 63) - 1, field: str | None = None, unit: int = 1
) -> Attribute:
    """An attribute that reads and writes a field of a scheduler, `name` unless `field` says another: a number from
    `least` to `most`, refused otherwise. `unit`: the field has so many times the number (1_000_000 for milliseconds
    of a field in nanoseconds)."""
    where = field or name

    def get(owner: Any) -> Value:
        return int(getattr(owner, where)) // unit

    def put(owner: Any, text: str) -> None:
        setattr(owner, where, number(text, least, most) * unit)

    return Attribute(name, help, get, put)


def _set_scheduler(queue: RequestQueue, text: str) -> None:
    if queue.bio_based:
        return  # kernel: taken whatever it says, and ignored
    name = text.strip()
    if name == "deadline" and queue.legacy is None and queue.features.sched_mq_deadline:
        name = "mq-deadline"  # its alias
    if not scheduler_available(queue.features, name):
        raise AttributeRefused(f"Linux {queue.features.kernel} has no scheduler {name!r} (EINVAL)")
    try:
        set_elevator(queue, name)
    except AttributeRefused:
        raise
    except BlklabError as error:
        raise AttributeRefused(f"{error.message} (EINVAL)") from None


def _scheduler(queue: RequestQueue) -> str:
    if queue.bio_based:
        return "none"
    single = queue.legacy is not None
    names = [
        name
        for name in elevator_names()
        if scheduler_available(queue.features, name, single) and (name == "none" or _fits(name, single))
    ]
    if single:
        names.sort(key=lambda name: (*SINGLE_QUEUE_SCHEDULERS, name).index(name))
    if queue.elevator_name not in names:
        names.append(queue.elevator_name)
    return " ".join(f"[{name}]" if name == queue.elevator_name else name for name in names)


def _fits(name: str, single: bool) -> bool:
    # Whether a scheduler is for such a queue, as far as that is known without loading it
    factory = ELEVATORS.get(name)
    return factory is None or getattr(factory, "single_queue", False) == single


def _set_nomerges(queue: RequestQueue, text: str) -> None:
    value = number(text)
    queue.nomerges = value if value in (0, 2) else 1


def _set_rq_affinity(queue: RequestQueue, text: str) -> None:
    value = number(text)
    if value <= 2:
        queue.rq_affinity = value


def _set_max_sectors_kb(queue: RequestQueue, text: str) -> None:
    limits = queue.limits
    most = limits.max_hw_sectors >> 1
    value = number(text)
    if limits.max_dev_sectors and most > limits.max_dev_sectors >> 1:
        most = limits.max_dev_sectors >> 1
        if value > most:
            raise AttributeRefused(f"{value} is more than the device itself takes, {most} KiB (EINVAL)")
    if value > most:
        raise AttributeRefused(f"{value} is above max_hw_sectors_kb, which is {most} (EINVAL)")
    if value < 4:
        raise AttributeRefused(f"{value} is below a page, which is 4 KiB (EINVAL)")
    limits.max_sectors = value << 1


def _set_io_timeout(queue: RequestQueue, text: str) -> None:
    value = number(text, 1, (1 << 32) - 1)
    jiffy_ms = queue.stat.jiffy_ns // 1_000_000
    queue.io_timeout_ns = (value + jiffy_ms - 1) // jiffy_ms * jiffy_ms * 1_000_000


def _set_iostats(queue: RequestQueue, text: str) -> None:
    queue.iostats = number(text) != 0


def _set_rotational(queue: RequestQueue, text: str) -> None:
    queue.rotational = number(text) != 0


def _set_write_cache(queue: RequestQueue, text: str) -> None:
    # kernel: only how the text begins is compared
    if text.startswith(("write through", "none")):
        queue.write_cache = False
        return
    if not text.startswith("write back"):
        raise AttributeRefused(f"{text!r} is neither 'write back' nor 'write through' (EINVAL)")
    if not queue.hw_write_cache:
        # kernel: since 6.1.x a queue whose driver has no cache refuses it (captures flush/*-writeback-refused-*)
        raise AttributeRefused("the driver has no write cache (EINVAL)")
    queue.write_cache = True


def _set_discard_max(queue: RequestQueue, text: str) -> None:
    limits = queue.limits
    value = number(text)
    granularity = limits.discard_granularity_bytes
    # kernel: it masks with granularity - 1, so without a granularity only 0 passes
    if value & (granularity - 1 if granularity else ALL_ONES):
        raise AttributeRefused(
            f"{value} is not a multiple of discard_granularity, which is {granularity} (EINVAL)"
        )
    if value >> 9 > UINT_MAX:
        raise AttributeRefused(f"{value} bytes are more than 2^32 sectors (EINVAL)")
    limits.max_discard_sectors = min(value >> 9, limits.max_hw_discard_sectors)


def _set_nr_requests(queue: RequestQueue, text: str) -> None:
    if queue.bio_based:
        raise AttributeRefused("the device takes bios and has no requests (EINVAL)")
    set_nr_requests(queue, number(text))


def _alignment_offset(queue: RequestQueue) -> int:
    # bdev_alignment_offset
    limits = (queue.whole or queue).limits
    if limits.misaligned:
        return -1
    if queue.whole is not None:
        return alignment_offset(limits, queue.start_sector)
    return int(limits.alignment_offset_bytes)


def _discard_alignment(queue: RequestQueue) -> int:
    # bdev_discard_alignment
    limits = (queue.whole or queue).limits
    if queue.whole is not None:
        return discard_alignment(limits, queue.start_sector)
    return int(limits.discard_alignment_bytes)


QUEUE_ATTRIBUTES: tuple[Attribute, ...] = (
    Attribute("queue/scheduler", "the scheduler; the active one in brackets", _scheduler, _set_scheduler),
    Attribute(
        "queue/nr_requests",
        "requests a hardware queue may have",
        lambda q: q.nr_requests,
        _set_nr_requests,
    ),
    Attribute(
        "queue/nomerges",
        "0: merge, 1: only the last request hint, 2: never",
        lambda q: q.nomerges,
        _set_nomerges,
    ),
    Attribute(
        "queue/rq_affinity",
        "0: complete where the interrupt arrives, 1: in the submitter's cache domain, 2: on its CPU",
        lambda q: q.rq_affinity,
        _set_rq_affinity,
    ),
    Attribute(
        "queue/max_sectors_kb",
        "largest request, KiB",
        lambda q: q.limits.max_sectors >> 1,
        _set_max_sectors_kb,
    ),
    Attribute(
        "queue/max_hw_sectors_kb", "the driver's own limit, KiB", lambda q: q.limits.max_hw_sectors >> 1
    ),
    Attribute("queue/max_segments", "memory segments of a request", lambda q: q.limits.max_segments),
    Attribute("queue/max_segment_size", "bytes of a segment", lambda q: q.limits.max_segment_bytes),
    Attribute("queue/logical_block_size", "bytes", lambda q: q.limits.logical_block_bytes),
    Attribute(
        "queue/hw_sector_size",
        "logical_block_size under its old name",
        lambda q: q.limits.logical_block_bytes,
    ),
    Attribute("queue/physical_block_size", "bytes", lambda q: q.limits.physical_block_bytes),
    Attribute("queue/minimum_io_size", "bytes", lambda q: q.limits.io_min_bytes),
    Attribute("queue/optimal_io_size", "bytes", lambda q: q.limits.io_opt_bytes),
    Attribute(
        "queue/chunk_sectors", "requests do not cross multiples of it", lambda q: q.limits.chunk_sectors
    ),
    Attribute(
        "queue/virt_boundary_mask", "memory gaps allowed only here", lambda q: q.limits.virt_boundary_mask
    ),
    Attribute(
        "queue/discard_max_bytes",
        "largest discard",
        lambda q: q.limits.max_discard_sectors << 9,
        _set_discard_max,
    ),
    Attribute(
        "queue/discard_max_hw_bytes",
        "the driver's own limit of a discard",
        lambda q: q.limits.max_hw_discard_sectors << 9,
    ),
    Attribute("queue/discard_granularity", "bytes", lambda q: q.limits.discard_granularity_bytes),
    Attribute("queue/max_discard_segments", "ranges of a discard", lambda q: q.limits.max_discard_segments),
    Attribute(
        "queue/write_zeroes_max_bytes",
        "largest write zeroes",
        lambda q: q.limits.max_write_zeroes_sectors << 9,
    ),
    Attribute(
        "queue/io_timeout",
        "milliseconds until a request counts as late",
        lambda q: q.io_timeout_ns // 1_000_000,
        _set_io_timeout,
    ),
    Attribute(
        "queue/iostats", "whether the counters of stat are kept", lambda q: int(q.iostats), _set_iostats
    ),
    Attribute(
        "queue/rotational", "whether it is a disk that turns", lambda q: int(q.rotational), _set_rotational
    ),
    Attribute(
        "queue/write_cache",
        "write back or write through",
        lambda q: "write back" if q.write_cache else "write through",
        _set_write_cache,
    ),
    Attribute("queue/fua", "whether the driver takes FUA", lambda q: int(q.fua)),
    Attribute("alignment_offset", "bytes to the first physical block; -1: misaligned", _alignment_offset),
    Attribute("discard_alignment", "bytes to the first unit that can be discarded", _discard_alignment),
    Attribute("stat", "ios, merges, sectors, ms of reads and writes, and so on", lambda q: _stat(q)),
    Attribute(
        "inflight",
        "reads and writes in flight",
        lambda q: f"{q.stat.in_flight_read} {q.stat.in_flight_write}",
    ),
    Attribute("size", "sectors", lambda q: q.size_sectors),
)

HCTX_ATTRIBUTES: tuple[Attribute, ...] = (
    Attribute("dispatch_busy", "moving average of BUSY answers, 0 to 9", lambda h: h.dispatch_busy),
    Attribute("active", "requests that hold a driver tag of a shared set", lambda h: h.user.nr_active),
    Attribute("run", "how often the queue was run", lambda h: h.run_count),
    Attribute("queued", "requests inserted (counted until 6.1; then dropped)", lambda h: h.queued_count),
    Attribute("dispatched", "requests that the driver took", lambda h: h.dispatched_count),
    Attribute("nr_tags", "driver tags", lambda h: h.tags.nr_tags),
    Attribute("nr_reserved_tags", "of these, reserved", lambda h: h.tags.nr_reserved),
    Attribute("tags_busy", "driver tags in use", lambda h: h.tags.nr_in_use),
    Attribute(
        "sched_tags_busy", "scheduler tags in use", lambda h: h.sched_tags.nr_in_use if h.sched_tags else 0
    ),
    Attribute("tags_active_queues", "queues that share the driver tags now", lambda h: h.tags.active_queues),
    Attribute("dispatch", "requests on the dispatch list", lambda h: h.dispatch_list.count),
    Attribute("cpu_list", "CPUs that submit here", lambda h: ", ".join(map(str, h.cpus))),
    Attribute("state", "flags", lambda h: _state(h)),
)


def _stat(queue: RequestQueue) -> str:
    return " ".join(f"{n:8d}" for n in queue.stat.stat_line())


def _state(hctx: HardwareQueue) -> str:
    flags = {"TAG_ACTIVE": hctx.user.active, "SCHED_RESTART": hctx.restart}
    return "|".join(name for name, on in flags.items() if on)


def _visible(queue: RequestQueue, path: str) -> bool:
    # A partition has no folder queue/, and what takes bios no requests that time out (queue_attr_visible)
    if queue.whole is not None and path.startswith("queue/"):
        return False
    return not (queue.bio_based and path == "queue/io_timeout")


def all_attributes(queue: RequestQueue) -> Iterator[tuple[str, Attribute, Any]]:
    """Path, attribute and what it belongs to, of all that a queue has now."""
    for attribute in QUEUE_ATTRIBUTES:
        if _visible(queue, attribute.path):
            yield attribute.path, attribute, queue
    for attribute in queue.driver.attributes(queue):
        yield attribute.path, attribute, queue.driver
    elevator = queue.elevator
    if elevator is not None:
        for attribute in elevator.attributes():
            yield f"queue/iosched/{attribute.path}", attribute, elevator
        for attribute in elevator.debug_attributes():
            yield f"sched/{attribute.path}", attribute, elevator
    for hctx in queue.hctxs:
        for attribute in HCTX_ATTRIBUTES:
            yield f"hctx{hctx.index}/{attribute.path}", attribute, hctx
        if elevator is not None:
            for attribute in elevator.hctx_attributes(hctx):
                yield f"hctx{hctx.index}/sched/{attribute.path}", attribute, hctx


def _find(queue: RequestQueue, path: str) -> tuple[Attribute, Any]:
    paths = []
    for name, attribute, owner in all_attributes(queue):
        if name == path:
            return attribute, owner
        paths.append(name)
    if path.startswith("queue/iosched/"):
        own = [p.removeprefix("queue/iosched/") for p in paths if p.startswith("queue/iosched/")]
        name = path.removeprefix("queue/iosched/")
        have = f"it has {', '.join(own)}" if own else "it has no tunables; write queue/scheduler first"
        raise AttributeRefused(
            f"the scheduler {queue.elevator_name} has no {name!r}; {have} (ENOENT)",
            f"{queue.name}: {path}",
            "ENOENT",
        )
    raise AttributeRefused(
        f"no such attribute{nearest(path, paths)} (ENOENT)", f"{queue.name}: {path}", "ENOENT"
    )


def attribute_paths(queue: RequestQueue) -> list[str]:
    """The paths of all attributes of a queue as it is now."""
    return [path for path, _, _ in all_attributes(queue)]


def read(queue: RequestQueue, path: str) -> Value:
    """The value of an attribute. Raises AttributeRefused (ENOENT) if there is none of that path."""
    attribute, owner = _find(queue, path)
    return attribute.get(owner)


def write(queue: RequestQueue, path: str, value: str) -> None:
    """Write an attribute as a user of sysfs does. Raises AttributeRefused with the kernel's reason."""
    attribute, owner = _find(queue, path)
    where = f"{queue.name}: {path}"
    if attribute.set is None:
        raise AttributeRefused("cannot be written, it is read-only (EACCES)", where, "EACCES")
    try:
        attribute.set(owner, value)
    except AttributeRefused as error:
        raise AttributeRefused(error.message, where, error.errno) from None
