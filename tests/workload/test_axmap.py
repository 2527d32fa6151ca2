"""The random map against a plain set, as a bitmap and as a hash set, and its memory."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blklab.workload.axmap import Axmap

SIZES = [1, 2, 63, 64, 65, 127, 128, 4095, 4096, 4097, 70_000]


class PlainMap:
    """What a random map means, as simply as it can be said."""

    def __init__(self, nr_bits: int) -> None:
        self.nr_bits = nr_bits
        self.used: set[int] = set()

    def next_free(self, block: int) -> int:
        order = [*range(block + 1, self.nr_bits), *range(block + 1)]
        return next((candidate for candidate in order if candidate not in self.used), -1)

    def set_range(self, block: int, count: int) -> int:
        done = 0
        while done < count and block + done < self.nr_bits and block + done not in self.used:
            self.used.add(block + done)
            done += 1
        return done


@pytest.mark.parametrize("nr_bits", SIZES)
@pytest.mark.parametrize("dense_words", [0, 1 << 20], ids=["hash set first", "bitmap"])
def test_every_block_once(nr_bits: int, dense_words: int) -> None:
    found = Axmap(nr_bits, dense_words)
    block = nr_bits // 3
    seen = set()
    for _ in range(nr_bits):
        if found.is_set(block):
            block = found.next_free(block)
        assert not found.is_set(block)
        found.set(block)
        seen.add(block)
        block = (block * 25 + 7) % nr_bits
    assert seen == set(range(nr_bits))
    assert found.next_free(block) == -1
    found.reset()
    assert not any(found.is_set(block) for block in range(nr_bits))


@settings(max_examples=200, deadline=None)
@given(data=st.data(), nr_bits=st.sampled_from(SIZES), dense_words=st.sampled_from([0, 1 << 20]))
def test_like_a_plain_set(data: st.DataObject, nr_bits: int, dense_words: int) -> None:
    found, plain = Axmap(nr_bits, dense_words), PlainMap(nr_bits)
    for _ in range(data.draw(st.integers(1, 40))):
        block = data.draw(st.integers(0, nr_bits - 1))
        assert bool(found.is_set(block)) == (block in plain.used)
        if block in plain.used:
            assert found.next_free(block) == plain.next_free(block)
        else:
            count = min(data.draw(st.integers(1, 200)), nr_bits - block)
            assert found.set_range(block, count) == plain.set_range(block, count)


def test_a_hash_set_becomes_a_bitmap_and_keeps_what_it_holds() -> None:
    found = Axmap(1 << 20, dense_words=16)
    memory = []
    blocks = [block * 7919 % (1 << 20) for block in range(20_000)]
    for block in blocks:
        found.set(block)
        memory.append(found.memory_bytes())
    assert memory[0] == 16384
    assert memory == sorted(memory)
    assert memory[-1] > (1 << 20) // 8
    assert all(found.is_set(block) for block in blocks)
    assert sum(found.is_set(block) for block in range(1 << 20)) == len(blocks)


def test_a_range_may_end_behind_the_last_block_as_in_fio() -> None:
    found = Axmap(10)
    assert found.set_range(8, 5) == 5
    assert found.next_free(9) == 0
    assert Axmap(63).set_range(60, 8) == 4


def test_a_terabyte_costs_little_while_little_of_it_is_used() -> None:
    found = Axmap((1 << 40) // 4096)
    for number in range(1000):
        found.set(number * 131_071 % ((1 << 40) // 4096))
    assert found.memory_bytes() <= 1 << 14
