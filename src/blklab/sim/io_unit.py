"""fio's I/Os (io_u) and lists of them: what a fio thread (fio_thread.py) makes, submits and accounts.

An I/O is used again when it has been accounted. It is in one list at a time (`next`), and besides linked to the others
of the submitting call it belongs to (`link`), which are stamped together when the call returns.
"""

from __future__ import annotations


class IoUnit:
    """One I/O of fio (io_u)."""

    def __init__(self) -> None:
        self.next: IoUnit | None = None
        self.link: IoUnit | None = None  # the next of the same submitting call
        self.ddir = 0
        self.file_index = 0
        self.offset_bytes = 0
        self.length_bytes = 0
        self.buffer_bytes = 0  # where its buffer begins in the thread's memory
        self.start_ns = 0
        self.issue_ns = 0
        self.bios_left = 0
        self.error = 0
        self.touched = False  # its buffer's pages are there


class IoList:
    """I/Os in order."""

    def __init__(self) -> None:
        self.head: IoUnit | None = None
        self.tail: IoUnit | None = None
        self.count = 0

    def append(self, unit: IoUnit) -> None:
        """Behind the last one."""
        unit.next = None
        if self.tail is None:
            self.head = unit
        else:
            self.tail.next = unit
        self.tail = unit
        self.count += 1

    def popleft(self) -> IoUnit:
        """The first one; there must be one."""
        unit: IoUnit = self.head  # type: ignore[assignment]
        self.head = unit.next
        if self.head is None:
            self.tail = None
        unit.next = None
        self.count -= 1
        return unit
