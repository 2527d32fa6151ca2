"""Virtual time: the event queue and its lanes.

What: `EventQueue` is the `Clock` of a simulation. `run` takes the earliest event, sets the time to its time,
fires it, and so on. There is no limit to how many events wait.

Theory of operation
-------------------
A binary heap orders (time, sequence) pairs; the pairs and a slot
number lie in plain integer arrays, the events themselves stay put in `events[slot]`, so that sifting moves
integers and touches no reference count. `sequence` counts the calls of `at` and `push`, so events of one time
fire in the order in which they were asked for.

An event that fires leaves its place at the root open. Most ask for another one while they fire, which takes
that place and sinks; else the last entry does. So an event that comes back soon, as a CPU's does, costs next
to nothing.

A lane keeps its events in a ring; only its head is in the heap, with the time and the sequence it was pushed
with.
"""

from __future__ import annotations

from array import array

import cython

from blklab.core.clock import Clock, Event, Lane

if not cython.compiled:
    from blklab.core.bits import NEVER_NS

START_ROOM = 256


class EventQueue(Clock):
    """Pending events. `head_ns` is the time of the earliest, NEVER_NS if there is none."""

    def __init__(self) -> None:
        Clock.__init__(self)
        self.sequence = 0
        self.size = 0
        self.room = START_ROOM
        self.head_ns = NEVER_NS
        self.hole = False
        self.base_ns = 0
        self.fired = 0
        self.stopped = False
        self.times = array("q", [0] * START_ROOM)
        self.sequences = array("q", [0] * START_ROOM)
        self.slots = array("q", range(START_ROOM))
        self.events: list[Event | None] = [None] * START_ROOM

    def at(self, time_ns: int, event: Event) -> int:
        """Fire `event` at `time_ns`, or now if that has passed."""
        self.sequence += 1
        return self.insert(time_ns, self.sequence, event)

    def lane(self) -> Lane:
        """A new lane."""
        return VirtualLane(self)

    def insert(self, time_ns: int, sequence: int, event: Event) -> int:
        """Put an event into the heap with a sequence number it already has."""
        if self.hole:
            self.hole = False
            self.events[self.slots[0]] = event
            return self._sink(time_ns, sequence, self.slots[0])
        if self.size == self.room:
            self._grow()
        times = self.times
        sequences = self.sequences
        slots = self.slots
        i = self.size
        self.size += 1
        slot = slots[i]  # slots[size:] are the free ones
        self.events[slot] = event
        while i > 0:
            parent = (i - 1) >> 1
            before = times[parent]
            if before < time_ns or (before == time_ns and sequences[parent] < sequence):
                break
            times[i] = before
            sequences[i] = sequences[parent]
            slots[i] = slots[parent]
            i = parent
        times[i] = time_ns
        sequences[i] = sequence
        slots[i] = slot
        self.head_ns = times[0]
        return 0

    def _sink(self, time_ns: int, sequence: int, slot: int) -> int:
        # Put an entry at the root and let it sink to its place
        times = self.times
        sequences = self.sequences
        slots = self.slots
        n = self.size
        i = 0
        child = 1
        while child < n:
            right = child + 1
            if right < n and (
                times[right] < times[child]
                or (times[right] == times[child] and sequences[right] < sequences[child])
            ):
                child = right
            if time_ns < times[child] or (time_ns == times[child] and sequence < sequences[child]):
                break
            times[i] = times[child]
            sequences[i] = sequences[child]
            slots[i] = slots[child]
            i = child
            child = 2 * i + 1
        times[i] = time_ns
        sequences[i] = sequence
        slots[i] = slot
        self.head_ns = times[0]
        return 0

    def _grow(self) -> int:
        more = self.room
        times = array("q", [0] * (2 * more))
        sequences = array("q", [0] * (2 * more))
        slots = array("q", range(2 * more))
        for i in range(more):
            times[i] = self.times[i]
            sequences[i] = self.sequences[i]
            slots[i] = self.slots[i]
        self.times = times
        self.sequences = sequences
        self.slots = slots
        self.events.extend([None] * more)
        self.room = 2 * more
        return 0

    def _take(self) -> Event:
        # The earliest event; its place at the root stays open for the first event that it asks for
        event: Event = self.events[self.slots[0]]  # type: ignore[assignment]
        self.events[self.slots[0]] = None
        self.hole = True
        times = self.times
        if self.size > 2:
            self.head_ns = times[1] if times[1] < times[2] else times[2]
        elif self.size == 2:
            self.head_ns = times[1]
        else:
            self.head_ns = NEVER_NS
        return event

    def _close(self) -> int:
        # Nobody took the place: the last entry of the heap does
        self.hole = False
        slots = self.slots
        free = slots[0]
        self.size -= 1
        n = self.size
        if n == 0:
            self.head_ns = NEVER_NS
            return 0
        time_ns = self.times[n]
        sequence = self.sequences[n]
        last = slots[n]
        slots[n] = free
        return self._sink(time_ns, sequence, last)

    def stop(self) -> None:
        """Let `run` return after the present event."""
        self.stopped = True

    def run(self, until_ns: int, most: int) -> int:
        """Fire events up to and including `until_ns`, at most `most` of them, or until `stop`. Returns how
        many."""
        done = 0
        self.stopped = False
        while done < most and self.size and not self.stopped:
            time_ns = self.head_ns
            if time_ns > until_ns:
                break
            event = self._take()
            # An event asked for a time that had passed fires now
            if time_ns > self.base_ns:
                self.base_ns = time_ns
            self.now_ns = self.base_ns
            event.fire(self.now_ns)
            if self.hole:
                self._close()
            done += 1
        self.fired += done
        return done


class VirtualLane(Lane):
    """Events with times that do not decrease, in a ring that doubles when it is full."""

    def __init__(self, clock: EventQueue) -> None:
        self.clock = clock
        self.room = 16
        self.first = 0
        self.count = 0
        self.last_ns = 0
        self.times = array("q", [0] * self.room)
        self.sequences = array("q", [0] * self.room)
        self.events: list[Event | None] = [None] * self.room

    def push(self, time_ns: int, event: Event) -> int:
        """Fire `event` at `time_ns`. ValueError if that is earlier than the last one pushed."""
        if time_ns < self.last_ns:
            raise ValueError(f"lane: {time_ns} ns after {self.last_ns} ns")
        self.last_ns = time_ns
        clock = self.clock
        clock.sequence += 1
        if self.count == self.room:
            self._grow()
        i = (self.first + self.count) & (self.room - 1)
        self.times[i] = time_ns
        self.sequences[i] = clock.sequence
        self.events[i] = event
        self.count += 1
        if self.count == 1:
            clock.insert(time_ns, clock.sequence, self)
        return 0

    def _grow(self) -> int:
        room = self.room
        times = array("q", [0] * (2 * room))
        sequences = array("q", [0] * (2 * room))
        events: list[Event | None] = [None] * (2 * room)
        for k in range(room):
            i = (self.first + k) & (room - 1)
            times[k] = self.times[i]
            sequences[k] = self.sequences[i]
            events[k] = self.events[i]
        self.times = times
        self.sequences = sequences
        self.events = events
        self.first = 0
        self.room = 2 * room
        return 0

    def fire(self, now_ns: int) -> int:
        """The head is due; the next one takes its place in the heap."""
        i = self.first
        event: Event = self.events[i]  # type: ignore[assignment]
        self.events[i] = None
        self.first = (i + 1) & (self.room - 1)
        self.count -= 1
        if self.count:
            i = self.first
            self.clock.insert(self.times[i], self.sequences[i], self)
        event.fire(now_ns)
        return 0
