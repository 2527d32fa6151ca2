"""Machines of kernels before 5.0: which devices have a single queue, what they are asked with, that fio's
engines run on them, and the comparison that people know: one lock against many queues."""

from __future__ import annotations

from pathlib import Path

import pytest

from blklab import simulate
from blklab.block.attributes import read, write
from blklab.block.features import SCHEDULER_FEATURES
from blklab.core.errors import BlklabError
from blklab.sim.build import BuiltMachine, build
from blklab.sim.machine import load_machine

ONE_OF_EACH = """
[device.nullb0]
model = "null"
[device.sda]
model = "scsi"
dev_size_mb = 1024
delay = 0
ndelay = 100000
max_queue = 32
[device.vda]
model = "virtio"
[device.nvme0n1]
model = "ssd"
preset = "intel-ssdpekkr128g7"
"""


def machine(tmp_path: Path, kernel: str, text: str = ONE_OF_EACH, *settings: str) -> BuiltMachine:
    path = tmp_path / "m.toml"
    path.write_text(text)
    return build(load_machine(path, settings, kernel=kernel), scheduler=None)


def single(built: BuiltMachine) -> set[str]:
    return {name for name, queue in built.queues.items() if queue.legacy is not None}


@pytest.mark.parametrize(
    ("kernel", "devices"),
    [
        ("2.6.33", {"nullb0", "sda", "vda", "nvme0n1"}),
        ("3.12", {"nullb0", "sda", "vda", "nvme0n1"}),
        ("3.13", {"sda", "nvme0n1"}),
        ("3.19", {"sda"}),
        ("4.18", {"sda"}),
        ("4.19", set()),
        ("5.0", set()),
        ("6.1", set()),
    ],
)
def test_which_devices_have_a_single_queue(kernel: str, devices: set[str], tmp_path: Path) -> None:
    settings = [f"{name}/queue/scheduler=noop" for name in sorted(devices)]
    built = machine(tmp_path, kernel, ONE_OF_EACH, *settings)
    assert single(built) == devices
    notes = " ".join(built.notes)
    assert ("with a single queue" in notes) == bool(devices)
    for name in devices:
        assert f"{name} (noop)" in notes
        assert read(built.queues[name], "queue/nr_requests") == 128
        assert len(built.queues[name].hctxs) == 1


def test_scsi_is_where_use_blk_mq_says(tmp_path: Path) -> None:
    text = '[device.sda]\nmodel = "scsi"\nuse_blk_mq = {}\nqueue.scheduler = "{}"\n'
    assert not single(machine(tmp_path, "3.17", text.format(1, "none")))
    assert single(machine(tmp_path, "4.20", text.format(0, "deadline")))
    with pytest.raises(
        BlklabError, match=r"use_blk_mq = 1: in Linux 3\.16 SCSI is not on blk-mq; 3\.17 brought it"
    ):
        machine(tmp_path, "3.16", text.format(1, "none"))
    with pytest.raises(BlklabError, match=r"use_blk_mq = 0: Linux 5\.0 has no single queue any more"):
        machine(tmp_path, "5.0", text.format(0, "none"))


def test_null_blk_has_queue_mode_1_until_4_20(tmp_path: Path) -> None:
    text = '[device.nullb0]\nmodel = "null"\nqueue_mode = 1\nsubmit_queues = 4\nqueue.scheduler = "noop"\n'
    assert single(machine(tmp_path, "4.20", text))
    with pytest.raises(BlklabError, match=r"Linux 5\.0 has no queue_mode 1"):
        machine(tmp_path, "5.0", text.replace("noop", "none"))
    # The path itself can be had in any kernel, with the scheduler that it needs
    assert single(machine(tmp_path, "6.1", text, "feature/legacy_request_fn=1", "feature/sched_noop=1"))


