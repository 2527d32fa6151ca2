"""`blklab run`: a fio job on a simulated machine.

    blklab run JOB.fio [--machine M] [--set PATH=VALUE]... [fio's own options]

Theory of operation
-------------------
A command line is read as fio reads it, by `workload.cmdline`, which knows which options have a value and what
may be shortened. It makes the jobs and hands back the words that are ours (OWN_OPTIONS) or fio's about output;
argparse reads those, and makes the help.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from blklab.cli.arguments import Arguments
from blklab.cli.status import EXIT_INTERRUPTED
from blklab.core.errors import BlklabError, nearest

if TYPE_CHECKING:
    from blklab.metrics.result import RunResult
    from blklab.sim.machine import Machine
    from blklab.workload.jobspec import JobFile

# In the order in which fio prints them when several are asked for
FORMATS = ("json", "json+", "normal")
FORMATS_LATER = ("terse",)

# Options that fio does not have, and whether they have a value
OWN_OPTIONS: dict[str, bool] = {
    "machine": True,
    "set": True,
    "kernel": True,
    "scheduler": True,
    "costs": True,
    "zero-costs": False,
    "seed": True,
    "trace": True,
    "at": True,
    "show": True,
}

USAGE = "blklab run [JOB.fio ...] [--name=JOB --rw=... ...] [options]"
DESCRIPTION = """\
Runs the jobs of fio job files, or of fio's own options on the command line, on a simulated machine in virtual
time, and prints what fio would have printed there."""


def parser() -> Arguments:
    """The options of this command, and those of fio that are about its output."""
    from blklab.sim.settings import SETTING_FORMS

    forms = "\n".join(f"  --set {example:36s} {what}" for _, example, what in SETTING_FORMS)
    epilog = f"""\
settings, each on top of the machine and in order:
{forms}

