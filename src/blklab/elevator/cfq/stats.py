"""The statistics of a group on one device: what the blkio files of CFQ show (cfqg_stats).

Times are nanoseconds. What the kernel has only with CONFIG_DEBUG_BLK_CGROUP is always kept.
"""

from __future__ import annotations

from blklab.block.rwstat import RwStat


class GroupStats:
    """All of one group."""

    def __init__(self) -> None:
        self.queued = RwStat()
        # Since when; -1: not now
        self.waiting_since_ns = -1
        self.idling_since_ns = -1
        self.empty_since_ns = -1
        self.reset()

    def reset(self) -> None:
        """blkio.reset_stats: all but what is going on."""
        self.merged = RwStat()
        self.service_time = RwStat()
        self.wait_time = RwStat()
        self.service_bytes = RwStat()
        self.serviced = RwStat()
        self.time_ticks = 0
        self.unaccounted_ticks = 0
        self.avg_queue_size_sum = 0
        self.avg_queue_size_samples = 0
        self.dequeue = 0
        self.group_wait_time_ns = 0
        self.idle_time_ns = 0
        self.empty_time_ns = 0

    def io_add(self, op: int, sync: bool, in_service: bool, now_ns: int) -> None:
        """A request is queued; `in_service`: its group is being served."""
        self.queued.add(op, sync, 1)
        if self.empty_since_ns >= 0:
            self.empty_time_ns += now_ns - self.empty_since_ns
            self.empty_since_ns = -1
        if self.waiting_since_ns < 0 and not in_service:
            self.waiting_since_ns = now_ns

    def set_active(self, now_ns: int) -> None:
        """A queue of it begins its slice."""
        self.avg_queue_size_sum += self.queued.total()
        self.avg_queue_size_samples += 1
        if self.waiting_since_ns >= 0:
            self.group_wait_time_ns += now_ns - self.waiting_since_ns
            self.waiting_since_ns = -1

    def set_empty(self, now_ns: int) -> None:
        """A slice of it has ended: it may have nothing left."""
        if self.queued.total() == 0 and self.empty_since_ns < 0:
            self.empty_since_ns = now_ns

    def idle_begins(self, now_ns: int) -> None:
        """The device idles for it."""
        self.idling_since_ns = now_ns

    def idle_ends(self, now_ns: int) -> None:
        """It does not any more."""
        if self.idling_since_ns >= 0:
            self.idle_time_ns += now_ns - self.idling_since_ns
            self.idling_since_ns = -1

    def completed(self, op: int, sync: bool, start_ns: int, io_start_ns: int, now_ns: int) -> None:
        """A request that came at `start_ns` and was issued at `io_start_ns` has ended."""
        if now_ns > io_start_ns:
            self.service_time.add(op, sync, now_ns - io_start_ns)
        if io_start_ns > start_ns:
            self.wait_time.add(op, sync, io_start_ns - start_ns)

    def dispatched(self, op: int, sync: bool, nr_sectors: int) -> None:
        """A request goes to the dispatch list."""
        self.serviced.add(op, sync, 1)
        self.service_bytes.add(op, sync, nr_sectors << 9)
