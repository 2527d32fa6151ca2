"""A scalable bitmap with fair, batched waking of its waiters: what tags and scheduler tokens are made of.

What: bits in words, searched from a hint of each CPU, and eight wait queues. Why: this is where a task sleeps when a
device is saturated; who is woken, and how many at once, decides order, merging and latency.

Theory of operation
-------------------
The word size shrinks for small depths (shift 6 while at least four words result), which spreads CPUs over words and is
what a shallow depth counts in: a limit of n lets n bits of *each word* be taken. A CPU starts at the word where it
last freed a bit.

Freeing a bit counts towards `wake_batch` (depth / 8, 1 to 8); each full batch wakes that many waiters of one wait
queue, and the next batch starts at the next queue. A woken waiter is off its queue and tries again; if it fails it
queues at the tail of another one (its owner's `wait_index` moves on).

Deliberate differences from lib/sbitmap.c (6.1): freed bits can be taken at once (the kernel's deferred clearing only
decides which number is given); hints start at 0 instead of a random word.
"""

from __future__ import annotations

from array import array

import cython

from blklab.core.clock import Event

if not cython.compiled:
    from blklab.block.consts import MAX_WAKE_BATCH, NR_WAIT_QUEUES
    from blklab.core.bits import bit64, ffz64, low_mask64, not64


class Waiter(Event):
    """Somebody who waits for a bit. `exclusive` ones are woken one a bit, others all at once."""

    def __init__(self) -> None:
        self.next_waiter: Waiter | None = None
        self.prev_waiter: Waiter | None = None
        self.wait_queue: WaitQueue | None = None
        self.exclusive = True

    def wake(self) -> int:
        """A bit may be free: try again. Called once, after the waiter was taken off its queue."""
        raise NotImplementedError


class WaitQueue:
    """Waiters in order of arrival."""

    def __init__(self) -> None:
        self.head: Waiter | None = None
        self.tail: Waiter | None = None
        self.count = 0

    def append(self, waiter: Waiter) -> None:
        """Queue at the tail, as exclusive waiters do."""
        tail = self.tail
        waiter.wait_queue = self
        waiter.prev_waiter = tail
        if tail is None:
            self.head = waiter
        else:
            tail.next_waiter = waiter
        self.tail = waiter
        self.count += 1

    def push(self, waiter: Waiter) -> None:
        """Queue at the head, as non-exclusive waiters do."""
        head = self.head
        waiter.wait_queue = self
        waiter.next_waiter = head
        if head is None:
            self.tail = waiter
        else:
            head.prev_waiter = waiter
        self.head = waiter
        self.count += 1

    def remove(self, waiter: Waiter) -> None:
        """Take a waiter off, wherever it stands."""
        before = waiter.prev_waiter
        following = waiter.next_waiter
        if before is None:
            self.head = following
        else:
            before.next_waiter = following
        if following is None:
            self.tail = before
        else:
            following.prev_waiter = before
        waiter.next_waiter = None
        waiter.prev_waiter = None
        waiter.wait_queue = None
        self.count -= 1


