"""Cost tables: what each step of a bio's trip takes of a CPU, in nanoseconds, and where each figure comes
from.

A table is a TOML file, one of `sim/costs/*.toml` by name or a user's by path:

    about = "..."                              # what machine, and how the figures were got
    extends = "icpe24"                         # optional: steps not named here are as there
    [steps]
    tag_get = { ns = 114, source = "..." }

Theory of operation
-------------------
The steps are `core.steps.STEPS`; a table must give every one of them a figure and a source (zero is a
figure), itself or through what it extends, so that a forgotten step is an error and not a free one. A table
is calibrated on a baseline and then left alone (design: what a change saves must come out by itself,
because a step is not taken).
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from blklab.core.errors import BlklabError, nearest
from blklab.core.steps import STEPS
from blklab.sim.tomlfile import Lines, parse_toml, read_toml

ZERO = "zero"

MAX_NS = 10_000_000  # 10 ms for one step: whatever is above is a unit mistaken


@dataclass(frozen=True, slots=True)
class Cost:
    """One step's price. `source` says where the figure comes from."""

    step: str
    ns: int
    source: str


@dataclass(frozen=True, slots=True)
class CostTable:
    """A complete table: `costs` has one entry a step, in the order of `core.steps.STEPS`."""

    name: str
    about: str
    costs: tuple[Cost, ...]

    @property
    def ns(self) -> tuple[int, ...]:
        """Nanoseconds a step, in the order of `core.steps.STEPS`: what `Host.set_costs` takes."""
        return tuple(cost.ns for cost in self.costs)

    @property
    def free(self) -> bool:
        """Whether every step costs nothing."""
        return not any(cost.ns for cost in self.costs)


def cost_table_names() -> list[str]:
    """The tables that come with blklab, sorted."""
    folder = resources.files("blklab.sim").joinpath("costs")
    return sorted(item.name.removesuffix(".toml") for item in folder.iterdir() if item.name.endswith(".toml"))


def load_costs(name: str, where: str = "--costs") -> CostTable:
    """The table of that name, or of that file if `name` contains a slash or ends in .toml.

    `where` says in errors who asked for it. Raises BlklabError for an unknown name, a file that is not one,
    an unknown or missing step, a figure that is none or has no source, and tables that extend each other in
    a circle.
    """
    about, costs = _load(name, where, ())
    return CostTable(name=_table_name(name), about=about, costs=tuple(costs[step] for step, _ in STEPS))


def _is_file(name: str) -> bool:
    return "/" in name or name.endswith(".toml")


def _table_name(name: str) -> str:
    return Path(name).stem if _is_file(name) else name


def _load(name: str, where: str, seen: tuple[str, ...]) -> tuple[str, dict[str, Cost]]:
    identity = str(Path(name).resolve()) if _is_file(name) else name
    if identity in seen:
        raise BlklabError(
            f"cost table {_table_name(name)} extends itself, by way of {len(seen)} file(s)", where
        )
    content, lines = _content(name, where)
    source = lines.source
    for key in content:
        if key not in ("about", "extends", "steps"):
            known = ("about", "extends", "steps")
            raise BlklabError(
                f"unknown key {key!r}{nearest(key, known)}; accepted are {', '.join(known)}",
                lines.where((key,)),
            )
    costs: dict[str, Cost] = {}
    about = content.get("about", "")
    if "extends" in content:
        base = content["extends"]
        if not isinstance(base, str):
            raise BlklabError(f"extends names a cost table, not {base!r}", lines.where(("extends",)))
        if _is_file(base):
            base = str(Path(source).parent / base)
        inherited, costs = _load(base, lines.where(("extends",)), (*seen, identity))
        about = about or inherited
    if not isinstance(about, str) or not about:
        raise BlklabError(
            '`about = "..."` is missing: say what machine this is and how the figures were got', source
        )
    steps = content.get("steps", {})
    if not isinstance(steps, dict):
        raise BlklabError("[steps] must be a table of steps", lines.where(("steps",)))
    for step, entry in steps.items():
        costs[step] = _cost(step, entry, lines)
    missing = [step for step, _ in STEPS if step not in costs]
    if missing:
        raise BlklabError(
            f"no figure for {', '.join(missing)}: give each step one (0 is one), or say extends = {ZERO!r}",
            source,
        )
    return about, costs


def _content(name: str, where: str) -> tuple[dict[str, Any], Lines]:
    if _is_file(name):
        return read_toml(Path(name), "cost table")
    names = cost_table_names()
    if name not in names:
        raise BlklabError(
            f"no cost table {name!r}{nearest(name, names)}; there are {', '.join(names)}, or a .toml file",
            where,
        )
    data = resources.files("blklab.sim").joinpath("costs", f"{name}.toml").read_bytes()
    return parse_toml(data, f"{name}.toml", "cost table")


def _cost(step: str, entry: object, lines: Lines) -> Cost:
    place = lines.where(("steps", step))
    known = [name for name, _ in STEPS]
    if step not in known:
        raise BlklabError(
            f"unknown step {step!r}{nearest(step, known)}; `blklab list costs` shows all", place
        )
    if not isinstance(entry, dict) or set(entry) != {"ns", "source"}:
        raise BlklabError(f'step {step} wants {{ ns = 114, source = "where from" }}, found {entry!r}', place)
    ns, source = entry["ns"], entry["source"]
    if not isinstance(ns, int) or isinstance(ns, bool) or not 0 <= ns <= MAX_NS:
        raise BlklabError(f"step {step}: ns is a whole number from 0 to {MAX_NS}, found {ns!r}", place)
    if not isinstance(source, str) or not source.strip():
        raise BlklabError(f"step {step}: the source of the figure is missing", place)
    return Cost(step=step, ns=ns, source=source)
