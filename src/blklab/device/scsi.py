"""A SCSI host with one or several disks, as scsi_debug makes them: limits on three levels, and a fixed delay.

Parameters are those of the scsi_debug module under their names, with its defaults; and `host`, `target` and
`target_can_queue` for several disks on one host.

Theory of operation
-------------------
A request needs, in this order: a budget of its disk (`device/queue_depth` at a time, taken before the
scheduler is even asked), a driver tag (`max_queue` a hardware queue, shared by all disks of a host), and room
at the target and host (counted in `queue_rq`). What does not get it waits:

    budget      `restarts` counts who got none; the next completion of the disk runs its queue. Nothing in
                flight: a delayed run after 3 ms
    tag         the block layer's business
    target      the disk joins the host's list of starved disks, and the answer is RESOURCE; a completion on
                the host has a worker run the starved disks' queues
    host        the same while the host is blocked: it is for a while after it refused a command (opts 0x8000)

D is traced only when a request has all four; R whenever target or host refuse it, with or without a D.

A command completes `ndelay` ns after it was issued, or `delay` jiffies, by a timer on the CPU that issued it;
at once if both are 0. A flush (SYNCHRONIZE CACHE) completes at once if nothing was written since the last one. Else it
takes a twentieth of `delay` seconds, and of at least one second; but as long as other commands if `ndelay` is below
10 us.

Deliberate differences: a budget is a count and not a bitmap, which shows only if queue_depth is lowered below
what is in flight; a starved disk's queue is run by its own worker; a late command is waited for instead of
aborted and retried, and a lost one (opts 4) fails; no zones, no protection, no errors but those of opts; that
something was written is known for each host, not for all of the module.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import cython

from blklab.block.attributes import Attribute, number
from blklab.block.driver import Driver
from blklab.block.models import DeviceModel, Parameter, Settings, no_presets
from blklab.block.tags import TagSet
from blklab.core.errors import BlklabError
from blklab.core.host import Work
from blklab.core.rand import RandomStream

if TYPE_CHECKING:
    from blklab.block.features import Features
    from blklab.block.hwqueue import HardwareQueue
    from blklab.block.queue import RequestQueue
    from blklab.block.request import Request
    from blklab.core.clock import Lane
    from blklab.core.host import Host

if not cython.compiled:
    from blklab.block.consts import (
        OP_FLUSH,
        OP_READ,
        OP_WRITE,
        RQF_LOST,
        STS_MEDIUM,
        STS_OK,
        STS_RESOURCE,
        STS_TIMEOUT,
    )
    from blklab.core.charging import charge
    from blklab.core.steps import STEP_SCSI_DONE, STEP_SCSI_QUEUE

CANQUEUE = 192  # SDEBUG_CANQUEUE
SG_MAX_SEGMENTS = 2048
MAX_SECTORS = 0xFFFFFFFF  # the host template's max_sectors, -1U
MAX_HOST_BLOCKED = 7  # SCSI_DEFAULT_HOST_BLOCKED
QUEUE_DELAY_NS = 3_000_000  # SCSI_QUEUE_DELAY
# sd.c: blocks of one command, and of one WRITE SAME that unmaps
DEF_XFER_BLOCKS = 0xFFFF
MAX_WS16_BLOCKS = 0x7FFFFF
WRITE_SAME_BLOCKS = 0xFFFF  # DEF_WRITESAME_LENGTH
LONG_DELAY_NS = 10_000  # of ndelay: only above are flushes slower than other commands
STORE_SECTORS = 0x400  # a larger store reports its size as the largest transfer

OPT_MEDIUM_ERR = 2
OPT_TIMEOUT = 4
OPT_HOST_BUSY = 0x8000
OPTS_BUILT = OPT_MEDIUM_ERR | OPT_TIMEOUT | OPT_HOST_BUSY

PARAMETERS = (
    Parameter("host", "str", "", "disks of the same host share its tags; empty: one of its own"),
    Parameter("target", "int", 0, "the target of the host that the disk is a unit of", 0, 255),
    Parameter(
        "target_can_queue", "int", 0, "commands that the target takes at a time; 0: any number", 0, CANQUEUE
    ),
    Parameter("dev_size_mb", "int", 8, "size of the store, MiB", 1, 1 << 20),
    Parameter("virtual_gb", "int", 0, "size that the disk shows, GiB; 0: that of the store", 0, 1 << 20),
    Parameter("sector_size", "int", 512, "logical block, bytes: 512, 1024, 2048 or 4096", 512, 4096),
    Parameter("physblk_exp", "int", 0, "physical block: logical block times two to this power", 0, 15),
    Parameter("opt_blks", "int", 1024, "optimal transfer length, blocks"),
    Parameter("opt_xferlen_exp", "int", 0, "granularity of it, as a power of two of blocks", 0, 15),
    Parameter("delay", "int", 1, "jiffies until a command completes; 0: at once", 0, 1 << 20),
    Parameter("ndelay", "int", 0, "nanoseconds until a command completes; 0: `delay` counts", 0, 999_999_999),
    Parameter("random", "bool", False, "the delay is the longest one, uniformly distributed"),
    Parameter("max_queue", "int", CANQUEUE, "commands of a hardware queue (can_queue)", 1, CANQUEUE),
    Parameter(
        "host_max_queue", "int", 0, "one set of this many tags for all hardware queues; 0: no", 0, CANQUEUE
    ),
    Parameter("submit_queues", "int", 1, "hardware queues", 1, 4096),
    Parameter("poll_queues", "int", 0, "hardware queues for polling; only 0 is built", 0, 0),
    Parameter(
        "use_blk_mq",
        "int",
        -1,
        "0: the single queue (until 4.20), 1: blk-mq, -1: the kernel's default",
        -1,
        1,
    ),
    Parameter("fake_rw", "bool", False, "commands do not touch the store, so its errors do not show"),
    Parameter("lbpu", "bool", False, "takes UNMAP, that is discards"),
    Parameter("unmap_max_blocks", "int", 0xFFFFFFFF, "blocks of one UNMAP", 0, 0xFFFFFFFF),
    Parameter("unmap_granularity", "int", 1, "blocks that can be unmapped", 1, 0xFFFFFFFF),
    Parameter("unmap_alignment", "int", 0, "first block that can be unmapped", 0, 0xFFFFFFFF),
    Parameter("opts", "int", 0, "faults: 2 reading medium_error_start, 4 lost commands, 0x8000 host busy"),
    Parameter("every_nth", "int", 0, "every how many commands the last two of opts happen", 0, 1 << 30),
    Parameter("medium_error_start", "int", 0x1234, "first block that cannot be read"),
    Parameter("medium_error_count", "int", 10, "number of such blocks", 1, 1 << 20),
)


class ScsiTarget:
    """A target: how many commands it has, and how many it takes (0: any number)."""

    def __init__(self, can_queue: int) -> None:
        self.can_queue = can_queue
        self.busy = 0


class ScsiHost:
    """A host: its targets, its disks, and those that were refused for want of room."""

    def __init__(self) -> None:
        self.busy = 0
        self.blocked = 0
        self.written = False  # since the last flush
        self.targets: dict[int, ScsiTarget] = {}
        self.starved: list[ScsiDisk] = []


class RequeueWork(Work):
    """A disk's requeue_work: runs the queues of the starved disks of its host, then its own (scsi_run_queue)."""

    def __init__(self, disk: ScsiDisk) -> None:
        super().__init__()
        self.disk = disk

    def step(self) -> int:
        """All at once: each queue is then run by its own worker."""
        host = self.disk.scsi_host
        starved, host.starved = host.starved, []
        for disk in starved:
            if host.blocked:
                host.starved.append(disk)
            else:
                disk.queue.run_all()
        self.disk.queue.run_all()
        return 0


