"""Whether a queue seeks.

Since 2.6.34 a queue has a history of its last 32 requests, a bit each: on a rotating disk, whether it began
more than 800 sectors from the end of the one before; otherwise, whether it was smaller than 32 KiB. It is
seeky with more than 4 bits set. Before (the kernel of the 2009 thread), a mean of distances in which the last
one has a weight of 1/8, after cutting off outliers; seeky is a mean of more than 8192 sectors, and that
counts for idling only with enough samples.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import cython

if TYPE_CHECKING:
    from blklab.block.request import Request
    from blklab.elevator.cfq.cfqq import CfqQueue
    from blklab.elevator.cfq.data import CfqData

if not cython.compiled:
    from blklab.core.bits import ALL_ONES_32
    from blklab.elevator.cfq.params import (
        CLOSE_THR_SECTORS,
        SECT_THR_NONROT,
        SEEK_MEAN_THR_SECTORS,
        SEEK_THR_SECTORS,
        SEEKY_BITS,
        TTIME_VALID_SAMPLES,
    )


class Seeks:
    """Seeking on one device."""

    def __init__(self, cfqd: CfqData) -> None:
        self.cfqd = cfqd
        self.history = cfqd.features.cfq_seek_history != 0

    def update(self, cfqq: CfqQueue, rq: Request) -> int:
        """cfq_update_io_seektime: `rq` comes."""
        distance = 0
        if cfqq.last_request_pos:
            distance = abs(rq.sector - cfqq.last_request_pos)
        if not self.history:
            return self._update_mean(cfqq, distance)
        seek = rq.nr_sectors < SECT_THR_NONROT
        if self.cfqd.queue.rotational:
            seek = distance > SEEK_THR_SECTORS
        history = cfqq.seek_history << 1
        if history > ALL_ONES_32:
            history &= ALL_ONES_32
            cfqq.nr_seeks -= 1
        if seek:
            history |= 1
            cfqq.nr_seeks += 1
        cfqq.seek_history = history
        return 0

    def _update_mean(self, cfqq: CfqQueue, distance: int) -> int:
        most = 4 * cfqq.seek_mean + (2 * 1024 * 1024 if cfqq.seek_samples <= 60 else 2 * 1024 * 64)
        if distance > most:
            distance = most
        cfqq.seek_samples = (7 * cfqq.seek_samples + 256) // 8
        cfqq.seek_total = (7 * cfqq.seek_total + 256 * distance) // 8
        cfqq.seek_mean = (cfqq.seek_total + cfqq.seek_samples // 2) // cfqq.seek_samples
        if cfqq.coop:
            # A shared queue: since when it has been seeky
            if not self.is_seeky(cfqq):
                cfqq.seeky_start_ticks = 0
            elif cfqq.seeky_start_ticks == 0:
                cfqq.seeky_start_ticks = self.cfqd.now()
        return 0

    def is_seeky(self, cfqq: CfqQueue) -> bool:
        """CFQQ_SEEKY."""
        if self.history:
            return cfqq.nr_seeks > SEEKY_BITS
        return cfqq.seek_mean > SEEK_MEAN_THR_SECTORS

    def forbids_idling(self, cfqq: CfqQueue) -> bool:
        """Whether it seeks so much that waiting for it is of no use."""
        if not self.history and cfqq.seek_samples <= TTIME_VALID_SAMPLES:
            return False
        return self.is_seeky(cfqq)

    def wants_split(self, cfqq: CfqQueue) -> bool:
        """Whether the processes of a merged queue no longer read in one place."""
        if self.history:
            return cfqq.split_coop
        start = cfqq.seeky_start_ticks
        return start != 0 and self.cfqd.now() > start + self.cfqd.sec_ticks

    def is_close(self, cfqq: CfqQueue, rq: Request, for_preempt: bool) -> bool:
        """cfq_rq_close: whether `rq` begins near to the head, as `cfqq`, in service, sees it."""
        near = CLOSE_THR_SECTORS
        if not self.history and cfqq.seek_samples > TTIME_VALID_SAMPLES:
            near = cfqq.seek_mean
            if near > SEEK_MEAN_THR_SECTORS and not for_preempt:
                near = SEEK_MEAN_THR_SECTORS
        return abs(rq.sector - self.cfqd.last_position) <= near
