"""The command `blklab`: finds the sub-command, and turns what goes wrong into one line and an exit status.

One file a sub-command, imported only when it is used, so that `blklab --help` and errors are quick:
COMMANDS is the table. A command is a module with `run(argv: list[str]) -> int`. Adding one: its file, and a
line here.

Exit status: 0 done; 2 the user's input is wrong (one line on stderr, no traceback), which includes a scheduler of their
own that raises an exception; 130 interrupted; 1 a
bug of blklab (BLKLAB_TRACEBACK=1 shows where). argparse reads the options: it is in the standard library,
takes 10 ms to import where others take 200 and more, and leaves unknown options alone, which is what
passing fio's own through needs.
"""

from __future__ import annotations

import importlib
import os
import sys

from blklab.cli.status import EXIT_BUG, EXIT_INTERRUPTED, EXIT_PIPE, EXIT_USAGE
from blklab.core.errors import BlklabError, nearest

# command, module, what it does
COMMANDS: list[tuple[str, str, str]] = [
    ("run", "blklab.cli.run", "run a fio job on a simulated machine and report as fio does"),
    (
        "list",
        "blklab.cli.listing",
        "show what there is: schedulers, devices, machines, kernels, options, ...",
    ),
    ("new", "blklab.cli.new", "write a scheduler of your own to begin with, and its test"),
]

# What block/elevator.py calls the modules of schedulers that are loaded from a file
USER_MODULE = "blklab_user_"

HELP_HEAD = """\
usage: blklab COMMAND ...

The Linux multi-queue block layer in virtual time: runs fio jobs on simulated machines.

commands:
"""
HELP_TAIL = """
examples:
  blklab run job.fio
  blklab run --name=a --rw=randread --bs=4k --iodepth=64 --ioengine=libaio --direct=1 --number_ios=100000
  blklab run job.fio --machine nvme-server --set queue/scheduler=kyber --kernel 5.10
  blklab list machines

`blklab COMMAND --help` says more; `blklab --version` shows the version.
"""


def help_text() -> str:
    """The text of `blklab --help`."""
    return HELP_HEAD + "".join(f"  {name:6s} {text}\n" for name, _, text in COMMANDS) + HELP_TAIL


def version_text() -> str:
    """The installed version, or "unknown" where the package is not installed."""
    from importlib import metadata

    try:
        return metadata.version("blklab")
    except metadata.PackageNotFoundError:
        return "unknown"


def dispatch(argv: list[str]) -> int:
    """Runs the command of `argv` and returns its exit status. Raises BlklabError for a wrong command."""
    if not argv or argv[0] in ("-h", "--help", "help"):
        print(help_text(), end="")
        return 0 if argv else EXIT_USAGE
    if argv[0] in ("-V", "--version"):
        print(f"blklab {version_text()}")
        return 0
    modules = {name: module for name, module, _ in COMMANDS}
    if argv[0] not in modules:
        what = "option" if argv[0].startswith("-") else "command"
        hint = "; did you mean `blklab run ...`?" if what == "option" or argv[0].endswith(".fio") else ""
        hint = hint or nearest(argv[0], modules)
        raise BlklabError(f"there is no {what} {argv[0]!r}{hint}; commands are {', '.join(modules)}")
    module = importlib.import_module(modules[argv[0]])
    status: int = module.run(argv[1:])
    return status


def fault_of_user(error: BaseException) -> str | None:
    """Where an exception came from, if from a scheduler that the user loaded from a file; else None."""
    place = None
    trace = error.__traceback__
    while trace is not None:
        if str(trace.tb_frame.f_globals.get("__name__", "")).startswith(USER_MODULE):
            code = trace.tb_frame.f_code
            place = f"{code.co_filename}:{trace.tb_lineno}: in {code.co_name}"
        trace = trace.tb_next
    return None if place is None else f"{place}: {type(error).__name__}: {error}"


def main(argv: list[str] | None = None) -> int:
    """The entry point of the command line. Returns the exit status; see the module's docstring."""
    try:
        status = dispatch(sys.argv[1:] if argv is None else argv)
        sys.stdout.flush()
    except BlklabError as error:
        print(f"blklab: error: {error}", file=sys.stderr)
        return EXIT_USAGE
    except KeyboardInterrupt:
        print("blklab: interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has gone; keep Python from complaining about it at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_PIPE
    except Exception as error:
        if os.environ.get("BLKLAB_TRACEBACK"):
            raise
        fault = fault_of_user(error)
        if fault is not None:
            print(f"blklab: error: {fault} (BLKLAB_TRACEBACK=1 shows the way there)", file=sys.stderr)
            return EXIT_USAGE
        print(f"blklab: this is a bug in blklab: {type(error).__name__}: {error}", file=sys.stderr)
        print(
            "blklab: please report it with the command line, the job file, `blklab --version`, and what it "
            "prints with BLKLAB_TRACEBACK=1 set",
            file=sys.stderr,
        )
        return EXIT_BUG
    return status


if __name__ == "__main__":
    sys.exit(main())
