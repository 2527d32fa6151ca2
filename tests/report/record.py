"""Makes the files of `data/` from real runs: `python tests/report/record.py` where fio 3.33 is installed.

Each file holds what one run printed as text and as json+, after a line with its arguments. The numbers differ from
run to run; the tests look at whole files, so any run is as good.
"""

from __future__ import annotations

import shlex
import subprocess
import tempfile
from pathlib import Path

DATA = Path(__file__).parent / "data"

# What is particular about each: see the name.
RUNS = {
    "async-job": "--name=a --ioengine=null --size=8m --bs=4k --iodepth=8 --rw=randread",
    "sync-job-no-slat": (
        "--name=a --ioengine=null --size=8m --bs=128k --rw=write --description='one \"quoted\" word'"
    ),
    "group-reporting": (
        "--name=a --ioengine=null --size=4m --bs=4k --iodepth=4 --rw=randrw --numjobs=3 --group_reporting"
    ),
    "two-groups": (
        "--ioengine=null --size=2m --bs=4k --name=a --rw=read --thread --name=b --stonewall --rw=trim --numjobs=2"
    ),
    "all-percentiles": (
        "--name=a --ioengine=null --size=4m --bs=4k --iodepth=2 --rw=randread --lat_percentiles=1 --slat_percentiles=1"
        " --percentile_list=50:99.123:1:100"
    ),
    "windows-in-bits": (
        "--name=a --ioengine=null --size=1m --bs=512 --rw=randrw --runtime=2 --time_based --rate_iops=2000"
        " --unit_base=1"
    ),
    "disk-and-fsync": (
        "--name=a --ioengine=libaio --direct=1 --filename=file --size=1m --bs=4k --iodepth=4 --rw=randrw --fsync=8"
        " --kb_base=1000 --runtime=1 --time_based --rate_iops=50"
    ),
    "mixed-reporting": "--name=a --ioengine=null --size=1m --bs=4k --rw=randrw --unified_rw_reporting=mixed",
    "two-priorities": (
        "--ioengine=null --size=1m --bs=4k --rw=randread --group_reporting --name=a --prio=3 --name=b --prio=5"
    ),
    "errors-counted": "--name=a --ioengine=null --size=1m --bs=4k --rw=randrw --continue_on_error=all",
}


def run_fio(program: str, arguments: str) -> str:
    """What a run prints; times are in UTC."""
    with tempfile.TemporaryDirectory() as folder:
        command = [program, *shlex.split(arguments), "--output-format=normal,json+"]
        environment = {"TZ": "UTC", "PATH": "/usr/bin:/bin"}
        done = subprocess.run(
            command, capture_output=True, text=True, check=True, env=environment, cwd=folder
        )
        return done.stdout


if __name__ == "__main__":
    DATA.mkdir(exist_ok=True)
    for run, options in RUNS.items():
        (DATA / f"{run}.out").write_text(f"{options}\n{run_fio('fio', options)}")
