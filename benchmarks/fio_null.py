"""fio's own rate with its null engine: what fio's bookkeeping alone costs, with nothing below it.

One job of random 4 KiB reads at iodepth 64, the shape of the `random-4k` workload's jobs. fio uses one thread
for it, so the rate is that of one core, as ours is.
"""

from __future__ import annotations

import json
import shutil
import subprocess

IOS = 4_000_000


def ios_per_wall_second(ios: int = IOS) -> float | None:
    """I/Os a second of `fio --ioengine=null --iodepth=64`, from fio's own JSON; None where fio is not
    installed.

    Raises subprocess.CalledProcessError if fio refuses the job.
    """
    if shutil.which("fio") is None:
        return None
    command = [
        "fio",
        "--name=null",
        "--ioengine=null",
        "--rw=randread",
        "--bs=4k",
        "--iodepth=64",
        "--thread",
    ]
    command += ["--size=128g", f"--number_ios={ios}", "--output-format=json"]
    result = subprocess.run(command, check=True, capture_output=True, text=True)
    (job,) = json.loads(result.stdout)["jobs"]
    # job_runtime is in whole milliseconds of the job's I/O phase; setting up the random map is not in it.
    done, runtime_ms = int(job["read"]["total_ios"]), int(job["job_runtime"])
    return done / (runtime_ms / 1000)


if __name__ == "__main__":
    rate = ios_per_wall_second()
    print("fio is not installed" if rate is None else f"{rate:.0f}")
