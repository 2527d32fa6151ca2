"""Questions that people asked about bfq, as small experiments with a right answer."""

from __future__ import annotations

from pathlib import Path

import pytest

from blklab.metrics.result import RunResult
from blklab.sim.api import simulate

# An application that starts, reading here and there, beside ten processes that read sequentially
STARTING = """\
[global]
filename=/dev/sda
ioengine=libaio
direct=1
[readers]
rw=read
bs=128k
iodepth={iodepth}
numjobs=10
offset_increment=4g
time_based
runtime=4
group_reporting
[application]
new_group
startdelay=3
rw=randread
bs=16k
iodepth=1
time_based
runtime=1
"""

WRITER = """\
[writer]
filename=/dev/sda
ioengine=libaio
direct=1
rw={rw}
bs={bs}
iodepth={iodepth}
time_based
runtime=1
"""

SATA_SSD = """\
kernel = "6.1"

[cpu]
count = 4
costs = "icpe24"

[device.sda]
model = "ssd"
size = "64g"
queues = 1
queue_depth = 31
volatile_cache = false
read_bytes_per_s = 500000000
write_bytes_per_s = 450000000
units = 8
read_ns = 80000
latency_ns = 20000
buffer = "1m"
write_latency_ns = 20000
program_ns = 500000
"""


@pytest.fixture
def run(tmp_path: Path):  # type: ignore[no-untyped-def]
    """Runs a job on the SATA SSD with a scheduler and settings."""
    machine = tmp_path / "sata.toml"
    machine.write_text(SATA_SSD)

    def go(job: str, scheduler: str, *settings: str) -> RunResult:
        path = tmp_path / "job.fio"
        path.write_text(job)
        return simulate(str(path), machine=str(machine), settings=(f"queue/scheduler={scheduler}", *settings))

    return go


@pytest.mark.parametrize("iodepth", [1, 8])
def test_an_application_starts_fast_at_the_cost_of_throughput(run, iodepth: int) -> None:  # type: ignore[no-untyped-def]
    job = STARTING.format(iodepth=iodepth)
    ll, plain = run(job, "bfq"), run(job, "bfq", "queue/iosched/low_latency=0")

    def latency_ns(result: RunResult) -> float:
        (application,) = (job for job in result.jobs if job.name == "application")
        return application.stats.read.clat.mean

    def read_bytes(result: RunResult) -> int:
        return sum(job.stats.read.bytes for job in result.jobs)

    # Published: 65% less latency, at 30% of the throughput while it starts (the last of four seconds here)
    assert latency_ns(ll) < 0.35 * latency_ns(plain)
    lost = 1 - (read_bytes(ll) - read_bytes(plain) * 3 / 4) / (read_bytes(plain) / 4)
    assert 0.3 < lost < 0.95


@pytest.mark.parametrize(
    ("rw", "bs", "iodepth"), [("write", "64k", 16), ("randwrite", "4k", 1), ("write", "1m", 4)]
)
def test_a_single_writer_sees_no_difference(run, rw: str, bs: str, iodepth: int) -> None:  # type: ignore[no-untyped-def]
    job = WRITER.format(rw=rw, bs=bs, iodepth=iodepth)
    with_bfq, without = (run(job, scheduler).jobs[0].stats.write.bytes for scheduler in ("bfq", "none"))
    assert with_bfq == pytest.approx(without, rel=0.05)
