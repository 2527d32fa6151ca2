"""A fio thread in virtual time: fio's I/O loop over the kernel's read, write, aio and io_uring paths.

What: `FioThread` takes I/Os from a job's `Stream`, submits them as its ioengine does, waits as fio waits, and
stamps each I/O where fio stamps it. Why here and not in `workload/`: it runs on a CPU and sleeps.

Theory of operation
-------------------
One call of `step` is one section: making an I/O and submitting its first bio, going on with a bio that had to
wait, or accounting fetched completions. `phase` is the next one; one that sleeps is entered again when woken.

fio's rules, in its words: an I/O is *queued* until `iodepth_batch` are, then committed in one call. When no
free I/O is left the queue is *full*: at least one completion is fetched, and more until `iodepth_low` are
outstanding. Stamps: `start` when the I/O is made, `issue` when the submitting call returns (before the call
for synchronous engines, which have no slat), `complete` when the fetching call returns. slat = issue - start,
clat = complete - issue, lat = complete - start.

The kernel's rules: a call of more I/Os than `aio_plug_threshold` - 1 holds a plug; every direct write to a
block device and every discard has its own if there is none yet, and so has an I/O of more than 256 pages,
which becomes several bios (dio.py). A synchronous write or discard
goes to sleep with its plug, so a worker issues it. io_getevents wakes its caller at each completion, io_uring
only when there are as many as it waits for.

Deliberate differences: io_uring submits from the task even where the kernel would punt to an io-wq worker for
want of a tag; completions are fetched in order of completion.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

import cython

from blklab.sim.cpu import Task
from blklab.sim.dio import DirectIo
from blklab.sim.io_unit import IoList, IoUnit

if TYPE_CHECKING:
    from blklab.block.bio import Bio
    from blklab.block.queue import RequestQueue
    from blklab.metrics.stats import JobStats
    from blklab.sim.cpu import Cpu, MachineHost
    from blklab.sim.filemap import FileMap
    from blklab.sim.pace import Pace
    from blklab.workload.stream import Stream

if not cython.compiled:
    from blklab.block.consts import DONE, OP_DISCARD, STS_NOTSUPP, WAIT
    from blklab.core.bits import NEVER_NS
    from blklab.core.charging import charge
    from blklab.core.steps import (
        STEP_GETEVENTS,
        STEP_IO_UNIT,
        STEP_REAP,
        STEP_SYSCALL,
        STEP_THREAD_START,
        STEP_USER_IO,
    )

    # fmt: off
    from blklab.sim.fio_phases import (  # isort: skip
        AFTER_QUEUE, AFTER_REAP, ENGINE_IO_URING, ENGINE_LIBAIO, ENGINE_NULL, ENGINE_SYNC, PH_BATCH_PLUG,
        PH_DRAIN, PH_END, PH_GET, PH_OWN_PLUG, PH_PAUSE, PH_REAP, PH_REAP_WAIT, PH_SUBMIT, PH_SUBMITTING,
        PH_SYNC_WAIT, START_SECTIONS,
    )
    # fmt: on
    from blklab.sim.task_states import MOST_SECTIONS, STEP_CONTINUE, STEP_EXIT, STEP_SLEEP


class FioThread(Task):
    """One clone of a job. `queues` and `starts_sectors`: the device of each of its files, and where on it the
    file begins. `files`: which of them are files of a volume, if any is."""

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
        Task.__init__(self, host, cpu, pid)
        self.stream = stream
        self.stats = stats
        self.queues = queues
        self.starts_sectors = array("q", starts_sectors)
        self.files: list[FileMap | None] | None = None
        self.engine = ENGINE_LIBAIO
        self.iodepth = 1
        self.batch_size = 1
        self.complete_min = 1
        self.complete_max = 1
        self.iodepth_low = 1
        self.disable_slat = False
        self.disable_clat = False
        self.disable_lat = False
        self.dio = DirectIo(self)
        self.plug_threshold = 3
        self.pace: Pace | None = None
        self.end_ns = NEVER_NS
        self.runtime_ns = 0
        self.ramp_ns = 0
        self.ramp_end_ns = 0
        self.begun = False
        self.start_left = START_SECTIONS
        self.ramping = False
        self.stopping = False
        self.error = 0
        self.phase = PH_GET
        self.after = AFTER_QUEUE
        self.epoch_ns = 0
        self.began_ns = 0
        self.ended_ns = 0
        self.ios_issued = 0
        self.ios_done = 0
        self.bytes_issued = 0
        self.bytes_done = 0
        # io_us: free, queued in the engine, completed; and those of the submitting call, linked by `link`
        self.free = IoList()
        self.queued = IoList()
        self.call_head: IoUnit | None = None
        self.call_tail: IoUnit | None = None
        self.call_count = 0
        self.done = IoList()
        self.io_u_queued = 0
        self.cur_depth = 0
        self.full = False
        self.wait_min = 0
        self.waiting = False
        self.blocking = False
        self.busy = False
        self.own_plug = False
        self.unit: IoUnit | None = None
        self.pass_number = 0
        self.draining = False
        self.ending = False
        self.held = False
        self.thinking = False
        self.pause_ns = 0
        self.pause_until_ns = 0

    def configure(
        self, engine: int, iodepth: int, batch: int, low: int, complete_min: int, complete_max: int
    ) -> None:
        """The engine (an ENGINE_ constant) and the depth options; makes `iodepth` I/Os."""
        self.engine = engine
        self.iodepth = iodepth
        self.batch_size = batch
        self.iodepth_low = low
        self.complete_min = complete_min
        self.complete_max = complete_max
        for _ in range(iodepth):
            self.free.append(IoUnit())

    def place_buffers(self, start_bytes: int, buffer_bytes: int) -> None:
        """Where the buffers of the I/Os begin in memory: one behind the other, each of the largest block size."""
        unit = self.free.head
        while unit is not None:
            unit.buffer_bytes = start_bytes
            start_bytes += buffer_bytes
            unit = unit.next

    # -- sections ----------------------------------------------------------------

    def step(self) -> int:
        """Sections, as long as nobody else is to run: at least one, at most a few dozen."""
        cpu: Cpu = self.host.cpus[self.cpu]
        result = self._section()
        sections = 1
        while result == STEP_CONTINUE and sections < MOST_SECTIONS and cpu.may_go_on(self):
            result = self._section()
            sections += 1
        return result

    def _section(self) -> int:
        clock = self.host.events
        start = clock.now_ns
        was_kernel = self.in_kernel
        phase = self.phase
        if phase == PH_GET:
            result = self._get()
        elif phase == PH_REAP:
            result = self._reap()
        elif phase == PH_REAP_WAIT:
            result = self._reap_wait()
        elif phase == PH_SUBMIT:
            result = self._submit_next()
        elif phase == PH_SUBMITTING or phase == PH_OWN_PLUG or phase == PH_BATCH_PLUG:
            result = self._submitting()
        elif phase == PH_SYNC_WAIT:
            result = self._sync_wait()
        elif phase == PH_DRAIN:
            result = self._drain_more()
        elif phase == PH_PAUSE:
            result = self._pause()
        else:
            result = self._end()
        if was_kernel or self.in_kernel:
            self.sys_ns += clock.now_ns - start
        else:
            self.usr_ns += clock.now_ns - start
        return result

    def _get(self) -> int:
        # get_io_u and td_io_queue
        host = self.host
        clock = host.events
        now = clock.now_ns
        if not self.begun:
            return self._begin()
        if self.ramping and now >= self.ramp_end_ns:
            self.ramping = False
            self.began_ns = now
            self.epoch_ns = now
            if self.runtime_ns:
                self.end_ns = now + self.runtime_ns
            self.usr_ns = 0
            self.sys_ns = 0
            self.switches = 0
            self.preempted = 0
            self.stats.reset()
            self.stats.start_windows(now)
            self.stream.ramp_over(self.cur_depth, self.bytes_issued - self.bytes_done)
        stream = self.stream
        if now >= self.end_ns or self.stopping:
            self.ending = True
            return self._drain(False, 0)
        if self.busy:
            self.busy = False
            return self._queue()
        if self.pace is not None:
            early_ns = self.pace.early_ns(stream, now - self.epoch_ns)
            if early_ns:
                return self._drain(False, early_ns)
        if not stream.advance():
            self.ending = True
            return self._drain(False, 0)
        if stream.pass_number != self.pass_number and self.cur_depth:
            # The next pass begins: what is outstanding is waited for first
            self.pass_number = stream.pass_number
            return self._drain(True, 0)
        return self._queue()

    def _begin(self) -> int:
        # What a thread does before its first I/O, in pieces that interrupts come between; its run time counts after
        charge(self.host, STEP_THREAD_START)
        self.host.charge_n(STEP_IO_UNIT, (self.iodepth + START_SECTIONS - 1) // START_SECTIONS)
        self.start_left -= 1
        if self.start_left:
            return STEP_CONTINUE
        self.begun = True
        now_ns = self.host.events.now_ns
        self.epoch_ns = now_ns
        self.began_ns = now_ns
        if self.ramp_ns:
            self.ramping = True
            self.ramp_end_ns = now_ns + self.ramp_ns
        elif self.runtime_ns:
            self.end_ns = now_ns + self.runtime_ns
        self.stats.start_windows(now_ns)
        return STEP_CONTINUE

    def _queue(self) -> int:
        host = self.host
        clock = host.events
        stream = self.stream
        if stream.ddir == 2 and self.io_u_queued and self.engine != ENGINE_NULL:
            # FIO_Q_BUSY: before a trim, what the engine holds is committed, and fio waits as if it were full
            self.busy = True
            return self._commit()
        unit = self.free.popleft()
        unit.ddir = stream.ddir
        unit.file_index = stream.file_index
        unit.offset_bytes = stream.offset_bytes
        unit.length_bytes = stream.length_bytes
        unit.error = 0
        charge(host, STEP_USER_IO)
        unit.start_ns = clock.now_ns
        self.ios_issued += 1
        self.bytes_issued += unit.length_bytes
        self.cur_depth += 1
        if self.pace is not None:
            self.pace.issued(unit.ddir, unit.length_bytes)
        self.queued.append(unit)
        if self.engine == ENGINE_SYNC or (unit.ddir == 2 and self.engine != ENGINE_NULL):
            # Every engine trims by the ioctl, which waits
            self.blocking = True
            unit.issue_ns = clock.now_ns
            return self._enter_submit(AFTER_QUEUE)
        self.io_u_queued += 1
        if self.io_u_queued >= self.batch_size:
            return self._commit()
        return self._after_queue()

    def _commit(self) -> int:
        # td_io_commit
        self.stats.depth_mark_many(self.cur_depth, self.io_u_queued)
        self.io_u_queued = 0
        return self._enter_submit(AFTER_QUEUE)

    def _after_queue(self) -> int:
        # The tail of do_io's loop: fetch completions if there is no free I/O
        if self.free.count and not (self.busy and self.cur_depth):
            return self._next()
        self.full = True
        self.after = AFTER_QUEUE
        return self._wait_for_some()

    def _wait_for_some(self) -> int:
        # wait_for_completions: at least one
        self.wait_min = self.complete_min if self.complete_min < self.cur_depth else self.cur_depth
        if self.wait_min == 0:
            self.wait_min = 1
        self.phase = PH_REAP
        return STEP_CONTINUE

    # -- submission -----------------------------------------------------------------

    def _enter_submit(self, after: int) -> int:
        self.after = after
        if self.queued.count == 0:
            return self._submitted_all()
        if self.engine == ENGINE_NULL:
            while self.queued.count:
                unit = self.queued.popleft()
                self._add_to_call(unit)
                self.done.append(unit)
            return self._leave_submit()
        self.in_kernel = True
        host = self.host
        charge(host, STEP_SYSCALL)
        if self.queued.count >= self.plug_threshold and not self.blocking:
            self.plug.start(self.queued.count if self.engine == ENGINE_IO_URING else 1)
        return self._submit_next()

    def _submit_next(self) -> int:
        # One I/O of the call: its first bio, and its own plug where the kernel makes one
        unit = self.queued.popleft()
        self.unit = unit
        self._add_to_call(unit)
        dio = self.dio
        if self.files is not None and self.files[unit.file_index] is not None:
            dio.start_in_file(unit, self.files[unit.file_index])
        else:
            dio.start(unit, self.queues[unit.file_index], self.starts_sectors[unit.file_index])
        self.own_plug = dio.wants_plug() and not self.plug.active
        if self.own_plug:
            self.plug.start(1)
        self.begin(dio.next_bio())
        self.phase = PH_SUBMITTING
        return self._submitting()

    def _add_to_call(self, unit: IoUnit) -> int:
        unit.link = None
        if self.call_tail is None:
            self.call_head = unit
        else:
            self.call_tail.link = unit
        self.call_tail = unit
        self.call_count += 1
        return 0

    def _submitting(self) -> int:
        # Until the block layer has all bios of the I/O, the plugs are flushed, and the call has no more I/Os
        while True:
            if self.phase == PH_SUBMITTING:
                result = self.advance()
                if result != DONE:
                    return STEP_SLEEP if result == WAIT else STEP_CONTINUE
                if self.dio.left_bytes:
                    self.begin(self.dio.next_bio())
                    if self.host.yield_due():
                        return STEP_CONTINUE
                elif self.own_plug:
                    if self.blocking and self.unit.ddir != 0 and not self.dio.in_file:
                        # blkdev_write_iter and the discard ioctl wait before they finish their plug, iomap after
                        self._sleep()
                        break
                    self.phase = PH_OWN_PLUG
                elif self.queued.count == 0 and self.plug.active:
                    self.phase = PH_BATCH_PLUG
                else:
                    break
            else:
                result = self.finish_plug()
                if result != DONE:
                    return STEP_CONTINUE
                self.own_plug = False
                break
        if self.queued.count:
            self.phase = PH_SUBMIT
            return STEP_CONTINUE
        if self.blocking:
            self.phase = PH_SYNC_WAIT
            return self._sync_wait()
        return self._leave_submit()

    def _leave_submit(self) -> int:
        # The call returns: fio_libaio_queued, fio_ioring_queued
        self.in_kernel = False
        now = self.host.events.now_ns
        stats = self.stats
        unit = self.call_head
        while unit is not None:
            unit.issue_ns = now
            if not self.ramping and unit.ddir <= 2:
                stats.io_issued(unit.ddir, -1 if self.disable_slat else now - unit.start_ns)
            unit = unit.link
        stats.submit_mark(self.call_count)
        self.call_head = None
        self.call_tail = None
        self.call_count = 0
        return self._submitted_all()

    def _submitted_all(self) -> int:
        if self.after == AFTER_QUEUE:
            return self._after_queue()
        return self._fetch()

    def bio_done(self, bio: Bio) -> int:
        """A bio has ended: the I/O with its last one, and whoever waits for enough I/Os is woken."""
        unit: IoUnit = bio.io
        if bio.status and not (bio.op == OP_DISCARD and bio.status == STS_NOTSUPP):
            unit.error = bio.status
        unit.bios_left -= 1
        if unit.bios_left:
            return 0
        if self.blocking:
            if unit is self.unit:
                if self.waiting:
                    self.waiting = False
                    self.wake()
                return 0
            self.done.append(unit)
            return 0
        self.done.append(unit)
        if self.waiting and (self.engine != ENGINE_IO_URING or self.done.count >= self.wait_min):
            self.waiting = False
            self.wake()
        return 0

    def _sync_wait(self) -> int:
        # read() or write(): blk_io_schedule until the bios have ended
        unit = self.unit
        if unit.bios_left:
            self.waiting = True
            return STEP_SLEEP
        self.in_kernel = False
        self.blocking = False
        self.plug.active = False
        self.call_head = None
        self.call_tail = None
        self.call_count = 0
        stats = self.stats
        now = self.host.events.now_ns
        if not self.ramping and unit.ddir <= 2:
            stats.io_issued(unit.ddir, -1)
        stats.submit_mark(1)
        stats.complete_mark(1)
        stats.depth_mark_many(self.cur_depth, 1)
        self.unit = None
        self._account(unit, now)
        return self._after_queue()

    # -- completion ---------------------------------------------------------------------

    def _reap(self) -> int:
        # io_u_queued_complete: commit what is still queued in the engine, then fetch
        if self.queued.count:
            return self._enter_submit(AFTER_REAP)
        return self._fetch()

    def _fetch(self) -> int:
        # getevents. io_uring looks at its ring first, libaio makes the call
        if self.engine != ENGINE_LIBAIO and self.done.count >= self.wait_min:
            return self._fetched()
        self.in_kernel = True
        if self.engine != ENGINE_NULL:
            charge(self.host, STEP_GETEVENTS)
        self.phase = PH_REAP_WAIT
        return self._reap_wait()

    def _reap_wait(self) -> int:
        if self.done.count < self.wait_min:
            self.waiting = True
            return STEP_SLEEP
        self.in_kernel = False
        return self._fetched()

    def _fetched(self) -> int:
        # ios_completed: all that were fetched have one time of completion
        now = self.host.events.now_ns
        most = self.complete_max if self.complete_max > self.wait_min else self.wait_min
        if most > self.cur_depth:
            most = self.cur_depth
        count = 0
        while count < most and self.done.count:
            self._account(self.done.popleft(), now)
            count += 1
        self.stats.complete_mark(count)
        if self.draining:
            return self._drained()
        if self.full and self.cur_depth > self.iodepth_low:
            return self._wait_for_some()
        self.full = False
        return self._next()

    def _next(self) -> int:
        # The end of one turn of do_io's loop: perhaps think, then make the next I/O
        if self.pace is not None:
            pause_ns = self.pace.think(self, self.host.events.now_ns)
            if pause_ns:
                self.thinking = True
                return self._drain(False, pause_ns)
        self.phase = PH_GET
        return STEP_CONTINUE

    def _account(self, unit: IoUnit, now_ns: int) -> int:
        # io_completed and account_io_completion
        charge(self.host, STEP_REAP)
        self.cur_depth -= 1
        self.ios_done += 1
        self.bytes_done += unit.length_bytes
        if unit.error:
            self.error = unit.error
            self.stopping = True
        elif not self.ramping:
            self.stats.io_completed(
                unit.ddir,
                unit.length_bytes,
                -1 if self.disable_clat else now_ns - unit.issue_ns,
                -1 if self.disable_lat else now_ns - unit.start_ns,
            )
        self.free.append(unit)
        return 0

    # -- drains, pauses, the end -------------------------------------------------------------

    def _drain(self, held: bool, pause_ns: int) -> int:
        # io_u_quiesce: wait for all that is outstanding; then pause, and go on with the I/O that was held
        # back
        self.held = held
        self.pause_ns = pause_ns
        self.draining = True
        self.phase = PH_DRAIN
        return self._drain_more()

    def _drain_more(self) -> int:
        if self.cur_depth == 0:
            return self._drained()
        self.wait_min = self.cur_depth
        return self._reap()

    def _drained(self) -> int:
        if self.cur_depth:
            self.phase = PH_DRAIN
            return STEP_CONTINUE
        self.draining = False
        self.full = False
        self.io_u_queued = 0
        if self.ending:
            self.phase = PH_END
            return STEP_CONTINUE
        if self.pause_ns:
            self.phase = PH_PAUSE
            self.pause_until_ns = self.host.events.now_ns + self.pause_ns
            if self.pause_until_ns > self.end_ns:
                self.pause_until_ns = self.end_ns
            self.host.events.at(self.pause_until_ns, self)
            return STEP_SLEEP
        return self._go_on()

    def _pause(self) -> int:
        if self.host.events.now_ns < self.pause_until_ns:
            return STEP_SLEEP
        if self.thinking:
            self.thinking = False
            self.pace.thought(self.stream.ddir)
        return self._go_on()

    def _go_on(self) -> int:
        if self.held and self.host.events.now_ns < self.end_ns:
            self.held = False
            return self._queue()
        self.phase = PH_GET
        return STEP_CONTINUE

    def _end(self) -> int:
        self.exit_io_context(self.queues)
        self.ended_ns = self.host.events.now_ns
        return STEP_EXIT
