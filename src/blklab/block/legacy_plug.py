"""The plug of a queue before 2.6.39: an empty queue holds its first requests back for a moment, for all
tasks.

What: `QueuePlug`. Why: the same as that of the later plug of a task (plug.py): neighbours may come and merge.
It was a property of the device, so one task's plug held back those of all others, and every use of it took
the queue lock.

Theory of operation
-------------------
The first request of an empty queue plugs it (P) and starts a timer of 3 ms. It is opened, and the queue run,

    when 4 requests wait (unplug_thresh)                         nothing is traced
    by the task that waits for its I/O, or has submitted a batch (blk_run_address_space)      U
    by a task that must sleep for a request                      nothing
    by the timer (UT), which has kblockd do it                   UT, U
    when the queue is run for another reason, as a completion    nothing

U and UT show how many requests are allocated. The waiting task opens the queue whether it is plugged or not,
so U is traced for each wait.

Deliberate differences: a disk that does not turn and whose driver uses the block layer's tags was never
plugged; no driver here does. A bio of a task without a plug of its own, for which fio's model has no wait,
opens the queue at once, as the kernel's BIO_RW_UNPLUG did.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import cython

from blklab.block.dispatch import HctxRun
from blklab.core.clock import Event
from blklab.core.host import Work

if TYPE_CHECKING:
    from blklab.block.legacy import LegacyPath
    from blklab.block.submit import Submitter

if not cython.compiled:
    from blklab.block.consts import TR_P, TR_U, TR_UT
    from blklab.core.charging import charge
    from blklab.core.steps import STEP_RUN_QUEUE

UNPLUG_THRESHOLD = 4  # unplug_thresh
UNPLUG_DELAY_NS = 3_000_000  # unplug_delay


class QueuePlug:
    """The plug of one single queue."""

    def __init__(self, path: LegacyPath) -> None:
        self.path = path
        self.queue = path.queue
        self.plugged = False
        self.threshold = UNPLUG_THRESHOLD
        jiffy_ns = self.queue.host.jiffy_ns
        self.delay_jiffies = (UNPLUG_DELAY_NS + jiffy_ns - 1) // jiffy_ns
        self.due_ns = 0
        self.timer = UnplugTimer(self)
        self.work = UnplugWork(self)

    def plug(self) -> int:
        """blk_plug_device."""
        queue = self.queue
        if self.plugged or queue.stopped:
            return 0
        self.plugged = True
        jiffy_ns = queue.host.jiffy_ns
        self.due_ns = (queue.clock.now_ns // jiffy_ns + self.delay_jiffies) * jiffy_ns
        self.trace(TR_P)
        return self.timer.start(self.due_ns)

    def remove(self) -> bool:
        """blk_remove_plug: whether there was one."""
        if not self.plugged:
            return False
        self.plugged = False
        self.due_ns = 0
        return True

    def unplug(self) -> int:
        """__generic_unplug_device, with the lock held: open it, and the queue is to be run; a disk that turns
        only if it was plugged."""
        if self.queue.halted:
            return 0
        if self.remove() or not self.queue.rotational:
            self.path.run_wanted = True
        return 0

    def trace(self, action: int) -> int:
        """P, U or UT."""
        queue = self.queue
        if queue.trace_mask & action:
            count = 0 if action == TR_P else self.path.room.total()
            queue.tracer.add(action, queue.number, 0, 0, 0, 0, count)
        return 0

    def waited_for(self, submitter: Submitter, asleep: bool) -> int:
        """blk_unplug: a task is to wait for what it has submitted. `asleep`: it does nothing more before."""
        self.trace(TR_U)
        if not self.plugged:
            return 0
        path = self.path
        path.take()
        self.unplug()
        path.give()
        if not path.run_wanted:
            return 0
        path.run_wanted = False
        if not asleep and not submitter.run.active:
            return submitter.run.start(path.hctx)
        # In one go: it runs another device's queue already, or nobody would go on with the run
        charge(self.queue.host, STEP_RUN_QUEUE)
        while path.request_fn.run_one():
            pass
        return 0


class UnplugTimer(Event):
    """The timer of a plug. It may fire for an earlier plug, and then waits on."""

    def __init__(self, plug: QueuePlug) -> None:
        self.plug = plug
        self.at_ns = -1

    def start(self, due_ns: int) -> int:
        """Fire at a time."""
        if self.at_ns >= 0:
            return 0
        self.at_ns = due_ns
        return self.plug.queue.clock.at(due_ns, self)

    def fire(self, now_ns: int) -> int:
        """blk_unplug_timeout, in interrupt context on a CPU."""
        plug = self.plug
        host = plug.queue.host
        if not host.in_section:
            if not self._is_due(now_ns):
                return 0
            return host.interrupt(0, self, False)
        if not plug.plugged:
            self.at_ns = -1
            return 0
        self.at_ns = -1
        plug.trace(TR_UT)
        return host.queue_work(plug.work, -1, 0)

    def _is_due(self, now_ns: int) -> bool:
        due_ns = self.plug.due_ns
        if due_ns and due_ns <= now_ns:
            return True
        self.at_ns = -1
        if due_ns:
            self.start(due_ns)
        return False


class UnplugWork(Work):
    """blk_unplug_work: kblockd opens the plug and runs the queue."""

    def __init__(self, plug: QueuePlug) -> None:
        Work.__init__(self)
        self.plug = plug
        self.run = HctxRun()

    def step(self) -> int:
        """One section: open it, then a step of the run."""
        if self.run.active:
            return self.run.step()
        plug = self.plug
        path = plug.path
        plug.trace(TR_U)
        if not plug.plugged:
            return 0
        path.take()
        plug.unplug()
        path.give()
        if not path.run_wanted:
            return 0
        path.run_wanted = False
        self.run.start(path.hctx)
        return self.run.step()
