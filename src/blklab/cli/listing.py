"""`blklab list WHAT`: tables of what there is, made from the same literal tables that the program works with.

    blklab list machines
    blklab list options iodepth          only lines that contain a word
    blklab list costs icpe24             one cost table, step by step

LISTS is the table of what can be listed. Adding one: a function that returns columns and rows, and a line
there.
"""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Callable

from blklab.cli.arguments import Arguments
from blklab.core.errors import BlklabError, nearest

# The last column is wrapped, the others are as wide as they need
Table = tuple[list[str], list[list[str]]]

NOT_BUILT = "(not built yet)"
MIN_WRAP = 30
MAX_CELL = 20


def schedulers(word: str) -> Table:
    """Schedulers: the kernels that have them, and whether they are built here."""
    from blklab.block.elevator import elevator_names, find_elevator
    from blklab.block.features import SCHEDULER_FEATURES
    from blklab.sim.kernels import feature_history

    rows = []
    built = elevator_names()
    for name in [*SCHEDULER_FEATURES, *(name for name in built if name not in SCHEDULER_FEATURES)]:
        elevator = find_elevator(name) if name in built else None
        about = ((elevator and elevator.__doc__) or "").strip().split("\n")[0]
        if name not in built:
            about = NOT_BUILT
        elif name == "none":
            about = "no scheduler: software queues straight to the driver"
        feature = SCHEDULER_FEATURES.get(name)
        rows.append([name, _spans(feature_history(feature)) if feature else "any", about])
    return ["scheduler", "in Linux", "what it is"], rows


def _spans(history: list[tuple[str, int]]) -> str:
    """Where a flag was on: "4.12 on", "to 4.20"."""
    oldest = history[0][0]
    spans = []
    since: str | None = None
    for version, value in [*history, ("", 0)]:
        if value and since is None:
            since = version
        elif not value and since is not None:
            start = "" if since == oldest else since
            spans.append(f"{start or 'always'} on" if not version else f"{start} before {version}".strip())
            since = None
    return ", ".join(spans) or "never"


def devices(word: str) -> Table:
    """Device models with their parameters."""
    from blklab.block.models import models

    rows = []
    for model, device in models().items():
        rows += [[model, item.name, item.kind, str(item.default), item.help] for item in device.parameters]
        rows += [[model, "preset", "", preset, ""] for preset in device.presets()]
    return ["model", "parameter", "type", "default", "what it is"], rows


def machines(word: str) -> Table:
    """Machine presets."""
    from blklab.sim.machine import load_machine
    from blklab.sim.machinefile import machine_names

    rows = []
    for name in machine_names():
        machine = load_machine(name)
        names = " ".join(device.name for device in machine.devices)
        rows.append(
            [name, machine.kernel, str(machine.cpus.count), machine.cpus.costs.name, names, machine.about]
        )
    return ["machine", "kernel", "CPUs", "costs", "devices", "what it is"], rows


def kernels(word: str) -> Table:
    """Kernel versions at which something changed, and what."""
    from blklab.block.features import FEATURE_TABLE
    from blklab.sim.kernels import kernel_release
    from blklab.sim.kernels import kernels as versions

    rows = []
    for version, changed in versions():
        release = kernel_release(version)
        if not changed:
            rows.append([release, "", "", "the oldest set"])
        for change in changed:
            mark = "read" if change.read else "unread"
            help_text = FEATURE_TABLE[change.feature].help
            rows.append([release, f"{change.feature}={change.value}", mark, help_text])
    return ["from", "feature", "source", "what it is"], rows


def features(word: str) -> Table:
    """Features of kernels: value in 6.1, history, meaning."""
    from blklab.block.features import FEATURES
    from blklab.sim.kernels import feature_history

    rows = []
    for feature in FEATURES:
        history = feature_history(feature.name)
        text = " ".join(f"{version}:{value}" for version, value in history[1:]) or "as in 6.1"
        about = feature.help if feature.built else f"{feature.help} {NOT_BUILT}"
        rows.append([feature.name, str(feature.default), text, about])
    return ["feature", "6.1", "changed at", "what it is"], rows


def options(word: str) -> Table:
    """fio's options and what is done with each."""
    from blklab.workload.options import OPTIONS

    rows = [
        [option.name, option.alias, option.status.value, _short(option.default), option.help]
        for option in OPTIONS
    ]
    return ["option", "alias", "status", "default", "what it is"], rows


def _short(text: str) -> str:
    return text if len(text) <= MAX_CELL else text[: MAX_CELL - 3] + "..."


def formats(word: str) -> Table:
    """Output formats of `blklab run --output-format`."""
    from blklab.cli.run import FORMATS_LATER

    rows = [
        ["normal", "fio 3.33's normal output"],
        ["json", "fio's JSON (schema of fio 3.36)"],
        ["json+", "the same with the latency histograms"],
    ]
    rows += [[name, NOT_BUILT] for name in FORMATS_LATER]
    return ["format", "what it is"], rows


