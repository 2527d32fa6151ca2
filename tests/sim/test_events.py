"""The event queue fires in order of (time, sequence of the call), lanes or not, whatever an event asks for
while it fires."""

from __future__ import annotations

import heapq

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blklab.core.clock import Event
from blklab.sim.events import EventQueue

FOREVER = (1 << 63) - 1


class Note(Event):
    """Writes down when it fired, and asks for `then` (delay, lane or None) events of its own."""

    def __init__(self, world: World, number: int, then: list[tuple[int, int | None]]) -> None:
        self.world = world
        self.number = number
        self.then = then

    def fire(self, now_ns: int) -> int:
        self.world.fired.append((now_ns, self.number))
        for delay, lane in self.then:
            self.world.ask(now_ns + delay, lane, [])
        return 0


class World:
    """A queue, three lanes, and a model of what should happen."""

    def __init__(self) -> None:
        self.queue = EventQueue()
        self.lanes = [self.queue.lane() for _ in range(3)]
        self.last = [0, 0, 0]
        self.fired: list[tuple[int, int]] = []
        self.asked = 0
        self.model: list[tuple[int, int]] = []

    def ask(self, time_ns: int, lane: int | None, then: list[tuple[int, int | None]]) -> None:
        number = self.asked
        self.asked += 1
        event = Note(self, number, then)
        if lane is None:
            self.queue.at(time_ns, event)
        else:
            time_ns = max(time_ns, self.last[lane])
            self.last[lane] = time_ns
            self.lanes[lane].push(time_ns, event)
        heapq.heappush(self.model, (time_ns, number))


WHERE = st.one_of(st.none(), st.integers(0, 2))
ASKED = st.tuples(st.integers(0, 30), WHERE)


@given(st.lists(st.tuples(st.integers(0, 100), WHERE, st.lists(ASKED, max_size=3)), max_size=400))
def test_events_fire_in_order_of_time_and_then_of_asking(
    wanted: list[tuple[int, int | None, list[tuple[int, int | None]]]],
) -> None:
    world = World()
    for time_ns, lane, then in wanted:
        world.ask(time_ns, lane, then)
    while world.queue.run(FOREVER, 7):
        pass
    assert len(world.fired) == world.asked
    assert world.fired == sorted(world.fired)
    assert sorted(world.model) == world.fired
    assert world.queue.head_ns == FOREVER and world.queue.size == 0


def test_the_head_is_right_while_an_event_fires() -> None:
    queue = EventQueue()
    seen = []

    class Look(Event):
        def fire(self, now_ns: int) -> int:
            seen.append(queue.head_ns)
            return 0

    for time_ns in (5, 9, 7, 30):
        queue.at(time_ns, Look())
    queue.run(FOREVER, 100)
    assert seen == [7, 9, 30, FOREVER]


def test_time_does_not_go_back_and_run_stops_where_it_is_told() -> None:
    world = World()
    world.ask(50, None, [(-40, None)])
    world.ask(60, None, [])
    assert world.queue.run(55, 100) == 2
    assert [at for at, _ in world.fired] == [50, 50]
    assert world.queue.run(FOREVER, 100) == 1


def test_a_lane_refuses_to_go_back() -> None:
    queue = EventQueue()
    lane = queue.lane()
    lane.push(10, Event())
    with pytest.raises(ValueError, match="lane: 9 ns after 10 ns"):
        lane.push(9, Event())
