"""`blklab new scheduler`: what it writes works as it is, and nothing is written if something is wrong."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from blklab import simulate
from blklab.cli.main import main
from blklab.cli.new import KINDS


def test_the_scheduler_and_its_test_pass_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["new", "scheduler", "my-sched", "--dir", str(tmp_path)]) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["my_sched.py", "test_my_sched.py"]
    said = capsys.readouterr().out
    assert f"python -m pytest {tmp_path / 'test_my_sched.py'}" in said
    assert f"--scheduler {tmp_path / 'my_sched.py'}:MySched" in said
    path = [str(Path(p).resolve()) for p in sys.path if p]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_my_sched.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        env={"PYTHONPATH": ":".join(path), "PATH": "/usr/bin:/bin"},
    )
    assert done.returncode == 0 and "3 passed" in done.stdout, done.stdout + done.stderr


def test_it_runs_a_job_and_its_tunable_counts(tmp_path: Path) -> None:
    assert main(["new", "scheduler", "two", "--dir", str(tmp_path)]) == 0
    job = tmp_path / "job.fio"
    job.write_text("[a]\nioengine=libaio\ndirect=1\nrw=randrw\nbs=4k\niodepth=32\nnumber_ios=400\n")
    choice = f"{tmp_path / 'two.py'}:Two"
    results = [
        simulate(
            job,
            machine="null",
            scheduler=choice,
            settings=["queue/iosched/batch=1"],
            show=["queue/iosched/*"],
        ),
        simulate(job, machine="null", scheduler=choice, show=["queue/iosched/*"]),
    ]
    assert [r.attributes for r in results] == [
        ["nullb0/queue/iosched/batch: 1"],
        ["nullb0/queue/iosched/batch: 16"],
    ]
    assert all(r.jobs[0].stats.read.done_ios + r.jobs[0].stats.write.done_ios == 400 for r in results)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["sheduler", "a"], "did you mean 'scheduler'"),
        (["scheduler", "kyber"], "there is a scheduler 'kyber' already"),
        (["scheduler", "none"], "there is a scheduler 'none' already"),
        (["scheduler", "My Sched"], "is no name for a scheduler"),
        (["scheduler", "../up"], "is no name for a scheduler"),
        (["scheduler", "a" * 16], "is no name for a scheduler"),
        (["scheduler", "class"], "is a word of Python's"),
        (["scheduler"], "required: NAME"),
        (["scheduler", "a", "--dir", "no/such"], "no folder no/such"),
    ],
)
def test_what_is_wrong_is_said(
    words: list[str],
    said: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["new", *words]) == 2
    err = capsys.readouterr().err
    assert said in err and len(err.splitlines()) == 1
    assert not list(tmp_path.iterdir())


def test_a_file_that_is_there_stays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "test_mine.py").write_text("precious")
    assert main(["new", "scheduler", "mine", "--dir", str(tmp_path)]) == 2
    assert "is there already" in capsys.readouterr().err
    assert [path.read_text() for path in tmp_path.iterdir()] == ["precious"]


def test_every_kind_has_its_templates() -> None:
    folder = Path(sys.modules["blklab.cli.new"].__file__ or "").parent / "templates"
    named = {template for pairs in KINDS.values() for _, template in pairs}
    assert named == {path.name for path in folder.iterdir()}