def test_a_kernel_with_both_paths_has_the_schedulers_of_each_device(tmp_path: Path) -> None:
    built = machine(tmp_path, "4.18", ONE_OF_EACH, "sda/queue/scheduler=deadline")
    shown = str(read(built.queues["sda"], "queue/scheduler"))
    assert shown.startswith("noop [deadline]") and "kyber" not in shown and "none" not in shown
    names = str(read(built.queues["nullb0"], "queue/scheduler")).split()
    # Other tests of this process may have loaded schedulers of their own
    assert [name for name in names if name.strip("[]") in SCHEDULER_FEATURES] == [
        "none",
        "bfq",
        "kyber",
        "[mq-deadline]",
    ]
    with pytest.raises(BlklabError, match="kyber is no scheduler of a single queue"):
        write(built.queues["sda"], "queue/scheduler", "kyber")
    with pytest.raises(BlklabError, match="noop is no scheduler of a blk-mq queue"):
        write(built.queues["nullb0"], "queue/scheduler", "noop")
    # An alias: scripts that write it go on working
    write(built.queues["nullb0"], "queue/scheduler", "none")
    write(built.queues["nullb0"], "queue/scheduler", "deadline")
    assert built.queues["nullb0"].elevator_name == "mq-deadline"


JOB = """
[global]
filename=/dev/sda
direct=1
bs=4k
size=64M
io_size=1M
[reader]
rw=randread
ioengine=libaio
iodepth=8
iodepth_batch=4
[writer]
rw=write
ioengine=sync
[ring]
rw=randrw
ioengine=io_uring
iodepth=4
[large]
rw=read
ioengine=libaio
bs=1M
io_size=8M
"""


@pytest.mark.parametrize("kernel", ["2.6.33", "2.6.38", "3.0", "4.14", "4.20"])
@pytest.mark.parametrize("scheduler", ["noop", "deadline"])
def test_fio_s_engines_run_on_it(kernel: str, scheduler: str, tmp_path: Path) -> None:
    job = tmp_path / "job.fio"
    job.write_text(JOB)
    path = tmp_path / "m.toml"
    path.write_text(
        '[device.sda]\nmodel = "scsi"\ndev_size_mb = 1024\ndelay = 0\nndelay = 100000\nmax_queue = 32\n'
    )
    more = ["device/use_blk_mq=0"]
    result = simulate(job, path, scheduler=scheduler, kernel=kernel, settings=more)
    done = {j.name: j.stats.read.ios + j.stats.write.ios for j in result.jobs}
    assert done == {"reader": 256, "writer": 256, "ring": 256, "large": 8}


# -- one lock ---------------------------------------------------------------------------------------


def iops(tmp_path: Path, queue_mode: int, jobs: int) -> float:
    """Random reads of a device that takes no time, on 8 CPUs."""
    job = tmp_path / "job.fio"
    job.write_text(
        "[a]\nfilename=/dev/nullb0\ndirect=1\nrw=randread\nbs=4k\nioengine=libaio\niodepth=16\nsize=1G\n"
        f"cpus_allowed=0-7\ncpus_allowed_policy=split\nruntime=3ms\ntime_based\nnumjobs={jobs}\ngroup_reporting\n"
    )
    path = tmp_path / "m.toml"
    path.write_text(
        'kernel = "4.20"\n[cpu]\ncount = 8\ncosts = "xeon-2018"\n'
        '[device.nullb0]\nmodel = "null"\nirqmode = 0\nsubmit_queues = 8\n'
        f'queue_mode = {queue_mode}\nqueue.scheduler = "{("", "noop", "none")[queue_mode]}"\n'
    )
    result = simulate(job, path)
    ios: int = sum(j.stats.read.ios for j in result.jobs)
    return ios / 0.003


def test_one_queue_lock_does_not_scale_and_many_queues_do(tmp_path: Path) -> None:
    one, eight = (iops(tmp_path, 1, jobs) for jobs in (1, 8))
    assert eight < 1.3 * one
    one_mq, eight_mq = (iops(tmp_path, 2, jobs) for jobs in (1, 8))
    assert eight_mq > 6 * one_mq
    assert eight_mq > 5 * eight
    # Alone on the device the two ways differ little
    assert 0.8 * one_mq < one < one_mq


def test_on_a_blk_mq_queue_deadline_is_an_alias(tmp_path: Path) -> None:
    built = machine(tmp_path, "6.1", '[device.nullb0]\nmodel = "null"\n', "queue/scheduler=deadline")
    assert "[mq-deadline]" in str(read(built.queues["nullb0"], "queue/scheduler"))
