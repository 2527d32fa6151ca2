"""fio-style command lines: `--name=a --rw=randread --bs=4k job.fio --output-format=json`.

Theory of operation
    As in fio, options before the first --name, and after --name=global, are [global] options; each further --name
    starts a job from them; job files come after all of these, whatever stands first, and each file after the first
    starts with fresh [global] options and waits for the jobs before it. Options are read in their order. A value
    may follow '=' or be the next word, except for an option that may stand alone; one dash or two are the same;
    a name may be shortened while it stays unique.

    What is not an option of a job goes to the caller: fio's own output options and those of the program this is part
    of (`own_options`), as a list of `--name=value` words.

Deliberate differences from fio 3.33
    Options of an I/O engine may stand before --ioengine. Server, client, profile and self-test options are refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from blklab.core.errors import BlklabError, nearest
from blklab.workload.jobfile import Context, make_job_file, parse_job_file
from blklab.workload.jobspec import JobFile, JobSpec
from blklab.workload.options import find_option, option_names
from blklab.workload.settings import Settings, build_spec, check_jobs


class Takes(Enum):
    """Whether an option of a command line has a value."""

    NOTHING = "nothing"
    MAYBE = "maybe"  # only with '='
    VALUE = "value"


PASS_ON, IGNORE, REFUSE, HERE = "pass on", "no effect", "not built", "here"

# fio's own options, which are not options of a job: name, value, what is done with it.
FIO_COMMANDS: Mapping[str, tuple[Takes, str]] = {
    "output": (Takes.VALUE, PASS_ON),
    "output-format": (Takes.VALUE, PASS_ON),
    "minimal": (Takes.NOTHING, PASS_ON),
    "append-terse": (Takes.MAYBE, PASS_ON),
    "terse-version": (Takes.VALUE, PASS_ON),
    "version": (Takes.NOTHING, PASS_ON),
    "help": (Takes.NOTHING, PASS_ON),
    "cmdhelp": (Takes.MAYBE, PASS_ON),
    "enghelp": (Takes.MAYBE, PASS_ON),
    "showcmd": (Takes.NOTHING, PASS_ON),
    "parse-only": (Takes.NOTHING, PASS_ON),
    "eta": (Takes.VALUE, PASS_ON),
    "eta-interval": (Takes.VALUE, PASS_ON),
    "eta-newline": (Takes.VALUE, PASS_ON),
    "status-interval": (Takes.VALUE, PASS_ON),
    "section": (Takes.VALUE, HERE),
    "readonly": (Takes.NOTHING, HERE),
    "warnings-fatal": (Takes.NOTHING, HERE),
    "alloc-size": (Takes.VALUE, IGNORE),
    "max-jobs": (Takes.VALUE, IGNORE),
    "debug": (Takes.VALUE, IGNORE),
    "idle-prof": (Takes.VALUE, IGNORE),
    "aux-path": (Takes.VALUE, IGNORE),
    "bandwidth-log": (Takes.NOTHING, REFUSE),
    "latency-log": (Takes.VALUE, REFUSE),
    "profile": (Takes.VALUE, REFUSE),
    "server": (Takes.MAYBE, REFUSE),
    "daemonize": (Takes.VALUE, REFUSE),
    "client": (Takes.VALUE, REFUSE),
    "remote-config": (Takes.VALUE, REFUSE),
    "cpuclock-test": (Takes.NOTHING, REFUSE),
    "crctest": (Takes.MAYBE, REFUSE),
    "memcpytest": (Takes.MAYBE, REFUSE),
    "inflate-log": (Takes.VALUE, REFUSE),
    "trigger-file": (Takes.VALUE, REFUSE),
    "trigger-timeout": (Takes.VALUE, REFUSE),
    "trigger": (Takes.VALUE, REFUSE),
    "trigger-remote": (Takes.VALUE, REFUSE),
    "merge-blktrace-only": (Takes.NOTHING, REFUSE),
}

NO_OPTIONS: Mapping[str, Takes] = {}
WHERE = "command line"


@dataclass(slots=True)
class _Line:
    """A command line on its way to jobs."""

    own_options: Mapping[str, Takes]
    context: Context
    globals_: Settings = field(default_factory=Settings)
    job: Settings | None = None
    skipping: bool = False  # in a section that --section leaves out
    jobs: list[JobSpec] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    sections: list[str] = field(default_factory=list)
    rest: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    readonly: bool = False
    warnings_fatal: bool = False

    def end_job(self) -> None:
        """The settings collected since the last --name become a job."""
        if self.job is not None:
            self.jobs.append(build_spec(self.job, "fio", WHERE))
        self.job = None

    def job_option(self, name: str, value: str | None) -> None:
        """An option of a job, or --name, which starts one."""
        where = f"--{name}"
        if name != "name":
            if self.skipping:
                return
            (self.job or self.globals_).set(name, value, where, tuple(self.own_options))
            return
        self.end_job()
        title = value or ""
        if not title:
            raise BlklabError("a job needs a name: --name=NAME", where)
        self.skipping = bool(self.sections) and not title.startswith("global") and title not in self.sections
        if not title.startswith("global") and not self.skipping:
            self.job = self.globals_.copy_for_job()
            self.job.set("name", title, where)

    def fio_command(self, name: str, value: str | None) -> None:
        """One of fio's options that are not a job's."""
        action = FIO_COMMANDS[name][1]
        if action == PASS_ON:
            self.rest.append(f"--{name}" if value is None else f"--{name}={value}")
        elif action == REFUSE:
            raise BlklabError(f"fio's --{name} is not built", f"--{name}")
        elif action == IGNORE:
            self.notes.append(f"--{name}: has no effect: it concerns fio's own process")
        elif name == "section":
            if value == "global":
                raise BlklabError(
                    "global cannot be the only section; accepted: the name of a job", "--section"
                )
            self.sections.append(value or "")
        elif name == "readonly":
            self.readonly = True
        else:
            self.warnings_fatal = True


def parse_command_line(
    argv: Sequence[str],
    own_options: Mapping[str, Takes] = NO_OPTIONS,
    context: Context | None = None,
) -> tuple[JobFile | None, list[str]]:
    """Read the words of a command line (without the program's name).

    Returns the jobs, or None if no job was named, and the words that are the caller's: its `own_options` (name, and
    whether it has a value) and fio's output options, each as one word `--name=value`. Raises BlklabError.
    """
    line = _Line(own_options, context or Context())
    words = list(argv)
    position = 0
    while position < len(words):
        word = words[position]
        position += 1
        if word == "--":
            line.files += words[position:]
            break
        if not word.startswith("-") or word == "-":
            line.files.append(word)
            continue
        name, equals, text = word.lstrip("-").partition("=")
        name = _full_name(name, own_options, word)
        takes = _takes(name, own_options)
        value = text if equals else None
        if takes is Takes.VALUE and value is None:
            if position == len(words):
                raise BlklabError(f"{word} needs a value", WHERE)
            value = words[position]
            position += 1
        if takes is Takes.NOTHING and value is not None:
            raise BlklabError(f"--{name} takes no value, but has {value!r}", WHERE)
        if name in own_options:
            line.rest.append(f"--{name}" if value is None else f"--{name}={value}")
        elif name in FIO_COMMANDS:
            line.fio_command(name, value)
        else:
            if takes is Takes.VALUE and not value:
                raise BlklabError("the value is missing", f"--{name}")
            line.job_option(name, value)
    line.end_job()
    return _finish(line), line.rest


def _finish(line: _Line) -> JobFile | None:
    """All jobs of a command line: those named on it, then those of its files."""
    jobs = line.jobs
    global_given = list(line.globals_.given)
    context = Context(line.context.environment, line.context.keywords, line.sections or line.context.sections)
    start: Settings | None = line.globals_
    for index, name in enumerate(line.files):
        # The command line's globals hold for the first file; later files start anew, behind a stonewall.
        found = parse_job_file(name, context, stonewall=index > 0, start=start)
        start = None
        global_given = list(dict((*global_given, *found.global_options)).items())
        jobs.extend(found.jobs)
    if not jobs:
        return None
    check_jobs(jobs)
    for spec in jobs:
        if line.readonly and (spec.writes or spec.trims):
            raise BlklabError(f"job {spec.name!r} has rw={spec.rw}, which --readonly forbids", spec.where)
        if line.warnings_fatal and spec.notes:
            raise BlklabError(f"--warnings-fatal: {spec.notes[0]}", spec.where)
    found_file = make_job_file(jobs, " ".join(line.files) or WHERE, global_given)
    notes = (*line.notes, *found_file.notes)
    return JobFile(found_file.jobs, notes, found_file.global_options, found_file.source)


def _takes(name: str, own_options: Mapping[str, Takes]) -> Takes:
    if name in own_options:
        return own_options[name]
    if name in FIO_COMMANDS:
        return FIO_COMMANDS[name][0]
    return Takes.VALUE if find_option(name).takes_value else Takes.MAYBE


def _full_name(name: str, own_options: Mapping[str, Takes], word: str) -> str:
    """The option's whole name: as it stands, or the one that begins so."""
    known = dict.fromkeys((*own_options, *FIO_COMMANDS, *option_names()))
    if name in known:
        return name
    starting = [candidate for candidate in known if name and candidate.startswith(name)]
    if len(starting) == 1:
        return starting[0]
    if starting:
        raise BlklabError(f"{word}: {name!r} may be {', '.join(starting[:8])}", WHERE)
    try:
        find_option(name)
    except BlklabError as error:
        if error.message.startswith("unknown option"):
            raise BlklabError(f"unknown option {name!r}{nearest(name, known)}", WHERE) from None
        raise BlklabError(error.message, WHERE) from None
    return name
