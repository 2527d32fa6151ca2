"""A stream of recorded I/Os."""

from __future__ import annotations

import pytest

from blklab.core.errors import BlklabError
from blklab.workload.replay import ReplayStream


def test_it_gives_what_was_recorded_in_order_and_ends() -> None:
    stream = ReplayStream([0, 1], [0, 2], [4096, 0], [512, 1 << 20])
    found = []

    while stream.advance():
        found.append((stream.ddir, stream.file_index, stream.offset_bytes, stream.length_bytes))

    assert found == [(0, 0, 4096, 512), (1, 2, 0, 1 << 20)]
    assert stream.advance() == 0
    assert stream.pass_number == 0


def test_the_direction_to_come_is_known_before_it_comes() -> None:
    stream = ReplayStream([1, 0], [0, 0], [0, 0], [512, 512])

    assert (stream.draw_ddir(), stream.ddir) == (1, 0)
    stream.advance()
    assert (stream.draw_ddir(), stream.ddir) == (0, 1)


def test_an_empty_recording_is_over_at_once() -> None:
    assert ReplayStream([], [], [], []).advance() == 0


def test_columns_are_of_one_length() -> None:
    with pytest.raises(BlklabError, match="differ in length"):
        ReplayStream([0, 0], [0], [0], [0])
