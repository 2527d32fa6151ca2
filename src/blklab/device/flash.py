"""The flash of an SSD: units that read, program and clean up, each one thing at a time.

Theory of operation
-------------------
A unit serves reads in the order in which they come. Programs (`program`) wait in the unit's share of the
write buffer and give way to reads, but are not interrupted by them; clean-up gives way to both. Neither is an
event: `_catch_up` makes what must have begun by now begin, whenever somebody looks at the unit. So a read
costs one look-up and one draw, and a device that only reads never does any of that.

The first `cache` bytes are programmed fast (SLC mode). Each page there owes one page move (to where it
stays), and random data owe `gc_amplification` - 1 moves a page more, because the blocks they go to must be
emptied first. A unit that has been idle for `idle_ns` works this off, move by move. A page that finds the
cache full is programmed slowly, and what random data owe is worked off before the next program, except for
the last PUT_OFF_PAGES moves: so a full drive writes at its sustained speed, and is busy for a while
afterwards.

Deliberate differences: there is always free space; erasing is part of `gc_ns`; reads of what is still in the
buffer go to a unit all the same.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any

import cython

from blklab.device.sampler import Sampler
from blklab.device.service import make_table

if TYPE_CHECKING:
    from blklab.core.rand import RandomStream

if not cython.compiled:
    from blklab.core.bits import ALL_ONES_64, STAR_64

MOVE = 256  # what is owed is counted in 1/256 of a page move
PUT_OFF_PAGES = 4


class Flash:
    """`units` units with the settings of an SSD. `free_ns[i]`: when unit i will have done all that it has begun."""

    def __init__(self, settings: dict[str, Any], stream: RandomStream) -> None:
        self.units = settings["units"]
        units = self.units
        self.free_ns = array("q", [0] * units)
        self.stream = stream
        self.dirty = False
        read_table = make_table(
            settings["read_shape"],
            settings["read_ns"],
            settings["read_cv"],
            settings["read_sense_ns"],
            settings["read_jitter_ns"],
        )
        self.read_times = Sampler(stream, read_table)
        self.retry_below = (settings["read_retry_ppm"] << 32) // 1_000_000
        self.retry_times = Sampler(stream, make_table("exponential", settings["read_retry_ns"], 0, 0, 0))
        shape = settings["program_shape"]
        self.program_times = Sampler(stream, make_table(shape, settings["program_ns"], 0, 0, 0))
        self.cache_times = Sampler(stream, make_table(shape, settings["cache_program_ns"], 0, 0, 0))
        self.page_bytes = settings["program_bytes"]
        # Pages of the buffer, and of the cache, that belong to each unit
        self.most_backlog = max(1, settings["buffer"] // (units * self.page_bytes))
        self.cache_pages = settings["cache"] // (units * self.page_bytes)
        self.random_owes = round((settings["gc_amplification"] - 1) * MOVE)
        self.gc_ns = settings["gc_ns"] or settings["read_ns"] + settings["program_ns"]
        self.idle_ns = settings["idle_ns"]
        self.ready_ns = array("q", [0] * units)
        self.backlog = array("q", [0] * units)
        self.backlog_owes = array("q", [0] * units)
        self.owed = array("q", [0] * units)
        self.cached = array("q", [0] * units)
        self.cached_owes = array("q", [0] * units)
        self.page_left = array("q", [0] * units)
        self.programs = 0
        self.programmed_ns = 0  # when the last program that has begun ends
        self.moves = 0
        if settings["preconditioned"]:
            for i in range(units):
                self.cached[i] = self.cache_pages
                self.cached_owes[i] = self.cache_pages * (MOVE + self.random_owes)
                if self.random_owes:
                    self.owed[i] = PUT_OFF_PAGES * MOVE

    def unit_of(self, page: int) -> int:
        """The unit that holds a page of the address space: neighbours spread evenly, random addresses at random."""
        unit: int = ((((page * STAR_64) & ALL_ONES_64) >> 32) * self.units) >> 32
        return unit

    def read(self, i: int, begin_ns: int) -> int:
        """A read of one page that reaches unit i at `begin_ns`; returns when it has been done."""
        if self.dirty:
            self._catch_up(i, begin_ns)
        free = self.free_ns[i]
        if free > begin_ns:
            begin_ns = free
        begin_ns += self.read_times.draw()
        if self.retry_below and (self.stream.next64() >> 32) < self.retry_below:
            begin_ns += self.retry_times.draw()
        self.free_ns[i] = begin_ns
        return begin_ns

    def program(self, i: int, begin_ns: int, random_bytes: int) -> int:
        """A page, `random_bytes` of it random writes, is to go from the buffer to unit i; returns when the unit's
        share of the buffer had room for it."""
        self.dirty = True
        self._catch_up(i, begin_ns)
        while self.backlog[i] >= self.most_backlog:
            self._begin_program(i)
            if self.free_ns[i] > begin_ns:
                begin_ns = self.free_ns[i]
        if self.backlog[i] == 0:
            self.ready_ns[i] = begin_ns
        self.backlog[i] += 1
        self.backlog_owes[i] += self.random_owes * random_bytes // self.page_bytes
        return begin_ns

    def flush(self, i: int) -> int:
        """Program all that waits for unit i; returns when that has been done."""
        while self.backlog[i]:
            self._begin_program(i)
        return self.free_ns[i]

    def flush_all(self) -> int:
        """Program all that waits for any unit; returns when that, and what was begun before, has been done."""
        for i in range(self.units):
            while self.backlog[i]:
                self._begin_program(i)
        return self.programmed_ns

    def _begin_program(self, i: int) -> int:
        # The next program of unit i begins as soon as the unit is free
        begin = self.free_ns[i]
        if self.ready_ns[i] > begin:
            begin = self.ready_ns[i]
        owes = self.backlog_owes[i] // self.backlog[i]
        self.backlog_owes[i] -= owes
        self.backlog[i] -= 1
        self.programs += 1
        if self.cached[i] < self.cache_pages:
            self.cached[i] += 1
            self.cached_owes[i] += MOVE + owes
            begin += self.cache_times.draw()
            self.free_ns[i] = begin
            if begin > self.programmed_ns:
                self.programmed_ns = begin
            return 0
        begin += self.program_times.draw()
        self.owed[i] += owes
        while self.owed[i] > PUT_OFF_PAGES * MOVE:
            self.owed[i] -= MOVE
            self.moves += 1
            begin += self.gc_ns
        self.free_ns[i] = begin
        if begin > self.programmed_ns:
            self.programmed_ns = begin
        return 0

    def _catch_up(self, i: int, now_ns: int) -> int:
        # What unit i has begun of its own accord before now
        while self.backlog[i]:
            if self.free_ns[i] >= now_ns or self.ready_ns[i] >= now_ns:
                return 0
            self._begin_program(i)
        begin = self.free_ns[i] + self.idle_ns
        while begin < now_ns and self._move(i):
            self.moves += 1
            begin += self.gc_ns
            self.free_ns[i] = begin
        return 0

    def _move(self, i: int) -> bool:
        # One page move of the clean-up, if one is owed: for what was programmed slowly first, then of the cache
        if self.owed[i] >= MOVE:
            self.owed[i] -= MOVE
            return True
        if self.cached[i] == 0:
            return False
        if self.page_left[i] < MOVE:
            share = self.cached_owes[i] // self.cached[i]
            self.cached_owes[i] -= share
            self.page_left[i] += share
        self.page_left[i] -= MOVE
        if self.page_left[i] < MOVE:
            self.cached[i] -= 1
        return True
