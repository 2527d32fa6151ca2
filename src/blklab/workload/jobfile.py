"""fio job files: sections, comments, includes, environment variables, keywords.

A job file is not an INI file as `configparser` reads it: [global] may stand several times and adds to the jobs
after it, names of sections repeat, an option may stand without a value, a comment may follow one.

Theory of operation
    Lines are read in two steps, as in fio. First they become sections: '[name]' starts one (every name that begins
    with "global" is a [global]), ';' and '#' end a line wherever they stand, `include FILE` puts the lines of a file
    in place of itself (looked for from the current directory, then beside the including file). At the end of a
    section its options are sorted (kb_base before sizes, filename after nrfiles; else in their order), `${NAME}`
    becomes the environment variable or nothing, $ncpus, $pagesize and $mb_memory become numbers with which the value
    may calculate (`size=$pagesize*16`), and each option is read. A [global] section changes what later jobs start
    from; a job section becomes a `JobSpec`.

Deliberate differences from fio 3.33
    No option is dropped with its job: the first wrong one ends the reading, with file and line. An include of a file
    that is being read already is an error (fio goes on until it runs out of files). Files above 2 MiB, sections of
    more than 1000 options, lines above 8191 characters and binary files are refused. $ncpus and $mb_memory are the
    simulated machine's, not the host's.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from blklab.core.errors import BlklabError
from blklab.workload.jobspec import MAX_JOBS, JobFile, JobSpec
from blklab.workload.options import find_option
from blklab.workload.settings import Settings, build_spec, check_jobs
from blklab.workload.units import parse_size

MAX_FILE_BYTES = 2 << 20
MAX_LINE_CHARS = 8191  # fio's buffer for a line
MAX_SECTION_NAME = 255
MAX_INCLUDES = 64  # nested
MAX_OPTIONS = 1000  # of one section

# What the keywords become if the caller does not say: the default machine of `blklab run`.
DEFAULT_KEYWORDS: Mapping[str, int] = {"$pagesize": 4096, "$mb_memory": 16384, "$ncpus": 8}

# fio's priorities: options read before and after all others of their section.
_FIRST = ("kb_base", "unit_base", "lockfile", "cpus_allowed_policy")
_LAST = ("filename", "filename_format")


@dataclass(frozen=True, slots=True)
class Context:
    """What a job file is read with: environment, keywords, and the sections to keep (empty: all)."""

    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)
    keywords: Mapping[str, int] = field(default_factory=lambda: DEFAULT_KEYWORDS)
    sections: Collection[str] = ()


@dataclass(slots=True)
class Section:
    """One section as it stands in the file: (option line, its place) for each option."""

    name: str
    where: str
    lines: list[tuple[str, str]] = field(default_factory=list)

    @property
    def is_global(self) -> bool:
        """fio takes every name that begins so for a [global]."""
        return self.name.startswith("global")


def parse_job_file(
    path: Path | str,
    context: Context | None = None,
    *,
    stonewall: bool = False,
    start: Settings | None = None,
) -> JobFile:
    """Read a job file; "-" is standard input.

    `stonewall`: the first job waits for all jobs before it, as fio has it for each file of a command line after
    the first. `start`: what [global] settings there are already. Raises BlklabError with file and line.
    """
    path = Path(path)
    return parse_job_text(_read_file(path), _display(path), context, stonewall=stonewall, start=start)


def parse_job_text(
    text: str,
    source: str,
    context: Context | None = None,
    *,
    stonewall: bool = False,
    start: Settings | None = None,
) -> JobFile:
    """Read the text of a job file; `source` is its path or another name for error messages."""
    context = context or Context()
    sections = _Reader(source).sections(text)
    globals_ = start or Settings()
    jobs: list[JobSpec] = []
    for section in sections:
        if section.is_global:
            _apply(section, globals_, context)
            continue
        if context.sections and section.name not in context.sections:
            continue
        settings = globals_.copy_for_job()
        if stonewall and not jobs:
            settings.values["stonewall"] = True
        _apply(section, settings, context)
        jobs.append(build_spec(settings, section.name, section.where))
        if len(jobs) > MAX_JOBS:
            raise BlklabError(f"more than {MAX_JOBS} jobs; fio accepts as many too", where=section.where)
    if not jobs:
        wanted = f" of {', '.join(context.sections)}" if context.sections else ""
        raise BlklabError(
            f"no job{wanted}; a job file has a [name] section for each job besides [global]", source
        )
    check_jobs(jobs)
    return make_job_file(jobs, source, globals_.given)


def make_job_file(jobs: Sequence[JobSpec], source: str, global_given: Sequence[tuple[str, str]]) -> JobFile:
    """A JobFile of these jobs, with the notes of all, each once.

    exitall in one job holds for all of them: in fio it is one switch for the whole run.
    """
    if any(spec.exitall for spec in jobs):
        jobs = [replace(spec, exitall=True) for spec in jobs]
    notes = dict.fromkeys(note for spec in jobs for note in spec.notes)
    return JobFile(tuple(jobs), tuple(notes), tuple(dict(global_given).items()), source)


def _display(path: Path) -> str:
    return "<stdin>" if str(path) == "-" else str(path)


def _read_file(path: Path, include_from: str | None = None) -> str:
    """The text of a file, refused if it cannot be one. `include_from` is the place of the include statement."""
    where = include_from or _display(path)
    named = f"included file {path} " if include_from else ""
    try:
        if str(path) == "-" and not include_from:
            data = sys.stdin.buffer.read(MAX_FILE_BYTES + 1)
        else:
            with path.open("rb") as file:
                data = file.read(MAX_FILE_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise BlklabError(f"{named}cannot be read: {reason}", where) from None
    if len(data) > MAX_FILE_BYTES:
        raise BlklabError(
            f"{named}is larger than {MAX_FILE_BYTES >> 20} MiB, too large for a job file", where
        )
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = data.decode("latin-1")
    for number, line in enumerate(text.split("\n"), 1):
        if not line.isprintable() and any(ch < " " and ch not in "\t\r\f\v" for ch in line):
            raise BlklabError(f"{named}is not a text file: control characters in line {number}", where)
    return text


class _Reader:
    """Splits texts into sections, following includes."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.open_files: list[str] = [_identity(Path(source))]

    def sections(self, text: str) -> list[Section]:
        """The sections of a job file."""
        found: list[Section] = []
        for line, where in self.lines(text, self.source):
            if line.startswith("["):
                found.append(Section(self.section_name(line, where), where))
                continue
            if not found:
                raise BlklabError(f"{_short(line)!r} stands before the first [section]", where)
            if _is_include(line):
                found[-1].lines += self.include(line[8:].strip(), self.source, where)
            else:
                found[-1].lines.append((line, where))
        return found

    def lines(self, text: str, source: str) -> list[tuple[str, str]]:
        """The lines that hold something, without comments and blanks around, each with its place."""
        found: list[tuple[str, str]] = []
        for number, line in enumerate(text.split("\n"), 1):
            where = f"{source}:{number}"
            if len(line) > MAX_LINE_CHARS:
                raise BlklabError(
                    f"a line of {len(line)} characters; at most {MAX_LINE_CHARS} are accepted", where
                )
            line = line.split(";", 1)[0].split("#", 1)[0].strip()
            if line:
                found.append((line, where))
        return found

    def section_name(self, line: str, where: str) -> str:
        """The name between the brackets. It may hold brackets itself: the last one ends it."""
        if not line.endswith("]"):
            raise BlklabError(f"{_short(line)!r} is no section: ']' is missing at its end", where)
        if len(line) - 2 > MAX_SECTION_NAME:
            raise BlklabError(f"a section name of more than {MAX_SECTION_NAME} characters", where)
        return line[1:-1]

    def include(self, name: str, source: str, where: str) -> list[tuple[str, str]]:
        """The option lines of an included file, and of those it includes."""
        if not name:
            raise BlklabError("include needs the name of a file", where)
        path = Path(name)
        if not path.exists() and (beside := Path(source).parent / name).exists():
            path = beside
        identity = _identity(path)
        if identity in self.open_files:
            chain = " includes ".join([*(Path(file).name for file in self.open_files), path.name])
            raise BlklabError(f"include {name}: files include each other: {chain}", where)
        if len(self.open_files) > MAX_INCLUDES:
            raise BlklabError(f"include {name}: more than {MAX_INCLUDES} files include one another", where)
        self.open_files.append(identity)
        found: list[tuple[str, str]] = []
        for line, place in self.lines(_read_file(path, include_from=where), str(path)):
            if line.startswith("["):
                raise BlklabError(f"{_short(line)!r}: an included file cannot start a section", place)
            if _is_include(line):
                found += self.include(line[8:].strip(), str(path), place)
            else:
                found.append((line, place))
        self.open_files.pop()
        return found


