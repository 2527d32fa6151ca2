"""What the tests of flushes share: a driver with a write cache, and stories of its machine.

A word of a story is action, rwbs, sector and sectors: `DFN0+0` is the flush that the device gets, `CWS8+0` the end of
a sequence whose data was at sector 8.
"""

from __future__ import annotations

from rig import Rig, ScriptedDriver

from blklab.block.bio import Bio
from blklab.block.consts import F_FUA, F_PREFLUSH, F_SYNC, OP_FLUSH, OP_WRITE, STS_OK
from blklab.block.hwqueue import HardwareQueue
from blklab.block.queue import RequestQueue
from blklab.block.request import Request
from blklab.block.switch import set_elevator

SCHEDULERS = ("none", "mq-deadline", "kyber", "bfq")
PRE_FUA = F_PREFLUSH | F_FUA


class CacheDriver(ScriptedDriver):
    """A scripted driver with a write cache. `cache` and `fua`: what it has; `log`: (action, request's op, sector) with
    D and C as the driver saw them, in order."""

    def __init__(self, cache: bool = True, fua: bool = False, service_ns: int | None = 10_000) -> None:
        super().__init__(service_ns)
        self.cache = cache
        self.fua = fua
        self.flushes: dict[HardwareQueue, int] = {}
        self.most_flushes = 0
        self.log: list[tuple[str, int, int]] = []

    def attach(self, queue: RequestQueue) -> None:
        """With a cache."""
        super().attach(queue)
        queue.write_cache = self.cache
        queue.fua = self.cache and self.fua

    def queue_rq(self, hctx: HardwareQueue, rq: Request, last: bool) -> int:
        """What it takes is logged."""
        status = super().queue_rq(hctx, rq, last)
        if status == STS_OK:
            self.log.append(("D", rq.op, rq.sector))
            if rq.op == OP_FLUSH:
                assert rq.nr_sectors == 0
                self.flushes[hctx] = self.flushes.get(hctx, 0) + 1
                self.most_flushes = max(self.most_flushes, self.flushes[hctx])
        return status

    def end(self, rq: Request) -> int:
        """So is what it answers, or what it is told to give up."""
        assert rq.hctx is not None
        self.log.append(("C" if rq.status == STS_OK else "E", rq.op, rq.sector))
        if rq.op == OP_FLUSH:
            self.flushes[rq.hctx] -= 1
        return super().end(rq)


def rig_of(
    cache: bool = True,
    fua: bool = False,
    scheduler: str = "none",
    service_ns: int | None = 10_000,
    **more: int,
) -> Rig:
    """A machine whose device has that cache."""
    rig = Rig(CacheDriver(cache, fua, service_ns), **more)  # type: ignore[arg-type]
    for queue in rig.queues:
        set_elevator(queue, scheduler)
    return rig


def story(rig: Rig, actions: str = "Q G I D R C") -> str:
    """The trace in words."""
    return " ".join(f"{r.action}{r.rwbs}{r.sector}+{r.nr_sectors}" for r in rig.records(actions))


def empty(rig: Rig, cpu: int = 0, device: int = 0) -> Bio:
    """What fsync of a device sends."""
    return rig.bio(0, 0, OP_WRITE, F_PREFLUSH | F_SYNC, device, cpu)


def statuses(rig: Rig) -> dict[int, int]:
    """Number of bio -> status."""
    return {io: status for sender in rig.senders for io, status, _ in sender.ended}