class SbitmapQueue:
    """`depth` bits; get and clear them, wait for them. Depth 0 is legal and has nothing to give."""

    def __init__(self, depth: int, nr_cpus: int = 1, shift: int = -1) -> None:
        self.nr_cpus = nr_cpus
        self.hints = array("q", [0] * nr_cpus)
        self.queues = [WaitQueue() for _ in range(NR_WAIT_QUEUES)]
        self.waiting = 0
        self.used = 0
        self.min_shallow_depth = 64
        self.wake_index = 0
        self.completion_count = 0
        self.wakeup_count = 0
        self._shape(depth, shift)

    def _shape(self, depth: int, shift: int) -> None:
        if shift < 0:
            shift = 6
            if depth >= 4:
                while (4 << shift) > depth:
                    shift -= 1
        self.shift = shift
        self.depth = depth
        self.nr_words = max(1, (depth + (1 << shift) - 1) >> shift)
        self.words = array("Q", [0] * self.nr_words)
        self.wake_batch = self._wake_batch(depth)

    def _wake_batch(self, depth: int) -> int:
        # sbq_calc_wake_batch: what a shallow depth leaves of every word counts
        word = 1 << self.shift
        shallow = min(word, self.min_shallow_depth)
        depth = (depth >> self.shift) * shallow + min(depth & (word - 1), shallow)
        return max(1, min(depth // NR_WAIT_QUEUES, MAX_WAKE_BATCH))

    def resize(self, depth: int) -> None:
        """sbitmap_queue_resize: the word size stays, bits above the new depth that are in use stay until cleared."""
        words = max(1, (depth + (1 << self.shift) - 1) >> self.shift)
        if words > len(self.words):
            grown = array("Q", [0] * words)
            for i in range(len(self.words)):
                grown[i] = self.words[i]
            self.words = grown
        self.nr_words = words
        self.depth = depth
        self.wake_batch = self._wake_batch(depth)

    def make_anew(self, depth: int) -> None:
        """As a new bitmap of this depth, with its word size; no bit may be in use. Who waits goes on waiting."""
        self.min_shallow_depth = 64
        self._shape(depth, -1)

    def set_min_shallow_depth(self, depth: int) -> None:
        """sbitmap_queue_min_shallow_depth: the smallest limit that `get_shallow` will be asked for."""
        self.min_shallow_depth = depth
        self.wake_batch = self._wake_batch(self.depth)

    def recalculate_wake_batch(self, users: int) -> None:
        """Several queues share the bits: a batch is smaller."""
        if users > 0:
            share = (self.depth + users - 1) // users
            self.wake_batch = max(1, min(share // NR_WAIT_QUEUES, MAX_WAKE_BATCH))

    def get(self, cpu: int) -> int:
        """Take a free bit and return its number, or -1."""
        hint = self.hints[cpu]
        depth = self.depth
        if hint >= depth:
            hint = 0
        index = hint >> self.shift
        for _ in range(self.nr_words):
            room = depth - (index << self.shift)
            if room > 1 << self.shift:
                room = 1 << self.shift
            word = self.words[index] | not64(low_mask64(room))
            if not64(word) != 0:
                bit = ffz64(word)
                self.words[index] |= bit64(bit)
                self.used += 1
                number = (index << self.shift) + bit
                if number == hint:
                    hint = number + 1
                    self.hints[cpu] = 0 if hint >= depth - 1 else hint
                return number
            index += 1
            if index >= self.nr_words:
                index = 0
        self.hints[cpu] = 0
        return -1

    def get_shallow(self, cpu: int, shallow_depth: int) -> int:
        """Take a free bit among the first `shallow_depth` of each word, or return -1."""
        hint = self.hints[cpu]
        depth = self.depth
        if hint >= depth:
            hint = 0
        index = hint >> self.shift
        start = hint & ((1 << self.shift) - 1)
        for _ in range(self.nr_words):
            room = depth - (index << self.shift)
            if room > 1 << self.shift:
                room = 1 << self.shift
            if room > shallow_depth:
                room = shallow_depth
            word = self.words[index] | not64(low_mask64(room))
            if not64(word) != 0:
                ahead = word | low_mask64(start) if start < room else word
                if not64(ahead) == 0:
                    ahead = word  # wrap around within the word
                bit = ffz64(ahead)
                self.words[index] |= bit64(bit)
                self.used += 1
                number = (index << self.shift) + bit
                if number == hint:
                    hint = number + 1
                    self.hints[cpu] = 0 if hint >= depth - 1 else hint
                return number
            start = 0
            index += 1
            if index >= self.nr_words:
                index = 0
        self.hints[cpu] = 0
        return -1

    def test(self, number: int) -> bool:
        """Whether a bit is taken."""
        return (self.words[number >> self.shift] & bit64(number & ((1 << self.shift) - 1))) != 0

    def clear(self, number: int, cpu: int) -> int:
        """Give a bit back, and wake waiters when a batch is full. ValueError if it was not taken."""
        bit = bit64(number & ((1 << self.shift) - 1))
        index = number >> self.shift
        if not self.words[index] & bit:
            raise ValueError(f"bit {number} given back twice")
        self.words[index] &= not64(bit)
        self.used -= 1
        self.hints[cpu] = number
        if self.waiting:
            self.wake_up(1)
        return 0

    def wait(self, waiter: Waiter, index: int) -> int:
        """Queue a waiter in one of the eight queues."""
        queue: WaitQueue = self.queues[index]
        if waiter.exclusive:
            queue.append(waiter)
        else:
            queue.push(waiter)
        self.waiting += 1
        return 0

    def stop_waiting(self, waiter: Waiter) -> None:
        """The waiter got its bit without being woken."""
        if waiter.wait_queue is not None:
            waiter.wait_queue.remove(waiter)
            self.waiting -= 1

    def wake_up(self, freed: int) -> int:
        """`freed` bits came back: wake a batch if that makes one. Nothing happens while nobody waits."""
        if not self.waiting:
            return 0
        self.completion_count += freed
        if self.completion_count - self.wakeup_count < self.wake_batch:
            return 0
        self.wakeup_count += self.wake_batch
        index = self.wake_index
        for _ in range(NR_WAIT_QUEUES):
            queue: WaitQueue = self.queues[index]
            index = (index + 1) & (NR_WAIT_QUEUES - 1)
            if queue.count and self._wake_queue(queue, self.wake_batch):
                break
        self.wake_index = index
        return 0

    def _wake_queue(self, queue: WaitQueue, nr_exclusive: int) -> int:
        # Who stands behind the present tail came by being woken just now, and is not woken again
        woken = 0
        last = queue.tail
        waiter = queue.head
        while waiter is not None:
            following = waiter.next_waiter if waiter is not last else None
            if waiter.exclusive:
                woken += 1
            queue.remove(waiter)
            self.waiting -= 1
            waiter.wake()
            if woken == nr_exclusive:
                break
            waiter = following
        return woken

    def wake_all(self) -> int:
        """Wake one exclusive waiter of every queue (sbitmap_queue_wake_all)."""
        index = self.wake_index
        for _ in range(NR_WAIT_QUEUES):
            queue: WaitQueue = self.queues[index]
            if queue.count:
                self._wake_queue(queue, 1)
            index = (index + 1) & (NR_WAIT_QUEUES - 1)
        return 0

    def in_use(self) -> list[int]:
        """The numbers of all bits that are taken."""
        return [n for n in range(len(self.words) << self.shift) if self.test(n)]