def _is_include(line: str) -> bool:
    # fio skips whatever one character follows the word
    return line.startswith("include") and (line[7:8].isspace() or line[7:8] in ("", "="))


def _identity(path: Path) -> str:
    return os.path.realpath(path)


def _short(line: str) -> str:
    return line if len(line) <= 60 else line[:57] + "..."


def _apply(section: Section, settings: Settings, context: Context) -> None:
    """Read the options of a section into `settings`, in fio's order."""
    if len(section.lines) > MAX_OPTIONS:
        count = f"{len(section.lines)} options; at most {MAX_OPTIONS} are accepted"
        raise BlklabError(f"section [{_short(section.name)}] has {count}", section.where)
    options: list[tuple[int, str, str | None, str]] = []
    for line, where in section.lines:
        line = _substitute(line, where, context)
        name, equals, value = line.partition("=")
        name = name.strip()
        if not name:
            raise BlklabError(f"{_short(line)!r}: the name of an option is missing before '='", where)
        try:
            canonical = find_option(name).name
        except BlklabError as error:
            raise BlklabError(error.message, where) from None
        rank = -1 if canonical in _FIRST else 1 if canonical in _LAST else 0
        options.append((rank, name, value if equals else None, where))
    options.sort(key=lambda option: option[0])
    for _, name, text, where in options:
        settings.set(name, text, where)


def _substitute(line: str, where: str, context: Context) -> str:
    """`${NAME}` and the $keywords of an option line replaced by their values."""
    start = line.find("${")
    while start >= 0:
        end = line.find("}", start)
        if end < 0:
            break
        value = context.environment.get(line[start + 2 : end], "")
        line = line[:start] + value + line[end + 1 :]
        start = line.find("${", start + len(value))
    if len(line) > MAX_LINE_CHARS:
        raise BlklabError(f"with its variables the line has {len(line)} characters, too many", where)
    calculate = False
    for keyword, number in context.keywords.items():
        if keyword in line:
            line = line.replace(keyword, str(number))
            calculate = True
    name, equals, value = line.partition("=")
    if calculate and equals and any(operator in value for operator in "+-*/") and "'" not in value:
        try:
            return f"{name}={parse_size(f'({value})')}"
        except BlklabError:
            return line  # a path such as /tmp/$ncpus/x is no calculation
    return line
