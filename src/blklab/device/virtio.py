"""virtio_blk: the disk of a virtual machine. A write cache, and no FUA.

What: a host that serves requests with `iothreads` threads, each of which takes `request_ns` and the time of the
bytes. Why: the guest's block layer sees a device without FUA, so a write that must be on the medium is followed by a
flush (block/flush.py), and without limits but its ring.

Theory of operation
-------------------
Limits are those of virtblk_probe on QEMU's device (captures flush/virtio-*): as many requests as the ring has
places, 254 segments of any size, no limit of its own in bytes; discards and write zeroes of 2 GiB. The threads serve
first in, first out. A flush takes `flush_ns` of a thread: the host's fsync. `cache` is the write_cache attribute,
which the driver takes from the host and which can be written.

Deliberate differences: what the host does with a request (its own block layer, a page cache) is these few
numbers; the ring never fills up, as there are no more tags than places; no poll queues.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

import cython

from blklab.block.driver import Driver
from blklab.block.models import DeviceModel, Parameter, Settings, no_presets
from blklab.block.tags import TagSet
from blklab.core.errors import BlklabError

if TYPE_CHECKING:
    from blklab.block.hwqueue import HardwareQueue
    from blklab.block.queue import RequestQueue
    from blklab.block.request import Request
    from blklab.core.clock import Lane
    from blklab.core.host import Host

if not cython.compiled:
    from blklab.block.consts import OP_FLUSH, OP_READ, OP_WRITE, STS_OK

CACHES = ("write back", "write through")
ANY_SIZE = 0xFFFFFFFF
MAX_SECTORS = 0xFFFFFFFF  # virtblk_probe: no limit, which sysfs shows as 2147483647 KiB
DISCARD_SECTORS = 4194303  # QEMU's max-discard-sectors and max-write-zeroes-sectors: a bio of 31 bits

PARAMETERS = (
    Parameter("size", "bytes", 20 << 30, "capacity, bytes", 1 << 20),
    Parameter(
        "queue_size", "int", 256, "places in a ring, and tags of a hardware queue (QEMU's default)", 2, 1024
    ),
    Parameter("num_queues", "int", 1, "rings; Linux uses at most one a CPU", 1, 1024),
    Parameter("cache", "str", CACHES[0], f"what the host says of its cache: {' or '.join(CACHES)}"),
    Parameter("seg_max", "int", 254, "memory segments of a request (QEMU: ring - 2, at most 254)", 1, 65535),
    Parameter("logical_block", "int", 512, "logical block, bytes", 512, 4096),
    Parameter("discard", "bool", True, "takes discards and write zeroes"),
    Parameter("iothreads", "int", 1, "threads of the host that serve it", 1, 1024),
    Parameter("request_ns", "int", 20_000, "time of a request on a thread (assumed: a host's page cache)", 1),
    Parameter("bytes_per_s", "bytes", 2 << 30, "bytes that a thread moves a second (assumed)", 1),
    Parameter("flush_ns", "int", 500_000, "time of a flush on a thread (assumed: fsync on an SSD)", 1),
)


class VirtioDisk(Driver):
    """One virtio_blk disk."""

    def __init__(self, settings: Settings, host: Host, seed: int) -> None:
        Driver.__init__(self)
        if settings["cache"] not in CACHES:
            raise BlklabError(f"virtio: cache is {' or '.join(CACHES)}, not {settings['cache']!r}")
        if settings["logical_block"] & (settings["logical_block"] - 1):
            raise BlklabError(f"virtio: logical_block is a power of two, not {settings['logical_block']}")
        self.has_commit_rqs = True
        self.settings = settings
        self.clock = host.clock
        self.request_ns = settings["request_ns"]
        self.flush_ns = settings["flush_ns"]
        self.mib_ns = max(1, (1_000_000_000 << 20) // settings["bytes_per_s"])
        self.threads = settings["iothreads"]
        self.free_ns = array("q", [0] * self.threads)
        self.lanes: list[Lane] = [host.clock.lane() for _ in range(self.threads)]
        self.irq_cpus = array("q", [])

    def attach(self, queue: RequestQueue) -> None:
        """virtblk_probe: limits, size and cache."""
        Driver.attach(self, queue)
        settings = self.settings
        limits = queue.limits
        limits.set_logical_block(settings["logical_block"])
        limits.set_max_hw_sectors(MAX_SECTORS, queue.features.default_max_sectors)
        limits.max_segments = settings["seg_max"]
        limits.max_segment_bytes = ANY_SIZE
        if settings["discard"]:
            limits.discard_granularity_bytes = settings["logical_block"]
            limits.set_max_discard(DISCARD_SECTORS)
            limits.max_write_zeroes_sectors = DISCARD_SECTORS
        queue.rotational = True  # virtblk_probe says nothing of it, and that is the default
        queue.write_cache = settings["cache"] == CACHES[0]
        queue.size_sectors = settings["size"] >> 9
        self.irq_cpus = array("q", [hctx.cpus[0] for hctx in queue.hctxs])

    def map_queues(self, nr_hw_queues: int, nr_cpus: int) -> list[int]:
        """Contiguous groups of CPUs, as vectors are spread."""
        return [cpu * nr_hw_queues // nr_cpus for cpu in range(nr_cpus)]

    def irq_cpu(self, rq: Request) -> int:
        """The vector of a ring arrives at the first CPU of its group."""
        return self.irq_cpus[rq.hctx.index]  # type: ignore[union-attr]

    def queue_rq(self, hctx: HardwareQueue, rq: Request, last: bool) -> int:
        """virtio_queue_rq: into the ring; the thread that is free first takes it."""
        hctx.queue.start_request(rq)
        thread = 0
        for i in range(1, self.threads):
            if self.free_ns[i] < self.free_ns[thread]:
                thread = i
        begin = self.clock.now_ns
        if self.free_ns[thread] > begin:
            begin = self.free_ns[thread]
        if rq.op == OP_FLUSH:
            done = begin + self.flush_ns
        else:
            done = begin + self.request_ns
            if rq.op == OP_READ or rq.op == OP_WRITE:
                done += (rq.nr_sectors << 9) * self.mib_ns >> 20
        self.free_ns[thread] = done
        lane: Lane = self.lanes[thread]
        lane.push(done, rq)
        return STS_OK

    def timeout(self, rq: Request) -> int:
        """virtio_blk of 6.1 has no timeout handler: a late request is waited for."""
        return STS_OK


def _tag_set(settings: Settings, nr_cpus: int) -> TagSet:
    return TagSet(settings["num_queues"], settings["queue_size"], nr_cpus)


MODEL = DeviceModel(
    "virtio",
    "virtio_blk: a virtual machine's disk, write cache without FUA",
    PARAMETERS,
    VirtioDisk,
    _tag_set,
    no_presets,
)
