"""noop: requests go in the order they came, but for merges.

What: the scheduler of the single queue that does least. It keeps a list, and gives out its head when asked.
Each goes by `dispatch_sort` to the dispatch list, which is empty whenever the scheduler is asked for one, so
their order stays; only when it must give out all at once (another scheduler is to be put in place) are they
sorted by sector. Merging is the path's: back merges by the hash, front merges never, since nothing here is
sorted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from blklab.block.elevator import Elevator, register
from blklab.block.request import RequestList

if TYPE_CHECKING:
    from blklab.block.queue import RequestQueue
    from blklab.block.request import Request


class Noop(Elevator):
    """First come, first served."""

    single_queue = True

    def __init__(self, queue: RequestQueue) -> None:
        super().__init__(queue)
        self.rqs = RequestList()

    def latter_request(self, rq: Request) -> Request | None:
        """The one behind it in the list."""
        return rq.next

    def former_request(self, rq: Request) -> Request | None:
        """The one before it in the list."""
        return rq.prev

    def requests_merged(self, rq: Request, following: Request) -> None:
        """`following` is gone."""
        self.rqs.remove(following)

    def add_request(self, rq: Request) -> None:
        """At the end."""
        self.rqs.append(rq)

    def dispatch_requests(self, force: bool) -> int:
        """The first one."""
        rq = self.rqs.popleft()
        if rq is None:
            return 0
        self.queue.legacy.dispatch_sort(rq)
        return 1


register("noop")(Noop)
