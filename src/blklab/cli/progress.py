"""The line that shows how far a run is, as fio writes it; and Ctrl-C.

    Jobs: 2 (f=2): [r(2)][45.0%][r=1531MiB/s][r=392k IOPS][eta 00m:03s]

It goes to standard error, and only if that is a terminal. All times in it are virtual: the eta is the job's
own, not how long one has to wait.
"""

from __future__ import annotations

import itertools
import signal
import sys
import time
from types import FrameType
from typing import IO

from blklab.report.num2str import num2str, rate
from blklab.sim.progress import Progress, StopFlag

INTERVAL_S = 0.25
LETTERS = "rwt"


def condense(run_map: str) -> str:
    """The map of jobs with repetitions counted: "rrrw" -> "r(3),w(1)"."""
    return ",".join(f"{letter}({len(list(group))})" for letter, group in itertools.groupby(run_map))


def eta_text(eta_s: int) -> str:
    """As fio: "00m:03s", "01h:00m:00s", "02d:00h:00m:00s"."""
    minutes, seconds = divmod(eta_s, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    text = f"{days:02d}d:" if days else ""
    text += f"{hours:02d}h:" if hours or days else ""
    return f"{text}{minutes:02d}m:{seconds:02d}s"


def render(progress: Progress) -> str:
    """The line, without its end."""
    line = f"Jobs: {progress.running} (f={progress.files_open})"
    if not progress.running:
        return line
    percent, eta = "-.-%", "--"
    if progress.eta_s is not None:
        total = progress.elapsed_s + progress.eta_s
        percent = f"{100.0 * progress.elapsed_s / total if total else 100.0:3.1f}%"
        eta = eta_text(round(progress.eta_s))
    line += f": [{condense(progress.run_map)}][{percent}]"
    shown = [i for i in range(3) if progress.bytes_per_s[i] or progress.iops[i]]
    if shown:
        rates = (f"{LETTERS[i]}={rate(progress.bytes_per_s[i], 4, True, 8)}" for i in shown)
        iops = (f"{LETTERS[i]}={num2str(progress.iops[i], 4)}" for i in shown)
        line += f"[{','.join(rates)}][{','.join(iops)} IOPS]"
    return line + f"[eta {eta}]"


class ProgressLine:
    """Shows progress on a terminal, at most every INTERVAL_S seconds of the wall."""

    def __init__(self, stream: IO[str]) -> None:
        self.stream = stream
        self._due = time.monotonic() + INTERVAL_S
        self._length = 0

    def __call__(self, progress: Progress) -> None:
        """Shows `progress` if the last one is old enough: what `simulate` calls."""
        now = time.monotonic()
        if now < self._due:
            return
        self._due = now + INTERVAL_S
        line = render(progress)
        self.stream.write(f"{line:<{self._length}}\r")
        self.stream.flush()
        self._length = len(line)

    def clear(self) -> None:
        """Takes the line away, so that the results begin on a clean one."""
        if self._length:
            self.stream.write(f"{'':<{self._length}}\r")
            self.stream.flush()
            self._length = 0


class Interrupt:
    """While active, the first Ctrl-C (or SIGTERM) sets `flag`; the second ends the program as usual."""

    def __init__(self, flag: StopFlag) -> None:
        self.flag = flag
        self._old: dict[int, object] = {}

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self.flag.stop()
        for known, old in self._old.items():
            signal.signal(known, old)  # type: ignore[arg-type]
        print("\nblklab: stopping; once more to give up the results", file=sys.stderr)

    def __enter__(self) -> Interrupt:
        for number in (signal.SIGINT, signal.SIGTERM):
            # One that was ignored from the start (nohup, a job in the background) stays ignored
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._old[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *exception: object) -> None:
        for number, old in self._old.items():
            signal.signal(number, old)  # type: ignore[arg-type]
