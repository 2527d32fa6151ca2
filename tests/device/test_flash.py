"""The units of an SSD against a plain event-by-event model of them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blklab.core.rand import RandomStream
from blklab.device.flash import PUT_OFF_PAGES, Flash
from blklab.device.ssd import PARAMETERS

PAGE = 32 << 10


def flash(**given_settings: Any) -> Flash:
    settings = {parameter.name: parameter.default for parameter in PARAMETERS}
    settings |= {"units": 2, "read_ns": 50, "program_ns": 500, "buffer": 2 * 3 * PAGE, "idle_ns": 1000}
    settings |= given_settings
    return Flash(settings, RandomStream(1))


def test_reads_of_one_unit_queue_and_of_others_do_not() -> None:
    units = flash()
    assert units.read(0, 100) == 150
    assert units.read(0, 110) == 200
    assert units.read(1, 110) == 160
    assert units.read(0, 300) == 350


def test_a_read_waits_for_a_program_that_has_begun_but_not_for_those_behind_it() -> None:
    units = flash()
    for _ in range(3):
        assert units.program(0, 100, 0) == 100
    # The first began at 100; the read comes at 150 and goes before the second
    assert units.read(0, 150) == 100 + 500 + 50
    assert units.read(0, 160) == 700
    # The second has begun at 700
    assert units.read(0, 701) == 1250


def test_a_full_share_of_the_buffer_makes_the_writer_wait_for_a_program_to_end() -> None:
    units = flash()
    # Three wait in the buffer; the first of them begins at once and leaves room when it has ended
    assert [units.program(0, 0, 0) for _ in range(3)] == [0, 0, 0]
    assert units.program(0, 0, 0) == 500
    assert units.program(0, 0, 0) == 1000
    assert units.flush(0) == 2500


def test_the_cache_is_fast_until_it_is_full_and_is_emptied_in_idle_time() -> None:
    units = flash(cache=2 * 2 * PAGE, cache_program_ns=100)
    for _ in range(3):
        units.program(0, 0, 0)
    assert units.flush(0) == 100 + 100 + 500
    assert units.cached[0] == 2
    # Idle from 700 on: after 1000 the first page moves, for a read and a program, and the second follows
    units.read(0, 1700)
    assert units.cached[0] == 2
    units.read(0, 1750 + 1001)
    assert units.cached[0] == 1
    # The move that began at 2750 holds the unit until 3300
    assert units.free_ns[0] == 3300 + 50
    units.read(0, 100_000)
    assert units.cached[0] == 0


def test_random_writes_cost_as_many_programs_as_they_amplify() -> None:
    units = flash(gc_amplification=3.5, gc_ns=500, buffer=2 * 1000 * PAGE)
    for _ in range(100):
        units.program(0, 0, PAGE)
    # The last moves are put off
    assert units.flush(0) == pytest.approx(100 * 3.5 * 500 - PUT_OFF_PAGES * 500, abs=500)
    assert PUT_OFF_PAGES - 1 <= units.owed[0] / 256 <= PUT_OFF_PAGES
    units.read(0, 10_000_000)
    assert units.owed[0] < 256
    assert units.programs == 100
    assert units.moves == 250


def test_sequential_writes_owe_nothing() -> None:
    units = flash(gc_amplification=3.5, buffer=2 * 1000 * PAGE)
    for _ in range(100):
        units.program(0, 0, 0)
    assert units.flush(0) == 100 * 500
    assert units.moves == 0


def test_a_preconditioned_flash_is_slow_from_the_first_program() -> None:
    units = flash(
        gc_amplification=2.0, gc_ns=500, cache=2 * 10 * PAGE, cache_program_ns=100, preconditioned=True
    )
    units.program(0, 0, PAGE)
    assert units.flush(0) == 1000


def test_what_a_flash_that_never_wrote_owes_does_not_disturb_reads() -> None:
    units = flash(gc_amplification=2.0, cache=2 * 10 * PAGE, preconditioned=True)
    assert units.read(0, 1_000_000) == 1_000_050


class Slow:
    """One unit by the letter: looks at every nanosecond-ordered event; reads first, then programs, then page
    moves."""

    def __init__(self, cache_pages: int, idle_ns: int) -> None:
        self.now = 0
        self.free = 0
        self.programs: list[int] = []  # when each was added
        self.cached = 0
        self.cache_pages = cache_pages
        self.idle_ns = idle_ns
        self.moving = False

    def advance(self, until: int) -> None:
        """Begin what begins before `until` when no read comes."""
        while True:
            if self.programs:
                begin = max(self.free, self.programs[0])
                if begin >= until:
                    return
                self.programs.pop(0)
                fast = self.cached < self.cache_pages
                self.cached += fast
                self.free = begin + (100 if fast else 500)
                self.moving = False
            elif self.cached:
                begin = self.free + (0 if self.moving else self.idle_ns)
                if begin >= until:
                    return
                self.cached -= 1
                self.free = begin + 550
                self.moving = True
            else:
                return

    def read(self, at: int) -> int:
        self.advance(at)
        self.free = max(self.free, at) + 50
        self.moving = False
        return self.free

    def program(self, at: int) -> None:
        self.advance(at)
        self.programs.append(at)


@given(
    steps=st.lists(st.tuples(st.integers(0, 2500), st.booleans()), min_size=1, max_size=60),
    cache_pages=st.integers(0, 4),
)
def test_a_unit_does_what_an_event_by_event_model_does(
    steps: list[tuple[int, bool]], cache_pages: int
) -> None:
    units = flash(buffer=2 * 1000 * PAGE, cache=2 * cache_pages * PAGE, cache_program_ns=100)
    slow = Slow(cache_pages, 1000)
    now = 0
    written = False
    for gap, is_read in steps:
        now += gap
        if is_read:
            # Before the first write nobody looks for programs; nothing is owed then either
            assert units.read(0, now) == slow.read(now)
        else:
            written = True
            assert units.program(0, now, 0) == now
            slow.program(now)
    if written:
        slow.advance(now + 10_000_000)
        units.read(0, now + 10_000_000)
        assert units.cached[0] == slow.cached == 0
