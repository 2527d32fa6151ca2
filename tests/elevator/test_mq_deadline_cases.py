"""Questions that people ask about mq-deadline, as small experiments with a known answer."""

from __future__ import annotations

from pathlib import Path

import pytest

from blklab import simulate
from blklab.workload.jobfile import parse_job_text

# One queue of 31 commands
SATA_SSD = Path(__file__).parents[2] / "examples" / "schedulers" / "sata-ssd.toml"

MIXED = """
[global]
filename=/dev/sda
ioengine=libaio
direct=1
bs=4k
iodepth=32
number_ios=2000

[reader]
rw=randread

[writer]
rw=randwrite
"""

ONE_JOB = """
[mixed]
filename=/dev/sda
ioengine=libaio
direct=1
bs=4k
rw=randrw
iodepth=32
numjobs=4
group_reporting
number_ios=1000
"""


def write_p99_ns(job: str, scheduler: str) -> int:
    """The 99th percentile of the writes' completion latency, over all jobs."""
    result = simulate(parse_job_text(job, "mixed.fio"), SATA_SSD, scheduler)
    writers = [job.stats.write for job in result.jobs if job.stats.write.done_ios]
    everyone = writers[0].clat_hist
    for writer in writers[1:]:
        everyone.merge(writer.clat_hist)
    p99_ns: int = everyone.percentiles([99.0])[0]
    return p99_ns


@pytest.mark.parametrize("job", [MIXED, ONE_JOB])
def test_on_a_sata_ssd_writes_among_reads_end_sooner_without_a_scheduler(job: str) -> None:
    """Deadlines of 0.5 and 5 s mean nothing there; that reads go first is what writes pay for."""
    assert write_p99_ns(job, "none") < 0.9 * write_p99_ns(job, "mq-deadline")