All of fio's job options are accepted as --OPTION=VALUE after --name; `blklab list options` shows which
are modelled."""
    found = Arguments("run", USAGE, DESCRIPTION, epilog)
    machine = found.add_argument_group("the machine")
    machine.add_argument("--machine", metavar="NAME|FILE", default="default", help="a preset or a TOML file")
    machine.add_argument(
        "--set", metavar="PATH=VALUE", action="append", default=[], help="one setting; see below"
    )
    machine.add_argument("--kernel", metavar="VERSION", help="the kernel's version, as 6.1 or 4.17")
    machine.add_argument(
        "--scheduler",
        metavar="NAME|FILE.py:CLASS",
        help="the scheduler of every device; a class of your own as well",
    )
    machine.add_argument("--costs", metavar="NAME|FILE", help="what each step costs a CPU: a cost table")
    machine.add_argument("--zero-costs", action="store_true", help="nothing costs CPU time: pure queueing")
    run = found.add_argument_group("the run")
    run.add_argument(
        "--at",
        metavar="TIME:PATH=VALUE",
        action="append",
        default=[],
        help="write an attribute or a control file while the run goes, as 2s:queue/scheduler=kyber",
    )
    run.add_argument(
        "--seed", metavar="N", type=_seed, help="seed of everything random but the jobs' offsets"
    )
    run.add_argument("--eta", choices=("auto", "always", "never"), default="auto", help="the progress line")
    out = found.add_argument_group("the results")
    out.add_argument(
        "--output-format",
        metavar="FORMAT[,FORMAT]",
        default="normal",
        help=f"of {', '.join(FORMATS)} (default normal)",
    )
    out.add_argument("--output", metavar="FILE", help="write the results there instead")
    out.add_argument(
        "--show",
        metavar="PATH",
        action="append",
        default=[],
        help="also print attributes as they are at the end, to stderr: hctx0/dispatch_busy, 'sched/*', 'cgroup/db/*'",
    )
    out.add_argument("--trace", metavar="FILE", help="write all tracepoints there, as blkparse prints them")
    return found


def _seed(text: str) -> int:
    try:
        seed = int(text, 0)
    except ValueError:
        seed = -1
    if not 0 <= seed < 1 << 63:
        raise BlklabError(f"a whole number from 0 to 2^63-1, not {text!r}", "--seed")
    return seed


def formats(text: str) -> list[str]:
    """The output formats of "normal,json", in the order in which they are printed."""
    asked = [word.strip() for word in text.split(",")]
    for word in asked:
        if word in FORMATS_LATER:
            raise BlklabError(
                f"{word} is not built yet; accepted are {', '.join(FORMATS)}", "--output-format"
            )
        if word not in FORMATS:
            raise BlklabError(
                f"no format {word!r}{nearest(word, FORMATS)}; accepted are {', '.join(FORMATS)}",
                "--output-format",
            )
    if "json+" in asked:  # it is json with more in it; fio prints the one
        asked = [word for word in asked if word != "json"]
    return [known for known in FORMATS if known in asked]


def render(result: RunResult, asked: Sequence[str]) -> str:
    """The results in the formats asked for, one after the other as fio does it."""
    from blklab.report import fio_json, fio_text

    text = fio_text.render_header(result) if "normal" in asked else ""
    for word in asked:
        if word == "normal":
            text += fio_text.render_text(result, header=False)
        else:
            text += fio_json.render_json(result, plus=word == "json+")
    return text


def load(arguments: Namespace) -> Machine:
    """The machine that the options ask for."""
    from blklab.sim.machine import check_scheduler, load_machine

    if arguments.zero_costs and arguments.costs not in (None, "zero"):
        raise BlklabError(f"contradicts --costs {arguments.costs}: one or the other", "--zero-costs")
    costs = "zero" if arguments.zero_costs else arguments.costs
    machine = load_machine(arguments.machine, arguments.set, kernel=arguments.kernel, costs=costs)
    if arguments.scheduler is not None:
        check_scheduler(machine.features, arguments.scheduler, "--scheduler")
    return machine


def run(argv: list[str]) -> int:
    """Does it. Returns 0, or 130 if the run was interrupted and these are the results so far."""
    if "-h" in argv or "--help" in argv:
        parser().print_help()
        return 0
    from blklab.workload.cmdline import Takes, parse_command_line

    own = {name: Takes.VALUE if has_value else Takes.NOTHING for name, has_value in OWN_OPTIONS.items()}
    job_file, words = parse_command_line(argv, own)
    arguments, unknown = parser().parse_known_args(words)
    if unknown:
        raise BlklabError(
            f"fio's {unknown[0]} is not built; `blklab run --help` shows what is", "command line"
        )
    asked = formats(arguments.output_format)
    if job_file is None:
        raise BlklabError("no job: give a job file, or --name=... with --rw=... and so on", "command line")
    machine = load(arguments)
    output = Path(arguments.output) if arguments.output else None
    return simulate_and_report(job_file, machine, arguments, asked, output)


def simulate_and_report(
    job_file: JobFile, machine: Machine, arguments: Namespace, asked: Sequence[str], output: Path | None
) -> int:
    """The run itself, with its progress line, Ctrl-C, results and notes. Returns the exit status."""
    from blklab.cli.output import check_writable, write_result, writing
    from blklab.cli.progress import Interrupt, ProgressLine
    from blklab.sim.api import simulate
    from blklab.sim.progress import StopFlag

    trace = Path(arguments.trace) if arguments.trace else None
    for path, option in ((output, "--output"), (trace, "--trace")):
        if path is not None:
            check_writable(path, option)
    stop = StopFlag()
    show = arguments.eta == "always" or (arguments.eta == "auto" and sys.stderr.isatty())
    line = ProgressLine(sys.stderr) if show else None
    try:
        with Interrupt(stop), writing(trace, "--trace") if trace else nullcontext() as trace_file:
            result = simulate(
                job_file,
                machine=machine,
                scheduler=arguments.scheduler,
                seed=arguments.seed,
                at=arguments.at,
                show=arguments.show,
                trace=trace_file,
                progress=line,
                stop=stop,
            )
    finally:
        if line is not None:
            line.clear()
    write_result(render(result, asked), output)
    for shown in result.attributes:
        print(shown, file=sys.stderr)
    for note in result.notes:
        print(f"blklab: note: {note}", file=sys.stderr)
    if stop.stopped:
        print("blklab: interrupted: these are the results so far", file=sys.stderr)
        return EXIT_INTERRUPTED
    return 0