class ScsiDisk(Driver):
    """One disk (logical unit) and its share of the host. `busy`: commands in flight, each with a budget."""

    def __init__(self, settings: Settings, host: Host, seed: int) -> None:
        Driver.__init__(self)
        _check(settings)
        self.has_budget = True
        self.settings = settings
        self.host = host
        self.clock = host.clock
        self.delay_ns = settings["ndelay"] or settings["delay"] * host.jiffy_ns
        self.flush_ns = self.delay_ns
        if settings["ndelay"] > LONG_DELAY_NS or (settings["delay"] and not settings["ndelay"]):
            seconds = 1 if settings["ndelay"] else settings["delay"]
            self.flush_ns = seconds * (1_000_000_000 // host.jiffy_ns) // 20 * host.jiffy_ns
        self.random = settings["random"]
        self.stream = RandomStream(seed, "scsi")
        self.seed = seed
        self.queue: RequestQueue = None  # type: ignore[assignment]  # until attached
        self.queue_depth = settings["host_max_queue"] or settings["max_queue"]
        self.busy = 0
        self.restarts = 0
        self.opts = settings["opts"]
        self.fake_rw = settings["fake_rw"]
        self.every_nth = settings["every_nth"]
        self.commands = 0
        self.scsi_host = ScsiHost()
        self.target = ScsiTarget(settings["target_can_queue"])
        self.requeue_work = RequeueWork(self)
        # A timer a CPU: its own time never goes back, so each CPU is a lane
        self.lanes: list[Lane] = [host.clock.lane() for _ in range(host.nr_cpus)]

    def attach(self, queue: RequestQueue) -> None:
        """Joins its host, and sets what __scsi_init_queue and sd_revalidate_disk set."""
        Driver.attach(self, queue)
        self.queue = queue
        self.stream = RandomStream(self.seed, f"scsi/{queue.name}")
        target_number = self.settings["target"]
        other: Any
        for other in queue.tag_set.queues:
            if other is not queue:
                self.scsi_host = other.driver.scsi_host
        self.target = self.scsi_host.targets.setdefault(target_number, self.target)
        self._set_limits(queue)

    def _set_limits(self, queue: RequestQueue) -> None:
        settings = self.settings
        limits = queue.limits
        block = settings["sector_size"]
        shift = block.bit_length() - 10  # blocks to sectors
        sectors = settings["dev_size_mb"] << 11
        queue.size_sectors = settings["virtual_gb"] << 21 or sectors
        limits.logical_block_bytes = block
        limits.physical_block_bytes = block << settings["physblk_exp"]
        limits.io_min_bytes = block << max(settings["physblk_exp"], settings["opt_xferlen_exp"])
        limits.max_segments = SG_MAX_SEGMENTS
        limits.max_segment_bytes = 0xFFFFFFFF
        limits.set_max_hw_sectors(MAX_SECTORS, queue.features.default_max_sectors)
        # sd_validate_opt_xfer_size: an optimal transfer length that makes sense is also the default size of requests
        store = sectors >> shift
        largest = min(DEF_XFER_BLOCKS, store) if store > STORE_SECTORS else DEF_XFER_BLOCKS
        optimal = settings["opt_blks"]
        optimal_bytes = optimal * block
        if (
            0 < optimal <= largest
            and optimal_bytes >= 4096
            and optimal_bytes % limits.physical_block_bytes == 0
        ):
            limits.io_opt_bytes = optimal_bytes
            limits.max_sectors = optimal << shift
        else:
            limits.max_sectors = min(largest << shift, queue.features.default_max_sectors)
        limits.max_write_zeroes_sectors = WRITE_SAME_BLOCKS << shift
        if settings["lbpu"] and not settings["fake_rw"]:
            # sd_config_discard; unmap_max_blocks = 0 takes UNMAP away
            limits.set_max_discard(min(settings["unmap_max_blocks"], MAX_WS16_BLOCKS) << shift)
            limits.discard_alignment_bytes = settings["unmap_alignment"] * block
            limits.discard_granularity_bytes = max(
                limits.physical_block_bytes, settings["unmap_granularity"] * block
            )
        queue.write_cache = True
        queue.fua = True

    # -- budget ------------------------------------------------------------------

    def get_budget(self, queue: RequestQueue) -> int:
        """scsi_mq_get_budget."""
        if self.busy < self.queue_depth:
            self.busy += 1
            return 0
        self.restarts += 1
        if self.busy == 0:
            queue.run_all_delayed(QUEUE_DELAY_NS)
        return -1

    def put_budget(self, queue: RequestQueue, token: int) -> int:
        """scsi_mq_put_budget."""
        self.busy -= 1
        return 0

    # -- a command ---------------------------------------------------------------

    def queue_rq(self, hctx: HardwareQueue, rq: Request, last: bool) -> int:
        """scsi_queue_rq: room at target and host, then D, then scsi_debug's queuecommand."""
        if not self._target_ready():
            return STS_RESOURCE
        if not self._host_ready():
            self.target.busy -= 1
            return STS_RESOURCE
        charge(self.host, STEP_SCSI_QUEUE)
        hctx.queue.start_request(rq)
        self.commands += 1
        injected = self.every_nth and self.commands % self.every_nth == 0
        if injected and self.opts & OPT_HOST_BUSY:
            self.scsi_host.blocked = MAX_HOST_BLOCKED
            self.scsi_host.busy -= 1
            self.target.busy -= 1
            return STS_RESOURCE
        if injected and self.opts & OPT_TIMEOUT:
            rq.rq_flags |= RQF_LOST
            return STS_OK
        if self.opts & OPT_MEDIUM_ERR:
            self._look_for_medium_error(rq)
        return self._schedule(rq)

    def _target_ready(self) -> bool:
        # scsi_target_queue_ready
        target = self.target
        if target.can_queue and target.busy >= target.can_queue:
            self._starve()
            return False
        target.busy += 1
        return True

    def _host_ready(self) -> bool:
        # scsi_host_queue_ready
        host = self.scsi_host
        if host.blocked:
            if host.busy:
                self._starve()
                return False
            host.blocked -= 1
            if host.blocked:
                return False
        if self in host.starved:
            host.starved.remove(self)
        host.busy += 1
        return True

    def _starve(self) -> int:
        starved = self.scsi_host.starved
        if self not in starved:
            starved.append(self)
        return 0

    def _look_for_medium_error(self, rq: Request) -> int:
        # resp_read_dt0
        settings = self.settings
        shift = settings["sector_size"].bit_length() - 10
        start = settings["medium_error_start"] << shift
        end = start + (settings["medium_error_count"] << shift)
        if rq.op == OP_READ and not settings["fake_rw"] and rq.sector < end and rq.end_sector() > start:
            rq.status = STS_MEDIUM
        return 0

    def _schedule(self, rq: Request) -> int:
        # schedule_resp
        clock = self.clock
        host = self.scsi_host
        if rq.op == OP_FLUSH:
            # resp_sync_cache
            delay_ns = self.flush_ns if host.written else 0
            host.written = False
            if delay_ns and self.random:
                delay_ns = self.stream.below(delay_ns)
            if delay_ns:
                return clock.at(clock.now_ns + delay_ns, rq)
            rq.queue.complete(rq, rq.status)
            return STS_OK
        if rq.op == OP_WRITE and not self.fake_rw:
            host.written = True
        if self.delay_ns == 0:
            rq.queue.complete(rq, rq.status)
        elif self.random:
            clock.at(clock.now_ns + self.stream.below(self.delay_ns), rq)
        else:
            lane: Lane = self.lanes[self.host.cpu]
            lane.push(clock.now_ns + self.delay_ns, rq)
        return STS_OK

    def end(self, rq: Request) -> int:
        """scsi_finish_command and scsi_end_request: room is given back first, and a queue is run for it last."""
        host = self.scsi_host
        queue = rq.queue
        charge(self.host, STEP_SCSI_DONE)
        host.busy -= 1
        self.target.busy -= 1
        host.blocked = 0
        rq.budget_token = -1
        self.busy -= 1
        queue.end_request(rq, rq.status)
        if host.starved:
            self.host.queue_work(self.requeue_work, self.host.cpu, 0)
        elif self.restarts:
            # scsi_run_queue_async
            self.restarts = 0
            queue.run_all()
        return 0

    def timeout(self, rq: Request) -> int:
        """A command that was lost fails; another is waited for."""
        return STS_TIMEOUT if rq.rq_flags & RQF_LOST else STS_OK

    def attributes(self, queue: RequestQueue) -> list[Attribute]:
        """What stands in the disk's device folder."""
        return [
            Attribute(
                "device/queue_depth",
                "commands of the disk in flight, its budget",
                lambda disk: int(disk.queue_depth),
                lambda disk, text: disk.set_queue_depth(text),
            )
        ]

    def set_queue_depth(self, text: str) -> None:
        """sdev_store_queue_depth. Raises AttributeRefused below 1 or above the host's can_queue."""
        self.queue_depth = number(text, 1, self.settings["host_max_queue"] or self.settings["max_queue"])


def _check(settings: Settings) -> None:
    if settings["sector_size"] not in (512, 1024, 2048, 4096):
        raise BlklabError(f"scsi: sector_size is 512, 1024, 2048 or 4096, not {settings['sector_size']}")
    if settings["unmap_alignment"] and settings["unmap_alignment"] >= settings["unmap_granularity"]:
        raise BlklabError(
            f"scsi: unmap_alignment {settings['unmap_alignment']} must be below unmap_granularity, "
            f"which is {settings['unmap_granularity']}"
        )
    if settings["opts"] & ~OPTS_BUILT:
        raise BlklabError(
            f"scsi: of opts only {OPTS_BUILT:#x} are built, not {settings['opts'] & ~OPTS_BUILT:#x}"
        )


def single_queue(settings: Settings, features: Features) -> bool:
    """scsi_mod.use_blk_mq, for models of SCSI disks. Raises BlklabError for what the kernel lacks."""
    wanted = settings["use_blk_mq"]
    if wanted == 1 and not features.scsi_mq:
        raise BlklabError(
            f"use_blk_mq = 1: in Linux {features.kernel} SCSI is not on blk-mq; 3.17 brought it"
        )
    if wanted == 0 and not features.legacy_request_fn:
        raise BlklabError(
            f"use_blk_mq = 0: Linux {features.kernel} has no single queue any more; 4.20 was the last with it"
        )
    if not features.legacy_request_fn:
        return False
    return wanted == 0 or (wanted < 0 and not features.scsi_mq_default)


def _tag_set(settings: Settings, nr_cpus: int) -> TagSet:
    shared = settings["host_max_queue"]
    return TagSet(settings["submit_queues"], shared or settings["max_queue"], nr_cpus, hctx_shared=shared > 0)


def _shares(settings: Settings) -> str:
    return f"scsi host {settings['host']}" if settings["host"] else ""


def _presets() -> Mapping[str, Settings]:
    return no_presets()


MODEL = DeviceModel(
    "scsi",
    "a scsi_debug host: disks with a queue depth each",
    PARAMETERS,
    ScsiDisk,
    _tag_set,
    _presets,
    _shares,
    single_queue=single_queue,
)
