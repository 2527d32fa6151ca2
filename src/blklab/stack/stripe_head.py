"""A stripe of raid5: one page of every member, at the same place, and what becomes of it (struct stripe_head).

What: `StripeHead` holds what bios want of its pages and which pages it has; `look_after` decides what is to be done
next and does it, as often as something has changed. `StripeDev` is one member's page. raid5.py keeps the stripes.

Theory of operation (handle_stripe of 6.1)
------------------------------------------
    fill         reads take their data from pages that are there
    write back   parity has been computed: write the new pages and the parity. When they are written their bios end
    fetch        a page is read if a bio reads it or writes a part of it. If its member is out all other pages are
    read, and
                 the page is computed
    dirty        to write, either the old data and the old parity are needed (read-modify-write), or all other data
                 (reconstruct-write). The way with fewer pages to read is taken; if it is the same, reconstruct-write. A
                 stripe that is written as a whole needs none. A stripe that must read waits first for a moment
                 (`delayed`), as more might be written to it; not if the write is synchronous
    compute      the bios' data is copied into the pages, the parity is computed

Pages stay valid after that: until the stripe is used for another place, what is read or written there needs no read.

An error of a member puts it out. If two are out, what is written, and what is read from them, ends with an I/O error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import cython

from blklab.block.bio import BioEnd

if TYPE_CHECKING:
    from blklab.block.bio import Bio
    from blklab.stack.md import Member
    from blklab.stack.raid5 import Raid5

if not cython.compiled:
    from blklab.block.consts import F_FUA, F_SYNC, OP_READ, OP_WRITE, STS_IOERR, STS_OK

STRIPE_SECTORS = 8  # RAID5_STRIPE_SECTORS: a page

# What has been computed and is to be written (enum reconstruct_states)
NOTHING = 0
DRAINED = 1


class StripeDev:
    """One member's page of a stripe (struct r5dev). `sector`: which sector of the array it begins with (0 for
    parity)."""

    def __init__(self) -> None:
        self.sector = 0
        self.to_read: list[Bio] = []
        self.to_write: list[Bio] = []
        self.written: list[Bio] = []
        self.locked = False
        self.uptodate = False
        self.overwrite = False
        self.overlap = False
        self.want_read = False
        self.want_write = False
        self.want_drain = False
        self.want_fua = False
        self.sync_io = False

    def overlaps(self, bio: Bio) -> bool:
        """stripe_bio_overlaps: whether a bio of the same kind is here for the same sectors."""
        for other in self.to_write if bio.op == OP_WRITE else self.to_read:
            if other.sector < bio.sector + bio.nr_sectors and bio.sector < other.sector + other.nr_sectors:
                return True
        return False

    def add(self, bio: Bio) -> int:
        """__add_stripe_bio."""
        bio.remaining += 1
        if bio.op == OP_READ:
            self.to_read.append(bio)
            return 0
        at = 0
        for other in self.to_write:
            if other.sector > bio.sector:
                break
            at += 1
        self.to_write.insert(at, bio)
        covered = self.sector
        for other in self.to_write:
            if other.sector <= covered < other.sector + other.nr_sectors:
                covered = other.sector + other.nr_sectors
        if covered >= self.sector + STRIPE_SECTORS:
            self.overwrite = True
        return 0


class StripeHead(BioEnd):
    """One stripe of `device`, at `sector` of every member; `pd_idx`: which member's page is the parity."""

    def __init__(self, device: Raid5) -> None:
        self.device = device
        self.disks = len(device.members)
        self.devs = [StripeDev() for _ in range(self.disks)]
        self.sector = -1
        self.pd_idx = 0
        self.count = 0
        self.needs_handling = False  # STRIPE_HANDLE
        self.delayed = False
        self.preread_active = False
        self.full_write = False
        self.io_started = False
        self.on_unplug_list = False
        self.reconstructed = NOTHING
        self.list: StripeList | None = None
        self.before: StripeHead | None = None
        self.behind: StripeHead | None = None
        # What `look_after` finds (struct stripe_head_state)
        self.nr_locked = 0
        self.nr_uptodate = 0
        self.nr_reading = 0
        self.nr_writing = 0
        self.nr_written = 0
        self.nr_partly_written = 0
        self.nr_failed = 0
        self.failed_idx = -1

    def use_for(self, sector: int) -> int:
        """init_stripe: for another place of the members."""
        device = self.device
        self.sector = sector
        chunk = device.chunk_sectors
        row = sector // chunk
        self.pd_idx = self.disks - 1 - row % self.disks
        for i in range(self.disks):
            dev = self.devs[i]
            dev.uptodate = False
            dev.overwrite = False
            dev.sector = 0
            if i != self.pd_idx:
                place = (i + self.disks - self.pd_idx - 1) % self.disks
                dev.sector = (row * (self.disks - 1) + place) * chunk + sector % chunk
        return 0

    def add_bio(self, bio: Bio, first: int, last: int, todo: bytearray) -> bool:
        """add_all_stripe_bios: to every page that it touches, which is a page of sectors `first` to `last` then no
        more to be done in `todo`. False: another bio for the same sectors has not been served yet."""
        free = True
        for i in range(self.disks):
            dev = self.devs[i]
            if i != self.pd_idx and first <= dev.sector < last and dev.overlaps(bio):
                dev.overlap = True
                free = False
        if not free:
            return False
        for i in range(self.disks):
            dev = self.devs[i]
            if i != self.pd_idx and first <= dev.sector < last:
                dev.add(bio)
                todo[(dev.sector - first) // STRIPE_SECTORS] = 0
        return True

    def in_sync(self, i: int) -> bool:
        """Whether a member works."""
        member: Member = self.device.members[i]
        return not member.faulty

    # -- one look ------------------------------------------------------------------------

    def look_after(self) -> int:
        """handle_stripe."""
        self.needs_handling = False
        self._analyse()
        if self.nr_failed > 1:
            self.reconstructed = NOTHING
            if self.nr_reading + self.nr_writing + self.nr_written:
                self._fail()
        was_active = False
        if self.reconstructed == DRAINED:
            self.reconstructed = NOTHING
            for i in range(self.disks):
                dev = self.devs[i]
                if dev.locked and (i == self.pd_idx or dev.written):
                    dev.want_write = True
            was_active = self.preread_active
            self.preread_active = False
        if self.nr_written and self._parity_written():
            self._end_written()
        if self.nr_reading or self.nr_partly_written or (self.nr_writing and self.nr_failed):
            self._fetch()
        if self.nr_writing and self.reconstructed == NOTHING:
            self._dirty()
        self._run_io()
        if was_active:
            self.device.cache.preread_done()
        return 0

    def _analyse(self) -> int:
        # analyse_stripe, and the copying of what is there into the bios that read it
        self.nr_locked = self.nr_uptodate = self.nr_reading = self.nr_writing = self.nr_written = 0
        self.nr_partly_written = self.nr_failed = 0
        self.failed_idx = -1
        for i in range(self.disks):
            dev = self.devs[i]
            if dev.to_read and dev.uptodate:
                self._end_reads(dev, i, STS_OK)
            if dev.locked:
                self.nr_locked += 1
            if dev.uptodate:
                self.nr_uptodate += 1
            if dev.to_read:
                self.nr_reading += 1
            if dev.to_write:
                self.nr_writing += 1
                if not dev.overwrite:
                    self.nr_partly_written += 1
            if dev.written:
                self.nr_written += 1
            if not self.in_sync(i):
                self.nr_failed += 1
                self.failed_idx = i
        return 0

    def _fail(self) -> int:
        # handle_failed_stripe: two members are out
        for i in range(self.disks):
            dev = self.devs[i]
            writes = dev.to_write
            dev.to_write = []
            self._end_bios(dev, writes, STS_IOERR)
            dev.overwrite = False
            self._end_written_of(dev, STS_IOERR)
            if not self.in_sync(i):
                if dev.to_read:
                    self.nr_reading -= 1
                    self._end_reads(dev, i, STS_IOERR)
            dev.locked = False
        self.nr_writing = self.nr_partly_written = self.nr_written = 0
        self._no_full_write()
        return 0

    def _end_bios(self, dev: StripeDev, bios: list[Bio], status: int) -> int:
        if dev.overlap:
            dev.overlap = False
            self.device.cache.wake_overlap()
        queue = self.device.queue
        for bio in bios:
            queue.end_bio(bio, status)
        return 0

    def _end_reads(self, dev: StripeDev, i: int, status: int) -> int:
        # ops_run_biofill, if they succeed
        bios = dev.to_read
        dev.to_read = []
        if status == STS_OK:
            for bio in bios:
                self.device.ops_fill(self, i, bio)
        return self._end_bios(dev, bios, status)

    def _end_written_of(self, dev: StripeDev, status: int) -> int:
        bios = dev.written
        dev.written = []
        return self._end_bios(dev, bios, status)

    def _no_full_write(self) -> int:
        if self.full_write:
            self.full_write = False
            self.device.cache.full_write_done()
        return 0

    def _parity_written(self) -> bool:
        parity = self.devs[self.pd_idx]
        if not self.in_sync(self.pd_idx):
            return True
        return not parity.locked and parity.uptodate

    def _end_written(self) -> int:
        # handle_stripe_clean_event
        for i in range(self.disks):
            dev = self.devs[i]
            if dev.written and not dev.locked and dev.uptodate:
                self._end_written_of(dev, STS_OK)
        return self._no_full_write()

    # -- what must be read -------------------------------------------------------------------

    def _needs(self, i: int) -> bool:
        # need_this_block
        dev = self.devs[i]
        if dev.locked or dev.uptodate:
            return False
        if dev.to_read or (dev.to_write and not dev.overwrite):
            return True
        if self.failed_idx < 0:
            return False
        failed = self.devs[self.failed_idx]
        if failed.to_read:
            return True
        if not self.nr_writing or (self.in_sync(i) and not self.preread_active):
            return False
        if failed.uptodate or failed.overwrite:
            return False
        # Without read-modify-write the page that is out is always needed
        return bool(failed.to_write) or (self.device.rmw_level == 0 and self.failed_idx != self.pd_idx)

    def _fetch(self) -> int:
        # handle_stripe_fill
        self.needs_handling = True
        if self.reconstructed != NOTHING:
            return 0
        for i in range(self.disks - 1, -1, -1):
            if not self._needs(i):
                continue
            if i == self.failed_idx and self.nr_uptodate == self.disks - 1:
                self.device.ops_compute(self, i)
                dev = self.devs[i]
                dev.uptodate = True
                self.nr_uptodate += 1
                return 0
            if self.in_sync(i):
                self._read(self.devs[i])
        return 0

    def _read(self, dev: StripeDev) -> int:
        dev.locked = True
        dev.want_read = True
        self.nr_locked += 1
        return 0

    def _modify_needs(self, i: int) -> bool:
        # A page that read-modify-write must read
        dev = self.devs[i]
        return (bool(dev.to_write) or i == self.pd_idx) and not dev.locked and not dev.uptodate

    def _reconstruct_needs(self, i: int) -> bool:
        # A page that reconstruct-write must read
        dev = self.devs[i]
        return i != self.pd_idx and not dev.overwrite and not dev.locked and not dev.uptodate

    def _dirty(self) -> int:
        # handle_stripe_dirtying
        modify = 0
        reconstruct = 0
        level = self.device.rmw_level
        if level == 0:
            reconstruct = 1
            modify = 2
        else:
            for i in range(self.disks):
                pages = 1 if self.in_sync(i) else 2 * self.disks  # it cannot be read
                if self._modify_needs(i):
                    modify += pages
                if self._reconstruct_needs(i):
                    reconstruct += pages
        self.needs_handling = True
        prefer_modify = level == 2 and modify == reconstruct
        if (modify < reconstruct or prefer_modify) and modify > 0:
            for i in range(self.disks):
                if self._modify_needs(i) and self.in_sync(i):
                    self._pre_read(self.devs[i])
        elif (reconstruct < modify or (reconstruct == modify and level != 2)) and reconstruct > 0:
            reconstruct = 0
            for i in range(self.disks):
                if self._reconstruct_needs(i):
                    reconstruct += 1
                    if self.in_sync(i):
                        self._pre_read(self.devs[i])
                    else:
                        self.delayed = True
        if reconstruct > self.disks and modify > self.disks and not self.preread_active:
            self.delayed = True
        if self.nr_locked == 0 and (reconstruct == 0 or modify == 0):
            self._reconstruct(reconstruct == 0)
        return 0

    def _pre_read(self, dev: StripeDev) -> int:
        if self.preread_active:
            return self._read(dev)
        self.delayed = True
        return 0

    def _reconstruct(self, whole: bool) -> int:
        # schedule_reconstruction and raid_run_ops
        for i in range(self.disks):
            dev = self.devs[i]
            if i != self.pd_idx and dev.to_write and (whole or dev.uptodate):
                dev.locked = True
                dev.want_drain = True
                self.nr_locked += 1
        if self.nr_locked == 0:
            return 0
        if whole and self.nr_locked + 1 == self.disks and not self.full_write:
            self.full_write = True
            self.device.cache.full_write_begins()
        parity = self.devs[self.pd_idx]
        parity.locked = True
        self.nr_locked += 1
        if not whole:
            self.device.ops_prexor(self)
        for i in range(self.disks):
            dev = self.devs[i]
            if dev.want_drain:
                self._drain(dev, i)
        self.device.ops_reconstruct(self, whole)
        parity.uptodate = True
        self.reconstructed = DRAINED
        return 0

    def _drain(self, dev: StripeDev, i: int) -> int:
        # ops_run_biodrain of one page
        bios = dev.to_write
        dev.to_write = []
        dev.written = bios
        dev.overwrite = False
        dev.want_drain = False
        dev.uptodate = True
        parity = self.devs[self.pd_idx]
        for bio in bios:
            if bio.flags & F_FUA:
                dev.want_fua = True
                parity.want_fua = True
            if bio.flags & F_SYNC:
                dev.sync_io = True
                parity.sync_io = True
            self.device.ops_drain(self, i, bio)
        if dev.overlap:
            dev.overlap = False
            self.device.cache.wake_overlap()
        return 0

    # -- the members ----------------------------------------------------------------------------

    def _run_io(self) -> int:
        # ops_run_io
        for i in range(self.disks - 1, -1, -1):
            dev = self.devs[i]
            if dev.want_write:
                dev.want_write = False
                self._send(dev, i, OP_WRITE)
            elif dev.want_read:
                dev.want_read = False
                self._send(dev, i, OP_READ)
        return 0

    def _send(self, dev: StripeDev, i: int, op: int) -> int:
        flags = 0
        if op == OP_WRITE:
            if dev.want_fua:
                flags = F_FUA
            if dev.sync_io:
                flags |= F_SYNC
            dev.want_fua = False
            dev.sync_io = False
        self.io_started = True
        if not self.in_sync(i):
            dev.locked = False
            self.needs_handling = True
            return 0
        self.count += 1
        return self.device.send_page(self, i, op, flags, dev.sector)

    def bio_end_io(self, bio: Bio) -> int:
        """raid5_end_read_request, raid5_end_write_request."""
        i = bio.start_ns
        op = bio.op
        status = bio.status
        device = self.device
        device.queue.bios.put(bio)
        dev = self.devs[i]
        member = device.members[i]
        if status:
            device.fail_member(member)
        if op == OP_READ:
            dev.uptodate = status == STS_OK
        member.nr_pending -= 1
        dev.locked = False
        self.needs_handling = True
        return device.cache.release(self)


class StripeList:
    """Stripes in order, each in one list at most."""

    def __init__(self) -> None:
        self.head: StripeHead | None = None
        self.tail: StripeHead | None = None
        self.count = 0

    def append(self, stripe: StripeHead) -> None:
        """Behind the last one."""
        stripe.list = self
        stripe.behind = None
        stripe.before = self.tail
        if self.tail is None:
            self.head = stripe
        else:
            self.tail.behind = stripe
        self.tail = stripe
        self.count += 1

    def remove(self, stripe: StripeHead) -> None:
        """Take one out."""
        if stripe.before is None:
            self.head = stripe.behind
        else:
            stripe.before.behind = stripe.behind
        if stripe.behind is None:
            self.tail = stripe.before
        else:
            stripe.behind.before = stripe.before
        stripe.list = None
        stripe.before = None
        stripe.behind = None
        self.count -= 1

    def popleft(self) -> StripeHead | None:
        """The first one, or None."""
        stripe = self.head
        if stripe is not None:
            self.remove(stripe)
        return stripe
