"""The random map: which blocks of a file were used in this pass, and which is the next free one.

fio keeps an `axmap` so that a random pass covers every block once. Questions and answers here are the same as
there; only the storage differs, so that a terabyte costs little memory as long as little of it is used.

Theory of operation
    Level 0 has a bit a block; a set bit of level N says that a word of level N-1 is full. A block is tested in
    level 0 alone. The next free block is looked for in its own word, then upwards until a level has a free bit to
    the right, then down again: a few words, however full the map is.

    A map of more than `DENSE_WORDS` words starts as a hash set of used blocks (open addressing, linear probing, at
    most half full, 32 bits a slot), and becomes a bitmap once the set is a quarter of the bitmap: 1 TiB in 4 KiB
    blocks costs 8 MiB up to a million I/Os, then 32 MiB. A bitmap takes room only for the pages that are used.

Deliberate differences
    fio searches from the top level down and allocates all levels at once. Bits beyond the end behave as there: a
    range may set them within the last word, a search never returns them.
"""

from __future__ import annotations

import mmap
from array import array

import cython

if not cython.compiled:
    from blklab.core.bits import ALL_ONES_32, ALL_ONES_64, bit64, ffs64, ffz64, low_mask64, not64

DENSE_WORDS = 1 << 18  # 2 MiB of bitmap: larger maps start as hash sets
REUSE_WORDS = 1 << 13  # a bitmap of at most this many words is zeroed by a reset, a larger one allocated anew
FIRST_SLOTS = 1 << 12
LARGEST_SPARSE = (
    0xFFFFFFFE  # the greatest number of blocks whose numbers fit a slot beside the mark for "empty"
)


class Axmap:
    """A set of block numbers 0 .. nr_bits-1 with fio's order of searching for a free one."""

    def __init__(self, nr_bits: int, dense_words: int = DENSE_WORDS) -> None:
        self.nr_bits = nr_bits
        self.dense_words = dense_words
        self.nr_words = 0
        first, sizes = array("q"), array("q")
        words = nr_bits
        while not sizes or words > 1:
            words = (words + 63) // 64
            first.append(self.nr_words)
            sizes.append(words)
            # One word more than needed, always clear: a range may touch the block right after the last
            self.nr_words += words + 1
        self.nr_levels = len(sizes)
        self.level_first = first
        self.level_words = sizes
        self.words: array[int] | memoryview[int] = array("Q", [0])
        self.slots = array("I", [0xFFFFFFFF])
        self.old_slots = array("I", [0xFFFFFFFF])
        self.slot_mask = 0
        self.nr_used = 0
        self.sparse = False
        self.allocated = False
        self.reset()

    def reset(self) -> None:
        """Forget all blocks."""
        self.nr_used = 0
        if self.level_words[0] > self.dense_words and self.nr_bits <= LARGEST_SPARSE:
            self.sparse = True
            self.allocated = False
            self.words = array("Q", [0])
            self.slots = array("I", [0xFFFFFFFF]) * FIRST_SLOTS
            self.slot_mask = FIRST_SLOTS - 1
        elif self.allocated and self.nr_words <= REUSE_WORDS:
            for i in range(self.nr_words):
                self.words[i] = 0
        else:
            self._allocate()

    def _allocate(self) -> None:
        # Anonymous memory is zero, and takes room only where it is written
        if self.nr_words <= REUSE_WORDS:
            self.words = array("Q", bytes(8 * self.nr_words))
        else:
            pages = mmap.mmap(-1, 8 * self.nr_words)
            if self.nr_words > self.dense_words and hasattr(mmap, "MADV_NOHUGEPAGE"):
                pages.madvise(mmap.MADV_NOHUGEPAGE)
            self.words = memoryview(pages).cast("Q")
        self.allocated = True

    def memory_bytes(self) -> int:
        """Upper bound of the memory in use."""
        return 4 * (self.slot_mask + 1) if self.sparse else 8 * self.nr_words

    def is_set(self, block: int) -> int:
        """1 if the block was used, 0 if it is free; 0 <= block <= nr_bits."""
        if self.sparse:
            return self.slots[self._slot(block)] == block
        return (self.words[block >> 6] >> (block & 63)) & 1

    def set(self, block: int) -> None:
        """Mark a free block as used."""
        if self.sparse:
            self._sparse_set(block)
            return
        index = block
        level = 0
        while True:
            place = self.level_first[level] + (index >> 6)
            word = self.words[place] | bit64(index & 63)
            self.words[place] = word
            level += 1
            if word != ALL_ONES_64 or level == self.nr_levels:
                return
            index >>= 6

    def set_range(self, block: int, count: int) -> int:
        """Mark up to `count` blocks from `block` on, stopping at the first used one; returns how many."""
        done = 0
        while done < count:
            # As in fio, the end is looked at once per word of level 0
            if (done == 0 or (block + done) & 63 == 0) and block + done > self.nr_bits:
                break
            if self.is_set(block + done):
                break
            self.set(block + done)
            done += 1
        return done

    def find(self, block: int) -> int:
        """The block itself if it is free, else `next_free` of it."""
        return self.next_free(block) if self.is_set(block) else block

    def next_free(self, block: int) -> int:
        """The first free block after `block`, which is used, around the end if need be; -1 if none is free."""
        start = block + 1
        if block >= self.nr_bits:
            return -1
        if start == self.nr_bits:
            start = 0
        found = self._find_free(start)
        if found < 0 and start:
            found = self._find_free(0)
        return found

    def _find_free(self, start: int) -> int:
        if self.sparse:
            while start < self.nr_bits:
                if self.slots[self._slot(start)] != start:
                    return start
                start += 1
            return -1
        index = start
        level = 0
        # Up: at each level, is there a clear bit at or after index in its word?
        while True:
            if (index >> 6) >= self.level_words[level]:
                return -1
            word = self.words[self.level_first[level] + (index >> 6)]
            free = not64(word) & not64(low_mask64(index & 63))
            if free:
                break
            level += 1
            if level == self.nr_levels:
                return -1
            index = (index >> 6) + 1
        index = (index & ~63) + ffs64(free)
        # Down: the first clear bit of the word that this bit stands for
        while level:
            level -= 1
            if index >= self.level_words[level]:
                return -1
            index = (index << 6) + ffz64(self.words[self.level_first[level] + index])
        return index if index < self.nr_bits else -1

    def _slot(self, block: int) -> int:
        """Where in the hash set the block is, or would be put."""
        slot = block & self.slot_mask
        while self.slots[slot] != block and self.slots[slot] != ALL_ONES_32:
            slot = (slot + 1) & self.slot_mask
        return slot

    def _sparse_set(self, block: int) -> None:
        self.slots[self._slot(block)] = block
        self.nr_used += 1
        if 2 * self.nr_used > self.slot_mask:
            self._grow()

    def _grow(self) -> None:
        """Double the hash set, or turn it into a bitmap."""
        slots = self.slot_mask + 1
        self.old_slots = self.slots
        if 4 * slots >= self.nr_words:
            self.sparse = False
            self._allocate()
            self.slots = array("I", [0xFFFFFFFF])
            self.slot_mask = 0
        else:
            self.slots = array("I", [0xFFFFFFFF]) * (2 * slots)
            self.slot_mask = 2 * slots - 1
            self.nr_used = 0
        for i in range(slots):
            if self.old_slots[i] != ALL_ONES_32:
                self.set(self.old_slots[i])
        self.old_slots = array("I", [0xFFFFFFFF])
