"""What can be read and written below queue/iosched of CFQ: the kernel's names, units and clamps, by kernel.

What is out of range becomes the nearest value that is not; only what is no number is refused. Milliseconds
become whole ticks, rounded up, and are shown rounded down.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from blklab.block.attributes import Attribute, number
from blklab.elevator.cfq.params import MSEC_NS

if TYPE_CHECKING:
    from blklab.block.features import Features

UINT_MAX = (1 << 32) - 1
ULONG_MAX = (1 << 64) - 1
USEC_NS = 1000


def _number(text: str, least: int, most: int) -> int:
    return max(least, min(number(text, 0, ULONG_MAX), most))


def _plain(name: str, help: str, least: int, most: int = UINT_MAX, field: str | None = None) -> Attribute:
    where = field or name

    def get(elevator: Any) -> int:
        return int(getattr(elevator.cfqd, where))

    def put(elevator: Any, text: str) -> None:
        setattr(elevator.cfqd, where, _number(text, least, most))

    return Attribute(name, help, get, put)


def _time(name: str, help: str, field: str, least: int, unit_ns: int = MSEC_NS) -> Attribute:
    def get(elevator: Any) -> int:
        cfqd = elevator.cfqd
        return int(getattr(cfqd, field)) * int(cfqd.tick_ns) // unit_ns

    def put(elevator: Any, text: str) -> None:
        value = _number(text, least, UINT_MAX)
        setattr(elevator.cfqd, field, elevator.cfqd.ticks_of_ns(value * unit_ns))

    return Attribute(name, help, get, put)


def _always(features: Features) -> bool:
    return True


def _microseconds(features: Features) -> bool:
    return bool(features.cfq_ns_timers)


IDLE_HELP = "that the device waits for the next request of the queue in service; 0: never"
GROUP_HELP = "the same for a group whose only queue is not waited for"

# Which kernels have it, and the attribute; in the kernel's order
TUNABLES: tuple[tuple[Callable[[Features], bool], Attribute], ...] = (
    (_always, _plain("quantum", "most requests of a queue in the device while others wait", 1)),
    (
        _always,
        _time(
            "fifo_expire_sync",
            "ms after which a synchronous request goes before the order by sector, once a slice",
            "fifo_expire_sync_ticks",
            1,
        ),
    ),
    (
        _always,
        _time("fifo_expire_async", "the same for asynchronous requests", "fifo_expire_async_ticks", 1),
    ),
    (
        _always,
        _plain(
            "back_seek_max",
            "KiB that a request may lie behind the last one and count as near",
            0,
            field="back_seek_max_kb",
        ),
    ),
    (_always, _plain("back_seek_penalty", "how many times farther a way back counts", 1)),
    (_always, _time("slice_sync", "ms of the slice of a synchronous queue", "slice_sync_ticks", 1)),
    (_microseconds, _time("slice_sync_us", "the same in us", "slice_sync_ticks", 1, USEC_NS)),
    (_always, _time("slice_async", "ms of the slice of an asynchronous queue", "slice_async_ticks", 1)),
    (_microseconds, _time("slice_async_us", "the same in us", "slice_async_ticks", 1, USEC_NS)),
    (_always, _plain("slice_async_rq", "requests of an asynchronous slice, times 2 and by priority", 1)),
    (_always, _time("slice_idle", "ms " + IDLE_HELP, "slice_idle_ticks", 0)),
    (_microseconds, _time("slice_idle_us", "us " + IDLE_HELP, "slice_idle_ticks", 0, USEC_NS)),
    (
        lambda features: bool(features.cfq_group_idle and not features.cfq_group_idle_flag),
        _time("group_idle", "ms of " + GROUP_HELP, "group_idle_ticks", 0),
    ),
    (
        lambda features: bool(features.cfq_group_idle and features.cfq_ns_timers),
        _time("group_idle_us", "us of " + GROUP_HELP, "group_idle_ticks", 0, USEC_NS),
    ),
    (
        lambda features: bool(features.cfq_group_idle_flag),
        _plain(
            "group_idle",
            "1: wait slice_idle for a group whose only queue is not waited for",
            0,
            1,
            "group_idle_flag",
        ),
    ),
    (
        _always,
        _plain("low_latency", "1: slices shrink with the number of queues, asynchronous requests wait", 0, 1),
    ),
    (
        lambda features: bool(features.cfq_target_latency),
        _time("target_latency", "ms within which each queue is to be served", "target_latency_ticks", 1),
    ),
    (_microseconds, _time("target_latency_us", "the same in us", "target_latency_ticks", 1, USEC_NS)),
    (
        lambda features: bool(features.cfq_group_isolation),
        _plain("group_isolation", "0: queues that are not waited for are served in the root group", 0, 1),
    ),
)


def tunables_of(features: Features) -> list[Attribute]:
    """Those that a kernel has."""
    return [attribute for exists, attribute in TUNABLES if exists(features)]
