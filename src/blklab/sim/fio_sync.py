"""A fio thread that syncs: fsync, fdatasync, end_fsync, and files opened with O_SYNC or O_DSYNC.

What: `SyncingThread` is a `FioThread` (fio_thread.py) of a job with one of these options. Why a class of its own: no
other job should pay for what it does not do.

Theory of operation
-------------------
fio's rule (get_rw_ddir): before the next I/O is chosen, an fsync is due if the job writes, the number of writes issued
is a multiple of `fsync`, and what completed last was not a sync. So none follows the last write, and an engine that
has many I/Os under way may sync twice after the same write. Syncs have a latency of their own in fio's results; their
number there (`total_ios`) is that of fsyncs, without fdatasyncs.

libaio does an fsync in the call that queues it, and only when the engine holds nothing: else what it holds is
committed and fio waits for a completion first (FIO_Q_BUSY), as for trims. io_uring queues it like an I/O. fio 3.33
takes no time when libaio begins an fsync: its latency counts from the last issue of the io_u that it uses, so that with
iodepth=1 it is that of the write before and the fsync together. So it is here.

The kernel's rules: an fsync of a block device is an empty bio with PREFLUSH, which ends at once where there is no
write cache; that of a file is what its file system makes of it (filemap.py). A direct write to a device opened with
O_DSYNC or O_SYNC has FUA; a synchronous one is followed by an fsync in the same call, even so (captures
flush/*-dsync-*), an asynchronous one is not. To a file, O_DSYNC means FUA alone where the device takes it, and an
fdatasync where it does not; O_SYNC means an fsync.

Deliberate differences: a sync goes to the file that was written last, where fio asks file_service_type for another
one; io_uring submits the flush at once, where the kernel hands it to an io-wq worker; fsync_on_close is
end_fsync, as files are closed at the end, and both sync once, where fio does after each of `loops`; the number of
fdatasyncs does not end up as that of short reads, as in fio 3.33's text (total_io_u is one too short);
sync_file_range is not built.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import cython

from blklab.sim.fio_thread import FioThread

if TYPE_CHECKING:
    from blklab.block.bio import Bio
    from blklab.block.queue import RequestQueue
    from blklab.metrics.stats import JobStats
    from blklab.sim.cpu import MachineHost
    from blklab.sim.filemap import FileMap
    from blklab.sim.io_unit import IoUnit
    from blklab.workload.stream import Stream

if not cython.compiled:
    from blklab.block.consts import F_FUA, F_IDLE, F_PREFLUSH, F_SYNC, OP_WRITE
    from blklab.core.charging import charge
    from blklab.core.steps import STEP_REAP, STEP_SUBMIT_IO, STEP_USER_IO

    # fmt: off
    from blklab.sim.fio_phases import (  # isort: skip
        AFTER_QUEUE, ENGINE_IO_URING, ENGINE_LIBAIO, ENGINE_SYNC, PH_END, PH_GET, PH_SUBMITTING,
    )
    # fmt: on
    from blklab.sim.task_states import STEP_CONTINUE

# What IoUnit.ddir is of a sync, behind fio's read, write and trim
DDIR_SYNC = 3
DDIR_DATASYNC = 4
# How files are opened: option `sync`
OPEN_PLAIN = 0
OPEN_DSYNC = 1
OPEN_SYNC = 2
OPENED = {"none": OPEN_PLAIN, "dsync": OPEN_DSYNC, "sync": OPEN_SYNC}


class SyncingThread(FioThread):
    """One clone of a job that syncs. `set_syncs` says when."""

    def __init__(
        self,
        host: MachineHost,
        cpu: int,
        pid: int,
        stream: Stream,
        stats: JobStats,
        queues: list[RequestQueue],
        starts_sectors: list[int],
    ) -> None:
        FioThread.__init__(self, host, cpu, pid, stream, stats, queues, starts_sectors)
        self.fsync_blocks = 0
        self.fdatasync_blocks = 0
        self.end_fsync = False
        self.opened = OPEN_PLAIN
        self.writes = 0
        self.wrote_file = 0
        self.last_was_sync = False
        self.kept = False
        self.flushing = False
        self.syncing = False
        self.final = False
        self.next_final = 0

    def set_syncs(self, fsync_blocks: int, fdatasync_blocks: int, end_fsync: bool, opened: int) -> None:
        """`fsync`, `fdatasync`: after so many writes, 0: never; `opened`: an OPEN_ constant."""
        self.fsync_blocks = fsync_blocks
        self.fdatasync_blocks = fdatasync_blocks
        self.end_fsync = end_fsync
        self.opened = opened

    # -- when ----------------------------------------------------------------------

    def _due(self) -> int:
        # should_fsync and get_rw_ddir: which sync is due, or 0
        if self.last_was_sync or self.writes == 0:
            return 0
        if self.fsync_blocks and self.writes % self.fsync_blocks == 0:
            return DDIR_SYNC
        if self.fdatasync_blocks and self.writes % self.fdatasync_blocks == 0:
            return DDIR_DATASYNC
        return 0

    def _get(self) -> int:
        if self.final:
            self.phase = PH_END
            return STEP_CONTINUE
        if self.kept and self.host.events.now_ns < self.end_ns and not self.stopping:
            # The I/O that was chosen before the sync
            self.kept = False
            return self._queue()
        return FioThread._get(self)

    def _queue(self) -> int:
        kind = self._due()
        if kind:
            if self.io_u_queued and self.engine != ENGINE_IO_URING:
                self.busy = True
                return self._commit()
            self.kept = True
            return self._queue_sync(kind, self.wrote_file)
        self.syncing = False
        if self.stream.ddir == 1:
            self.writes += 1
            self.wrote_file = self.stream.file_index
        return FioThread._queue(self)

    def _next(self) -> int:
        if self.syncing:
            # A sync is not followed by thinktime
            self.phase = PH_GET
            return STEP_CONTINUE
        return FioThread._next(self)

    def _queue_sync(self, kind: int, file_index: int) -> int:
        now = self.host.events.now_ns
        unit = self.free.popleft()
        unit.ddir = kind
        unit.file_index = file_index
        unit.length_bytes = 0
        unit.error = 0
        charge(self.host, STEP_USER_IO)
        unit.start_ns = now
        self.cur_depth += 1
        self.queued.append(unit)
        self.syncing = True
        if kind == DDIR_SYNC and not self.final:
            self.stats.sync_ios += 1
        if self.engine == ENGINE_IO_URING and not self.final:
            self.io_u_queued += 1
            return self._commit() if self.io_u_queued >= self.batch_size else self._after_queue()
        self.blocking = True
        if self.engine != ENGINE_LIBAIO:
            unit.issue_ns = self.host.events.now_ns
        return self._enter_submit(AFTER_QUEUE)

    def _end(self) -> int:
        # end_fsync: one of each file, which no statistics count
        if self.end_fsync and not self.error and self.next_final < len(self.queues):
            if not self.final and self.last_was_sync:
                return FioThread._end(self)
            self.final = True
            self.next_final += 1
            return self._queue_sync(DDIR_SYNC, self.next_final - 1)
        return FioThread._end(self)

    # -- how -----------------------------------------------------------------------

    def _file(self, index: int) -> FileMap | None:
        return self.files[index] if self.files is not None else None

    def _sync_bio(self, unit: IoUnit) -> Bio:
        # The bio of an fsync; unit.bios_left counts it
        file = self._file(unit.file_index)
        if file is not None:
            # generic_write_sync: what O_DSYNC asks for after a write is an fdatasync
            datasync = unit.ddir == DDIR_DATASYNC or (unit.ddir < DDIR_SYNC and self.opened == OPEN_DSYNC)
            bio = file.sync_bio(self, datasync)
        else:
            queue: RequestQueue = self.queues[unit.file_index]
            bio = queue.bios.get()
            bio.queue = queue
            bio.submitter = self
            bio.op = OP_WRITE
            bio.flags = F_PREFLUSH | F_SYNC
            bio.ioprio = 0
            bio.sector = 0
            bio.nr_sectors = 0
        bio.io = unit
        unit.bios_left = 1
        return bio

    def _submit_next(self) -> int:
        unit = self.queued.head
        if unit.ddir < DDIR_SYNC:
            if self.opened:
                self.dio.write_flags = self._write_flags(unit)
            return FioThread._submit_next(self)
        self.queued.popleft()
        self.unit = unit
        self._add_to_call(unit)
        charge(self.host, STEP_SUBMIT_IO)
        self.own_plug = False
        self.begin(self._sync_bio(unit))
        self.phase = PH_SUBMITTING
        return self._submitting()

    def _write_flags(self, unit: IoUnit) -> int:
        file = self._file(unit.file_index)
        if file is None or (self.opened == OPEN_DSYNC and file.queue.fua):
            return F_SYNC | F_IDLE | F_FUA
        return F_SYNC | F_IDLE

    def _sync_wait(self) -> int:
        unit = self.unit
        if unit.bios_left:
            return FioThread._sync_wait(self)
        if self.opened and unit.ddir == 1 and not self.flushing:
            file = self._file(unit.file_index)
            if file is None or not self.dio.write_flags & F_FUA:
                # generic_write_sync, in the same call
                self.flushing = True
                self.begin(self._sync_bio(unit))
                self.phase = PH_SUBMITTING
                return self._submitting()
        self.flushing = False
        if unit.ddir < DDIR_SYNC:
            return FioThread._sync_wait(self)
        return self._synced(unit)

    def _synced(self, unit: IoUnit) -> int:
        # td_io_queue and io_u_sync_complete: engines that commit do not count it as a call
        self.in_kernel = False
        self.blocking = False
        self.call_head = None
        self.call_tail = None
        self.call_count = 0
        stats = self.stats
        if self.engine == ENGINE_SYNC:
            stats.submit_mark(1)
            stats.complete_mark(1)
        if not self.final:
            stats.depth_mark(self.cur_depth)
        self.unit = None
        self._account(unit, self.host.events.now_ns)
        return self._after_queue()

    def _account(self, unit: IoUnit, now_ns: int) -> int:
        if unit.ddir < DDIR_SYNC:
            self.last_was_sync = False
            return FioThread._account(self, unit, now_ns)
        charge(self.host, STEP_REAP)
        self.cur_depth -= 1
        self.last_was_sync = True
        if unit.error:
            self.error = unit.error
            self.stopping = True
        elif not self.ramping and not self.final and not self.disable_clat:
            self.stats.sync_done(now_ns - unit.issue_ns)
        self.free.append(unit)
        return 0
