"""Device mapper: a device that is a table of targets, each of which maps a part of it to other devices.

What: `DmDevice` does what all of device mapper's devices do with a bio; a `Target` says where a clone goes. The targets
are in linear.py, stripe.py, delay.py and flakey.py.

Theory of operation (dm_submit_bio of 6.1)
------------------------------------------
    one piece   as much of the bio as its target takes in one piece (the end of the target; its `max_io_len`,
                which for a stripe is a chunk) is cloned. The target gives the clone its device and sector, and it is
                sent on: A and Q on the lower device. If something is left the bio is cut (X, of which both sectors are
                the new start) and sent to this device again, behind the clone, which goes down first
    preflush    an empty flush to every device of every target; when all have ended the data goes on without
                PREFLUSH, by dm's worker
    discard     cut to the limits first; then a clone for each device of the target, which maps its own share of the
                range (write zeroes too)
    end         each piece that has ended ends the bio a bit; the last one ends it: one C here, of what was last
                left of it

So a bio has as many X here as pieces less one. Nothing waits here, and nothing is merged.

Counting: each piece is an I/O of this device, whatever `iostats` says.

Deliberate differences: a table never changes, so nothing is suspended or requeued; the first error of a piece's
clones is the bio's, where the kernel keeps the last one; bios of older kernels are cut as those of 6.1 (before 4.16
all clones of a bio were sent on at once).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import cython

from blklab.block.bio import BioEnd
from blklab.block.daemon import Daemon
from blklab.block.limits import QueueLimits
from blklab.core.errors import BlklabError
from blklab.stack.stacked import Stacked, member_asks, member_merge_bvec

if TYPE_CHECKING:
    from blklab.block.bio import Bio
    from blklab.block.features import Features
    from blklab.block.queue import RequestQueue
    from blklab.block.submit import Submitter
    from blklab.core.host import Host

if not cython.compiled:
    from blklab.block.consts import (
        F_PREFLUSH,
        F_SYNC,
        OP_DISCARD,
        OP_WRITE,
        PAGE_BYTES,
        STS_IOERR,
        STS_NOTSUPP,
        STS_OK,
        TR_X,
    )
    from blklab.core.charging import charge
    from blklab.core.steps import STEP_BIO_ALLOC, STEP_DM_MAP
    from blklab.stack.answers import MAP_ENDED, MAP_KILL, MAP_REMAPPED


class Target(BioEnd):
    """A part of a device's table (struct dm_target): `nr_sectors` from `begin`. `max_io_len`: no piece crosses a
    multiple of it, counted from `begin`; 0: none. `nr_copies`: to how many devices a flush, a discard or write zeroes
    go. `accounts`: it keeps clones and sends them on itself (`DmDevice.send`), which is when they are counted."""

    def __init__(self, nr_sectors: int) -> None:
        self.device: DmDevice | None = None
        self.begin = 0
        self.nr_sectors = nr_sectors
        self.max_io_len = 0
        self.nr_copies = 1
        self.takes_write_zeroes = False
        self.accounts = False
        self.has_end_io = False

    def devices(self) -> list[tuple[RequestQueue, int]]:
        """Which devices it uses, and from which sector of each (iterate_devices)."""
        raise NotImplementedError

    def device_sectors(self) -> int:
        """How many sectors it uses of each."""
        return self.nr_sectors

    def io_hints(self, limits: QueueLimits) -> None:
        """Change its limits, when those of its devices have been taken in."""

    def map(self, clone: Bio, number: int) -> int:
        """Set `clone.queue` and `clone.sector`, which is one of the device: MAP_REMAPPED; or another answer.
        `number`: which of nr_copies this one is."""
        raise NotImplementedError

    def end_io(self, clone: Bio, status: int) -> int:
        """If `has_end_io`: a clone has ended; what its status shall be."""
        return status

    def can_merge(self, features: Features) -> bool:
        """Whether it has a merge function (before late_bio_split)."""
        return True

    def merge(self, sector: int) -> tuple[RequestQueue, int]:
        """Which device a sector of this one is on, and where there; for who builds a bio."""
        raise NotImplementedError

    def bio_end_io(self, bio: Bio) -> int:
        """clone_endio, of the one clone of a piece."""
        device = self.device
        queue = device.queue
        whole: Bio = bio.io
        status = bio.status
        if self.has_end_io:
            status = self.end_io(bio, status)
        now = queue.clock.now_ns
        queue.stat.bio_done(whole.op, bio.start_ns, now)
        if whole.part is not None:
            whole.part.bio_done(whole.op, bio.start_ns, now)
        queue.bios.put(bio)
        return queue.end_bio(whole, status)


class DmDevice(Stacked):
    """A device of device mapper, with its table."""

    def __init__(self, host: Host, slaves: list[RequestQueue], targets: list[Target]) -> None:
        Stacked.__init__(self, host, slaves)
        self.targets = targets
        self.nr_targets = len(targets)
        self.first = targets[0]
        self.worker = Daemon(host, "kdmflush")
        begin = 0
        for target in targets:
            target.device = self
            target.begin = begin
            begin += target.nr_sectors
        self.nr_sectors = begin

    def attach(self, queue: RequestQueue) -> None:
        """dm_calculate_queue_limits and dm_table_set_restrictions."""
        Stacked.attach(self, queue)
        queue.iostats = False
        queue.size_sectors = self.nr_sectors
        limits = queue.limits
        for target in self.targets:
            mine = QueueLimits()
            mine.set_stacking_defaults()
            for lower, start in target.devices():
                self._check_area(target, lower, start)
                mine.stack((lower.whole or lower).limits, lower.start_sector + start)
                if not queue.features.late_bio_split and member_asks(lower):
                    if not target.can_merge(queue.features):
                        mine.set_max_hw_sectors(PAGE_BYTES >> 9, queue.features.default_max_sectors)
            target.io_hints(mine)
            if target.devices():
                self._check_blocks(target, mine)
            limits.stack(mine, 0)
        disks = [lower.whole or lower for lower in self.slaves]
        if not all(disk.limits.max_discard_sectors for disk in disks) or not disks:
            limits.max_discard_sectors = 0
            limits.max_hw_discard_sectors = 0
            limits.discard_granularity_bytes = 0
            limits.discard_alignment_bytes = 0
            limits.discard_misaligned = False
        if not all(target.takes_write_zeroes for target in self.targets):
            limits.max_write_zeroes_sectors = 0
        queue.write_cache = any(disk.write_cache for disk in disks)
        queue.fua = queue.write_cache and any(disk.fua for disk in disks)
        queue.rotational = self.turns()

    def _check_area(self, target: Target, lower: RequestQueue, start: int) -> None:
        # device_area_is_invalid
        need = start + target.device_sectors()
        if need > lower.size_sectors:
            raise BlklabError(
                f"{lower.name} is too small: it has {lower.size_sectors} sectors, {need} are needed", None
            )

    def _check_blocks(self, target: Target, limits: QueueLimits) -> None:
        block = limits.logical_block_bytes >> 9
        for lower, start in target.devices():
            for what, sectors in (("begins", start), ("has a length", target.device_sectors())):
                if sectors % block:
                    raise BlklabError(
                        f"what is used of {lower.name} {what} of {sectors} sectors, no multiple of the logical block "
                        f"({limits.logical_block_bytes} bytes)"
                    )

    def find_target(self, sector: int) -> Target:
        """The target that a sector is in."""
        target = self.first
        if self.nr_targets > 1:
            for target in self.targets:
                if sector < target.begin + target.nr_sectors:
                    break
        return target

    def max_io_len(self, target: Target, sector: int) -> int:
        """How many sectors of a bio at `sector` its target takes in one piece."""
        within = sector - target.begin
        most = target.nr_sectors - within
        if target.max_io_len:
            left = target.max_io_len - within % target.max_io_len
            if left < most:
                most = left
            if self.queue.limits.max_sectors < most:
                most = self.queue.limits.max_sectors
        return most

    def submit_bio(self, submitter: Submitter, bio: Bio) -> int:
        """dm_split_and_process_bio."""
        if bio.op > OP_WRITE:
            return self._several(submitter, submitter.split_to_limits(bio))
        if bio.flags & F_PREFLUSH:
            return self._flush(submitter, bio)
        queue = self.queue
        target = self.find_target(bio.sector)
        most = self.max_io_len(target, bio.sector)
        nr_sectors = bio.nr_sectors
        if most < nr_sectors:
            nr_sectors = most
        charge(self.host, STEP_DM_MAP)
        clone = self.clone_bio(bio, nr_sectors)
        clone.io = bio
        clone.end_io = target
        clone.start_ns = queue.clock.now_ns
        bio.remaining += 1
        nr_sectors = self._map(submitter, target, clone, bio, nr_sectors)
        if nr_sectors == bio.nr_sectors:
            return queue.end_bio(bio, STS_OK)
        bio.sector += nr_sectors
        bio.nr_sectors -= nr_sectors
        bio.buffer_offset_bytes += nr_sectors << 9
        if queue.trace_mask & TR_X:
            queue.tracer.add(TR_X, queue.number, bio.op, bio.flags, bio.sector, 0, bio.sector)
        return submitter.submit_noacct(bio)

    def _map(self, submitter: Submitter, target: Target, clone: Bio, bio: Bio, nr_sectors: int) -> int:
        # __map_bio of a piece's one clone. How many sectors it took, which may be fewer (dm_accept_partial_bio)
        sector = clone.sector
        answer = target.map(clone, 0)
        if answer == MAP_KILL:
            self.queue.bios.put(clone)
            self.queue.end_bio(bio, STS_IOERR)
            return nr_sectors
        if answer == MAP_REMAPPED:
            nr_sectors = clone.nr_sectors
            self.send(submitter, clone, sector)
        elif answer == MAP_ENDED:
            self._count(bio, nr_sectors)
            target.bio_end_io(clone)
        elif not target.accounts:
            self._count(bio, nr_sectors)
        return nr_sectors

    def send(self, submitter: Submitter, clone: Bio, sector: int) -> int:
        """dm_submit_bio_remap: send on the one clone of a piece, which had `sector` on this device."""
        self._count(clone.io, clone.nr_sectors)
        self.trace_remap(clone, sector)
        return submitter.submit_noacct(clone)

    def _count(self, bio: Bio, nr_sectors: int) -> int:
        now = self.queue.clock.now_ns
        self.queue.stat.bio_started(bio.op, nr_sectors, now)
        if bio.part is not None:
            bio.part.bio_started(bio.op, nr_sectors, now)
        return 0

    def count_io(self, io: DmIo) -> int:
        """dm_start_io_acct, of a piece with several clones."""
        return self._count(io.bio, io.nr_sectors)

    def uncount_io(self, io: DmIo) -> int:
        """dm_end_io_acct of it."""
        now = self.queue.clock.now_ns
        self.queue.stat.bio_done(io.bio.op, io.start_ns, now)
        if io.bio.part is not None:
            io.bio.part.bio_done(io.bio.op, io.start_ns, now)
        return 0

    # -- several clones of one piece -------------------------------------------------------

    def _flush(self, submitter: Submitter, bio: Bio) -> int:
        # __send_empty_flush
        io = DmIo(self, bio)
        for target in self.targets:
            for number in range(target.nr_copies):
                flush = self.queue.bios.get()
                flush.submitter = bio.submitter
                flush.queue = self.queue
                flush.op = OP_WRITE
                flush.flags = F_PREFLUSH | F_SYNC
                flush.ioprio = bio.ioprio
                flush.sector = 0
                flush.nr_sectors = 0
                io.send(submitter, target, flush, number)
        return io.done(STS_OK)

    def _several(self, submitter: Submitter, bio: Bio) -> int:
        # __process_abnormal_io: a discard, or write zeroes
        queue = self.queue
        target = self.find_target(bio.sector)
        copies = target.nr_copies
        if bio.op != OP_DISCARD and not target.takes_write_zeroes:
            copies = 0
        if copies == 0:
            return queue.end_bio(bio, STS_NOTSUPP)
        nr_sectors = target.begin + target.nr_sectors - bio.sector
        if bio.nr_sectors < nr_sectors:
            nr_sectors = bio.nr_sectors
        io = DmIo(self, bio)
        io.nr_sectors = nr_sectors
        bio.remaining += 1
        for number in range(copies):
            io.send(submitter, target, self.clone_bio(bio, nr_sectors), number)
        io.done(STS_OK)
        if nr_sectors == bio.nr_sectors:
            return queue.end_bio(bio, STS_OK)
        bio.sector += nr_sectors
        bio.nr_sectors -= nr_sectors
        bio.buffer_offset_bytes += nr_sectors << 9
        if queue.trace_mask & TR_X:
            queue.tracer.add(TR_X, queue.number, bio.op, bio.flags, bio.sector, 0, bio.sector)
        return submitter.submit_noacct(bio)

    # -- before late_bio_split -----------------------------------------------------------------

    def asks_to_merge(self) -> bool:
        """dm_table_merge_is_optional says no: a target cuts bios, or a device below must be asked. It came in the same
        release as stripe's merge function (3.1, d5b9dd04bd74); before, every device had to be asked."""
        if not self.queue.features.dm_stripe_merge:
            return True
        return any(target.max_io_len for target in self.targets) or any(map(member_asks, self.slaves))

    def merge_bvec(self, queue: RequestQueue, sector: int) -> int:
        """dm_merge_bvec: what the target takes in one piece, and what the device below says; a page, where the target
        has no merge function."""
        target = self.find_target(sector)
        most = self.max_io_len(target, sector)
        if target.can_merge(queue.features):
            lower, there = target.merge(sector)
            return min(most, member_merge_bvec(lower, there))
        if queue.limits.max_hw_sectors <= PAGE_BYTES >> 9:
            return min(most, PAGE_BYTES >> 9)
        return most


