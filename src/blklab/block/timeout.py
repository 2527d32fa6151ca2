"""Request timeouts (io_timeout): a request that the device does not answer in time fails, or gets more time.

Theory of operation
-------------------
Starting a request sets its deadline and arms one timer for the queue if it is not armed. When it fires all started
requests are looked at; the driver is asked about each late one (`Driver.timeout`). If it gives it up, its bios end with
that status at once. Its tag stays taken until the device's own answer arrives, as a late answer must not hit the tag's
next owner; a request that the driver knows to be lost (RQF_LOST) is freed at once.

A timer that finds nothing in flight makes the hardware queues idle, so that others on a shared tag set get their share.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import cython

from blklab.core.clock import Event

if TYPE_CHECKING:
    from blklab.block.hwqueue import HardwareQueue
    from blklab.block.queue import RequestQueue
    from blklab.block.request import Request

if not cython.compiled:
    from blklab.block.consts import RQ_COMPLETE, RQ_STARTED, RQF_FLUSH_SEQ, RQF_LOST, RQF_TIMED_OUT, STS_OK
    from blklab.core.bits import NEVER_NS


class TimeoutTimer(Event):
    """The timer of one queue. `expired` counts requests that were given up."""

    def __init__(self, queue: RequestQueue) -> None:
        self.queue = queue
        self.armed = False
        self.expired = 0

    def arm(self, deadline_ns: int) -> int:
        """Look at the requests at this time."""
        self.armed = True
        return self.queue.clock.at(deadline_ns, self)

    def fire(self, now_ns: int) -> int:
        """Look at all started requests, on a CPU."""
        host = self.queue.host
        if not host.in_section:
            return host.interrupt(0, self, False)
        self.armed = False
        earliest = NEVER_NS
        for hctx in self.queue.hctxs:
            for rq in self._started(hctx):
                # One before may have ended this one too, or it is the flush request, found by its tag as well
                if rq.state == RQ_STARTED and rq.deadline_ns <= now_ns:
                    self._late(rq, now_ns)
                if rq.state == RQ_STARTED and rq.deadline_ns < earliest:
                    earliest = rq.deadline_ns
        if earliest != NEVER_NS:
            self.arm(earliest)
        elif self.queue.usage == 0:
            for hctx in self.queue.hctxs:
                hctx.tag_idle()
        return 0

    def _started(self, hctx: HardwareQueue) -> list[Request]:
        # In order of tags. A table keeps the last request that had a tag, which may have another one by now
        found = []
        for rqs in (hctx.driver_rqs, hctx.sched_rqs):
            for tag, rq in enumerate(rqs):
                if rq is None or rq.state != RQ_STARTED or rq.hctx is not hctx:
                    continue
                scheduled = rq.internal_tag >= 0
                if scheduled == (rqs is hctx.sched_rqs) and tag == (rq.internal_tag if scheduled else rq.tag):
                    found.append(rq)
        if hctx.fq is not None and hctx.fq.flush_rq.state == RQ_STARTED:
            found.append(hctx.fq.flush_rq)
        return found

    def _late(self, rq: Request, now_ns: int) -> int:
        queue = self.queue
        status = queue.driver.timeout(rq)
        if status == STS_OK:
            rq.deadline_ns = now_ns + queue.io_timeout_ns
            return 0
        if rq.rq_flags & RQF_FLUSH_SEQ and not rq.rq_flags & RQF_LOST:
            rq.deadline_ns = (
                now_ns + queue.io_timeout_ns
            )  # its tag is another one's, and its sequence goes on
            return 0
        self.expired += 1
        rq.status = status
        rq.move(RQ_COMPLETE)
        if rq.rq_flags & RQF_LOST:
            if queue.legacy is not None:
                return queue.legacy.request_fn.end(rq)
            return queue.driver.end(rq)
        rq.rq_flags |= RQF_TIMED_OUT
        return queue.end_bios(rq, status)
