"""Runs of sectors that were written and are not on the media yet: what a write cache is to the arm.

Theory of operation
-------------------
Runs are disjoint, sorted, and one where they touch: what is written
again is written once, and neighbours go in one transfer. `take` hands out the front of a run; `first_from`
finds where a sweep over the disk goes on.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right


class Extents:
    """The runs `starts`..`ends`, `sectors` in all, `count` of them."""

    def __init__(self) -> None:
        self.starts: list[int] = []
        self.ends: list[int] = []
        self.sectors = 0
        self.count = 0
        self.taken_start = 0
        self.taken_end = 0

    def add(self, start: int, end: int) -> int:
        """These sectors are written. Returns how many of them were not waiting already."""
        first = bisect_left(self.ends, start)
        last = first
        before = 0
        low = start
        high = end
        while last < self.count and self.starts[last] <= end:
            low = min(low, self.starts[last])
            high = max(high, self.ends[last])
            before += self.ends[last] - self.starts[last]
            last += 1
        self.starts[first:last] = [low]
        self.ends[first:last] = [high]
        self.count = len(self.starts)
        self.sectors += high - low - before
        return high - low - before

    def remove(self, start: int, end: int) -> int:
        """These sectors need not be written any more. Returns how many of them were waiting."""
        first = bisect_right(self.ends, start)
        last = first
        before = 0
        left = 0
        kept_starts: list[int] = []
        kept_ends: list[int] = []
        while last < self.count and self.starts[last] < end:
            before += self.ends[last] - self.starts[last]
            if self.starts[last] < start:
                kept_starts.append(self.starts[last])
                kept_ends.append(start)
                left += start - self.starts[last]
            if self.ends[last] > end:
                kept_starts.append(end)
                kept_ends.append(self.ends[last])
                left += self.ends[last] - end
            last += 1
        if last > first:
            self.starts[first:last] = kept_starts
            self.ends[first:last] = kept_ends
            self.count = len(self.starts)
            self.sectors -= before - left
        return before - left

    def covers(self, start: int, end: int) -> bool:
        """Whether all of these sectors wait."""
        i = bisect_right(self.starts, start) - 1
        return i >= 0 and self.ends[i] >= end

    def overlaps(self, start: int, end: int) -> bool:
        """Whether any of these sectors wait."""
        i = bisect_right(self.ends, start)
        return i < self.count and self.starts[i] < end

    def first_from(self, sector: int) -> int:
        """The index of the first run that ends behind `sector`, or of the first at all."""
        i = bisect_right(self.ends, sector)
        return i if i < self.count else 0

    def start_of(self, i: int) -> int:
        """Where run `i` begins."""
        return self.starts[i]

    def take(self, i: int, most: int) -> int:
        """Takes at most `most` sectors off the front of run `i`: `taken_start`..`taken_end`. Returns how
        many."""
        start = self.starts[i]
        end = min(self.ends[i], start + most)
        if end == self.ends[i]:
            del self.starts[i]
            del self.ends[i]
            self.count -= 1
        else:
            self.starts[i] = end
        self.sectors -= end - start
        self.taken_start = start
        self.taken_end = end
        return end - start
