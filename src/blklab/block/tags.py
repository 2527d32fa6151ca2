"""Tags: how many requests a hardware queue may have, and the set of them that a driver shares among its queues.

What: a `Tags` is the tags of one hardware queue (driver tags), or of one scheduler on it (scheduler tags): a bitmap
for ordinary requests and another for reserved ones. A `TagSet` is what a driver
registers: how many hardware queues and how deep, for one or several devices.

Theory of operation
-------------------
Without a scheduler a request holds a driver tag from allocation to completion. With one it holds a scheduler tag, and
a driver tag only from dispatch on.

Two kinds of sharing, as in the kernel: several *devices* on one tag set (`queue_shared`) share the driver tags of
each hardware queue fairly: an active device may use max(ceil(depth / active), 4) of them; several *hardware queues*
of a host with host-wide tags (`hctx_shared`) have one bitmap between them.

A queue becomes active when it asks for a driver tag, and idle when its timeout handler finds nothing in flight.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from blklab.block.sbitmap import SbitmapQueue
from blklab.core.errors import BlklabError

if TYPE_CHECKING:
    from blklab.block.queue import RequestQueue

MAX_DEPTH = 10240  # BLK_MQ_MAX_DEPTH
MAX_SCHED_RQ = 2048  # 16 * BLKDEV_DEFAULT_RQ
DEFAULT_RQ = 128  # BLKDEV_DEFAULT_RQ


class Tags:
    """`nr_tags` tags, of which the first `nr_reserved` are reserved."""

    def __init__(self, nr_tags: int, nr_reserved: int, nr_cpus: int) -> None:
        self.nr_tags = nr_tags
        self.nr_made = nr_tags
        self.nr_reserved = nr_reserved
        self.bitmap = SbitmapQueue(nr_tags - nr_reserved, nr_cpus)
        self.reserved = SbitmapQueue(nr_reserved, nr_cpus)
        self.active_queues = 0

    def resize(self, nr_tags: int) -> None:
        """A new depth (blk_mq_tag_update_depth); requests in flight keep their tags. For more than there ever were the
        kernel makes new ones, so that the word size grows too; none may be in use then."""
        self.nr_tags = nr_tags
        if nr_tags > self.nr_made and not self.bitmap.used:
            self.nr_made = nr_tags
            self.bitmap.make_anew(nr_tags - self.nr_reserved)
        else:
            self.bitmap.resize(nr_tags - self.nr_reserved)

    def put(self, tag: int, cpu: int) -> int:
        """Give a tag back; `cpu`: of the software queue it was allocated for."""
        if tag >= self.nr_reserved:
            return self.bitmap.clear(tag - self.nr_reserved, cpu)
        return self.reserved.clear(tag, cpu)

    def activate(self) -> None:
        """One more queue uses these tags."""
        self.active_queues += 1
        self.bitmap.recalculate_wake_batch(self.active_queues)

    def deactivate(self) -> int:
        """One queue less: those who wait may now have more."""
        self.active_queues -= 1
        self.bitmap.recalculate_wake_batch(self.active_queues)
        return self.bitmap.wake_all()

    @property
    def nr_in_use(self) -> int:
        """Tags taken now."""
        return self.bitmap.used + self.reserved.used


class TagSet:
    """What a driver registers: `nr_hw_queues` hardware queues of `queue_depth` driver tags, `nr_reserved` of them
    reserved; `hctx_shared`: one bitmap for all hardware queues (host-wide tags)."""

    def __init__(
        self,
        nr_hw_queues: int,
        queue_depth: int,
        nr_cpus: int,
        nr_reserved: int = 0,
        hctx_shared: bool = False,
    ) -> None:
        if not 1 <= queue_depth <= MAX_DEPTH:
            raise BlklabError(f"a hardware queue has 1 to {MAX_DEPTH} tags, not {queue_depth}")
        if nr_hw_queues < 1:
            raise BlklabError(f"a device has at least one hardware queue, not {nr_hw_queues}")
        if not 0 <= nr_reserved < queue_depth:
            raise BlklabError(
                f"0 to {queue_depth - 1} of {queue_depth} tags can be reserved, not {nr_reserved}"
            )
        # The kernel allocates no more hardware queues than CPUs (blk_mq_alloc_tag_set)
        self.nr_hw_queues = min(nr_hw_queues, nr_cpus)
        self.queue_depth = queue_depth
        self.nr_reserved = nr_reserved
        self.nr_cpus = nr_cpus
        self.hctx_shared = hctx_shared
        self.queues: list[RequestQueue] = []
        if hctx_shared:
            shared = Tags(queue_depth, nr_reserved, nr_cpus)
            self.tags = [shared] * self.nr_hw_queues
        else:
            self.tags = [Tags(queue_depth, nr_reserved, nr_cpus) for _ in range(self.nr_hw_queues)]

    @property
    def queue_shared(self) -> bool:
        """Whether several devices use this set."""
        return len(self.queues) > 1

    def add_queue(self, queue: RequestQueue) -> None:
        """A device's queue joins; with the second one tags become shared among queues."""
        self.queues.append(queue)
        if self.queue_shared:
            for member in self.queues:
                member.set_tag_queue_shared(True)


class TagUser:
    """One user of a shared set: a hardware queue of a device, or the whole device where hardware queues share."""

    def __init__(self) -> None:
        self.active = False
        self.nr_active = 0


def may_queue(user: TagUser, tags: Tags) -> bool:
    """Fair share of driver tags among the active users of a shared set (hctx_may_queue)."""
    depth = tags.bitmap.depth
    users = tags.active_queues
    if depth <= 1 or not user.active or users == 0:
        return True
    share = (depth + users - 1) // users
    return user.nr_active < (share if share > 4 else 4)
