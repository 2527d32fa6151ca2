"""md's common part: what happens to a bio before a personality (raid0, raid1, raid10, raid5) is given it.

What: `MdDevice` is the base of md's devices. A personality defines `run` (its limits and size) and `make_request`.

Theory of operation (md_submit_bio of 6.1)
------------------------------------------
    broken      after a member has failed that the array cannot do without (MD_BROKEN, set by raid1, raid10 and raid5),
                each write that comes ends with an I/O error; what is in the array already goes on
    limits      the bio is cut to the device's limits (X), which for raid0 is a chunk; so md cuts where dm would not
    flush       a bio with PREFLUSH waits until one flush of all members has been done that began after it came. One
                flush runs at a time and serves all that came before it began. Then an empty bio ends, and another is
                sent again without PREFLUSH, by md's worker
    request     `make_request` maps it, cuts it (`split_bio`), counts it (`account_bio`), and sends it on

Counting: with `iostats` (md's default, unlike dm's) a bio is cloned, the clone is what is sent on, and its end ends the
bio (C on the md device). Without, the bio itself is sent on to the member and has no C here.

Members are assembled without metadata (mdadm --build) unless `data_offset` says where their data begins.

Deliberate differences: no reshape, no bitmap, no suspension, no metadata writes. Kernels of before MD_BROKEN, which
went on sending writes to the last member, have it as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import cython

from blklab.block.bio import BioEnd
from blklab.block.daemon import Daemon
from blklab.block.models import Parameter
from blklab.block.sbitmap import WaitQueue
from blklab.core.errors import BlklabError
from blklab.stack.stacked import Stacked

if TYPE_CHECKING:
    from blklab.block.bio import Bio
    from blklab.block.models import Settings
    from blklab.block.queue import RequestQueue
    from blklab.block.submit import Submitter
    from blklab.core.host import Host

if not cython.compiled:
    from blklab.block.consts import (
        DONE,
        F_BPS_THROTTLED,
        F_NOMERGE,
        F_PREFLUSH,
        F_RELEASED,
        OP_WRITE,
        STS_IOERR,
        STS_OK,
        WAIT,
    )
    from blklab.core.charging import charge
    from blklab.core.steps import STEP_BIO_ALLOC, STEP_MD_MAP
    from blklab.stack.answers import GO_ON

MEMBERS = Parameter("members", "devices", [], "the devices it is made of, in order", 1, 384)
DATA_OFFSET = Parameter(
    "data_offset", "bytes", 0, "where the data begins on each member, bytes (metadata before it)"
)
CHUNK = Parameter("chunk", "bytes", 512 << 10, "chunk, bytes (mdadm's default 512k)", 4096)


class Member:
    """A member of an md device (struct md_rdev): its queue, where the data begins on it and how much there is."""

    def __init__(self, queue: RequestQueue, number: int, data_offset: int, nr_sectors: int) -> None:
        self.queue = queue
        self.number = number
        self.data_offset = data_offset
        self.nr_sectors = nr_sectors
        self.faulty = False
        self.nr_pending = 0


class MdDevice(Stacked):
    """One md device. `members` in their order; `chunk_sectors` 0 for a personality without."""

    def __init__(self, settings: Settings, host: Host, seed: int) -> None:
        Stacked.__init__(self, host, settings["members"])
        offset = settings.get("data_offset", 0) >> 9
        self.chunk_sectors = settings.get("chunk", 0) >> 9
        self.members: list[Member] = []
        self.broken = False
        for number, queue in enumerate(self.slaves):
            if queue.size_sectors < offset + max(self.chunk_sectors, 1):
                raise BlklabError(
                    f"{queue.name} is too small to be a member: it has {queue.size_sectors >> 1} KiB"
                )
            self.members.append(Member(queue, number, offset, queue.size_sectors - offset))
        self.counting = MdCounting(self)
        self.flushing: Bio | None = None
        self.flush_pending = 0
        self.flush_start_ns = -1
        self.prev_flush_start_ns = -1
        self.flush_waiters = WaitQueue()
        self.came_ns: dict[Bio, int] = {}
        self.flush_end = MdFlushEnd(self)
        self.worker = MdWorker(host, self)

    def attach(self, queue: RequestQueue) -> None:
        """md_run: flushes are taken, as members may need them; limits and size are the personality's."""
        Stacked.attach(self, queue)
        queue.write_cache = True
        queue.fua = True
        queue.iostats = True
        queue.rotational = self.turns()
        self.run(queue)

    def run(self, queue: RequestQueue) -> None:
        """pers->run: set limits, take in those of the members, set the size."""
        raise NotImplementedError

    def make_request(self, submitter: Submitter, bio: Bio) -> int:
        """pers->make_request: send it, or what it is cut into, on to the members. DONE; or WAIT as `submit_bio`."""
        raise NotImplementedError

    def submit_bio(self, submitter: Submitter, bio: Bio) -> int:
        """md_submit_bio."""
        if self.broken and bio.op & 1 and submitter is not self.worker and not self.waits_inside(bio):
            return self.queue.end_bio(bio, STS_IOERR)
        bio = submitter.split_to_limits(bio)
        bio.flags &= ~F_NOMERGE
        if bio.flags & F_PREFLUSH:
            taken = self.flush_request(submitter, bio)
            if taken != GO_ON:
                return taken
        return self.make_request(submitter, bio)

    def waits_inside(self, bio: Bio) -> bool:
        """Whether the bio has been taken, and is given again as what it had to wait for has come."""
        return bio in self.came_ns

    # -- counting, cutting --------------------------------------------------------------

    def account_bio(self, bio: Bio) -> Bio:
        """md_account_bio: the bio to send on, whose end is the end of `bio`; `bio` itself if nothing is counted."""
        queue = self.queue
        if not queue.iostats:
            bio.part = None
            return bio
        charge(self.host, STEP_BIO_ALLOC)
        now = self.host.clock.now_ns
        clone = self.clone_bio(bio, bio.nr_sectors)
        clone.io = bio
        clone.end_io = self.counting
        clone.start_ns = now
        queue.stat.bio_started(bio.op, bio.nr_sectors, now)
        if bio.part is not None:
            bio.part.bio_started(bio.op, bio.nr_sectors, now)
        return clone

    def cut(self, bio: Bio, nr_sectors: int) -> Bio:
        """bio_split and bio_chain, with what they cost: the front part. No memory is walked, as the place is known."""
        charge(self.host, STEP_BIO_ALLOC)
        return self.split_bio(bio, nr_sectors)

    def send(self, submitter: Submitter, bio: Bio, member: Member, sector: int) -> int:
        """Send a bio on to `sector` of a member's data: A and Q."""
        charge(self.host, STEP_MD_MAP)
        before = bio.sector
        bio.queue = member.queue
        bio.flags &= ~F_BPS_THROTTLED  # bio_set_dev
        bio.sector = sector + member.data_offset
        self.trace_remap(bio, before)
        return submitter.submit_noacct(bio)

    # -- flush ----------------------------------------------------------------------------

    def flush_request(self, submitter: Submitter, bio: Bio) -> int:
        """md_flush_request: DONE (a flush has begun, which goes on with the bio), WAIT, or GO_ON (flushed)."""
        came = self.came_ns.get(bio, -1)
        if came < 0:
            came = self.host.clock.now_ns
        if self.flushing is not None and came >= self.prev_flush_start_ns:
            self.came_ns[bio] = came
            if submitter.wait_queue is None:
                self.flush_waiters.push(submitter)
            return WAIT
        self.came_ns.pop(bio, None)
        if came > self.prev_flush_start_ns:
            self.flushing = bio
            self.flush_start_ns = -1
            self.worker.wake_up()
            return DONE
        # A flush was done for some other bio while it waited
        if bio.nr_sectors == 0:
            self.queue.end_bio(bio, STS_OK)
            return DONE
        bio.flags &= ~F_PREFLUSH
        return GO_ON

    def submit_flushes(self) -> int:
        """In the worker: one empty flush to each member that works."""
        self.flush_start_ns = self.host.clock.now_ns
        self.flush_pending = 1
        for member in self.members:
            if member.faulty:
                continue
            flush = self.queue.bios.get()
            flush.submitter = self.worker
            flush.queue = member.queue
            flush.op = OP_WRITE
            flush.flags = F_PREFLUSH
            flush.ioprio = 0
            flush.sector = 0
            flush.nr_sectors = 0
            flush.io = member
            flush.end_io = self.flush_end
            member.nr_pending += 1
            self.flush_pending += 1
            self.worker.given.append(flush)
        return self.flush_done()

    def flush_done(self) -> int:
        """One flush of the present round has ended; after the last one the worker goes on with the bio."""
        self.flush_pending -= 1
        if self.flush_pending == 0:
            self.worker.wake_up()
        return 0

    def flushed(self) -> int:
        """md_submit_flush_data, in the worker: the bio ends, or is sent without PREFLUSH; who waited looks again."""
        bio = self.flushing
        self.prev_flush_start_ns = self.flush_start_ns
        self.flush_start_ns = -1
        self.flushing = None
        self._wake_waiters()
        if bio.nr_sectors == 0:
            return self.queue.end_bio(bio, STS_OK)
        bio.flags &= ~F_PREFLUSH
        if self.queue.blkcg is not None:
            bio.flags |= F_RELEASED  # it goes on from where it was, behind blk-throttle
        self.worker.given.append(bio)
        return 0

    def _wake_waiters(self) -> int:
        woken = self.flush_waiters
        self.flush_waiters = WaitQueue()
        while woken.head is not None:
            waiter = woken.head
            woken.remove(waiter)
            waiter.wake()
        return 0


