"""Control groups in the report: a table behind the disk statistics, a list in the JSON; nothing without groups."""

from __future__ import annotations

import json

import pytest

from blklab.metrics.result import CgroupDevice, CgroupResult, DiskUtil, JobResult, RunResult
from blklab.report.fio_json import render_json
from blklab.report.fio_read import read_fio_json
from blklab.report.fio_text import render_text

GROUPS = [
    CgroupResult(
        "/",
        (
            CgroupDevice("nullb0", rbytes=8 << 20, wbytes=4 << 20, rios=2048, wios=1024, share=1.0),
            CgroupDevice("sda", dbytes=1 << 20, dios=1),
        ),
        2_000_000_000,
        ("259:0 rbytes=8388608 wbytes=4194304 rios=2048 wios=1024 dbytes=0 dios=0", "259:1 "),
    ),
    CgroupResult(
        "/system.slice/db.service",
        (CgroupDevice("nullb0", rbytes=4 << 20, rios=1024, share=1 / 3),),
        2_000_000_000,
        ("259:0 rbytes=4194304 wbytes=0 rios=1024 wios=0 dbytes=0 dios=0",),
    ),
    CgroupResult("/idle", (), 2_000_000_000),
]


def result(groups: list[CgroupResult]) -> RunResult:
    return RunResult(jobs=[JobResult("a")], disk_util=[DiskUtil("nullb0")], cgroups=groups)


def test_the_table_follows_the_disks() -> None:
    text = render_text(result(GROUPS))
    assert text.startswith(render_text(result([])))
    assert text.removeprefix(render_text(result([]))) == (
        "\nCgroups (read/write):\n"
        "  cgroup                    device  iops      bw (KiB/s)  share\n"
        "  /                         nullb0  1024/512  4096/2048   100.00%\n"
        "  /                         sda     0/0       0/0         0.00%\n"
        "  /system.slice/db.service  nullb0  512/0     2048/0      33.33%\n"
        "  /idle                     -       0/0       0/0         0.00%\n"
    )


def test_json_has_a_list_that_is_read_back() -> None:
    text = render_json(result(GROUPS))
    found = json.loads(text)["cgroups"]
    assert [group["path"] for group in found] == ["/", "/system.slice/db.service", "/idle"]
    assert found[0]["io.stat"] == list(GROUPS[0].io_stat)
    device = found[1]["devices"][0]
    assert (device["name"], device["rbytes"], device["rios"], device["read_iops"]) == (
        "nullb0",
        4 << 20,
        1024,
        512.0,
    )
    again = read_fio_json(text)
    assert [(group.path, group.io_stat) for group in again.cgroups] == [
        (group.path, group.io_stat) for group in GROUPS
    ]
    assert render_json(again) == text


def test_json_without_groups_is_fio_s() -> None:
    assert "cgroups" not in json.loads(render_json(result([])))


@pytest.mark.parametrize("elapsed_ns", [0, 1])
def test_a_run_without_time_has_no_rates(elapsed_ns: int) -> None:
    assert CgroupResult("/", (), elapsed_ns).rate(0) == 0.0
    assert CgroupResult("/", (), elapsed_ns).rate(5) == (5e9 if elapsed_ns else 0.0)
