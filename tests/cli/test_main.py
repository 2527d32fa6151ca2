"""The command line as a whole: help, exit status, errors of one line."""

from __future__ import annotations

import os
import subprocess
import sys
import types
from pathlib import Path

import pytest

import blklab
from blklab.cli.listing import LISTS
from blklab.cli.main import COMMANDS, main
from blklab.cli.status import EXIT_PIPE
from blklab.core.errors import BlklabError

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(next(iter(blklab.__path__))).parent)}


def fail_with(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    """Makes `blklab run` raise `error`."""

    def run(argv: list[str]) -> int:
        raise error

    monkeypatch.setitem(sys.modules, "blklab.cli.run", types.SimpleNamespace(run=run))


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    out = capsys.readouterr().out
    assert all(f"\n  {name} " in out and text in out for name, _, text in COMMANDS)


def test_without_a_command_there_is_help_and_status_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "usage: blklab" in capsys.readouterr().out


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("blklab ")


@pytest.mark.parametrize("command", [name for name, _, _ in COMMANDS])
def test_every_command_has_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        assert main([command, "--help"]) == 0
    except SystemExit as end:
        assert end.code == 0
    assert f"usage: blklab {command}" in capsys.readouterr().out


HEAVY = (
    "pydantic",
    "numpy",
    "rich",
    "cyclopts",
    "argparse",
    "importlib.metadata",
    "blklab.sim",
    "blklab.workload",
)


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; from blklab.cli.main import main; main(['--help']); "
        f"sys.exit(str([name for name in {HEAVY!r} if name in sys.modules]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=ENVIRONMENT, check=False
    )
    assert done.stderr.strip() == "[]"


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["rum"], "blklab: error: there is no command 'rum'; did you mean 'run'?; commands are run, list"),
        (["--rw=read"], "there is no option '--rw=read'; did you mean `blklab run ...`?"),
        (["job.fio"], "did you mean `blklab run ...`?"),
        (["list"], "blklab: error: blklab list: list what? There are schedulers"),
        (["list", "machine"], "did you mean 'machines'"),
        (["list", "machines", "zzz"], "nothing there contains 'zzz'"),
        (["list", "machines", "a", "b"], "blklab: error: blklab list: unrecognized arguments: b"),
    ],
)
def test_a_wrong_command_line_gives_one_line_and_status_2(
    argv: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(argv) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.err.count("\n") == 1
    assert captured.out == ""


def test_a_users_error_says_where(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fail_with(monkeypatch, BlklabError("is wrong", "job.fio:12"))
    assert main(["run"]) == 2
    assert capsys.readouterr().err == "blklab: error: job.fio:12: is wrong\n"


def test_a_bug_says_how_to_report_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("BLKLAB_TRACEBACK", raising=False)
    fail_with(monkeypatch, KeyError("x"))
    assert main(["run"]) == 1
    error = capsys.readouterr().err
    assert error.startswith("blklab: this is a bug in blklab: KeyError: 'x'\n")
    assert "BLKLAB_TRACEBACK=1" in error
    assert "Traceback" not in error


def test_a_bug_shows_its_traceback_on_demand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BLKLAB_TRACEBACK", "1")
    fail_with(monkeypatch, KeyError("x"))
    with pytest.raises(KeyError):
        main(["run"])


def test_an_interrupt_is_no_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fail_with(monkeypatch, KeyboardInterrupt())
    assert main(["run"]) == 130
    assert capsys.readouterr().err == "blklab: interrupted\n"


def test_a_reader_that_goes_away_is_no_error() -> None:
    command = [sys.executable, "-m", "blklab.cli.main", "list", "options"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ENVIRONMENT)
    assert process.stdout is not None and process.stderr is not None
    process.stdout.close()
    error = process.stderr.read()
    process.stderr.close()
    assert process.wait() == EXIT_PIPE
    assert error == b""


def test_the_lists_are_those_of_the_design() -> None:
    promised = {"schedulers", "devices", "machines", "kernels", "options", "formats", "experiments"}
    assert promised | {"attributes", "cgroup-files", "features", "costs"} == set(LISTS)
