"""How a fio job holds itself back: rate, rate_iops and thinktime.

Theory of operation
-------------------
fio computes for each direction when the next I/O is due from the
bytes issued so far; an I/O that comes earlier waits until everything outstanding has completed, and then for
the whole difference. thinktime does the same after every `thinktime_blocks` I/Os. So both are pauses that
begin with a drain, which `FioThread` does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from blklab.sim.fio_thread import FioThread
    from blklab.workload.jobspec import JobSpec
    from blklab.workload.stream import Stream


def has_pace(spec: JobSpec) -> bool:
    """Whether a job holds itself back at all."""
    return any(spec.rate_bytes_per_s) or any(spec.rate_iops) or spec.thinktime_ns > 0


class Pace:
    """The pace of one thread. Rates in bytes a second for each direction, 0: none."""

    def __init__(self, spec: JobSpec) -> None:
        self.rates = [
            rate or iops * bs
            for rate, iops, bs in zip(spec.rate_bytes_per_s, spec.rate_iops, spec.min_bs_bytes, strict=True)
        ]
        self.min_bs = spec.min_bs_bytes
        self.mixed = spec.reads and spec.writes and 0 < spec.rwmixread < 100
        self.issued_bytes = [0, 0, 0]
        self.think_ns = spec.thinktime_ns
        self.spin_ns = min(spec.thinktime_spin_ns, spec.thinktime_ns)
        self.think_blocks = spec.thinktime_blocks
        self.think_by_completion = spec.thinktime_blocks_type != "issue"
        self.iotime_ns = spec.thinktime_iotime_ns
        self.blocks_given = any(name == "thinktime_blocks" for name, _ in spec.options + spec.global_options)
        self.ignore_think = spec.rate_ignore_thinktime
        self.last_blocks = 0
        self.last_think_ns = 0
        self.next_ns = [0, 0, 0]

    def issued(self, ddir: int, length_bytes: int) -> None:
        """An I/O goes out: when is the next one due?"""
        rate = self.rates[ddir]
        if not rate:
            return
        self.issued_bytes[ddir] += length_bytes
        # usec_for_io works in microseconds
        self.next_ns[ddir] = self.issued_bytes[ddir] * 1_000_000 // rate * 1000

    def early_ns(self, stream: Stream, since_start_ns: int) -> int:
        """By how much the next I/O is ahead of its rate. A mixed job that is ahead in the direction it has
        drawn turns to the other one if that is due earlier (rate_ddir)."""
        if not any(self.rates):
            return 0
        now_ns = since_start_ns // 1000 * 1000
        ddir = stream.draw_ddir()
        if self.next_ns[ddir] <= now_ns:
            return 0
        other = ddir ^ 1
        if self.mixed and self.next_ns[other] < self.next_ns[ddir]:
            stream.turn_ddir(other)
            ddir = other
        return max(0, self.next_ns[ddir] - now_ns)

    def think(self, thread: FioThread, now_ns: int) -> int:
        """How long to pause now that an I/O has been queued; 0: not at all."""
        if not self.think_ns:
            return 0
        stall = False
        if self.iotime_ns:
            if now_ns - self.last_think_ns >= self.iotime_ns + self.think_ns:
                stall = True
            elif not self.blocks_given:
                return 0
        blocks = thread.ios_done if self.think_by_completion else thread.ios_issued
        if blocks >= self.last_blocks + self.think_blocks:
            stall = True
        if not stall:
            return 0
        self.last_blocks = blocks
        self.last_think_ns = now_ns
        return self.think_ns

    def thought(self, ddir: int) -> None:
        """The pause is over: with rate_ignore_thinktime the rate does not catch up on it."""
        rate = self.rates[ddir]
        if rate and self.ignore_think:
            missed = rate * self.think_ns // 1_000_000_000
            self.issued_bytes[ddir] += max(0, missed - self.min_bs[ddir])
