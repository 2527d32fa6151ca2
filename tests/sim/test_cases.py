"""Questions that people asked about schedulers and queue settings, as small experiments with a right
answer."""

from __future__ import annotations

import pytest

from blklab.block.trace import Tracer
from blklab.metrics.result import RunResult
from blklab.sim.api import simulate
from blklab.sim.build import build
from blklab.sim.machine import load_machine
from blklab.sim.run import Run
from blklab.workload.cmdline import parse_command_line

DIRECT = "--name=a --ioengine=libaio --direct=1 --bs=4k --group_reporting "


def run(words: str, machine: str = "default", *settings: str) -> RunResult:
    job, _ = parse_command_line((DIRECT + words).split())
    assert job is not None
    return simulate(job, machine, settings=settings)


def ios(result: RunResult) -> int:
    return sum(job.stats.read.done_ios + job.stats.write.done_ios for job in result.jobs)


@pytest.mark.parametrize(("jobs", "queues", "outstanding"), [(1, 1, 8), (4, 1, 8), (4, 4, 32)])
def test_nr_requests_is_per_hardware_queue_and_no_bound_of_what_the_device_holds(
    jobs: int, queues: int, outstanding: int
) -> None:
    # scylladb/seastar 2177: a request keeps its scheduler tag until completion, so one hardware queue stops
    # at nr_requests outstanding, n of them at n x nr_requests; the device holds at most its own depth of them
    built = build(
        load_machine(
            "null",
            settings=[
                "cpu/count=4",
                f"device/submit_queues={queues}",
                "device/hw_queue_depth=4",
                "device/irqmode=2",
                "device/completion_nsec=1000000",
                "queue/scheduler=mq-deadline",
                "queue/nr_requests=8",
            ],
        )
    )
    tracer = Tracer(built.host)
    built.trace(tracer, 2 | 512 | 2048)
    job, _ = parse_command_line(
        f"{DIRECT} --rw=randread --iodepth=64 --numjobs={jobs} --number_ios=100".split()
    )
    assert job is not None
    Run(built, job).run()
    in_block_layer = in_device = most = most_device = 0
    for record in tracer:
        in_block_layer += {"G": 1, "C": -1, "D": 0}[record.action]
        in_device += {"G": 0, "C": -1, "D": 1}[record.action]
        most = max(most, in_block_layer)
        most_device = max(most_device, in_device)
    assert most == outstanding
    assert most_device == 4 * queues


def test_iostat_shows_31_of_32_writes_merged_and_128_kb_a_request() -> None:
    # axboe/liburing 285: %wrqm 96.87 and wareq-sz 128.00 are what sequential 4 KiB writes in large batches
    # give
    result = run(
        "--rw=write --iodepth=256 --iodepth_batch=128 --iodepth_batch_complete_min=128 --size=64m",
        "null",
        "device/max_sectors=256",
        "queue/max_sectors_kb=128",
    )
    disk = result.disk_util[0]
    assert disk.write_merges / (disk.write_merges + disk.write_ios) == 31 / 32
    assert disk.write_sectors / 2 / disk.write_ios == 128.0


@pytest.mark.parametrize("scheduler", ["none", "mq-deadline", "kyber", "bfq"])
def test_nomerges_gains_little_at_random_and_loses_much_in_sequence(scheduler: str) -> None:
    # torvalds 488991e28e55: +0.4% and +0.6% at random. In sequence a device with a ceiling of commands pays
    # for each
    def measured(rw: str, nomerges: int) -> float:
        return ios(
            run(
                f"--rw={rw} --iodepth=64 --iodepth_batch=16 --iodepth_batch_complete_min=16 "
                "--runtime=100ms --time_based",
                "default",
                f"queue/scheduler={scheduler}",
                f"queue/nomerges={nomerges}",
                "device/read_iops=60000",
            )
        )

    for nomerges in (1, 2):
        assert measured("randread", nomerges) / measured("randread", 0) == pytest.approx(1, abs=0.01)
    assert measured("read", 2) < 0.5 * measured("read", 0)


@pytest.mark.parametrize("scheduler", ["mq-deadline", "kyber"])
def test_shared_scheduler_tags_end_the_crowd_before_host_wide_tags(scheduler: str) -> None:
    # torvalds d97e594c5166: 16 hardware queues x 256 scheduler tags stand before 128 tags of the host; since
    # 5.14 the scheduler tags are one set of 256 for the device
    crowd = {}
    for shared in (0, 1):
        built = build(
            load_machine(
                "scsi-debug",
                settings=[
                    "cpu/count=16",
                    "device/submit_queues=16",
                    "device/host_max_queue=128",
                    "device/max_queue=128",
                    "device/ndelay=1000000",
                    "device/delay=0",
                    "device/dev_size_mb=512",
                    f"feature/shared_sched_tags={shared}",
                    f"queue/scheduler={scheduler}",
                ],
            )
        )
        tracer = Tracer(built.host)
        built.trace(tracer, 2 | 512 | 2048)
        words = f"{DIRECT} --rw=randread --iodepth=256 --numjobs=16 --runtime=60ms --time_based"
        job, _ = parse_command_line(words.split())
        assert job is not None
        result = Run(built, job).run()
        now = most = 0
        issued: list[int] = []
        got: dict[int, int] = {}
        for record in tracer:
            now += {"G": 1, "C": -1, "D": 0}[record.action]
            most = max(most, now)
            if record.action == "G":
                got[record.sector] = record.time_ns
            elif record.action == "D" and record.time_ns > 30_000_000:
                # A request merged with another has the other's sector
                issued.append(record.time_ns - got.get(record.sector, record.time_ns))
        crowd[shared] = most, sum(issued) / len(issued), len(result.jobs)
    assert 3900 < crowd[0][0] <= 4096 and 256 <= crowd[1][0] < 260  # some are merged when inserted
    # 4,096 that wait for 128 tags of 1 ms wait 31 ms, 256 wait 1 ms
    assert crowd[0][1] > 10 * crowd[1][1]
