"""What raid1 and raid10 have in common: an I/O that is on several members, of which a read needs one and a write all.

What: `MirrorIo` is the I/O (r1bio, r10bio), `MirrorThread` the array's thread (raid1d, raid10d), `MirrorDevice` the
base of both personalities, which say on which members a sector lies, which one is read, and what may be lost.

Theory of operation (raid1.c, raid10.c of 6.1)
----------------------------------------------
    read     one clone, to the member that `read_balance` chooses
    write    a clone for each member that works; the bio ends when all have ended. Since md_direct_writes they are
    sent on
             at once. Before, they were held back for a bitmap, which might have had to be written first: in the plug of
             the task until that is flushed, or else at once, they were given to the thread, which sends them under a
             plug
    error    of a member, in the thread: it is out (faulty), if the array can do without it. A read is sent to another
             one. A write has succeeded if one member has it. If nothing is left the bio ends with an I/O error. The
             last member is never put out; but if it was it that failed to write, the array is broken, and writes
             that follow end with an I/O error (md.py)

A bio is counted for the array itself, and ends itself (no clone of md's counts it).

Deliberate differences: a read error puts the member out, as with md's failfast; the kernel first reads the block
elsewhere, writes it back and looks whether that helped, and then may note it as a bad block. No bad blocks, so no
part of a member is avoided; no resync, spares, write-mostly, write-behind, nor a bitmap. Held writes are always sent
by the thread, where a task that finishes its plug sent them itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import cython

from blklab.block.bio import BioEnd, BioList
from blklab.block.daemon import Daemon
from blklab.block.plug import PlugCallback
from blklab.stack.md import MdDevice
from blklab.stack.stacked import member_asks

if TYPE_CHECKING:
    from blklab.block.bio import Bio
    from blklab.block.models import Settings
    from blklab.block.submit import Submitter
    from blklab.core.host import Host
    from blklab.stack.md import Member

if not cython.compiled:
    from blklab.block.consts import (
        DONE,
        F_FUA,
        F_SYNC,
        OP_DISCARD,
        OP_READ,
        OP_WRITE,
        STS_IOERR,
        STS_NOTSUPP,
        STS_OK,
        WAIT,
        YIELD,
    )
    from blklab.core.charging import charge
    from blklab.core.steps import STEP_BIO_ALLOC, STEP_MD_MAP

NOWHERE = -1  # MaxSector: no sequential read yet


class Leg:
    """A member, and what is remembered of the reads that it did (raid1_info): where its head is thought to be, where a
    sequential reader would go on, and where that began."""

    def __init__(self, member: Member) -> None:
        self.member = member
        self.disk = member.queue.whole or member.queue
        self.head_position = 0
        self.next_seq_sector = NOWHERE
        self.seq_start = NOWHERE


class MirrorIo(BioEnd):
    """One bio: on `legs`, the members that have its sectors."""

    def __init__(self, device: MirrorDevice, bio: Bio, legs: list[Leg], sectors: list[int] | None) -> None:
        self.device = device
        self.bio = bio
        self.legs = legs
        self.sectors = sectors
        self.sector = bio.sector
        self.nr_sectors = bio.nr_sectors
        self.read_leg: Leg | None = None
        self.remaining = 1
        self.uptodate = False
        self.failed: list[Leg] | None = None
        self.counted = False
        self.start_ns = 0

    def sector_on(self, slot: int) -> int:
        """Where it is on the member of a slot."""
        sectors = self.sectors
        if sectors is None:
            return self.sector
        return sectors[slot]

    def bio_end_io(self, bio: Bio) -> int:
        """A clone has ended."""
        slot = bio.start_ns
        op = bio.op
        status = bio.status
        leg = self.legs[slot]
        self.device.queue.bios.put(bio)
        leg.head_position = self.sector_on(slot) + self.nr_sectors
        if op == OP_READ:
            return self._read_ended(leg, status)
        return self._write_ended(leg, status, op)

    def _read_ended(self, leg: Leg, status: int) -> int:
        # raid1_end_read_request
        if status == STS_OK:
            self.uptodate = True
        elif self.device.can_retry(leg.member):
            return self.device.thread.handle(self)
        self.end()
        leg.member.nr_pending -= 1
        return 0

    def _write_ended(self, leg: Leg, status: int, op: int) -> int:
        # raid1_end_write_request: what a member makes of a discard does not matter
        if status and op != OP_DISCARD and not leg.member.faulty:
            if self.failed is None:
                self.failed = []
            self.failed.append(leg)
            return self.write_done()
        if (status == STS_OK or op == OP_DISCARD) and not leg.member.faulty:
            self.uptodate = True
        leg.member.nr_pending -= 1
        return self.write_done()

    def write_done(self) -> int:
        """r1_bio_write_done: one less to wait for."""
        self.remaining -= 1
        if self.remaining:
            return 0
        if self.failed is not None:
            return self.device.thread.handle(self)
        return self.end()

    def count(self) -> int:
        """bio_start_io_acct, if the array counts."""
        queue = self.device.queue
        if queue.iostats:
            self.counted = True
            self.start_ns = queue.clock.now_ns
            queue.stat.bio_started(self.bio.op, self.nr_sectors, self.start_ns)
            if self.bio.part is not None:
                self.bio.part.bio_started(self.bio.op, self.nr_sectors, self.start_ns)
        return 0

    def end(self) -> int:
        """raid_end_bio_io: whatever the members said, it is an I/O error."""
        queue = self.device.queue
        bio = self.bio
        if self.counted:
            now = queue.clock.now_ns
            queue.stat.bio_done(bio.op, self.start_ns, now)
            if bio.part is not None:
                bio.part.bio_done(bio.op, self.start_ns, now)
        return queue.end_bio(bio, STS_OK if self.uptodate else STS_IOERR)


class MirrorDevice(MdDevice):
    """Base of raid1 and raid10."""

    def __init__(self, settings: Settings, host: Host, seed: int) -> None:
        MdDevice.__init__(self, settings, host, seed)
        self.legs = [Leg(member) for member in self.members]
        self.degraded = 0
        self.thread = MirrorThread(host, self)
        self.merges_asked = any(member_asks(queue) for queue in self.slaves)

    def asks_to_merge(self) -> bool:
        """Whether a member has a merge_bvec_fn; a personality that cuts bios has one itself."""
        return self.merges_asked

    def can_lose(self, member: Member) -> bool:
        """Whether the array goes on without a member that works now."""
        raise NotImplementedError

    def can_retry(self, member: Member) -> bool:
        """Whether what `member` could not read might be on another one."""
        raise NotImplementedError

    def read_balance(self, io: MirrorIo) -> int:
        """The slot to read from, -1: there is none."""
        raise NotImplementedError

    def fail_member(self, member: Member) -> None:
        """md_error: put it out, unless the array would be lost with it."""
        if member.faulty:
            return
        if not self.can_lose(member):
            self.broken = True
            return
        member.faulty = True
        self.degraded += 1

    def start(self, submitter: Submitter, io: MirrorIo) -> int:
        """raid1_make_request, of an I/O that lies on the same members as a whole: DONE."""
        op = io.bio.op
        if op == OP_READ:
            io.count()
            return self.read(submitter, io)
        if op != OP_WRITE and not (op == OP_DISCARD and self.queue.limits.max_discard_sectors):
            return self.queue.end_bio(io.bio, STS_NOTSUPP)
        return self._write(submitter, io)

    def read(self, submitter: Submitter, io: MirrorIo) -> int:
        """raid1_read_request: from the task, or again from the thread."""
        slot = self.read_balance(io)
        if slot < 0:
            return io.end()
        leg = io.legs[slot]
        leg.member.nr_pending += 1
        io.read_leg = leg
        clone = self._clone(io, slot)
        clone.flags &= F_SYNC
        if submitter is self.thread:
            return self.thread.queue_bio(clone)
        return submitter.submit_noacct(clone)

    def _write(self, submitter: Submitter, io: MirrorIo) -> int:
        # raid1_write_request
        io.count()
        direct = self.queue.features.md_direct_writes
        for slot in range(len(io.legs)):
            leg = io.legs[slot]
            if leg.member.faulty:
                continue
            leg.member.nr_pending += 1
            io.remaining += 1
            clone = self._clone(io, slot)
            clone.flags &= F_SYNC | F_FUA
            if not direct:
                self._hold(submitter, clone)
            elif clone.op == OP_DISCARD and not leg.disk.limits.max_discard_sectors:
                self.queue.end_bio(clone, STS_OK)
            else:
                submitter.submit_noacct(clone)
        io.write_done()
        return DONE

    def _clone(self, io: MirrorIo, slot: int) -> Bio:
        charge(self.host, STEP_BIO_ALLOC)
        charge(self.host, STEP_MD_MAP)
        clone = self.clone_bio(io.bio, io.nr_sectors)
        clone.end_io = io
        clone.start_ns = slot
        member = io.legs[slot].member
        clone.queue = member.queue
        clone.sector = io.sector_on(slot) + member.data_offset
        self.trace_remap(clone, io.sector)
        return clone

    def _hold(self, submitter: Submitter, clone: Bio) -> int:
        # raid1_add_bio_to_plug, or to the thread's pending_bio_list
        if not submitter.plug.active:
            return self.thread.queue_bio(clone)
        held = submitter.plug.callback_of(self)
        if held is None:
            held = HeldWrites(self)
            submitter.plug.add_callback(held)
        held.bios.append(clone)  # type: ignore[attr-defined]  # it is ours
        return 0


class HeldWrites(PlugCallback):
    """Writes that wait in a task's plug (raid1_plug_cb)."""

    def __init__(self, device: MirrorDevice) -> None:
        PlugCallback.__init__(self, device)
        self.device = device
        self.bios = BioList()

    def unplug(self, from_schedule: bool) -> int:
        """raid1_unplug."""
        bio = self.bios.popleft()
        while bio is not None:
            self.device.thread.queue_bio(bio)
            bio = self.bios.popleft()
        return 0


