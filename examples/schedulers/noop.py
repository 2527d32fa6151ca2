"""noop, as it was until Linux 5.0 took the old block layer out: one FIFO for the whole device, and merging.

    blklab run examples/quick.fio --scheduler examples/schedulers/noop.py:Noop

It never sorts. What it does to the order of I/O it does by merging, in three places:

1. A bio comes: `bio_merge`. `queue.elv_merge` looks at the request that merged last, then in its hash for one that ends
   where the bio begins. (A front merge happens only with the request that merged last: nothing here is sorted by
   sector, so there is no `request_merge`.)
2. A request has grown and may touch another one: `latter_request`, `former_request`. In noop these are the neighbours
   in the FIFO, not on the disk; mostly they do not touch, and that is what noop was.
3. A request comes from a plug: `insert_requests` tries to join it to one that is held before it queues it.

Deliberate difference: the old block layer had one lock for the whole queue, and drivers took requests under it. Here
one lock guards only the FIFO, and the tags, the software queues and the rest of blk-mq are around it.
"""

from blklab import Elevator, RequestList
from blklab.core.host import Lock
from blklab.core.steps import STEP_LOCK_SCHED


class Noop(Elevator):
    """First in, first out; what continues a request that waits becomes part of it."""

    def __init__(self, queue):
        super().__init__(queue)
        self.fifo = RequestList()
        self.lock = Lock("noop")

    def bio_merge(self, bio, segments, submitter):
        """Whether the bio is now part of a request that waits."""
        elv = self.queue.elv_merge
        self.queue.host.lock(self.lock, STEP_LOCK_SCHED)
        merged = elv.try_merge(bio, segments)
        self.queue.host.unlock(self.lock)
        if elv.freed is not None:  # two requests became one; this one is empty
            self.queue.free_request(elv.freed)
        return merged

    def latter_request(self, rq):
        """The one that came after it."""
        return rq.next

    def former_request(self, rq):
        """The one that came before it."""
        return rq.prev

    def requests_merged(self, rq, following):
        """`following` is empty now. If it was about to be inserted it is not in the FIFO yet."""
        if following.list is self.fifo:
            self.fifo.remove(following)

    def insert_requests(self, hctx, rqs, at_head):
        """Join each to one that waits, or queue it: behind them all, or before them."""
        elv = self.queue.elv_merge
        self.queue.host.lock(self.lock, STEP_LOCK_SCHED)
        while rqs.count:
            rq = rqs.popleft()
            emptied = [] if at_head else elv.insert_merge(rq)
            for empty in emptied:
                self.queue.free_request(empty)
            if not emptied:
                self.queue.trace_insert(rq)
                (self.fifo.push if at_head else self.fifo.append)(rq)
                elv.add(rq)
        self.queue.host.unlock(self.lock)

    def dispatch_request(self, hctx):
        """The one that has waited longest. Once it is given out nothing merges with it any more."""
        self.queue.host.lock(self.lock, STEP_LOCK_SCHED)
        rq = self.fifo.popleft()
        if rq is not None:
            self.queue.elv_merge.remove(rq)
        self.queue.host.unlock(self.lock)
        return rq

    def has_work(self, hctx):
        """Whether anything waits."""
        return self.fifo.count > 0
