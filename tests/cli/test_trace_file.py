"""`blklab run --trace FILE`: what blkparse prints, as in the captures of a real kernel."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest

from blklab.cli.main import main

DIRECT = ["--name=a", "--ioengine=libaio", "--direct=1", "--bs=4k", "--iodepth=8"]
JOB = [*DIRECT, "--rw=read", "--number_ios=40", "--eta=never"]
LINE = re.compile(
    r" *\d+,\d+ +(?P<cpu>\d+) +(?P<sequence>\d+) +(?P<time>\d+\.\d{9}) +\d+ +"
    r"(?P<action>[A-Za-z]+) +[A-Z]+ (?P<end>.*)"
)


def traced(tmp_path: Path, *words: str) -> list[str]:
    files = [f"--trace={tmp_path / 't.txt'}", f"--output={tmp_path / 'o'}"]
    assert main(["run", *JOB, "--machine=null", *files, *words]) == 0
    return (tmp_path / "t.txt").read_text().splitlines()


def test_each_line_is_one_of_blkparse(tmp_path: Path) -> None:
    lines = traced(tmp_path, "--scheduler=none")
    found = [LINE.fullmatch(line) for line in lines]
    assert all(found)
    actions = [match["action"] for match in found if match]
    assert [actions.count(a) for a in "QGDC"] == [40] * 4
    times = [float(match["time"]) for match in found if match]
    assert times[0] < 0.001 < times[-1] or len(times) == 160
    for cpu in {match["cpu"] for match in found if match}:
        numbers = [int(m["sequence"]) for m in found if m and m["cpu"] == cpu]
        assert numbers == list(range(1, len(numbers) + 1))


def test_endings_are_those_of_the_captures(tmp_path: Path, shared: Path) -> None:
    ours: dict[str, set[str]] = {}
    theirs: dict[str, set[str]] = {}

    def shape(lines: list[str], into: dict[str, set[str]]) -> None:
        for line in lines:
            match = LINE.fullmatch(line)
            if match:
                end = re.sub(r"kworker/\S+|fio|swapper/\d", "NAME", match["end"])
                into.setdefault(match["action"], set()).add(re.sub(r"\d+", "N", end))

    shape(traced(tmp_path, "--iodepth_batch=8", "--scheduler=mq-deadline"), ours)
    for case in ("merge/kyber-read-batch16", "busy/null-none-depth1"):
        file = shared / "reference" / case / "nullb0.blkparse.txt.gz"
        shape(gzip.decompress(file.read_bytes()).decode(errors="replace").splitlines(), theirs)
    assert set(ours) >= {"Q", "G", "I", "D", "C", "P", "U"}
    for action, ends in ours.items():
        # An interrupt may find any process on the CPU, whose name the kernel's trace has
        known = {re.sub(r"\[[^N].*\]", "[NAME]", end) for end in theirs.get(action, ends)}
        assert ends <= known, action


def test_messages_are_there(tmp_path: Path) -> None:
    slow = ("--set=device/irqmode=2", "--set=device/completion_nsec=1000000")
    lines = traced(
        tmp_path,
        "--scheduler=kyber",
        "--set=queue/iosched/read_lat_nsec=1",
        "--rw=randrw",
        "--number_ios=2500",
        *slow,
    )
    messages = [line for line in lines if re.search(r" m   N kyber_adjust (READ|WRITE) \d+$", line)]
    assert messages


def test_nothing_is_left_behind_if_the_run_goes_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "t.txt"
    assert main(["run", *JOB, "--machine=null", f"--trace={file}", "--at=1us:queue/nr_requests=9999999"]) == 2
    capsys.readouterr()
    assert not list(tmp_path.iterdir())


STRIPE = """
kernel = "6.1"
[device.nullb0]
model = "null"
[device.nullb1]
model = "null"
[device.dm-0]
model = "stripe"
members = ["nullb0", "nullb1"]
chunk = "64k"
"""


def test_a_remapped_bio_names_the_device_it_came_from(tmp_path: Path) -> None:
    machine = tmp_path / "stripe.toml"
    machine.write_text(STRIPE)
    job = ["--name=a", "--rw=read", "--direct=1", "--bs=128k", "--number_ios=1", "--eta=never"]
    files = [f"--trace={tmp_path / 't.txt'}", f"--output={tmp_path / 'o'}"]

    assert main(["run", *job, f"--machine={machine}", *files]) == 0

    lines = (tmp_path / "t.txt").read_text().splitlines()
    remaps = [line.split(maxsplit=5)[-1] for line in lines if line.split()[5] == "A"]
    assert [line.split()[0] for line in lines if line.split()[5] == "A"] == ["259,0", "259,1"]
    assert [text.split(maxsplit=1)[1] for text in remaps] == [
        "R 0 + 128 <- (259,2) 0",
        "R 0 + 128 <- (259,2) 128",
    ]
