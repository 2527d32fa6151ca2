"""Results are written whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from blklab.cli.output import check_writable, write_result
from blklab.core.errors import BlklabError


def test_a_new_file_an_old_file_and_a_link(tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    write_result("one", path)
    assert path.read_text() == "one"
    path.chmod(0o640)
    link = tmp_path / "link.json"
    link.symlink_to(path)
    write_result("two", link)
    assert link.is_symlink()
    assert path.read_text() == "two"
    assert path.stat().st_mode & 0o777 == 0o640
    assert sorted(item.name for item in tmp_path.iterdir()) == ["link.json", "out.json"]


def test_nothing_is_half_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "out.json"
    path.write_text("old")

    def no_space(self: Path, target: Path) -> Path:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", no_space)
    with pytest.raises(BlklabError, match="No space left on device") as caught:
        write_result("new", path)
    assert caught.value.where == "--output"
    assert path.read_text() == "old"
    assert [item.name for item in tmp_path.iterdir()] == ["out.json"]


def test_a_device_is_written_directly() -> None:
    write_result("x", Path("/dev/null"))
    assert Path("/dev/null").is_char_device()


def test_what_cannot_be_written_is_known_before_the_run(tmp_path: Path) -> None:
    check_writable(tmp_path / "new.json", "--output")
    with pytest.raises(BlklabError, match="is a folder"):
        check_writable(tmp_path, "--output")
    with pytest.raises(BlklabError, match="there is no folder"):
        check_writable(tmp_path / "no" / "new.json", "--output")


def test_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    write_result("text\n", None)
    assert capsys.readouterr().out == "text\n"
