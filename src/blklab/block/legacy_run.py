"""What goes from a single queue to the driver, and comes back: request_fn, requeueing, completion.

What: `RequestFn` takes requests off the dispatch list one by one, as drivers' request functions did
(scsi_request_fn, null_request_fn), and gives them to `Driver.queue_rq`. Why here and not in the drivers: they
differ in nothing that the model shows, and so a device model serves both ways.

Theory of operation
-------------------
`run_one` is one turn of a driver's loop, with the queue lock held until the driver has the command:

    peek     the head of the dispatch list, which the scheduler fills when it is empty. D is traced when the driver
             sees a request for the first time, even if it has no room for it: it stays at the head then
    budget   the device's queue depth (NCQ). None: the run ends, and the next completion goes on
    tag      the command's number. None: the same
    start    it leaves the list and is with the driver
    BUSY     target or host have no room: it is given back (R, I), to the head of the list. If nothing is with the
             driver that could end and go on, the queue is run again after 3 ms

A run is driven by a task or a worker (dispatch.HctxRun), one request a step, or by a completion: SCSI's, in
softirq, runs its queue whenever a request has ended; other drivers' only if a run ended for want of room.

Deliberate differences: when the queue goes on after it was short of commands is the same for all drivers; the
lists of a host's starved disks are the driver's (device/scsi.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import cython

if TYPE_CHECKING:
    from blklab.block.legacy import LegacyPath
    from blklab.block.request import Request

if not cython.compiled:
    from blklab.block.consts import (
        HOOK_COMPLETED,
        RESOURCE_DELAY_NS,
        RQ_DISPATCH,
        RQF_DELIVERED,
        RQF_SOFTBARRIER,
        RQF_SORTED,
        STS_DEV_RESOURCE,
        STS_OK,
        STS_RESOURCE,
        TR_D,
        TR_I,
        TR_R,
    )
    from blklab.core.charging import charge
    from blklab.core.steps import (
        STEP_DISPATCH_ONE,
        STEP_QUEUE_RQ,
        STEP_REQUEUE,
        STEP_RUN_QUEUE,
        STEP_SCHED_DISPATCH,
        STEP_TAG_GET,
        STEP_TAG_PUT,
    )


class RequestFn:
    """The driver's side of one single queue."""

    def __init__(self, path: LegacyPath) -> None:
        self.path = path
        self.queue = path.queue
        self.hctx = path.hctx
        self.dispatch_list = path.dispatch_list
        self.short = False  # a run ended for want of room at the driver
        self.completing = False

    def start_run(self) -> int:
        """A run begins: __blk_run_queue opens the queue's plug."""
        if self.path.plugs_queue:
            self.path.queue_plug.remove()
        return 0

    def run_one(self) -> bool:
        """The next request to the driver: whether there may be more to do."""
        path = self.path
        queue = self.queue
        host = queue.host
        if queue.halted or path.queue_plug.plugged:
            return False
        path.take()
        rq = self._peek()
        if rq is None:
            path.give()
            return False
        token = queue.get_budget()
        if token < 0:
            self.short = True
            path.give()
            return False
        tag = self.hctx.tags.bitmap.get(host.cpu)
        if tag < 0:
            queue.put_budget(token)
            self._wait_for_tag()
            path.give()
            return False
        charge(host, STEP_TAG_GET)
        charge(host, STEP_DISPATCH_ONE)
        tag += self.hctx.tags.nr_reserved
        rq.tag = tag
        self.hctx.driver_rqs[tag] = rq
        rq.budget_token = token
        self.dispatch_list.remove(rq)
        path.in_driver += 1
        path.give()
        charge(host, STEP_QUEUE_RQ)
        status = queue.driver.queue_rq(self.hctx, rq, True)
        if status == STS_OK:
            self.hctx.dispatched_count += 1
            return True
        if status == STS_RESOURCE or status == STS_DEV_RESOURCE:
            self.requeue(rq)
            self.short = True
            if path.in_driver == 0:
                self._delay()
            return False
        queue.fail_request(rq, status)
        return True

    def _peek(self) -> Request | None:
        # blk_peek_request
        path = self.path
        queue = self.queue
        rq = self.dispatch_list.head
        if rq is None:
            if path.nr_sorted == 0 or queue.elevator is None:
                return None
            charge(queue.host, STEP_SCHED_DISPATCH)
            if queue.elevator.dispatch_requests(False) == 0:
                return None
            rq = self.dispatch_list.head
        if not rq.rq_flags & RQF_DELIVERED:
            if rq.rq_flags & RQF_SORTED:
                queue.elevator.activate_request(rq)
            rq.rq_flags |= RQF_DELIVERED
            if queue.trace_mask & TR_D:
                queue.tracer.add(TR_D, queue.number, rq.op, rq.flags, rq.sector, rq.nr_sectors, 0)
        if path.boundary_rq is None or path.boundary_rq is rq:
            path.end_sector = rq.sector + rq.nr_sectors
            path.boundary_rq = None
        return rq

    def _wait_for_tag(self) -> int:
        # Others have them, or the requests of this queue whose ends go on with it
        hctx = self.hctx
        self.short = True
        if hctx.tag_queue_shared and hctx.dispatch_wait.wait_queue is None:
            hctx.tags.bitmap.wait(hctx.dispatch_wait, hctx.next_wait_index())
        return 0

    def _delay(self) -> int:
        # SCSI_QUEUE_DELAY: the queue's own plug before 2.6.39, blk_delay_queue since
        if self.path.plugs_queue:
            return self.path.queue_plug.plug()
        return self.queue.run_delayed(self.hctx, RESOURCE_DELAY_NS)

    def requeue(self, rq: Request) -> int:
        """blk_requeue_request: the driver gives it back. R, and I at the head of the dispatch list."""
        path = self.path
        queue = self.queue
        path.take()
        charge(queue.host, STEP_REQUEUE)
        if queue.trace_mask & TR_R:
            queue.tracer.add(TR_R, queue.number, rq.op, rq.flags, rq.sector, rq.nr_sectors, 0)
        queue.put_rq_budget(rq)
        self._put_tag(rq)
        path.in_driver -= 1
        if rq.rq_flags & RQF_SORTED:
            queue.elevator.deactivate_request(rq)
        rq.rq_flags &= ~RQF_DELIVERED
        rq.rq_flags |= RQF_SOFTBARRIER
        if queue.trace_mask & TR_I:
            queue.tracer.add(TR_I, queue.number, rq.op, rq.flags, rq.sector, rq.nr_sectors, 0)
        rq.move(RQ_DISPATCH)
        self.dispatch_list.push(rq)
        path.give()
        return 0

    def left_driver(self, rq: Request) -> int:
        """elv_completed_request, with the lock held: the scheduler is told, its command is free."""
        if rq.rq_flags & RQF_DELIVERED:
            rq.rq_flags &= ~RQF_DELIVERED
            self.path.in_driver -= 1
            queue = self.queue
            if rq.rq_flags & RQF_SORTED and queue.elevator_hooks & HOOK_COMPLETED:
                queue.elevator.completed_request(rq, queue.clock.now_ns)
            self._put_tag(rq)
        return 0

    def _put_tag(self, rq: Request) -> int:
        if rq.tag >= 0:
            self.hctx.tags.put(rq.tag, rq.ctx.cpu)
            charge(self.queue.host, STEP_TAG_PUT)
            rq.tag = -1
        return 0

    def end(self, rq: Request) -> int:
        """In interrupt or softirq: the driver ends it (Driver.end), and the queue is run."""
        self.completing = True
        self.queue.driver.end(rq)
        self.completing = False
        return self.run_after_end()

    def run_after_end(self) -> int:
        """Something has ended at the driver: go on with what waits, in this context."""
        path = self.path
        queue = self.queue
        if not (queue.driver.has_budget or self.short or path.run_wanted):
            return 0
        self.short = False
        path.run_wanted = False
        if queue.halted or path.is_empty():
            return 0
        charge(queue.host, STEP_RUN_QUEUE)
        self.start_run()
        while self.run_one():
            pass
        return 0
