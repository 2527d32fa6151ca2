"""null_blk: a device that does nothing, after a fixed time. For measuring the block layer itself.

Parameters are those of the null_blk module under their names, with its defaults.

Theory of operation
-------------------
`irqmode` 2 (timer): a request completes `completion_nsec` after the
driver took it, by a timer on the CPU that issued it. There is no limit to how many are served at once except
the tags. 1 (softirq): at once, in the softirq. 0: inline, in the issuing CPU's own section.

`memory_backed` has the driver sleep for memory, so only workers run its hardware queues (BLK_MQ_F_BLOCKING). With it
`cache_size` makes a write cache and FUA of it; a flush takes as long as any request.

`mbps` limits bandwidth as the driver does: every 20 ms it may serve mbps * 2^20 / 50 bytes; a request that
exceeds that is refused (DEV_RESOURCE, after it was started), and the queues are stopped until the timer fills
the budget again. The timer keeps one beat (here from time 0 on). It stops after an interval without traffic;
the first request after that is served from what was left, the second has the budget filled.

Deliberate differences: data is not kept; a full write cache does not slow writes down; no zones, no polling, no bad
blocks; queue_mode 0 (bios) is not built. queue_mode 1 is the single queue of kernels up to 4.20, and what every
device has before 3.13.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import cython

from blklab.block.driver import Driver
from blklab.block.models import DeviceModel, Parameter, Settings, no_presets
from blklab.block.tags import TagSet
from blklab.core.clock import Event
from blklab.core.errors import BlklabError

if TYPE_CHECKING:
    from blklab.block.features import Features
    from blklab.block.hwqueue import HardwareQueue
    from blklab.block.queue import RequestQueue
    from blklab.block.request import Request
    from blklab.core.clock import Lane
    from blklab.core.host import Host

if not cython.compiled:
    from blklab.block.consts import (
        F_FUA,
        OP_FLUSH,
        OP_READ,
        OP_WRITE,
        RQ_COMPLETE,
        STS_DEV_RESOURCE,
        STS_OK,
    )
    from blklab.core.steps import STEP_NULL_PAGE

TICKS_PER_SECOND = 50  # TICKS_PER_SEC
TICK_NS = 20_000_000  # TIMER_INTERVAL
IO_TIMEOUT_NS = 5_000_000_000
IRQ_NONE = 0
IRQ_TIMER = 2

PARAMETERS = (
    Parameter("queue_mode", "int", 2, "2: blk-mq, 1: the single queue (until 4.20); 0 is not built", 0, 2),
    Parameter("irqmode", "int", 1, "completions: 0 inline, 1 softirq, 2 timer", 0, 2),
    Parameter("completion_nsec", "int", 10_000, "time until the timer completes a request"),
    Parameter("submit_queues", "int", 1, "hardware queues", 1, 4096),
    Parameter("poll_queues", "int", 0, "hardware queues for polling; only 0 is built", 0, 0),
    Parameter("hw_queue_depth", "int", 64, "tags of a hardware queue", 1, 10240),
    Parameter("gb", "int", 250, "size, GiB", 1, 1 << 20),
    Parameter("bs", "int", 512, "logical block, bytes", 512, 4096),
    Parameter("max_sectors", "int", 0, "largest request, sectors; 0: the block layer's 255"),
    Parameter("mbps", "int", 0, "bandwidth limit, MiB/s; 0: none", 0, 40960),
    Parameter("discard", "bool", False, "takes discards (if memory_backed)"),
    Parameter(
        "memory_backed", "bool", False, "keeps data: enables discard and cache_size, and only workers issue"
    ),
    Parameter("virt_boundary", "bool", False, "memory gaps only at page boundaries"),
    Parameter("shared_tags", "bool", False, "one tag set for all null devices of the machine"),
    Parameter("cache_size", "int", 0, "write cache, MiB (if memory_backed); 0: none"),
    Parameter("zoned", "bool", False, "zones; only 0 is built", 0, 0),
    Parameter("zone_size", "int", 256, "zone size, MiB, of a zoned device"),
    Parameter("zone_nr_conv", "int", 0, "conventional zones of a zoned device"),
)


class NullDevice(Driver):
    """One null_blk device."""

    def __init__(self, settings: Settings, host: Host, seed: int) -> None:
        Driver.__init__(self)
        if settings["queue_mode"] == 0:
            raise BlklabError(
                "null: queue_mode 0 (bios) is not built, only 2 (blk-mq) and 1 (the single queue)"
            )
        if settings["bs"] & (settings["bs"] - 1):
            raise BlklabError(f"null: bs is a power of two from 512 to 4096, not {settings['bs']}")
        if settings["zoned"]:
            raise BlklabError("null: zoned devices are not built yet")
        self.host = host
        self.settings = settings
        self.by_timer = settings["irqmode"] == IRQ_TIMER
        self.ends_in_irq = self.by_timer
        self.inline = settings["irqmode"] == IRQ_NONE
        self.blocking = settings["memory_backed"]
        self.has_cache = self.blocking and settings["cache_size"] > 0
        self.cached_pages = 0
        self.completion_ns = settings["completion_nsec"]
        self.tick_bytes = (1 << 20) // TICKS_PER_SECOND * settings["mbps"]
        self.left_bytes = self.tick_bytes
        # A timer a CPU: its own time never goes back, so each CPU is a lane
        self.lanes: list[Lane] = [host.clock.lane() for _ in range(host.nr_cpus)]
        self.tick = NullTick(self)

    def attach(self, queue: RequestQueue) -> None:
        """null_add_dev: limits and size."""
        Driver.attach(self, queue)
        settings = self.settings
        limits = queue.limits
        limits.logical_block_bytes = settings["bs"]
        limits.physical_block_bytes = settings["bs"]
        limits.io_min_bytes = settings["bs"]
        default = queue.features.default_max_sectors
        limits.set_max_hw_sectors(settings["max_sectors"] or limits.max_hw_sectors, default)
        if settings["virt_boundary"]:
            limits.virt_boundary_mask = 4095
            limits.max_segment_bytes = 0xFFFFFFFF  # blk_queue_virt_boundary: a segment may have any size
        if settings["discard"] and settings["memory_backed"]:
            limits.discard_granularity_bytes = settings["bs"]
            limits.max_hw_discard_sectors = 0xFFFFFFFF >> 9
            limits.max_discard_sectors = limits.max_hw_discard_sectors
        queue.write_cache = queue.fua = self.has_cache
        queue.size_sectors = settings["gb"] << 21
        queue.io_timeout_ns = IO_TIMEOUT_NS

    def queue_rq(self, hctx: HardwareQueue, rq: Request, last: bool) -> int:
        """null_queue_rq: started first, then perhaps refused for bandwidth, then timed."""
        queue = hctx.queue
        queue.start_request(rq)
        if self.tick_bytes and not self._take_bytes(rq):
            return STS_DEV_RESOURCE
        if self.blocking:
            self._use_memory(rq)
        if self.by_timer:
            lane: Lane = self.lanes[self.host.cpu]
            lane.push(self.host.clock.now_ns + self.completion_ns, rq)
        elif self.inline:
            rq.move(RQ_COMPLETE)
            queue.end_request(rq, STS_OK)
        else:
            queue.complete(rq, STS_OK)
        return STS_OK

    def _use_memory(self, rq: Request) -> int:
        # null_handle_memory_backed: the page is copied before the timer starts; a flush copies what the cache holds
        pages = (rq.nr_sectors + 7) >> 3
        if rq.op == OP_FLUSH:
            pages = self.cached_pages
            self.cached_pages = 0
        elif rq.op == OP_WRITE:
            if self.has_cache and not rq.flags & F_FUA:
                self.cached_pages += pages
        elif rq.op != OP_READ:
            return 0
        self.host.charge_n(STEP_NULL_PAGE, pages)
        return 0

    def _take_bytes(self, rq: Request) -> bool:
        # null_handle_throttled
        if not self.tick.active:
            self.tick.restart()
        self.left_bytes -= rq.nr_sectors << 9
        if self.left_bytes < 0:
            for queue in self.queues:
                queue.stop_hw_queues()
            return False
        return True

    def refill(self) -> int:
        """The bandwidth timer: a new budget, and the queues run again."""
        self.left_bytes = self.tick_bytes
        for queue in self.queues:
            queue.start_stopped()
        return 0

    def timeout(self, rq: Request) -> int:
        """null_timeout_rq: a late request is waited for."""
        return STS_OK


class NullTick(Event):
    """The bandwidth timer (nullb_bwtimer_fn)."""

    def __init__(self, device: NullDevice) -> None:
        self.device = device
        self.active = False
        self.due_ns = 0

    def start(self) -> int:
        """The timer waits for its next beat."""
        self.active = True
        return self.device.host.clock.at(self.due_ns, self)

    def restart(self) -> int:
        """hrtimer_restart: it starts with the time it was last due at, so one that has stopped fires at
        once."""
        now = self.device.host.clock.now_ns
        if self.due_ns <= now:
            return self.fire(now)
        return self.start()

    def fire(self, now_ns: int) -> int:
        """One interval is over: nothing more if there was no traffic, else a new budget and the next beat."""
        self.active = False
        if self.device.left_bytes == self.device.tick_bytes:
            return 0
        self.device.refill()
        self.due_ns += ((now_ns - self.due_ns) // TICK_NS + 1) * TICK_NS
        return self.start()


def _tag_set(settings: Settings, nr_cpus: int) -> TagSet:
    return TagSet(settings["submit_queues"], settings["hw_queue_depth"], nr_cpus)


def _single_queue(settings: Settings, features: Features) -> bool:
    if settings["queue_mode"] == 1 and not features.legacy_request_fn:
        raise BlklabError(
            f"null: Linux {features.kernel} has no queue_mode 1 (the single queue went with 5.0), only 2 (blk-mq)"
        )
    return settings["queue_mode"] == 1 or not features.sched_none_mq


def _shares(settings: Settings) -> str:
    return "null" if settings["shared_tags"] else ""


MODEL = DeviceModel(
    "null",
    "null_blk: completes everything after a fixed time",
    PARAMETERS,
    NullDevice,
    _tag_set,
    no_presets,
    _shares,
    single_queue=_single_queue,
)
