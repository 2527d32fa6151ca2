"""What a fio thread asks for its next I/O: the interface of all streams.

`IoStream` makes fio's own sequence of a job; `replay.ReplayStream` gives I/Os that were recorded. Both know
no time: when a thread sends is its own business.
"""

from __future__ import annotations


class Stream:
    """The I/Os of one thread. After `advance` returned 1 the I/O is in the public fields.

    `ddir` 0 read, 1 write, 2 trim. `file_index` counts the thread's files. `offset_bytes` is from the start
    of the file. `pass_number` grows when the stream starts over; the thread waits then for what is
    outstanding.
    """

    def __init__(self) -> None:
        self.ddir = 0
        self.file_index = 0
        self.offset_bytes = 0
        self.length_bytes = 0
        self.pass_number = 0

    def advance(self) -> int:
        """Fill the public fields with the next I/O and return 1, or return 0 if there is none left."""
        raise NotImplementedError

    def ramp_over(self, ios_in_flight: int, bytes_in_flight: int) -> None:
        """ramp_time is over: a stream that counts what was issued begins to count anew."""

    def draw_ddir(self) -> int:
        """The direction of the next I/O."""
        return self.ddir

    def turn_ddir(self, ddir: int) -> None:
        """Take this direction for the next I/O if there is a choice."""
