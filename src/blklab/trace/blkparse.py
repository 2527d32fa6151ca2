"""What blkparse prints of a trace: one line an event, `blklab run --trace FILE`.

    259,0    3       11     0.009507758   697  C   W 223490 + 8 [0]

What: device, CPU, sequence number on that CPU, seconds, pid, action, RWBS, and what belongs to the action.
Made from the tracepoints' records as they come, so a trace of any length takes no memory. Why text first: it
is what people read, and what scripts that read blkparse's output read.

Theory of operation
-------------------
ENDINGS says what follows the common head for each action, as
blkparse's default formats do: Q G I D M F X A end in the name of the process, C and R in the status, U and UT
in the number of requests. A message ("m N ...") has sequence number 0.

Deliberate differences: what happens in an interrupt has the pid that ran, as in blktrace, but processes have
the names that the model knows: fio and kworker. Devices have the major number 259, of block-ext, and the
minor of their place in the machine.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import IO

from blklab.block.trace import ACTIONS, FIELDS, origin_of, rwbs

MAJOR = 259
MESSAGE = next(bit for bit, (letter, _) in ACTIONS.items() if letter == "m")

# Action letter -> what follows; a flush has no sector
ENDINGS: dict[str, str] = {
    **dict.fromkeys(("Q", "G", "S", "I", "D", "M", "F"), "{sector} + {nr_sectors} [{name}]"),
    "C": "{sector} + {nr_sectors} [{status}]",
    "R": "{sector} + {nr_sectors} [{status}]",
    "X": "{sector} / {extra} [{name}]",
    "A": "{sector} + {nr_sectors} <- ({source}) {extra}",
    "P": "[{name}]",
    "U": "[{name}] {extra}",
    "UT": "[{name}] {extra}",
}
WITHOUT_RWBS = ("P", "U", "UT")


class BlkparseWriter:
    """Writes blocks of records to a text file. Give `write` to a Tracer as its sink, and `flush` the tracer
    at the end. `messages`: those of the tracer."""

    def __init__(self, file: IO[str], first_fio_pid: int) -> None:
        self.file = file
        self.first_fio_pid = first_fio_pid
        self.messages: Sequence[str] = ()
        self.sequence: dict[int, int] = {}
        self.count = 0

    def name(self, pid: int, cpu: int) -> str:
        """The process's name."""
        if pid >= self.first_fio_pid:
            return "fio"
        return f"kworker/{cpu}:1H" if pid else f"swapper/{cpu}"

    def line(self, row: array[int]) -> str:
        """One record as blkparse prints it."""
        time_ns, action, cpu, pid, device, op, flags, sector, nr_sectors, extra = row
        seconds, nanoseconds = divmod(time_ns, 1_000_000_000)
        letter = ACTIONS[action][0]
        numbers = f"{MAJOR:3d},{device:<3d} {cpu:2d}"
        if action == MESSAGE:
            return f"{numbers} {'0':>8} {seconds:5d}.{nanoseconds:09d} {pid:5d}  m   N {self.messages[extra]}"
        self.sequence[cpu] = self.sequence.get(cpu, 0) + 1
        kind = "N" if letter in WITHOUT_RWBS else rwbs(op, flags)
        source = -1
        if letter == "A":
            source, extra = origin_of(extra)
        ending = ENDINGS[letter].format(
            sector=sector,
            nr_sectors=nr_sectors,
            extra=extra,
            source=f"{MAJOR},{source}",
            name=self.name(pid, cpu),
            status=extra,
        )
        if not nr_sectors and letter == "C":
            ending = f"{sector} [{extra}]"
        elif not nr_sectors and letter in "QGIDR":
            ending = f"[{extra if letter == 'R' else self.name(pid, cpu)}]"
        head = f"{numbers} {self.sequence[cpu]:8d} {seconds:5d}.{nanoseconds:09d} {pid:5d}"
        return f"{head} {letter:>2s} {kind:>3s} {ending}"

    def write(self, block: array[int]) -> None:
        """Write a block of whole records."""
        width = len(FIELDS)
        lines = [self.line(block[i : i + width]) for i in range(0, len(block), width)]
        self.count += len(lines)
        if lines:
            self.file.write("\n".join(lines) + "\n")
