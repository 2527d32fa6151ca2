"""What can be read and written below queue/iosched of BFQ: the kernel's names, units and clamps.

What is out of range becomes the nearest value that is not; only what is no number is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from blklab.block.attributes import Attribute, number
from blklab.elevator.bfq.params import MSEC_NS, SLICE_IDLE_MS

INT_MAX = (1 << 31) - 1
UINT_MAX = (1 << 32) - 1
ULONG_MAX = (1 << 64) - 1


def _number(text: str, least: int, most: int) -> int:
    return max(least, min(number(text, 0, ULONG_MAX), most))


def _set_ns(name: str, least: int, most: int, unit_ns: int, mask: int) -> Callable[[Any, str], None]:
    def set_it(elevator: Any, text: str) -> None:
        setattr(elevator.bfqd, name, (_number(text, least, most) * unit_ns) & mask)

    return set_it


def _set_plain(name: str, least: int, most: int) -> Callable[[Any, str], None]:
    def set_it(elevator: Any, text: str) -> None:
        setattr(elevator.bfqd, name, _number(text, least, most))

    return set_it


def _set_max_budget(elevator: Any, text: str) -> None:
    value = _number(text, 0, INT_MAX)
    elevator.bfqd.max_budget = value or elevator.budgets.calc_max_budget()
    elevator.bfqd.user_max_budget = value


def _set_timeout_sync(elevator: Any, text: str) -> None:
    bfqd = elevator.bfqd
    bfqd.timeout_ns = bfqd.jiffies_ns(_number(text, 1, INT_MAX))
    if bfqd.user_max_budget == 0:
        bfqd.max_budget = elevator.budgets.calc_max_budget()


def _set_strict_guarantees(elevator: Any, text: str) -> None:
    bfqd = elevator.bfqd
    strict = _number(text, 0, 1) == 1
    if strict and not bfqd.strict_guarantees:
        bfqd.slice_idle_ns = max(bfqd.slice_idle_ns, SLICE_IDLE_MS * MSEC_NS)
    bfqd.strict_guarantees = strict


def _set_low_latency(elevator: Any, text: str) -> None:
    bfqd = elevator.bfqd
    low_latency = _number(text, 0, 1) == 1
    if bfqd.low_latency and not low_latency:
        elevator.end_raising()
    bfqd.low_latency = low_latency


# In the kernel slice_idle is a 32-bit number of nanoseconds: above 4294 ms it wraps
TUNABLES: tuple[Attribute, ...] = (
    Attribute(
        "fifo_expire_sync",
        "ms after which a synchronous request goes before the order by sector, once a turn of its queue",
        lambda e: e.bfqd.fifo_expire_sync_ns // MSEC_NS,
        _set_ns("fifo_expire_sync_ns", 1, INT_MAX, MSEC_NS, ULONG_MAX),
    ),
    Attribute(
        "fifo_expire_async",
        "the same for asynchronous requests",
        lambda e: e.bfqd.fifo_expire_async_ns // MSEC_NS,
        _set_ns("fifo_expire_async_ns", 1, INT_MAX, MSEC_NS, ULONG_MAX),
    ),
    Attribute(
        "back_seek_max",
        "KiB that a request may lie behind the last one and count as near",
        lambda e: e.bfqd.back_seek_max_kb,
        _set_plain("back_seek_max_kb", 0, INT_MAX),
    ),
    Attribute(
        "back_seek_penalty",
        "how many times farther a way back counts",
        lambda e: e.bfqd.back_seek_penalty,
        _set_plain("back_seek_penalty", 1, INT_MAX),
    ),
    Attribute(
        "slice_idle",
        "ms that the device waits for the next request of a queue in service; 0: never",
        lambda e: e.bfqd.slice_idle_ns // MSEC_NS,
        _set_ns("slice_idle_ns", 0, INT_MAX, MSEC_NS, UINT_MAX),
    ),
    Attribute(
        "slice_idle_us",
        "the same in microseconds",
        lambda e: e.bfqd.slice_idle_ns // 1000,
        _set_ns("slice_idle_ns", 0, UINT_MAX, 1000, UINT_MAX),
    ),
    Attribute(
        "max_budget",
        "most sectors of a turn; 0: what the device can transfer in timeout_sync, as measured",
        lambda e: e.bfqd.user_max_budget,
        _set_max_budget,
    ),
    Attribute(
        "timeout_sync",
        "most ms of a turn, in jiffies",
        lambda e: e.bfqd.timeout_ns // MSEC_NS,
        _set_timeout_sync,
    ),
    Attribute(
        "strict_guarantees",
        "1: one request at a time, and always idle for the queue in service",
        lambda e: int(e.bfqd.strict_guarantees),
        _set_strict_guarantees,
    ),
    Attribute(
        "low_latency",
        "1: raise the weight of queues that serve a waiting user",
        lambda e: int(e.bfqd.low_latency),
        _set_low_latency,
    ),
)
