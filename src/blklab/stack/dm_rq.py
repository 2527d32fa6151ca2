"""dm-multipath with requests (queue_mode rq): a device with tags and a scheduler of its own over those of the paths.

Why: below bios are merged and sorted once, for the disk, before a path is chosen; with bios each path merges what
happens to come to it. That is why multipath was the first target, and is the last one, that takes requests.

Theory of operation (dm-rq.c, multipath_clone_and_map of 6.1)
-------------------------------------------------------------
    queue_rq    the request is started (D). A request of the next path's device is taken, without waiting; it is given
                straight to that device's driver, by no scheduler there (blk_insert_cloned_request). If there is none,
                or the driver is busy, the request stays here (RESOURCE): so it is what this device holds back that
                merges. Each try that the driver refused counts as an I/O in the path's stat
    end         the clone's end is the end of the request. If it failed, for a reason that may be the path's, the path
                is failed, and the request is requeued while there is another one
    no path     the request fails, or with queue_if_no_path is tried again every 100 ms

Traced here as on any disk; on the path's device A, D and C, but no Q, G or I.

Deliberate differences: those of paths.py. One bio stands for all of a clone. A request of a path's device is free
when its I/O has ended, where the kernel keeps it until the original has. No disk says that it is busy before it is
asked (only SCSI's do). As here a request ends as a whole, a part that has succeeded is never ended on its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import cython

from blklab.block.bio import BioEnd
from blklab.block.driver import Driver
from blklab.core.clock import Event
from blklab.core.errors import BlklabError
from blklab.stack.paths import Paths

if TYPE_CHECKING:
    from blklab.block.attributes import Attribute
    from blklab.block.bio import Bio
    from blklab.block.hwqueue import HardwareQueue
    from blklab.block.models import Settings
    from blklab.block.queue import RequestQueue
    from blklab.block.request import Request
    from blklab.core.host import Host

if not cython.compiled:
    from blklab.block.consts import (
        F_NOMERGE,
        HOOK_REQUEUE,
        RQ_COMPLETE,
        RQF_ELVPRIV,
        RQF_FLUSH_SEQ,
        RQF_IO_STAT,
        STS_DEV_RESOURCE,
        STS_IOERR,
        STS_OK,
        STS_RESOURCE,
        TR_A,
    )
    from blklab.core.charging import charge
    from blklab.core.steps import STEP_BIO_ALLOC, STEP_DM_MAP

DELAY_NS = 100_000_000  # dm_requeue_original_request
NO_PATH = -1


class RqMultipath(Driver):
    """One such device; a request's `device_slot` says which path it is on."""

    def __init__(self, settings: Settings, host: Host) -> None:
        Driver.__init__(self)
        self.host = host
        self.paths = Paths(settings, lambda: None)
        for path in self.paths.queues:
            if path.bio_based:
                raise BlklabError(
                    f"multipath: with queue_mode rq paths are disks with requests, and {path.name} takes bios"
                )
        self.slaves = self.paths.queues
        self.clone_end = CloneEnd(self)

    def attach(self, queue: RequestQueue) -> None:
        """dm_table_set_restrictions."""
        Driver.attach(self, queue)
        limits = queue.limits
        limits.set_stacking_defaults()
        for path in self.paths.queues:
            limits.stack(path.limits, 0)
        queue.size_sectors = self.paths.queues[0].size_sectors
        queue.write_cache = any(path.write_cache for path in self.paths.queues)
        queue.fua = queue.write_cache and any(path.fua for path in self.paths.queues)
        queue.rotational = any(path.rotational for path in self.paths.queues)

    def attributes(self, queue: RequestQueue) -> list[Attribute]:
        """Those of its paths."""
        return self.paths.attributes()

    def queue_rq(self, hctx: HardwareQueue, rq: Request, last: bool) -> int:
        """dm_mq_queue_rq and map_request."""
        queue = hctx.queue
        queue.start_request(rq)
        charge(self.host, STEP_DM_MAP)
        path = self.paths.choose()
        rq.device_slot = path
        if path == NO_PATH:
            if self.paths.queue_if_no_path:
                return self._try_later(rq)
            return self._complete(rq, STS_IOERR)
        lower: RequestQueue = self.paths.queues[path]
        if lower.freeze_depth:
            return STS_RESOURCE
        bio = self._clone_bio(queue, rq)
        cpu = self.host.cpu
        lower_hctx = lower.hctx_of(cpu)
        clone = lower_hctx.get_request(bio, cpu, lower_hctx.limit_depth(bio))
        if clone is None:
            queue.bios.put(bio)
            return STS_RESOURCE
        return self._insert_cloned(queue, rq, lower, clone, bio)

    def _clone_bio(self, queue: RequestQueue, rq: Request) -> Bio:
        # blk_rq_prep_clone
        charge(self.host, STEP_BIO_ALLOC)
        bio = queue.bios.get()
        bio.submitter = rq.submitter
        bio.queue = self.paths.queues[rq.device_slot]
        bio.op = rq.op
        bio.flags = rq.flags | F_NOMERGE
        bio.ioprio = rq.ioprio
        bio.sector = rq.sector
        bio.nr_sectors = rq.nr_sectors
        bio.io = rq
        bio.end_io = self.clone_end
        return bio

    def _insert_cloned(
        self, queue: RequestQueue, rq: Request, lower: RequestQueue, clone: Request, bio: Bio
    ) -> int:
        # blk_insert_cloned_request
        clone.op = rq.op
        clone.flags = bio.flags
        clone.ioprio = rq.ioprio
        clone.sector = rq.sector
        clone.nr_sectors = rq.nr_sectors
        clone.nr_segments = rq.nr_segments
        clone.bio = bio
        clone.biotail = bio
        if lower.trace_mask & TR_A:
            lower.tracer.remap(bio, queue.number, rq.sector)
        if clone.rq_flags & RQF_IO_STAT:
            lower.stat.started(clone.op, lower.clock.now_ns)
        status = lower.issue_directly(clone, True)
        if status == STS_OK:
            return STS_OK
        if clone.rq_flags & RQF_IO_STAT:
            # It counts there as if it had been served, but without sectors
            lower.stat.done(clone.op, 0, clone.start_ns, lower.clock.now_ns)
        clone.bio = None
        clone.biotail = None
        queue.bios.put(bio)
        lower.free_request(clone)
        if status == STS_RESOURCE or status == STS_DEV_RESOURCE:
            return STS_RESOURCE
        return self._complete(rq, status)

    def _complete(self, rq: Request, status: int) -> int:
        # dm_complete_request: in the context of what has ended, from there where it belongs to
        rq.status = status
        rq.move(RQ_COMPLETE)
        rq.queue.completed_here(rq)
        return STS_OK

    def _try_later(self, rq: Request) -> int:
        # dm_requeue_original_request with a delay
        queue = rq.queue
        queue.requeued(rq)
        if rq.rq_flags & RQF_ELVPRIV and queue.elevator_hooks & HOOK_REQUEUE:
            queue.elevator.requeue_request(rq)
        queue.clock.at(queue.clock.now_ns + DELAY_NS, TryAgain(rq))
        return STS_OK

    def end(self, rq: Request) -> int:
        """dm_done, multipath_end_io."""
        queue = rq.queue
        paths = self.paths
        if rq.status and rq.device_slot != NO_PATH and paths.may_be_the_paths(rq.status):
            paths.fail(rq.device_slot)
            if paths.nr_valid or paths.queue_if_no_path:
                return queue.requeue(rq)
        return queue.end_request(rq, rq.status)

    def timeout(self, rq: Request) -> int:
        """dm has no timeout of its own: the path's device has."""
        return STS_OK


class CloneEnd(BioEnd):
    """end_clone_request."""

    def __init__(self, device: RqMultipath) -> None:
        self.device = device

    def bio_end_io(self, bio: Bio) -> int:
        """The clone has ended, so has the request."""
        rq: Request = bio.io  # queue_rq says so
        status = bio.status
        bio.queue.bios.put(bio)
        return self.device._complete(rq, status)


class TryAgain(Event):
    """A request that no path would take waits."""

    def __init__(self, rq: Request) -> None:
        self.rq = rq

    def fire(self, now_ns: int) -> int:
        """It is inserted again."""
        rq = self.rq
        queue = rq.queue
        if rq.rq_flags & RQF_FLUSH_SEQ:
            return queue.requeues.add(rq, True)
        queue.insert_request(rq, True)
        return queue.run_async(rq.hctx)  # it has one
