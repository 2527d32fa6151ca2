"""`blklab new scheduler NAME`: a scheduler of your own to begin with, and its test.

What: writes NAME.py, a working scheduler with the hooks that most schedulers need, and test_NAME.py, which
holds it to the contract that the built-in ones are held to (`lab/contract.py`). Both work as they are: change
the first until it does what you have in mind, and run the second after each change.

KINDS is the table of what can be made anew: kind, and the files with their templates.
"""

from __future__ import annotations

import keyword
import re
from importlib.resources import files
from pathlib import Path

from blklab.block.elevator import elevator_names
from blklab.cli.arguments import Arguments
from blklab.core.errors import BlklabError, nearest

# kind -> (file to write, template in cli/templates); $NAME, $MODULE and $CLASS are filled in
KINDS: dict[str, tuple[tuple[str, str], ...]] = {
    "scheduler": (
        ("{module}.py", "scheduler.py.template"),
        ("test_{module}.py", "test_scheduler.py.template"),
    ),
}

NAME = re.compile(r"[a-z][a-z0-9]*([-_][a-z0-9]+)*")
MAX_NAME_LENGTH = 15  # ELV_NAME_MAX less the end of the string

USAGE = "blklab new scheduler NAME [--dir FOLDER]"
DESCRIPTION = """\
Writes a scheduler that works, NAME.py, and a test that it passes, test_NAME.py, to change into your own."""


def parser() -> Arguments:
    """The options of this command."""
    found = Arguments("new", USAGE, DESCRIPTION, "")
    found.add_argument("kind", metavar="KIND", help=f"what to make: {', '.join(KINDS)}")
    found.add_argument("name", metavar="NAME", help="its name, as it is written to queue/scheduler: my-sched")
    found.add_argument("--dir", metavar="FOLDER", default=".", help="where to (default: here)")
    return found


def check_name(name: str) -> None:
    """Raises BlklabError if a scheduler cannot be called that."""
    where = f"new scheduler {name}"
    if not NAME.fullmatch(name) or len(name) > MAX_NAME_LENGTH:
        raise BlklabError(
            f"{name!r} is no name for a scheduler; accepted are lower-case letters, digits and single "
            f"dashes, beginning with a letter, at most {MAX_NAME_LENGTH}: my-sched",
            where,
        )
    if keyword.iskeyword(name):
        raise BlklabError(f"{name!r} is a word of Python's, a module cannot be called that", where)
    if name in elevator_names():
        raise BlklabError(
            f"there is a scheduler {name!r} already; `blklab list schedulers` shows them", where
        )


def fill_in(template: str, name: str) -> str:
    """A template with the names filled in."""
    text = (files("blklab.cli") / "templates" / template).read_text()
    words = re.split("[-_]", name)
    text = text.replace("$CLASS", "".join(word.capitalize() for word in words))
    return text.replace("$MODULE", "_".join(words)).replace("$NAME", name)


def run(argv: list[str]) -> int:
    """Does it. Returns 0."""
    arguments = parser().parse_args(argv)
    kind, name = arguments.kind, arguments.name
    if kind not in KINDS:
        raise BlklabError(
            f"cannot make a {kind!r}{nearest(kind, KINDS)}; accepted: {', '.join(KINDS)}", "new"
        )
    check_name(name)
    folder = Path(arguments.dir)
    if not folder.is_dir():
        raise BlklabError(f"there is no folder {arguments.dir}", "--dir")
    module = name.replace("-", "_")
    texts = [(folder / path.format(module=module), fill_in(template, name)) for path, template in KINDS[kind]]
    for path, _ in texts:
        if path.exists():
            raise BlklabError(f"{path} is there already, and stays as it is", f"new scheduler {name}")
    written: list[Path] = []
    try:
        for path, text in texts:
            with path.open("x") as file:
                written.append(path)
                file.write(text)
    except OSError as error:
        for path in written:
            path.unlink(missing_ok=True)
        raise BlklabError(f"cannot write there: {error.strerror}", str(folder)) from None
    class_name = "".join(word.capitalize() for word in re.split("[-_]", name))
    print(f"wrote {texts[0][0]} and {texts[1][0]}; try")
    print(f"  python -m pytest {texts[1][0]}")
    print(f"  blklab run JOB.fio --scheduler {texts[0][0]}:{class_name}")
    return 0