class DmIo(BioEnd):
    """struct dm_io of a piece that has several clones: a flush, a discard, write zeroes."""

    def __init__(self, device: DmDevice, bio: Bio) -> None:
        self.device = device
        self.bio = bio
        self.nr_sectors = 0
        self.pending = 1
        self.status = STS_OK
        self.start_ns = device.queue.clock.now_ns
        self.counted = False

    def send(self, submitter: Submitter, target: Target, clone: Bio, number: int) -> int:
        """__map_bio of one of the clones."""
        device = self.device
        charge(device.host, STEP_DM_MAP)
        if number:
            charge(device.host, STEP_BIO_ALLOC)
        self.pending += 1
        clone.end_io = self
        clone.io = self.bio
        sector = clone.sector
        answer = target.map(clone, number)
        if answer == MAP_KILL:
            device.queue.bios.put(clone)
            return self.done(STS_IOERR)
        if not self.counted:
            self.counted = True
            device.count_io(self)
        if answer == MAP_ENDED:
            return self.bio_end_io(clone)
        if answer == MAP_REMAPPED:
            device.trace_remap(clone, sector)
            submitter.submit_noacct(clone)
        return 0

    def bio_end_io(self, bio: Bio) -> int:
        """A clone has ended."""
        status = bio.status
        self.device.queue.bios.put(bio)
        return self.done(status)

    def done(self, status: int) -> int:
        """dm_io_dec_pending; the last one is __dm_io_complete."""
        if status and not self.status:
            self.status = status
        self.pending -= 1
        if self.pending:
            return 0
        bio = self.bio
        device = self.device
        if self.counted:
            device.uncount_io(self)
        if bio.flags & F_PREFLUSH and bio.nr_sectors:
            # kernel: what failed in the flush is forgotten
            bio.flags &= ~F_PREFLUSH
            return device.worker.queue_bio(bio)
        return device.queue.end_bio(bio, self.status)
