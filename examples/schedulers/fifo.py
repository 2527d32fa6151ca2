"""A first scheduler: one queue for the whole device, first in, first out, no merging.

blklab run examples/quick.fio --scheduler examples/schedulers/fifo.py:Fifo
"""

from blklab import Elevator, RequestList


class Fifo(Elevator):
    """Requests leave in the order in which they came."""

    def __init__(self, queue):
        super().__init__(queue)
        self.waiting = RequestList()

    def insert_requests(self, hctx, rqs, at_head):
        """Queue them, behind what is there."""
        while rqs.count:
            rq = rqs.popleft()
            self.queue.trace_insert(rq)
            self.waiting.append(rq)

    def dispatch_request(self, hctx):
        """The one that has waited longest."""
        return self.waiting.popleft()

    def has_work(self, hctx):
        """Whether anything waits."""
        return self.waiting.count > 0
