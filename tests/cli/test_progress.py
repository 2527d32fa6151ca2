"""The progress line is fio's; Ctrl-C stops the run and not the program."""

from __future__ import annotations

import io
import os
import signal
import time

import pytest

from blklab.cli.progress import Interrupt, ProgressLine, condense, eta_text, render
from blklab.sim.progress import Progress, StopFlag

MIB = 1 << 20


def test_a_line_as_fio_writes_it() -> None:
    moment = Progress(2, 2, "rr", 2.25, 2.75, (1531 * MIB, 0, 0), (392_000, 0, 0))
    assert render(moment) == "Jobs: 2 (f=2): [r(2)][45.0%][r=1531MiB/s][r=392k IOPS][eta 00m:03s]"


def test_both_directions_and_several_kinds_of_jobs() -> None:
    moment = Progress(3, 4, "RRm_P", 50, 50, (100 * MIB, 50 * MIB, 0), (25_600, 12_800, 0))
    expected = "Jobs: 3 (f=4): [R(2),m(1),_(1),P(1)][50.0%][r=100MiB/s,w=50.0MiB/s][r=25.6k,w=12.8k IOPS][eta 00m:50s]"
    assert render(moment) == expected


def test_what_is_not_known_yet() -> None:
    assert render(Progress(1, 1, "/", 0, None)) == "Jobs: 1 (f=1): [/(1)][-.-%][eta --]"
    assert render(Progress(0, 0, "__", 3, 0)) == "Jobs: 0 (f=0)"
    assert render(Progress(1, 1, "r", 0, 0)) == "Jobs: 1 (f=1): [r(1)][100.0%][eta 00m:00s]"


def test_eta_in_days_hours_minutes() -> None:
    assert [eta_text(s) for s in (3, 3600, 90061, 172800)] == [
        "00m:03s",
        "01h:00m:00s",
        "01d:01h:01m:01s",
        "02d:00h:00m:00s",
    ]


def test_the_map_is_condensed() -> None:
    assert condense("rrrwwr") == "r(3),w(2),r(1)"
    assert condense("") == ""


def test_the_line_is_shown_now_and_then_and_taken_away(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    stream = io.StringIO()
    line = ProgressLine(stream)
    long, short = Progress(2, 2, "rr", 1, 9), Progress(0, 0, "__", 10, 0)
    line(long)
    assert stream.getvalue() == ""
    now = 0.3
    line(long)
    line(long)
    assert stream.getvalue() == render(long) + "\r"
    now = 0.6
    line(short)
    assert stream.getvalue().endswith("\r" + render(short).ljust(len(render(long))) + "\r")
    line.clear()
    assert stream.getvalue().endswith(" " * len(render(short)) + "\r")
    length = len(stream.getvalue())
    line.clear()
    assert len(stream.getvalue()) == length


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_sets_the_flag_and_the_second_does_what_it_always_did(
    number: signal.Signals, capsys: pytest.CaptureFixture[str]
) -> None:
    seen: list[int] = []
    old = signal.signal(number, lambda sent, frame: seen.append(sent))
    try:
        flag = StopFlag()
        with Interrupt(flag):
            os.kill(os.getpid(), number)
            assert flag.stopped
            assert seen == []
            os.kill(os.getpid(), number)
            assert seen == [number]
        os.kill(os.getpid(), number)
        assert seen == [number, number]
    finally:
        signal.signal(number, old)
    assert "stopping" in capsys.readouterr().err


def test_an_ignored_signal_stays_ignored() -> None:
    old = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with Interrupt(StopFlag()):
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, old)