class MdCounting(BioEnd):
    """md_end_io_acct."""

    def __init__(self, device: MdDevice) -> None:
        self.device = device

    def bio_end_io(self, bio: Bio) -> int:
        """The clone has ended: count it and end the bio."""
        queue = self.device.queue
        whole: Bio = bio.io
        status = bio.status
        now = queue.clock.now_ns
        queue.stat.bio_done(whole.op, bio.start_ns, now)
        if whole.part is not None:
            whole.part.bio_done(whole.op, bio.start_ns, now)
        queue.bios.put(bio)
        return queue.end_bio(whole, status)


class MdFlushEnd(BioEnd):
    """md_end_flush. A member's error is not looked at."""

    def __init__(self, device: MdDevice) -> None:
        self.device = device

    def bio_end_io(self, bio: Bio) -> int:
        """A member has flushed."""
        member: Member = bio.io
        member.nr_pending -= 1
        self.device.queue.bios.put(bio)
        return self.device.flush_done()


class MdWorker(Daemon):
    """md_wq: sends flushes to the members, and afterwards the bio that asked."""

    def __init__(self, host: Host, device: MdDevice) -> None:
        Daemon.__init__(self, host, "md")
        self.device = device

    def step(self) -> int:
        """Begin a flush or end it, as it is due; then one section of submitting."""
        device = self.device
        if device.flushing is not None:
            if device.flush_start_ns < 0:
                device.submit_flushes()
            elif device.flush_pending == 0:
                device.flushed()
        return Daemon.step(self)
