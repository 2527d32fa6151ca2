"""md raid5: chunks in turn, one member's chunk of each row being the parity of the others (left-symmetric).

What: `Raid5` is the array. It puts bios into stripes (stripe_head.py) of its cache (stripe_cache.py), which
`Raid5Thread` (raid5d) looks after.

Theory of operation (raid5.c of 6.1)
------------------------------------
    reads    are cut at the ends of chunks and sent straight to the member. If that fails, or a member is out, they go
             through stripes, page by page
    writes   go through stripes, page by page: first what lies at the same place of the members, so that stripes written
             as a whole are known as such at once. A task that has a plug keeps the stripes until that is flushed, so
             that its next bios may complete them; else they are the thread's at once. The bio ends when all its pages
             and their parity are written
    waiting  a bio waits while no stripe is free (then until a quarter of them is), or while another one for the same
             sectors waits to be served
    thread   takes eight stripes at a time, looks after each, and sends what they want to read or write as bios of a
             page, under a plug; so pages that lie side by side on a member are merged there. Stripes that must be read
             before they are written wait on a list until none other is at it, and let pass those that need not

max_hw_sectors is 1 MiB. Discards are not taken.

Deliberate differences: the first error of a member puts it out, where the kernel reads again, computes the page,
writes it back and may note a bad block. The cache has a fixed size (6.1 lets it grow); it is one, not eight by hash;
stripes are handled one by one, where 6.1 handles a run of whole ones as a batch, with less work but the same I/O.
Before late_bio_split writes were never refused by merge_bvec; here they stop at chunks like reads. No journal, no
bitmap, no resync, no threads by group, other layouts, raid4 nor raid6.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import cython

from blklab.block.bio import BioEnd
from blklab.block.daemon import Daemon
from blklab.block.models import DeviceModel, Parameter, Settings, no_presets, no_tags
from blklab.block.plug import PlugCallback
from blklab.core.errors import BlklabError
from blklab.stack.md import CHUNK, DATA_OFFSET, MEMBERS, MdDevice
from blklab.stack.stacked import check_block_multiple, member_asks, member_merge_bvec
from blklab.stack.stripe_cache import StripeCache

if TYPE_CHECKING:
    from blklab.block.bio import Bio
    from blklab.block.queue import RequestQueue
    from blklab.block.sbitmap import WaitQueue
    from blklab.block.submit import Submitter
    from blklab.core.host import Host
    from blklab.stack.md import Member
    from blklab.stack.stripe_head import StripeHead

if not cython.compiled:
    from blklab.block.consts import (
        DONE,
        F_SYNC,
        OP_READ,
        OP_WRITE,
        STS_NOTSUPP,
        STS_OK,
        TR_U,
        TR_UT,
        WAIT,
        YIELD,
    )
    from blklab.core.charging import charge
    from blklab.core.steps import STEP_BIO_ALLOC, STEP_MD_MAP, STEP_PARITY_PAGE

STRIPE_SECTORS = 8
MOST_STRIPES_OF_A_BIO = 256  # RAID5_MAX_REQ_STRIPES
MAX_STRIPE_BATCH = 8

PARAMETERS = (
    MEMBERS,
    CHUNK,
    Parameter("stripe_cache_size", "int", 256, "stripes kept, a page of each member (md/)", 17, 32768),
    Parameter(
        "preread_bypass_threshold", "int", 1, "how often a stripe that must read lets others pass (md/)"
    ),
    Parameter(
        "rmw_level", "int", 1, "read-modify-write: 0 never, 1 if it reads less, 2 if not more (md/)", 0, 2
    ),
    DATA_OFFSET,
)


class StripeRequest:
    """A bio that is put into stripes (struct stripe_request_ctx): which of its pages still have to be."""

    def __init__(self, bio: Bio) -> None:
        self.bio = bio
        self.first = bio.sector - bio.sector % STRIPE_SECTORS
        self.last = bio.sector + bio.nr_sectors
        self.pages = (self.last - self.first + STRIPE_SECTORS - 1) // STRIPE_SECTORS
        self.todo = bytearray(b"\x01" * self.pages)
        self.at = 0

    def find(self) -> int:
        """find_next_bit_wrap: the next page to be done, from where the last one was; -1: none."""
        for page in range(self.at, self.pages):
            if self.todo[page]:
                self.at = page
                return page
        for page in range(self.at):
            if self.todo[page]:
                self.at = page
                return page
        return -1


class AlignedRead(BioEnd):
    """A read that was sent straight to its member."""

    def __init__(self, device: Raid5, bio: Bio, member: Member) -> None:
        self.device = device
        self.bio = bio
        self.member = member
        self.start_ns = -1
        self.request: StripeRequest | None = None

    def bio_end_io(self, bio: Bio) -> int:
        """raid5_align_endio: it ends, or is read through the stripes."""
        device = self.device
        queue = device.queue
        status = bio.status
        queue.bios.put(bio)
        self.member.nr_pending -= 1
        if status == STS_OK:
            whole = self.bio
            if self.start_ns >= 0:
                now = queue.clock.now_ns
                queue.stat.bio_done(whole.op, self.start_ns, now)
                if whole.part is not None:
                    whole.part.bio_done(whole.op, self.start_ns, now)
            return queue.end_bio(whole, STS_OK)
        device.fail_member(self.member)
        device.reads_to_retry.append(self)
        return device.thread.wake_up()


class Raid5(MdDevice):
    """One raid5."""

    def __init__(self, settings: Settings, host: Host, seed: int) -> None:
        MdDevice.__init__(self, settings, host, seed)
        check_block_multiple(settings["chunk"], self.slaves, "chunk")
        chunk = self.chunk_sectors
        if chunk & (chunk - 1):
            raise BlklabError(f"raid5: chunk is a power of two, not {settings['chunk']} bytes")
        if len(self.members) < 2:
            raise BlklabError("raid5 has 2 or more members")
        self.disks = len(self.members)
        self.rmw_level = settings["rmw_level"]
        self.degraded = 0
        self.dd_idx = 0
        self.thread = Raid5Thread(host, self)
        self.cache = StripeCache(
            self, self.thread, settings["stripe_cache_size"], settings["preread_bypass_threshold"]
        )
        self.waiting: dict[Bio, StripeRequest] = {}
        self.reads_to_retry: list[AlignedRead] = []
        self.merges_asked = any(member_asks(queue) for queue in self.slaves)

    def run(self, queue: RequestQueue) -> None:
        """raid5_run: limits and size."""
        limits = queue.limits
        chunk = self.chunk_sectors
        limits.set_io_min(chunk << 9)
        limits.io_opt_bytes = (chunk << 9) * (self.disks - 1)
        limits.raid_partial_stripes_expensive = True
        limits.max_write_zeroes_sectors = 0
        for member in self.members:
            self.take_in(member.queue, member.data_offset)
        limits.max_discard_sectors = limits.max_hw_discard_sectors = 0
        limits.set_max_hw_sectors(MOST_STRIPES_OF_A_BIO * STRIPE_SECTORS, queue.features.default_max_sectors)
        limits.max_segments = 0xFFFF
        smallest = min(member.nr_sectors for member in self.members)
        queue.size_sectors = smallest // chunk * chunk * (self.disks - 1)

    def fail_member(self, member: Member) -> None:
        """raid5_error. After the second one the array is broken."""
        if not member.faulty:
            member.faulty = True
            self.degraded += 1
            if self.degraded > 1:
                self.broken = True

    def waits_inside(self, bio: Bio) -> bool:
        """For a stripe, or for a flush."""
        return bio in self.waiting or MdDevice.waits_inside(self, bio)

    def compute_sector(self, sector: int) -> int:
        """raid5_compute_sector: where on its member a sector of the array lies; `dd_idx` says on which."""
        chunk: int = self.chunk_sectors
        number = sector // chunk
        row = number // (self.disks - 1)
        parity = self.disks - 1 - row % self.disks
        self.dd_idx = (parity + 1 + number % (self.disks - 1)) % self.disks
        return row * chunk + sector % chunk

    # -- bios ------------------------------------------------------------------------------

    def make_request(self, submitter: Submitter, bio: Bio) -> int:
        """raid5_make_request."""
        request = self.waiting.pop(bio, None) if self.waiting else None
        if request is None:
            if bio.op == OP_READ and self.degraded == 0:
                return self._aligned_read(submitter, bio)
            if bio.op > OP_WRITE:
                return self.queue.end_bio(bio, STS_NOTSUPP)
            charge(self.host, STEP_MD_MAP)
            request = self._request_of(self.account_bio(bio))
        waiters = self._put_into_stripes(submitter, request)
        if waiters is None:
            return self.queue.end_bio(request.bio, STS_OK)
        self.waiting[bio] = request
        if submitter.wait_queue is None:
            waiters.append(submitter)
        return WAIT

    def _aligned_read(self, submitter: Submitter, bio: Bio) -> int:
        # chunk_aligned_read
        chunk = self.chunk_sectors
        left = chunk - bio.sector % chunk
        if left < bio.nr_sectors:
            part = self.cut(bio, left)
            submitter.submit_noacct(bio)
            bio = part
        sector = self.compute_sector(bio.sector)
        member: Member = self.members[self.dd_idx]
        member.nr_pending += 1
        charge(self.host, STEP_BIO_ALLOC)
        clone = self.clone_bio(bio, bio.nr_sectors)
        read = AlignedRead(self, bio, member)
        clone.end_io = read
        queue = self.queue
        if queue.iostats:
            read.start_ns = queue.clock.now_ns
            queue.stat.bio_started(bio.op, bio.nr_sectors, read.start_ns)
            if bio.part is not None:
                bio.part.bio_started(bio.op, bio.nr_sectors, read.start_ns)
        self.send(submitter, clone, member, sector)
        return DONE

    def _request_of(self, bio: Bio) -> StripeRequest:
        # raid5_bio_lowest_chunk_sector: begin with the stripe that lies first in its chunks
        request = StripeRequest(bio)
        chunk = self.chunk_sectors
        sector = self.compute_sector(request.first)
        left = chunk - sector % chunk
        if left < bio.nr_sectors:
            # It goes on on the next member, perhaps in the same row
            parity = self.disks - 1 - sector // chunk % self.disks
            following = self.dd_idx + 1
            if following == parity:
                following += 1
            if following < self.disks:
                request.at = left // STRIPE_SECTORS
        return request

    def _put_into_stripes(self, submitter: Submitter | None, request: StripeRequest) -> WaitQueue | None:
        # make_stripe_request, for all that is left; or what it must wait in
        bio = request.bio
        page = request.find()
        while page >= 0:
            stripe = self.cache.get_active(self.compute_sector(request.first + page * STRIPE_SECTORS))
            if stripe is None:
                return self.cache.stripe_waiters
            if not stripe.add_bio(bio, request.first, request.last, request.todo):
                if submitter is not None:
                    self.thread.wake_up()
                self.cache.release(stripe)
                return self.cache.overlap_waiters
            stripe.needs_handling = True
            stripe.delayed = False
            if bio.flags & F_SYNC:
                self.cache.preread_begins(stripe)
            if submitter is not None and submitter.plug.active:
                self._keep_in_plug(submitter, stripe)
            else:
                self.cache.release(stripe)
            page = request.find()
        return None

    def _keep_in_plug(self, submitter: Submitter, stripe: StripeHead) -> int:
        # release_stripe_plug
        if stripe.on_unplug_list:
            return self.cache.release(stripe)
        kept = submitter.plug.callback_of(self)
        if kept is None:
            kept = KeptStripes(self)
            submitter.plug.add_callback(kept)
        stripe.on_unplug_list = True
        kept.stripes.append(stripe)  # type: ignore[attr-defined]  # it is ours
        return 0

    def retry_read(self) -> bool:
        """retry_aligned_read, in the thread: put a failed read into stripes. False: there is none, or it must wait."""
        if not self.reads_to_retry:
            return False
        read: AlignedRead = self.reads_to_retry[0]
        if read.request is None:
            bio = read.bio
            if read.start_ns >= 0:
                # Counted when it was sent: only its end is still to be counted
                bio = self.clone_bio(read.bio, read.bio.nr_sectors)
                bio.io = read.bio
                bio.end_io = self.counting
                bio.start_ns = read.start_ns
            read.request = self._request_of(bio)
        if self._put_into_stripes(None, read.request) is not None:
            return False
        self.reads_to_retry.pop(0)
        self.queue.end_bio(read.request.bio, STS_OK)
        return True

    # -- for a stripe ---------------------------------------------------------------------------

    def send_page(self, stripe: StripeHead, i: int, op: int, flags: int, sector: int) -> int:
        """A page is read or written: A, which says where in the array it lies, and it is the thread's to submit."""
        charge(self.host, STEP_MD_MAP)
        member: Member = self.members[i]
        member.nr_pending += 1
        bio = self.queue.bios.get()
        bio.submitter = self.thread
        bio.queue = member.queue
        bio.op = op
        bio.flags = flags
        bio.ioprio = 0
        bio.sector = stripe.sector + member.data_offset
        bio.nr_sectors = STRIPE_SECTORS
        bio.end_io = stripe
        bio.start_ns = i
        self.trace_remap(bio, sector)
        self.thread.given.append(bio)
        return self.thread.wake_up()

    def ops_fill(self, stripe: StripeHead, i: int, bio: Bio) -> int:
        """A bio takes what it reads of a page."""
        charge(self.host, STEP_PARITY_PAGE)
        return 0

    def ops_drain(self, stripe: StripeHead, i: int, bio: Bio) -> int:
        """A page takes what a bio writes to it."""
        charge(self.host, STEP_PARITY_PAGE)
        return 0

    def ops_compute(self, stripe: StripeHead, i: int) -> int:
        """A page is computed from all others."""
        self.host.charge_n(STEP_PARITY_PAGE, self.disks - 1)
        return 0

    def ops_prexor(self, stripe: StripeHead) -> int:
        """The old data of what is written is taken out of the parity."""
        pages = 0
        for dev in stripe.devs:
            if dev.want_drain:
                pages += 1
        self.host.charge_n(STEP_PARITY_PAGE, pages)
        return 0

    def ops_reconstruct(self, stripe: StripeHead, whole: bool) -> int:
        """The parity is computed from all data; or the new data is put into it."""
        pages = 0
        for dev in stripe.devs:
            if dev.written:
                pages += 1
        self.host.charge_n(STEP_PARITY_PAGE, self.disks - 1 if whole else pages)
        return 0

    def asks_to_merge(self) -> bool:
        """raid5_mergeable_bvec: it cuts reads."""
        return True

    def merge_bvec(self, queue: RequestQueue, sector: int) -> int:
        """raid5_mergeable_bvec: up to the end of the chunk, and what the member there takes."""
        chunk: int = self.chunk_sectors
        most = chunk - sector % chunk
        if self.merges_asked:
            there = self.compute_sector(sector)
            member: Member = self.members[self.dd_idx]
            most = min(most, member_merge_bvec(member.queue, there + member.data_offset))
        return most


