"""`simulate`: a fio job on a machine, in one call. What the command line and Python users stand on.

from blklab import simulate
result = simulate("job.fio", machine="nvme-server", scheduler=MyScheduler)
print(result.jobs[0].stats.read.clat.mean)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING

from blklab.block.consts import TR_ALL
from blklab.block.trace import Tracer
from blklab.sim.build import build
from blklab.sim.cgroups import with_groups_for
from blklab.sim.machine import Machine, load_machine
from blklab.sim.run import FIRST_PID, Run
from blklab.trace.blkparse import BlkparseWriter
from blklab.workload.jobfile import parse_job_file
from blklab.workload.jobspec import JobFile

if TYPE_CHECKING:
    from blklab.block.elevator import Elevator
    from blklab.metrics.result import RunResult
    from blklab.sim.progress import Progress, StopFlag

DEFAULT_SEED = 1


def simulate(
    job: str | Path | JobFile,
    machine: str | Path | Machine = "default",
    scheduler: str | type[Elevator] | None = None,
    seed: int | None = None,
    settings: Sequence[str] = (),
    kernel: str | None = None,
    costs: str | None = None,
    at: Sequence[str] = (),
    show: Sequence[str] = (),
    trace: IO[str] | None = None,
    progress: Callable[[Progress], object] | None = None,
    stop: StopFlag | None = None,
) -> RunResult:
    """Run a job file on a machine and return what fio would report.

    `job`: a path, or what `parse_job_file` / `parse_command_line` gave. `machine`: a preset's name, a TOML
    file, or what `load_machine` gave; `settings` ("queue/nr_requests=64"), `kernel` and `costs` are set on
    top of a named one. `at` ("2s:queue/scheduler=kyber") is written during the run; `show` ("hctx0/*") names
    attributes whose values at the end come as `result.attributes`. `scheduler`: a name, 'file.py:Class' or a
    class, for every device. `seed` decides whatever is random in the devices and in jobs without randrepeat:
    the same seed gives the same bytes.

    `trace`: a file that gets all tracepoints as blkparse prints them.

    Raises BlklabError for anything the user can have got wrong, before the run begins.
    """
    if not isinstance(job, JobFile):
        job = parse_job_file(Path(job))
    if not isinstance(machine, Machine):
        machine = load_machine(machine, settings=settings, kernel=kernel, costs=costs)
    machine = with_groups_for(machine, job)
    built = build(machine, DEFAULT_SEED if seed is None else seed, scheduler)
    run = Run(built, job, at, show)
    if trace is None:
        return run.run(progress, stop)
    writer = BlkparseWriter(trace, FIRST_PID)
    tracer = Tracer(built.host, TR_ALL, writer.write)
    writer.messages = tracer.messages
    built.trace(tracer, TR_ALL)
    result = run.run(progress, stop)
    tracer.flush()
    return result
