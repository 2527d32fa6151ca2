"""Set-up names what is missing, in one line to copy."""

from __future__ import annotations

from pathlib import Path

import pytest

import prepare


def test_missing_packages_are_named_in_one_apt_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("sysconfig.get_paths", lambda: {"include": str(tmp_path)})
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert prepare.main(["build"]) == 1
    message = capsys.readouterr().err
    assert "apt-get install gcc libc6-dev python3-dev python3-venv make" in message


def test_the_readme_names_all_packages_that_can_be_missing() -> None:
    readme = (prepare.ROOT / "README.md").read_text()
    (line,) = [line for line in readme.splitlines() if "apt-get install" in line and "python3-venv" in line]
    assert {"gcc", "libc6-dev", "python3-dev", "python3-venv", "make"} <= set(line.split())


def test_nothing_is_missing_where_the_tests_run() -> None:
    assert prepare.missing_packages() == []


def test_a_python_that_is_too_old_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(prepare, "OLDEST_PYTHON", (99, 0))
    assert prepare.main(["build"]) == 1
    assert "needs Python" in capsys.readouterr().err
