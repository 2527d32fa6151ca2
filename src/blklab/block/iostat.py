"""The counters behind /sys/block/DEV/stat: what iostat and fio's disk statistics are computed from.

Theory of operation
-------------------
Counted as in the kernel: an I/O, its sectors and its time when it completes (time since its request was allocated), a
merge when it happens. `io_ticks` is the time the device was busy, in jiffies and with the kernel's approximation: at
most one jiffy is added when a request starts, the whole distance since the last update when one ends. That is why
%util of a real device is a little wrong, and ours as wrong.
"""

from __future__ import annotations

from array import array

READ = 0
WRITE = 1
DISCARD = 2
FLUSH = 3
GROUPS = ("read", "write", "discard", "flush")


class IoStat:
    """Counters of one device. `jiffy_ns`: 4,000,000 at HZ=250."""

    def __init__(self, jiffy_ns: int) -> None:
        self.jiffy_ns = jiffy_ns
        self.ios = array("q", [0] * 4)
        self.merges = array("q", [0] * 4)
        self.sectors = array("q", [0] * 4)
        self.time_ns = array("q", [0] * 4)
        self.io_ticks = 0
        self.stamp = 0
        self.in_flight_read = 0
        self.in_flight_write = 0

    def started(self, op: int, now_ns: int) -> None:
        """A request has got its bio."""
        jiffies = now_ns // self.jiffy_ns
        if jiffies != self.stamp:
            self.io_ticks += 1
            self.stamp = jiffies
        if op & 1:
            self.in_flight_write += 1
        else:
            self.in_flight_read += 1

    def merged(self, op: int) -> None:
        """A bio or a request was merged into a request of this operation."""
        self.merges[op & 1 if op != 3 else 2] += 1

    def unmade(self, op: int) -> None:
        """A started request was merged into another."""
        if op & 1:
            self.in_flight_write -= 1
        else:
            self.in_flight_read -= 1

    def done(self, op: int, nr_sectors: int, start_ns: int, now_ns: int) -> None:
        """A request has completed."""
        jiffies = now_ns // self.jiffy_ns
        if jiffies != self.stamp:
            self.io_ticks += jiffies - self.stamp
            self.stamp = jiffies
        group = op & 1 if op < 2 or op == 9 else (2 if op == 3 else 3)
        self.ios[group] += 1
        self.sectors[group] += nr_sectors
        self.time_ns[group] += now_ns - start_ns
        if op & 1:
            self.in_flight_write -= 1
        else:
            self.in_flight_read -= 1

    def bio_started(self, op: int, nr_sectors: int, now_ns: int) -> None:
        """bdev_start_io_acct: a device that takes bios counts an I/O and its sectors when it begins."""
        self.started(op, now_ns)
        group = op & 1 if op < 2 or op == 9 else (2 if op == 3 else 3)
        self.ios[group] += 1
        self.sectors[group] += nr_sectors

    def bio_done(self, op: int, start_ns: int, now_ns: int) -> None:
        """bdev_end_io_acct: its time is counted in whole jiffies."""
        jiffies = now_ns // self.jiffy_ns
        if jiffies != self.stamp:
            self.io_ticks += jiffies - self.stamp
            self.stamp = jiffies
        group = op & 1 if op < 2 or op == 9 else (2 if op == 3 else 3)
        self.time_ns[group] += (jiffies - start_ns // self.jiffy_ns) * self.jiffy_ns
        if op & 1:
            self.in_flight_write -= 1
        else:
            self.in_flight_read -= 1

    def flush_done(self, start_ns: int, now_ns: int) -> None:
        """blk_account_io_flush: a flush of the device has completed."""
        self.ios[3] += 1
        self.time_ns[3] += now_ns - start_ns

    def stat_line(self) -> list[int]:
        """The numbers of the `stat` attribute: for reads and writes ios, merges, sectors, ms; in flight, busy ms,
        weighted ms; the four of discards; ios and ms of flushes."""
        ms = [t // 1_000_000 for t in self.time_ns]
        busy_ms = self.io_ticks * self.jiffy_ns // 1_000_000
        line: list[int] = []
        for group in (READ, WRITE):
            line += [self.ios[group], self.merges[group], self.sectors[group], ms[group]]
        line += [self.in_flight_read + self.in_flight_write, busy_ms, sum(self.time_ns) // 1_000_000]
        line += [self.ios[DISCARD], self.merges[DISCARD], self.sectors[DISCARD], ms[DISCARD]]
        return [*line, self.ios[3], ms[FLUSH]]
