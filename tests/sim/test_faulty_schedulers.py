"""Schedulers of a user's own that are wrong, and options that contradict each other: told in one line, with the
place."""

from __future__ import annotations

from pathlib import Path

import pytest

from blklab.cli.main import main

JOB = [
    "--name=a",
    "--rw=randread",
    "--bs=4k",
    "--size=1m",
    "--direct=1",
    "--filename=nullb0",
    "--machine",
    "null",
]

LIES = """
from blklab import Elevator
from blklab.block.request import RequestList


class Liar(Elevator):
    def __init__(self, queue):
        super().__init__(queue)
        self.kept = RequestList()

    def insert_requests(self, hctx, rqs, at_head):
        while rqs.count:
            rq = rqs.popleft()
            self.queue.trace_insert(rq)
            self.kept.append(rq)

    def dispatch_request(self, hctx):
        return None

    def has_work(self, hctx):
        return True
"""


def scheduler(folder: Path, text: str) -> str:
    file = folder / "mine.py"
    file.write_text(text)
    return f"{file}:Liar"


def test_a_scheduler_that_gives_nothing_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status = main(["run", *JOB, "--scheduler", scheduler(tmp_path, LIES)])

    error = capsys.readouterr().err
    assert status == 2
    assert error.count("\n") == 1
    assert "no I/O has completed" in error
    assert "nullb0 has 1 requests" in error
    assert "Liar" in error


def test_an_exception_is_told_with_its_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = LIES.replace("return None", "return self.kept.count // 0")
    line = text.splitlines().index("        return self.kept.count // 0") + 1

    status = main(["run", *JOB, "--scheduler", scheduler(tmp_path, text)])

    error = capsys.readouterr().err
    assert status == 2
    assert f"mine.py:{line}: in dispatch_request: ZeroDivisionError" in error
    assert "bug in blklab" not in error


def test_two_schedulers_on_one_command_line_contradict(capsys: pytest.CaptureFixture[str]) -> None:
    status = main(["run", *JOB, "--scheduler", "kyber", "--set", "queue/scheduler=bfq"])

    assert status == 2
    assert "say one of them" in capsys.readouterr().err
    assert main(["run", *JOB, "--scheduler", "kyber", "--set", "queue/scheduler=kyber"]) == 0
