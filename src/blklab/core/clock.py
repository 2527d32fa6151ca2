"""Time as the block layer sees it: a clock, events, and lanes.

The block layer, the schedulers and the devices never read a clock of their own. They are given a `Clock`: `now_ns`
is the current time, `at` asks to be called later, `lane` gives a queue of times that never decrease.

Theory of operation
-------------------
`sim.events.EventQueue` is the virtual clock: its `now_ns` jumps from event to event, and a running CPU section moves
it forward by what the section costs. A real-time driver supplies another one; nothing here knows which it stands on.

An event is an object with a `fire` method, not a callback: the hot ones (a request that completes, a CPU that has
work) are long-lived objects, so that scheduling them allocates nothing.

A lane is for service in arrival order: only its head waits in the clock's event queue. Order among all events is by
(time, sequence of the call that asked for it), lane or not, so that using a lane never changes a result.
"""

from __future__ import annotations


class Event:
    """Something that happens at a time."""

    def fire(self, now_ns: int) -> int:
        """It is `now_ns`: do it. The return value is not used."""
        raise NotImplementedError


class Lane(Event):
    """Events whose times do not decrease, of which only the first waits in the clock's queue."""

    def push(self, time_ns: int, event: Event) -> int:
        """Ask for `event.fire` at `time_ns`, which must not be earlier than the last one pushed."""
        raise NotImplementedError


class Clock:
    """The source of time, in integer nanoseconds."""

    def __init__(self) -> None:
        self.now_ns = 0

    def at(self, time_ns: int, event: Event) -> int:
        """Ask for `event.fire` at `time_ns`; a time that has passed means as soon as possible."""
        raise NotImplementedError

    def lane(self) -> Lane:
        """A new lane on this clock."""
        raise NotImplementedError
