"""The timer by which a scheduler ends idling: armed and called off with each request of a queue that it waits for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from blklab.core.clock import Event

if TYPE_CHECKING:
    from blklab.block.queue import RequestQueue


class IdleSliceTimer(Event):
    """Calls `expired` at `due_ns`, in interrupt context. A clock cannot be told that a time is no longer of
    interest: the timer asks for one time, and looks then whether it is due, so that arming it often costs
    nothing."""

    def __init__(self, queue: RequestQueue) -> None:
        self.queue = queue
        self.cpu = 0  # that armed it: it fires there
        self.due_ns = -1  # -1: not armed
        self.asked_ns = -1  # the time for which the clock was asked; -1: none

    def expired(self) -> int:
        """It is due."""
        raise NotImplementedError

    def pending(self) -> bool:
        """Whether it is armed."""
        return self.due_ns >= 0

    def arm(self, due_ns: int) -> int:
        """Expire then, and not before."""
        self.cpu = self.queue.host.cpu
        self.due_ns = due_ns
        if self.asked_ns < 0 or self.asked_ns > due_ns:
            self.asked_ns = due_ns
            self.queue.clock.at(due_ns, self)
        return 0

    def cancel(self) -> int:
        """Do not expire."""
        self.due_ns = -1
        return 0

    def fire(self, now_ns: int) -> int:
        """The time asked for; and once more, on a CPU, if it is due."""
        host = self.queue.host
        if host.in_section:
            if self.due_ns < 0 or now_ns < self.due_ns:
                return 0
            self.due_ns = -1
            return self.expired()
        self.asked_ns = -1
        if self.due_ns < 0:
            return 0
        if now_ns < self.due_ns:
            self.asked_ns = self.due_ns
            return self.queue.clock.at(self.due_ns, self)
        return host.interrupt(self.cpu, self, False)
