"""Reading a capture: the lab's folder, and the compact form of it."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

import make_reference
from blklab.core.errors import BlklabError
from blklab.lab.conform_capture import (
    SentBio,
    TracedEvent,
    encode,
    find_cases,
    read_capture,
    timed_events,
)

BLKPARSE = """\
254,0    0        1     0.000000000   349  Q   R 1 + 777 [fio]
254,0    0        2     0.000002901   349  X   R 1 / 257 [fio]
254,0    0        3     0.000003966   349  G   R 1 + 256 [fio]
254,0    0        4     0.000004640   349  P   N [fio]
254,0    0        5     0.000005000   349 UT   N [fio] 3
254,0    0        6     0.000006000    37  D   R 1 + 256 [kworker/0:1H]
254,0    0        7     0.000106000     0  C   R 1 + 256 [0]
254,0    0        8     1.000107000   349  C  WS 0 [0]
254,0    0        9     1.000108000   349  A   R 1 + 127 <- (253,0) 1
CPU0 (nullb0):
Events (nullb0): 8 entries
"""


@pytest.fixture
def lab_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "lab" / "split" / "odd"
    folder.mkdir(parents=True)
    setup = {
        "case": "split/odd",
        "cpus": 1,
        "jobs": [{"name": "a", "kind": "fio", "file": "a.fio"}],
        "traced": ["nullb0"],
        "bios": "bios.tsv.gz",
    }
    (folder / "setup.json").write_text(json.dumps(setup))
    (folder / "a.fio").write_text("[job]\nrw=read\n")
    result = {"jobs": [{"jobname": "job", "read": {"iops": 12.3456}, "write": {"iops": 0}}]}
    (folder / "a.json").write_text(json.dumps(result))
    with gzip.open(folder / "bios.tsv.gz", "wt") as file:
        file.write("task\tjob\tdevice\trwbs\tsector\tnr_sectors\tbatch\n0\ta/job.0\tnullb0\tR\t1\t777\t4\n")
    with gzip.open(folder / "nullb0.blkparse.txt.gz", "wt") as file:
        file.write(BLKPARSE)
    return folder


def test_blkparse_lines_become_events(lab_folder: Path) -> None:
    timed = list(timed_events(lab_folder, "nullb0"))

    assert [item.event for item in timed] == [
        TracedEvent("Q", "R", 1, 777),
        TracedEvent("X", "R", 1, 256),  # the part that goes on, not where the rest begins
        TracedEvent("G", "R", 1, 256),
        TracedEvent("P", "N", 0, 0),
        TracedEvent("UT", "N", 0, 0, 3),
        TracedEvent("D", "R", 1, 256),
        TracedEvent("C", "R", 1, 256),
        TracedEvent("C", "WS", 0, 0),
        TracedEvent("A", "R", 1, 127),
    ]
    assert (timed[5].pid, timed[7].time_ns) == (37, 1_000_107_000)


def test_a_folder_is_read_whole(lab_folder: Path) -> None:
    capture = read_capture(lab_folder)

    assert capture.files == {"a.fio": "[job]\nrw=read\n"}
    assert capture.iops == {"a/job.0": (12.35, 0)}
    assert capture.bios == [SentBio(0, "a/job.0", "nullb0", "R", 1, 777, 4)]
    assert capture.gaps["Q X"] == (1, 2901)
    assert "UT D" not in capture.gaps  # another task's


def test_the_compact_form_keeps_everything_but_times(lab_folder: Path, tmp_path: Path) -> None:
    capture = read_capture(lab_folder)
    path = tmp_path / "compact" / "split" / "odd.json.gz"
    path.parent.mkdir(parents=True)
    path.write_bytes(encode(capture))

    assert read_capture(path) == capture
    assert encode(read_capture(path)) == path.read_bytes()
    assert find_cases(tmp_path / "compact") == {"split/odd": path}
    assert find_cases(tmp_path / "lab") == {"split/odd": lab_folder}


@pytest.mark.parametrize(
    "content",
    [b"", b"not gzip", gzip.compress(b"{"), gzip.compress(b"{}"), gzip.compress(b"\xff\xfe")],
    ids=["empty", "not gzip", "not JSON", "without keys", "not text"],
)
def test_what_is_no_capture_is_told(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.json.gz"
    path.write_bytes(content)

    with pytest.raises(BlklabError, match=r"x\.json\.gz: is not a capture"):
        read_capture(path)


def test_a_folder_without_its_files_is_told(tmp_path: Path) -> None:
    with pytest.raises(BlklabError, match="is not a capture"):
        read_capture(tmp_path)


def test_make_reference_writes_what_changed(
    lab_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    into = tmp_path / "reference"
    arguments = [str(lab_folder.parent.parent), "--into", str(into)]

    assert make_reference.main([*arguments, "--check"]) == 1
    assert not into.exists()
    assert make_reference.main(arguments) == 0
    assert read_capture(into / "split" / "odd.json.gz") == read_capture(lab_folder)
    assert make_reference.main([*arguments, "--check"]) == 0
    assert "0 files to be written" in capsys.readouterr().out


def test_make_reference_wants_captures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert make_reference.main([str(tmp_path)]) == 2
    assert "holds no GROUP/CASE/setup.json" in capsys.readouterr().err
