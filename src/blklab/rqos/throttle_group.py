"""blk-throttle: the limits and slices of one group.

What: `Side` is one direction (reads, writes) of a group on a queue: its limits, and what it has used of them
in the present slice; `ThrottleGroup` has both; `SliceClock` is the time they share: jiffies, and the length
of a slice.

Why one class a direction: the kernel has arrays of two for everything; nothing of one direction looks at the
other.

Theory of operation
-------------------
A slice is 100 ms (HZ / 10 jiffies; CONFIG_BLK_DEV_THROTTLING_LOW
would make it 20 ms on disks that do not rotate, but Debian's kernels are built without it). A slice starts
when a bio comes and the last one is over, and then goes on for as long as bios come. A bio may go if what has
gone since the start of the slice, with it, is not above what the limit allows until the end of the *present
100 ms*, counted from the start: the whole allowance of 100 ms may go at their beginning. When bios go, whole
100 ms that are over are cut off the front of the slice (trim), and with them what was allowed then. So nobody
saves up: unused allowance is lost after the 100 ms in which it was.

How long a bio waits: for iops until the present 100 ms are over (feature `throttle_next_slice_wait`; before
it, until the bio is due by the rate), for bps until its bytes beyond the allowance are due by the rate.

A limit that is changed while bios wait starts a new slice. What they had waited for is carried over (feature
`throttle_carryover`); 6.1 keeps it in unsigned numbers, and a debt becomes an endless credit: bios that wait
when iops is lowered may then all go at once. The numbers here wrap as there.

Time is that of the kernel's jiffies, which begin 5 minutes before they overflow 32 bits: ends of slices are
rounded up to multiples of a slice *of jiffies*, and messages show them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import cython

if TYPE_CHECKING:
    from blklab.block.bio import Bio
    from blklab.block.queue import RequestQueue

if not cython.compiled:
    from blklab.block.consts import F_BPS_THROTTLED, OP_DISCARD, TR_MSG

U64_MAX = (1 << 64) - 1
U32_MAX = (1 << 32) - 1

# Of throttle_split_iops: from 2 on the rest of a cut bio is throttled itself, at 3 not behind who waits for bytes
CHARGE_WAITS = 2
SPLIT_QUEUES = 3
CARRY_UNSIGNED = 1  # of throttle_carryover
DISCARD_BYTES = 512  # whatever it discards


def signed(value: int, bits: int) -> int:
    """What C makes of it in a signed integer of so many bits."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


class SliceClock:
    """Jiffies, slices and messages of one queue."""

    def __init__(self, queue: RequestQueue, hierarchical: bool) -> None:
        features = queue.features
        self.queue = queue
        self.host = queue.host
        self.hierarchical = hierarchical
        self.jiffy_ns = queue.host.jiffy_ns
        self.hz = 1_000_000_000 // queue.host.jiffy_ns
        self.slice = self.hz // 10
        self.first = 4_294_967_296 - 300 * self.hz
        self.split_iops = features.throttle_split_iops
        self.split_queues = features.throttle_split_iops == SPLIT_QUEUES
        self.recharge = features.throttle_recharge
        self.carryover = features.throttle_carryover
        self.next_slice_wait = features.throttle_next_slice_wait
        self.longest_wait = features.throttle_longest_wait
        self.log_names = features.throttle_log_names

    def jiffies(self) -> int:
        """The time in ticks, as the kernel counts them."""
        return self.first + self.host.clock.now_ns // self.jiffy_ns

    def time_ns(self, jiffies: int) -> int:
        """When that tick is."""
        return (jiffies - self.first) * self.jiffy_ns

    def due_bytes(self, bio: Bio) -> int:
        """What a bio is charged for bps (throtl_bio_data_size); -1: it has been charged, as a whole, before
        it was cut."""
        if self.split_iops >= CHARGE_WAITS and bio.flags & F_BPS_THROTTLED:
            return -1
        if bio.op == OP_DISCARD:
            return DISCARD_BYTES
        return bio.nr_sectors << 9

    def mark(self, bio: Bio) -> int:
        """The bio is through: what is cut off it is not charged bps again. Before 4.15 nothing of the kind
        was kept."""
        if not self.recharge:
            bio.flags |= F_BPS_THROTTLED
        return 0

    def tracing(self) -> bool:
        """Whether messages are wanted."""
        return (self.queue.trace_mask & TR_MSG) != 0

    def log(self, name: str, text: str) -> int:
        """throtl_log: `name` is the group's path, empty for the queue itself; kernels before 4.14 write
        it."""
        queue = self.queue
        if queue.trace_mask & TR_MSG and queue.tracer is not None:
            prefix = f"throtl {name} " if self.log_names and name else "throtl "
            queue.tracer.message(queue.number, prefix + text)
        return 0


