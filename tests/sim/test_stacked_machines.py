"""Machine files with devices made of others: what is refused and where, --set of every device, fio's report."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from blklab.block.attributes import read
from blklab.core.errors import BlklabError
from blklab.report.fio_json import render_json
from blklab.report.fio_text import render_text
from blklab.sim.api import simulate
from blklab.sim.build import BuiltMachine, build
from blklab.sim.machine import MachineBuilder
from blklab.sim.machinefile import read_machine
from blklab.sim.run import Run
from blklab.sim.settings import apply_setting
from blklab.workload.jobfile import parse_job_file, parse_job_text

LEAVES = "".join(f'[device.d{i}]\nmodel = "null"\ngb = 1\n' for i in range(3))


def built(tmp_path: Path, devices: str, *settings: str) -> BuiltMachine:
    file = tmp_path / "m.toml"
    file.write_text(f'kernel = "6.1"\n[cpu]\ncount = 1\ncosts = "zero"\n{LEAVES}{devices}')
    builder = MachineBuilder()
    read_machine(builder, str(file), "--machine")
    for setting in settings:
        apply_setting(builder, setting)
    return build(builder.build())


def device(name: str, model: str, *lines: str) -> str:
    return "\n".join([f"[device.{name}]", f'model = "{model}"', *lines]) + "\n"


S0 = device("s0", "stripe", 'members = ["d0", "d1"]')

REFUSED = {
    "there is none": (
        device("s0", "stripe", 'members = ["d0", "d7"]'),
        "m.toml:16: s0 is made of 'd7', which there is not",
    ),
    "none of that kind": (device("p", "partition", 'device = "x"'), "m.toml:16: p is made of 'x'"),
    "no members": (
        device("s0", "stripe"),
        "m.toml:15: members is missing: the devices that a stripe is made of",
    ),
    "of each other": (
        device("s0", "stripe", 'members = ["s1"]') + device("s1", "linear", 'members = ["s0"]'),
        "m.toml:16: these devices are made of each other: s0, s1",
    ),
    "of itself": (device("s0", "stripe", 'members = ["s0"]'), "made of each other: s0"),
    "used twice": (
        S0 + device("s1", "raid0", 'members = ["d1", "d2"]'),
        "m.toml:19: d1 is a member of s0 already, and of s1 too",
    ),
    "named twice": (device("s0", "stripe", 'members = ["d0", "d0"]'), "members names d0 twice"),
    "too small": (
        device("s0", "stripe", 'members = ["d0", "d1"]', 'chunk = "2g"'),
        "m.toml:16: d0 is too small",
    ),
    "no chunk": (
        device("s0", "stripe", 'members = ["d0", "d1"]', "chunk = 100"),
        "chunk = 100 is out of range",
    ),
    "a chunk that is no sectors": (
        device("s0", "stripe", 'members = ["d0", "d1"]', "chunk = 1000"),
        "whole sectors of 512",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_made_is_one_error_with_its_place(tmp_path: Path, what: str) -> None:
    devices, message = REFUSED[what]
    with pytest.raises(BlklabError) as caught:
        built(tmp_path, devices)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_partitions_and_linear_devices_may_share_a_disk(tmp_path: Path) -> None:
    parts = device("p1", "partition", 'device = "d0"', 'size = "10m"') + device(
        "p2", "partition", 'device = "d0"', 'start = "10m"'
    )
    machine = built(tmp_path, parts + device("v", "linear", 'members = ["d0"]', 'starts = "20m"'))
    assert [queue.name for queue in machine.tops] == ["d1", "d2", "p1", "p2", "v"]


def test_set_of_every_device_leaves_alone_what_is_made_of_others_and_refuses(tmp_path: Path) -> None:
    raid = device("md0", "raid0", 'members = ["d0", "d1"]', 'chunk = "16k"')
    machine = built(
        tmp_path,
        raid,
        "queue/scheduler=kyber",
        "queue/nr_requests=32",
        "queue/io_timeout=7000",
        "queue/max_sectors_kb=64",
        "device/completion_nsec=5",
    )
    for name in ("d0", "d1", "d2"):
        assert read(machine.queue(name), "queue/nr_requests") == 32
        assert read(machine.queue(name), "queue/max_sectors_kb") == 64
        assert machine.queue(name).elevator_name == "kyber"
    assert read(machine.queue("md0"), "queue/max_sectors_kb") == 16
    assert read(machine.queue("md0"), "queue/scheduler") == "none"
    with pytest.raises(BlklabError, match="no requests"):
        built(tmp_path, raid, "md0/queue/nr_requests=32")


def test_fio_reports_a_stacked_device_with_the_means_of_its_slaves(tmp_path: Path) -> None:
    top = S0 + device("top", "raid0", 'members = ["s0", "d2"]', 'chunk = "64k"')
    machine = built(tmp_path, top)
    job = parse_job_text(
        "[a]\nfilename=/dev/top\nrw=read\nbs=256k\nioengine=libaio\niodepth=2\ndirect=1\nsize=4m\n", "a.fio"
    )
    run = Run(machine, job)
    run.run()
    result = run.result()

    text = [
        line.split(":")[0].strip()
        for line in render_text(result).split("Disk stats")[1].splitlines()[1:]
        if line
    ]
    assert text == ["top", "s0", "d0", "d1", "d2"]
    disks = {disk["name"]: disk for disk in json.loads(render_json(result))["disk_util"]}
    assert disks["top"]["read_ios"] == 64
    assert (disks["s0"]["read_ios"], disks["d2"]["read_ios"]) == (32, 32)
    assert disks["top"]["aggr_read_ios"] == (32 + disks["d2"]["read_ios"]) // 2
    assert disks["s0"]["aggr_read_sectors"] == 2048
    assert "aggr_read_ios" not in disks["d0"]


def test_the_example_of_a_stripe(tmp_path: Path) -> None:
    job = parse_job_file(Path(__file__).parents[2] / "examples" / "stripe.fio")
    result = simulate(job, "stripe-4")
    disks = {disk.name: disk for disk in result.disk_util}
    # 256 reads of 16 pieces; of 388 KiB behind 4 KiB every 16th begins on a chunk
    large, odd = (stats.stats.read.done_ios for stats in result.jobs)
    assert large == 256
    pieces = sum(-(-(4 + 388 * (i + 1)) // 64) - (4 + 388 * i) // 64 for i in range(odd - 1))
    assert 16 * large + pieces <= disks["dm-0"].read_ios <= 16 * large + pieces + 8
    assert disks["dm-0"].read_ios == sum(
        disks[f"nullb{i}"].read_ios + disks[f"nullb{i}"].read_merges for i in range(4)
    )


def test_a_partition_is_reported_as_its_disk(tmp_path: Path) -> None:
    machine = built(tmp_path, device("p1", "partition", 'device = "d0"'))
    run = Run(
        machine, parse_job_text("[a]\nfilename=/dev/p1\nrw=read\nnumber_ios=5\ndirect=1\nsize=1m\n", "a.fio")
    )
    run.run()
    assert [disk.name for disk in run.result().disk_util] == ["d0"]