class MirrorThread(Daemon):
    """raid1d, raid10d: ends what has failed or sends it again, and sends held writes; all under one plug."""

    def __init__(self, host: Host, device: MirrorDevice) -> None:
        Daemon.__init__(self, host, "md_raid")
        self.device = device
        self.failed: list[MirrorIo] = []
        self.to_end: list[MirrorIo] = []

    def handle(self, io: MirrorIo) -> int:
        """reschedule_retry: a member had an error."""
        self.failed.append(io)
        return self.wake_up()

    def step(self) -> int:
        """One section: one bio submitted, or one failed I/O looked after."""
        self.cpu = self.host.cpu
        if not self.plug.active:
            self.plug.start(1)
        result = self.advance()
        if result == WAIT:
            self.sleeping = True
            return DONE
        if result == YIELD:
            return YIELD
        bio = self.given.popleft()
        if bio is not None:
            return self._send(bio)
        if self.failed:
            return self._look_after(self.failed.pop(0))
        if self.to_end:
            io: MirrorIo = self.to_end.pop(0)
            io.end()
            return YIELD
        return self.finish_plug()

    def _send(self, bio: Bio) -> int:
        # raid1_submit_write
        io: MirrorIo = bio.end_io  # nobody else gives it bios
        leg = io.legs[bio.start_ns]
        if bio.op != OP_READ and leg.member.faulty:
            self.device.queue.end_bio(bio, STS_IOERR)
        elif bio.op == OP_DISCARD and not leg.disk.limits.max_discard_sectors:
            self.device.queue.end_bio(bio, STS_OK)
        else:
            self.begin(bio)
        return YIELD

    def _look_after(self, io: MirrorIo) -> int:
        device = self.device
        if io.failed is not None:
            # handle_write_finished; it ends in the thread's next turn
            for leg in io.failed:
                device.fail_member(leg.member)
                leg.member.nr_pending -= 1
            io.failed = None
            self.to_end.append(io)
            return YIELD
        # handle_read_error
        member = io.read_leg.member  # it was read
        device.fail_member(member)
        member.nr_pending -= 1
        device.read(self, io)
        return YIELD