class Side:
    """Reads or writes of one group. `bps`, `iops`: its limits (U64_MAX, U32_MAX: none), `bps_rule`,
    `iops_rule`: whether it or a group above has any; `slice_start`, `slice_end` in jiffies."""

    def __init__(self, clock: SliceClock, name: str, letter: str) -> None:
        self.clock = clock
        self.name = name
        self.letter = letter
        self.bps = U64_MAX
        self.iops = U32_MAX
        self.bps_rule = False
        self.iops_rule = False
        self.slice_start = 0
        self.slice_end = 0
        self.bytes_disp = 0
        self.io_disp = 0
        self.carryover_bytes = 0
        self.carryover_ios = 0
        self.split_ios = 0

    # -- slices ------------------------------------------------------------------------

    def slice_used(self) -> bool:
        """Whether the present slice is over (throtl_slice_used)."""
        now = self.clock.jiffies()
        return now < self.slice_start or now > self.slice_end

    def start_slice(self, clear_carryover: bool) -> int:
        """throtl_start_new_slice."""
        clock = self.clock
        now = clock.jiffies()
        self.bytes_disp = 0
        self.io_disp = 0
        self.split_ios = 0
        self.slice_start = now
        self.slice_end = now + clock.slice
        if clear_carryover:
            self.carryover_bytes = 0
            self.carryover_ios = 0
        if clock.tracing():
            self._log(f"new slice start={self.slice_start} end={self.slice_end} jiffies={now}")
        return 0

    def start_slice_with_credit(self, start: int) -> int:
        """throtl_start_new_slice_with_credit: a child waited from `start` on, in which this group used
        nothing."""
        clock = self.clock
        now = clock.jiffies()
        self.bytes_disp = 0
        self.io_disp = 0
        self.split_ios = 0
        self.carryover_bytes = 0
        self.carryover_ios = 0
        if start >= self.slice_start:
            self.slice_start = start
        self.slice_end = now + clock.slice
        if clock.tracing():
            self._log(f"new slice with credit start={self.slice_start} end={self.slice_end} jiffies={now}")
        return 0

    def _round_up(self, jiffies: int) -> int:
        length = self.clock.slice
        return (jiffies + length - 1) // length * length

    def _extend(self, end: int, now: int) -> int:
        self.slice_end = self._round_up(end)
        if self.clock.tracing():
            self._log(f"extend slice start={self.slice_start} end={self.slice_end} jiffies={now}")
        return 0

    def _log(self, text: str) -> int:
        return self.clock.log(self.name, f"[{self.letter}] {text}")

    def bytes_allowed(self, jiffies: int) -> int:
        """What the limit allows in that time; at most U64_MAX, which is also what a product near 64 bits
        comes to."""
        hz = self.clock.hz
        if self.bps.bit_length() + jiffies.bit_length() - 1 - hz.bit_length() > 62:
            return U64_MAX
        return self.bps * jiffies // hz

    def ios_allowed(self, jiffies: int) -> int:
        """The same in I/Os, at most U32_MAX."""
        return min(U32_MAX, self.iops * jiffies // self.clock.hz)

    def trim(self) -> int:
        """throtl_trim_slice: whole slices that are over go, with what was allowed in them."""
        if self.slice_used():
            return 0
        clock = self.clock
        now = clock.jiffies()
        self.slice_end = self._round_up(now + clock.slice)
        elapsed = (now - self.slice_start) // clock.slice * clock.slice
        if elapsed == 0:
            return 0
        bytes_trim = signed(self.bytes_allowed(elapsed) + self.carryover_bytes, 64)
        io_trim = signed(self.ios_allowed(elapsed) + self.carryover_ios, 32)
        if bytes_trim <= 0 and io_trim <= 0:
            return 0
        self.carryover_bytes = 0
        self.carryover_ios = 0
        self.bytes_disp = self.bytes_disp - bytes_trim if self.bytes_disp >= bytes_trim else 0
        self.io_disp = self.io_disp - io_trim if self.io_disp >= io_trim else 0
        self.slice_start += elapsed
        if clock.tracing():
            self._log(
                f"trim slice nr={elapsed // clock.slice} bytes={bytes_trim} io={io_trim} "
                f"start={self.slice_start} end={self.slice_end} jiffies={now}"
            )
        return 0

    def carry_over(self) -> int:
        """__tg_update_carryover: bios wait and a limit is about to change: what they had been allowed so far
        counts."""
        clock = self.clock
        elapsed = clock.jiffies() - self.slice_start
        if self.bps != U64_MAX:
            self.carryover_bytes += self.bytes_allowed(elapsed) - self.bytes_disp
        if self.iops != U32_MAX:
            self.carryover_ios += self.ios_allowed(elapsed) - self.io_disp
        if clock.carryover == CARRY_UNSIGNED:
            self.carryover_bytes &= U64_MAX
            self.carryover_ios &= U32_MAX
        return 0

    # -- a bio ---------------------------------------------------------------------------

    def wait(self, nr_bytes: int, queued: bool) -> int:
        """tg_may_dispatch: 0 if a bio of `nr_bytes` (-1: bps do not matter) may go now, else how many jiffies
        it has to wait, about. `queued`: bios wait in this direction."""
        if self.bps == U64_MAX and self.iops == U32_MAX:
            return 0
        now = self._go_on(queued)
        if self.iops != U32_MAX:
            self.io_disp += self.split_ios
            self.split_ios = 0
        wait = self._bps_wait(nr_bytes, now)
        if wait == 0 or self.clock.longest_wait:
            wait = max(wait, self._iops_wait(now))
        return self._extended_by(wait, now)

    def wait_for_bytes(self, nr_bytes: int, queued: bool) -> int:
        """tg_dispatch_bps_time: the same for bps alone."""
        if self.bps == U64_MAX or nr_bytes < 0:
            return 0
        now = self._go_on(queued)
        return self._extended_by(self._bps_wait(nr_bytes, now), now)

    def wait_for_ios(self, queued: bool) -> int:
        """tg_dispatch_iops_time: for iops alone."""
        if self.iops == U32_MAX:
            return 0
        now = self._go_on(queued)
        return self._extended_by(self._iops_wait(now), now)

    def _go_on(self, queued: bool) -> int:
        # A new slice, if the last one is over and nobody waits; else it lasts for 100 ms at least. The time
        now = self.clock.jiffies()
        if not queued and self.slice_used():
            self.start_slice(True)
        elif self.slice_end < now + self.clock.slice:
            self._extend(now + self.clock.slice, now)
        return now

    def _extended_by(self, wait: int, now: int) -> int:
        # It lasts until who waits may go. `wait`
        if wait and self.slice_end < now + wait:
            self._extend(now + wait, now)
        return wait

    def _iops_wait(self, now: int) -> int:
        # tg_within_iops_limit
        if self.iops == U32_MAX:
            return 0
        clock = self.clock
        elapsed = now - self.slice_start
        rounded = self._round_up(elapsed + 1 if clock.next_slice_wait else max(elapsed, 1))
        allowed = self.ios_allowed(rounded) + self.carryover_ios
        if clock.carryover == CARRY_UNSIGNED:
            allowed &= U32_MAX
        if self.io_disp + 1 <= allowed:
            return 0
        if not clock.next_slice_wait:
            return max(1, (self.io_disp + 1) * clock.hz // self.iops + 1 - elapsed)
        if clock.longest_wait:
            return max(rounded - elapsed, clock.hz // self.iops + 1)
        return rounded - elapsed

    def _bps_wait(self, nr_bytes: int, now: int) -> int:
        # tg_within_bps_limit
        if self.bps == U64_MAX or nr_bytes < 0:
            return 0
        clock = self.clock
        elapsed = now - self.slice_start
        rounded = self._round_up(max(elapsed, 1))
        allowed = self.bytes_allowed(rounded) + self.carryover_bytes
        if clock.carryover == CARRY_UNSIGNED:
            allowed &= U64_MAX
        wanted = self.bytes_disp + nr_bytes
        if wanted <= allowed and allowed >= 0:
            return 0
        return max(1, (wanted - allowed) * clock.hz // self.bps) + rounded - elapsed

    def charge(self, nr_bytes: int) -> int:
        """throtl_charge_bio: a bio has gone; -1 bytes: its bytes are charged."""
        self.charge_bytes(nr_bytes)
        return self.charge_io()

    def charge_bytes(self, nr_bytes: int) -> int:
        """The bytes alone."""
        if nr_bytes > 0:
            self.bytes_disp += nr_bytes
        return 0

    def charge_io(self) -> int:
        """The I/O alone."""
        self.io_disp += 1
        return 0


class ThrottleGroup:
    """A group on one queue: `sides` are reads and writes. `stat_bytes`, `stat_ios`: what cgroup v1 shows, by
    Read, Write, Sync, Async and Discard."""

    def __init__(self, clock: SliceClock, name: str, parent: ThrottleGroup | None) -> None:
        self.clock = clock
        self.name = name
        self.parent = parent
        self.read = Side(clock, name, "R")
        self.write = Side(clock, name, "W")
        self.stat_bytes = [0] * 5
        self.stat_ios = [0] * 5

    def side(self, write: bool) -> Side:
        """That of reads, or of writes."""
        return self.write if write else self.read

    def update_rules(self) -> None:
        """tg_update_has_rules: the parent's are right."""
        for write in (False, True):
            side = self.side(write)
            above = None if self.parent is None else self.parent.side(write)
            side.bps_rule = side.bps != U64_MAX or (above is not None and above.bps_rule)
            side.iops_rule = side.iops != U32_MAX or (above is not None and above.iops_rule)

    def account(self, bio: Bio, with_bytes: bool) -> int:
        """Count a bio for the files of cgroup v1 (blkg_rwstat_add)."""
        kind = 4 if bio.op == OP_DISCARD else bio.op & 1
        sync = 2 if bio.is_sync() else 3
        nr_bytes = bio.nr_sectors << 9 if with_bytes else 0
        self.stat_bytes[kind] += nr_bytes
        self.stat_bytes[sync] += nr_bytes
        self.stat_ios[kind] += 1
        self.stat_ios[sync] += 1
        return 0

    def clear_stats(self) -> None:
        """blkio.reset_stats."""
        self.stat_bytes = [0] * 5
        self.stat_ios = [0] * 5
