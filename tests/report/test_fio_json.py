"""The JSON: its schema is that of fio 3.36, its numbers are fio's."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.report.fio_output import comparable, recorded, recorded_names

from blklab.metrics.result import DiskUtil, JobResult, RunResult
from blklab.report.fio_json import dumps, render_json
from blklab.report.fio_read import read_fio_json


@pytest.mark.parametrize("name", [name for name in recorded_names() if name != "two-priorities"])
def test_recorded_run(name: str) -> None:
    output = recorded(name)
    assert comparable(render_json(output.result, plus=True)) == comparable(output.json)


@pytest.mark.parametrize(
    ("name", "plus"), [("null_fio-3.36.json", False), ("null_fio-3.36.jsonplus.json", True)]
)
def test_outputs_of_fio_336_to_the_byte(shared: Path, name: str, plus: bool) -> None:
    text = (shared / "corpus/fiojson" / name).read_text()
    assert render_json(read_fio_json(text), plus) == text


def test_results_of_a_published_study(shared: Path) -> None:
    """fio 3.35 on real devices: groups, windows, disk statistics; json without bins."""
    files = sorted((shared / "corpus/fiojson/icpe24").glob("*.json"))
    assert len(files) > 20
    for file in files:
        text = file.read_text()
        assert comparable(render_json(read_fio_json(text))) == comparable(text), file.name


@pytest.mark.parametrize("name", ["null_fio-3.28.json", "null_fio-3.33.json", "null_fio-3.41.json"])
def test_outputs_of_other_versions(shared: Path, name: str) -> None:
    text = (shared / "corpus/fiojson" / name).read_text()
    assert comparable(render_json(read_fio_json(text))) == comparable(text)


def test_priorities() -> None:
    jobs = []
    for level in (3, 5):
        job = JobResult("a", group_reporting=True, ioprio=2 << 13 | 6 << 3 | level)
        job.stats.io_done(0, 4096, -1, 1000 * level, 1000 * level)
        jobs.append(job)
    read = json.loads(render_json(RunResult(jobs), plus=True))["jobs"][0]["read"]
    assert list(read)[11:14] == ["lat_ns", "prios", "bw_min"]
    assert [(p["prioclass"], p["prio"], p["priohint"]) for p in read["prios"]] == [(2, 3, 6), (2, 5, 6)]
    assert [p["clat_ns"]["bins"] for p in read["prios"]] == [{"2992": 1}, {"5024": 1}]
    recorded_keys = json.loads(recorded("two-priorities").json)["jobs"][0]["read"]["prios"][0].keys()
    assert [k for k in read["prios"][0] if k != "priohint"] == list(recorded_keys)


def test_disk_util_with_members() -> None:
    member = DiskUtil("sda", 1, 2, 3, 4, 5, 6, 7, 8, 9, 10.0)
    result = RunResult([JobResult("a")], [DiskUtil("md0", members=(member,))])
    (disk,) = json.loads(render_json(result))["disk_util"]
    aggregated = {key: value for key, value in disk.items() if key.startswith("aggr")}
    assert list(aggregated.items()) == [
        ("aggr_read_ios", 1),
        ("aggr_write_ios", 2),
        ("aggr_read_sectors", 5),
        ("aggr_write_sectors", 6),
        ("aggr_read_merges", 3),
        ("aggr_write_merge", 4),
        ("aggr_read_ticks", 7),
        ("aggr_write_ticks", 8),
        ("aggr_in_queue", 9),
        ("aggr_util", 10.0),
    ]
    (again,) = read_fio_json(render_json(result)).disk_util
    assert render_json(RunResult([JobResult("a")], [again])) == render_json(result)


def test_options_and_names_are_escaped() -> None:
    job = JobResult('q"\\', description="tab\there", options={"filename": "/dev/\x01", "stonewall": ""})
    document = json.loads(render_json(RunResult([job], global_options={"é": "ü"})))
    assert document["jobs"][0]["jobname"] == 'q"\\'
    assert document["jobs"][0]["desc"] == "tab\there"
    assert document["jobs"][0]["job options"] == {"filename": "/dev/\x01", "stonewall": ""}
    assert document["global options"] == {"é": "ü"}


def test_unified_reporting() -> None:
    job = JobResult("a", unified_rw="both")
    job.stats.io_done(1, 4096, -1, 5, 5)
    document = json.loads(render_json(RunResult([job])))["jobs"][0]
    assert [
        k for k in document if isinstance(document[k], dict) and "N" in document[k].get("lat_ns", {})
    ] == [*("read", "write", "trim", "sync", "mixed")]
    assert document["mixed"]["total_ios"] == 1
    job.unified_rw = "mixed"
    document = json.loads(render_json(RunResult([job])))["jobs"][0]
    assert "read" not in document
    assert document["mixed"]["total_ios"] == 1


def test_provenance_comes_last_and_only_on_request() -> None:
    result = RunResult([JobResult("a")], seed=7, kernel="6.1", machine="default", version="0.1", notes=["n"])
    assert "blklab" not in json.loads(render_json(result))
    text = render_json(result, provenance=True)
    assert list(json.loads(text))[-1] == "blklab"
    again = read_fio_json(text)
    assert (again.seed, again.kernel, again.machine, again.version, again.notes) == (
        7,
        "6.1",
        "default",
        "0.1",
        ["n"],
    )


def test_layout() -> None:
    assert dumps({"a": {}, "b": [], "c": [{"d": 1.5}]}) == (
        '{\n  "a" : {\n\n  },\n  "b" : [\n\n  ],\n  "c" : [\n    {\n      "d" : 1.500000\n    }\n  ]\n}'
    )