class KeptStripes(PlugCallback):
    """Stripes that a task's plug keeps (raid5_plug_cb)."""

    def __init__(self, device: Raid5) -> None:
        PlugCallback.__init__(self, device)
        self.device = device
        self.stripes: list[StripeHead] = []

    def unplug(self, from_schedule: bool) -> int:
        """raid5_unplug: they are the thread's. U on the array."""
        stripe: StripeHead
        for stripe in self.stripes:
            stripe.on_unplug_list = False
            self.device.cache.release(stripe)
        queue = self.device.queue
        action = TR_UT if from_schedule else TR_U
        if queue.trace_mask & action:
            queue.tracer.add(action, queue.number, 0, 0, 0, 0, len(self.stripes))
        return 0


class Raid5Thread(Daemon):
    """raid5d."""

    def __init__(self, host: Host, device: Raid5) -> None:
        Daemon.__init__(self, host, "md_raid5")
        self.device = device
        self.taken: list[StripeHead] = []
        self.next_taken = 0

    def step(self) -> int:
        """One section: one bio submitted, or one stripe looked after."""
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
            self.begin(bio)
            return YIELD
        if self.next_taken < len(self.taken):
            stripe = self.taken[self.next_taken]
            self.next_taken += 1
            stripe.look_after()
            return YIELD
        if self._next_batch():
            return YIELD
        return self.finish_plug()

    def _next_batch(self) -> bool:
        # The loop of raid5d and handle_active_stripes: give back the last batch, take another
        device = self.device
        for stripe in self.taken:
            device.cache.release(stripe)
        self.taken.clear()
        self.next_taken = 0
        device.cache.activate_delayed()
        while device.retry_read():
            pass
        while len(self.taken) < MAX_STRIPE_BATCH:
            following = device.cache.next_stripe()
            if following is None:
                break
            self.taken.append(following)
        return len(self.taken) > 0


MODEL = DeviceModel(
    "raid5",
    "md raid5: chunks in turn, with the parity of each row on one of its members",
    PARAMETERS,
    Raid5,
    no_tags,
    no_presets,
)