def experiments(word: str) -> Table:
    """Experiments of `blklab reproduce`."""
    return ["experiment", "what it is"], [[NOT_BUILT, "published tables beside what the model gives"]]


def attributes(word: str) -> Table:
    """Attributes of a queue and of each scheduler, under their sysfs and debugfs names, and what they are at first."""
    from blklab.block.attributes import all_attributes
    from blklab.block.elevator import built_in_names
    from blklab.block.features import SINGLE_QUEUE_SCHEDULERS
    from blklab.sim.build import build
    from blklab.sim.machine import load_machine

    rows: dict[str, list[str]] = {}
    for scheduler in ("none", *built_in_names()):
        # Those of the single queue on a kernel in which every device has one
        machine = load_machine("default", kernel="3.0" if scheduler in SINGLE_QUEUE_SCHEDULERS else None)
        queue = next(iter(build(machine, scheduler=scheduler).queues.values()))
        for path, item, owner in all_attributes(queue):
            whose = "" if scheduler == "none" else scheduler
            if path not in rows and path.split("/")[0] in (
                "hctx0",
                "queue",
                "sched",
                "stat",
                "inflight",
                "size",
            ):
                rows[f"{path} {whose}" if "sched/" in path else path] = [
                    path,
                    "rw" if item.set else "ro",
                    whose,
                    _short(str(item.get(owner)).strip()),
                    item.help,
                ]
    return ["attribute", "", "of", "at first", "what it is"], list(rows.values())


def costs(word: str) -> Table:
    """Cost tables; with the name of one, its steps."""
    from blklab.core.steps import STEPS
    from blklab.sim.costs import cost_table_names, load_costs

    if word and (word in cost_table_names() or word.endswith(".toml")):
        table = load_costs(word, "blklab list costs")
        help_texts = dict(STEPS)
        rows = [[cost.step, str(cost.ns), cost.source, help_texts[cost.step]] for cost in table.costs]
        return ["step", "ns", "source", "what one is"], rows
    rows = [[name, load_costs(name).about] for name in cost_table_names()]
    return ["costs", "what it is"], rows


def cgroup_files(word: str) -> Table:
    """Files of control groups: in which version, and what they are."""
    from blklab.block.cgroup_files import all_files

    rows = []
    for file in sorted(all_files(), key=lambda file: (-max(file.versions), file.name)):
        versions = " ".join(f"v{version}" for version in file.versions)
        mode = ("r" if file.get else "") + ("w" if file.set else "")
        rows.append([file.name, versions, mode, "" if file.on_root else "not root", file.help])
    return ["file", "cgroup", "", "", "what it is"], rows


# what, what it shows
LISTS: dict[str, Callable[[str], Table]] = {
    "schedulers": schedulers,
    "devices": devices,
    "machines": machines,
    "kernels": kernels,
    "options": options,
    "formats": formats,
    "experiments": experiments,
    "attributes": attributes,
    "cgroup-files": cgroup_files,
    "features": features,
    "costs": costs,
}


def render(table: Table, width: int) -> str:
    """The table as text at most `width` wide where that is possible; the last column is wrapped."""
    head, rows = table
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    left = sum(widths[:-1]) + 2 * (len(head) - 1)
    room = max(width - left, MIN_WRAP)
    lines = []
    for row in [head, *rows]:
        first = "  ".join(cell.ljust(size) for cell, size in zip(row[:-1], widths[:-1], strict=True))
        wrapped = textwrap.wrap(row[-1], room) or [""]
        lines.append(f"{first}  {wrapped[0]}".rstrip())
        lines += [" " * left + line for line in wrapped[1:]]
    return "\n".join(lines) + "\n"


def run(argv: list[str]) -> int:
    """Prints the list. Returns 0."""
    what = "".join(f"  {name:12s} {function.__doc__}\n" for name, function in LISTS.items())
    parser = Arguments("list", "blklab list WHAT [WORD]", f"Shows what there is. WHAT is one of:\n\n{what}")
    parser.add_argument("what", metavar="WHAT", nargs="?", help="see above")
    parser.add_argument("word", metavar="WORD", nargs="?", default="", help="only lines that contain it")
    arguments = parser.parse_args(argv)
    if arguments.what not in LISTS:
        known = ", ".join(LISTS)
        if arguments.what is None:
            raise BlklabError(f"list what? There are {known}", "blklab list")
        raise BlklabError(
            f"cannot list {arguments.what!r}{nearest(arguments.what, LISTS)}; there are {known}",
            "blklab list",
        )
    head, rows = LISTS[arguments.what](arguments.word)
    word = arguments.word.lower()
    kept = [row for row in rows if any(word in cell.lower() for cell in row)]
    if arguments.word and not kept and not (arguments.what == "costs" and rows and head[0] == "step"):
        raise BlklabError(f"nothing there contains {arguments.word!r}", f"blklab list {arguments.what}")
    width = shutil.get_terminal_size((120, 24)).columns if sys.stdout.isatty() else 120
    print(render((head, kept or rows), width), end="")
    return 0
