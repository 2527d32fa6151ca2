"""How a running simulation tells how far it is, and how it is told to stop.

`simulate(..., progress=callback, stop=flag)` runs in slices of events. After each it calls
`callback(progress)`, if there is one, and looks at `flag.stopped`; a stopped run ends there and gives the
results so far. Nothing here reads a clock of the wall: how often to show something is the caller's to
decide.
"""

from __future__ import annotations

from dataclasses import dataclass

# read, write, trim
Triple = tuple[int, int, int]


@dataclass(slots=True)
class Progress:
    """A moment of a run, in virtual time. Rates are those since the previous moment.

    `run_map` has a character a job, as in fio: R W M r w m D d running (lower case: random), / ramping, P
    not started, _ finished. `eta_s` is the virtual time left, None where it is not known yet.
    """

    running: int
    files_open: int
    run_map: str
    elapsed_s: float
    eta_s: float | None
    bytes_per_s: Triple = (0, 0, 0)
    iops: Triple = (0, 0, 0)


class StopFlag:
    """Set by whoever wants the run to end early; a signal handler may."""

    def __init__(self) -> None:
        self.stopped = False

    def stop(self) -> None:
        """Ends the run at its next slice."""
        self.stopped = True
