"""`python -m blklab.lab.conform`: what it prints and how it ends."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from blklab.lab import conform
from blklab.lab.conform_capture import encode, read_capture

REFERENCE = Path(__file__).resolve().parent.parent / "reference"


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    status = conform.main(["--captures", str(REFERENCE), *arguments])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def test_a_line_a_case_and_the_sum(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "plug/none-randread-batch[23]", "split/zoned-chunk", "--brief")

    lines = out.splitlines()
    assert status == 0
    assert lines[0].split() == [
        "plug/none-randread-batch2",
        "exact",
        "Q",
        "20",
        "G",
        "20",
        "D",
        "20",
        "C",
        "20",
    ]
    assert lines[2].split(maxsplit=1) == [
        "split/zoned-chunk",
        "not yet           split/zoned-chunk: null: zoned devices are not built yet",
    ]
    assert lines[3] == "2 exact, 0 within tolerance, 0 differs, 1 not yet of 3"


def test_the_first_difference_is_shown_with_its_neighbours(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "busy/null-none-depth4")

    assert status == 0
    assert "within tolerance" in out
    assert "of D is the first that differs" in out
    assert sum(line.startswith("    >") for line in out.splitlines()) == 1


def test_a_case_that_differs_is_told_and_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capture = read_capture(REFERENCE / "plug" / "none-randread-batch3.json.gz")
    events = capture.events["nullb0"]
    first = next(i for i, event in enumerate(events) if event.action == "D")
    events[first], events[first + 1] = events[first + 1], events[first]
    (tmp_path / "plug").mkdir()
    (tmp_path / "plug" / "wrong.json.gz").write_bytes(encode(capture))

    status = conform.main(["--captures", str(tmp_path)])

    out = capsys.readouterr().out
    assert status == 1
    assert "failed: nullb0: order of Q G P U UT I M F X A D R" in out
    assert f"event {first} of Q G P U UT I M F X A D R is the first that differs" in out


def test_json_has_everything(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "plug/none-randread-batch3", "--json")

    (verdict,) = json.loads(out)
    assert status == 0
    assert (verdict["case"], verdict["status"]) == ("plug/none-randread-batch3", "exact")
    assert verdict["counts"]["nullb0"]["P"] == [10, 10]


def test_gaps_are_side_by_side(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "plug/none-randread-batch3", "--gaps")

    assert status == 0
    assert "Q>G" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["plug/none-randread-batch4"], "no case fits 'plug/none-randread-batch4'; did you mean"),
        (["--costs", "no-such-table"], "no-such-table"),
    ],
)
def test_wrong_arguments_are_one_line_and_status_2(
    capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    status, _, err = run(capsys, *arguments)

    assert status == 2
    assert message in err
    assert len(err.splitlines()) == 1


def test_a_missing_folder_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert conform.main(["--captures", str(tmp_path / "none")]) == 2
    assert "--captures says where they are" in capsys.readouterr().err


def test_captures_of_the_shared_folder_that_are_new_or_changed_are_run_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    here, there = tmp_path / "tests" / "reference" / "plug", tmp_path / "shared" / "reference" / "plug"
    here.mkdir(parents=True)
    there.mkdir(parents=True)
    for number in (2, 3):
        shutil.copy(REFERENCE / "plug" / f"none-randread-batch{number}.json.gz", there)
    shutil.copy(REFERENCE / "plug" / "none-randread-batch2.json.gz", here)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(conform, "SHARED", tmp_path / "shared")

    assert conform.main(["--brief"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("2 exact")
