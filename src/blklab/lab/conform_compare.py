"""Comparing the model's events with a capture's: which checks a case must pass, and how it came out.

What: `compare` gives a `Verdict`: exact, within tolerance or differs, with counts side by side and the first
event that is not the same. The checks and their tolerances are data (`tolerances.toml`), one entry for each
group of cases, with the reason.

Theory of operation
-------------------
A case takes the first entry of `tolerances.toml` that fits it; that file says what its keys mean. The case is

    exact               if for each device every action occurs as often as in the capture, completions included,
                        and the events of the entry's `order` are the same in the same order
    within tolerance    if not, or if nothing was traced, but all checks hold
    differs             if one does not
"""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from importlib import resources
from typing import Any

from blklab.core.errors import BlklabError
from blklab.lab.conform_capture import Capture, TracedEvent
from blklab.lab.conform_model import ModelRun

EXACT = "exact"
WITHIN = "within tolerance"
DIFFERS = "differs"
NOT_YET = "not yet"

# In the order in which reports show them
ACTIONS = ("Q", "G", "M", "F", "X", "A", "P", "U", "UT", "I", "D", "R", "C")
NEIGHBOURS = 3

Check = dict[str, Any]


@dataclass(frozen=True)
class Tolerance:
    """One entry of tolerances.toml."""

    cases: tuple[str, ...]
    reason: str
    order: tuple[str, ...]
    checks: tuple[Check, ...]
    level: str | None = None
    memory: str | None = None
    known: bool = False  # the checks fail, and why is known
    only_rwbs: tuple[str, ...] = ()  # only events with these; all if empty

    def fits(self, capture: Capture) -> bool:
        """Whether the entry is for this case."""
        setup = capture.setup
        return (
            any(fnmatchcase(capture.case, pattern) for pattern in self.cases)
            and self.level in (None, setup["compare"]["level"])
            and self.memory in (None, setup["memory"])
        )


@dataclass(frozen=True)
class Difference:
    """The first event that differs: its number among those compared, with what stands around it on both
    sides."""

    device: str
    index: int
    actions: tuple[str, ...]
    captured: tuple[str, ...]
    modelled: tuple[str, ...]
    first: int  # index of the first one shown


@dataclass(frozen=True)
class Verdict:
    """How a case came out. `reason`: what is missing (not yet) or which checks failed; `explained`: why,
    where a case that differs is known to; `counts`: device -> action -> (capture, model)."""

    case: str
    status: str
    reason: str = ""
    counts: dict[str, dict[str, tuple[int, int]]] | None = None
    iops: dict[str, tuple[float, float]] | None = None
    difference: Difference | None = None
    explained: str = ""


def load_tolerances() -> tuple[Tolerance, ...]:
    """The entries of tolerances.toml."""
    text = resources.files("blklab.lab").joinpath("tolerances.toml").read_text()
    return tuple(
        Tolerance(
            cases=tuple(entry["cases"]),
            reason=entry["reason"],
            order=tuple(entry["order"]),
            checks=tuple(entry["checks"]),
            level=entry.get("level"),
            memory=entry.get("memory"),
            known=entry.get("known", False),
            only_rwbs=tuple(entry.get("only_rwbs", ())),
        )
        for entry in tomllib.loads(text)["group"]
    )


def tolerance_of(capture: Capture, tolerances: Sequence[Tolerance]) -> Tolerance:
    """The entry for a case. Raises BlklabError if there is none."""
    for entry in tolerances:
        if entry.fits(capture):
            return entry
    raise BlklabError(f"no entry fits the case {capture.case}", "tolerances.toml")


def compare(capture: Capture, model: ModelRun, tolerance: Tolerance) -> Verdict:
    """Hold the model's run against the capture."""
    if tolerance.only_rwbs:
        capture = replace(capture, events=_only(capture.events, tolerance.only_rwbs))
        model = replace(model, events=_only(model.events, tolerance.only_rwbs))
    counts = {device: _counts(capture.events[device], model.events[device]) for device in capture.events}
    iops = {job: (sum(capture.iops[job]), sum(model.iops[job])) for job in model.iops if job in capture.iops}
    difference = None
    for device in capture.events:
        difference = difference or first_difference(
            device, capture.events[device], model.events[device], tolerance.order
        )
    same_counts = all(one == two for found in counts.values() for one, two in found.values())
    failed = [f"attribute {text}" for text in model.attribute_differences]
    for check in _checks(capture, tolerance):
        failed += _failures(check, capture, model)
    if failed:
        explained = tolerance.reason if tolerance.known else ""
        return Verdict(capture.case, DIFFERS, "; ".join(failed), counts, iops, difference, explained)
    # Where nothing was traced only rates agree
    status = EXACT if capture.events and same_counts and difference is None else WITHIN
    return Verdict(capture.case, status, "", counts, iops, difference)


def _only(events: dict[str, list[TracedEvent]], rwbs: Sequence[str]) -> dict[str, list[TracedEvent]]:
    return {device: [event for event in found if event.rwbs in rwbs] for device, found in events.items()}


def _counts(captured: list[TracedEvent], modelled: list[TracedEvent]) -> dict[str, tuple[int, int]]:
    one = Counter(event.action for event in captured)
    two = Counter(event.action for event in modelled)
    return {action: (one[action], two[action]) for action in ACTIONS if one[action] or two[action]}


def first_difference(
    device: str, captured: list[TracedEvent], modelled: list[TracedEvent], order: Sequence[str]
) -> Difference | None:
    """The first event of these actions that is not the same on both sides, or None."""
    one = [event for event in captured if event.action in order]
    two = [event for event in modelled if event.action in order]
    for index in range(max(len(one), len(two))):
        if index < len(one) and index < len(two) and one[index] == two[index]:
            continue
        first = max(0, index - NEIGHBOURS)
        span = slice(first, index + NEIGHBOURS + 1)
        return Difference(
            device,
            index,
            tuple(order),
            tuple(event.text() for event in one[span]),
            tuple(event.text() for event in two[span]),
            first,
        )
    return None


# The checks


def _checks(capture: Capture, tolerance: Tolerance) -> list[Check]:
    found: list[Check] = []
    for check in tolerance.checks:
        found += capture.setup["compare"]["checks"] if check["what"] == "setup" else [check]
    return found


def _failures(check: Check, capture: Capture, model: ModelRun) -> list[str]:
    what = check["what"]
    if what == "iops":
        return _iops_failures(check, capture, model)
    found = []
    for device, captured in capture.events.items():
        modelled = model.events[device]
        if what == "sequence":
            only = check.get("only_rwbs")
            one, two = (
                [event for event in events if only is None or event.rwbs in only]
                for events in (captured, modelled)
            )
            if first_difference(device, one, two, check["actions"]) is not None:
                found.append(f"{device}: order of {' '.join(check['actions'])}")
        elif what == "counts":
            found += _count_failures(device, check, captured, modelled)
        elif what == "sectors":
            for action in check["actions"]:
                wanted, got = _sectors(captured, action), _sectors(modelled, action)
                if wanted != got:
                    found.append(f"{device}: sectors of {action} {got} for {wanted}")
        elif what == "between":
            assert model.contiguous is not None, "memory is known"
            found += _between_failures(device, check, captured, modelled, model.contiguous[device])
        elif what == "runs":
            found += _run_failures(device, check, captured, modelled)
        else:
            raise BlklabError(f"unknown check {what!r}", "tolerances.toml")
    return found


def _allowed(check: Check, value: float) -> float:
    allowed: float = max(check.get("absolute", 0), check.get("relative", 0) * value)
    return allowed


def _count_failures(
    device: str, check: Check, captured: list[TracedEvent], modelled: list[TracedEvent]
) -> list[str]:
    one = Counter(event.action for event in captured)
    two = Counter(event.action for event in modelled)
    found = []
    for action in check["actions"]:
        parts = action.split("+")
        wanted, got = sum(one[part] for part in parts), sum(two[part] for part in parts)
        if abs(wanted - got) > _allowed(check, wanted):
            found.append(f"{device}: {got} {action} for {wanted}")
    return found


def _between_failures(
    device: str, check: Check, captured: list[TracedEvent], *modelled: list[TracedEvent]
) -> list[str]:
    found = []
    for action in check["actions"]:
        wanted = sum(event.action == action for event in captured)
        ends = [sum(event.action == action for event in events) for events in modelled]
        if not min(ends) <= wanted <= max(ends):
            found.append(f"{device}: {wanted} {action} are not between {min(ends)} and {max(ends)}")
    return found


def _sectors(events: list[TracedEvent], action: str) -> int:
    return sum(event.nr_sectors for event in events if event.action == action)


def mean_runs(events: list[TracedEvent], action: str) -> dict[str, float]:
    """Mean length of the runs of one direction among the events of an action: "R" -> mean, "W" -> mean."""
    lengths: dict[str, list[int]] = {}
    before = ""
    for event in events:
        if event.action != action:
            continue
        direction = event.rwbs.lstrip("F")[:1]
        if direction != before:
            lengths.setdefault(direction, []).append(0)
            before = direction
        lengths[direction][-1] += 1
    return {direction: sum(found) / len(found) for direction, found in lengths.items()}


def _run_failures(
    device: str, check: Check, captured: list[TracedEvent], modelled: list[TracedEvent]
) -> list[str]:
    one, two = mean_runs(captured, check["action"]), mean_runs(modelled, check["action"])
    return [
        f"{device}: runs of {direction} {two.get(direction, 0):.2f} long for {wanted:.2f}"
        for direction, wanted in one.items()
        if abs(two.get(direction, 0) - wanted) > _allowed(check, wanted)
    ]


def case_rate(capture: Capture, iops: dict[str, tuple[float, float]]) -> float:
    """All I/Os of a case by the time its slowest job took, a second; 0 if one job has no rate."""
    rates = [sum(rate) for rate in iops.values()]
    if not all(rates):
        return 0.0
    sent = len(capture.bios) / len(rates)
    return len(capture.bios) / max(sent / rate for rate in rates)


def _iops_failures(check: Check, capture: Capture, model: ModelRun) -> list[str]:
    if check["per"] == "case":
        whole, mine = case_rate(capture, capture.iops), case_rate(capture, model.iops)
        return (
            [] if abs(whole - mine) <= _allowed(check, whole) else [f"{mine:.0f} IOPS in all for {whole:.0f}"]
        )
    found = []
    for job, rates in capture.iops.items():
        wanted, got = sum(rates), sum(model.iops.get(job, (0.0, 0.0)))
        if abs(wanted - got) > _allowed(check, wanted):
            found.append(f"{job}: {got:.0f} IOPS for {wanted:.0f}")
    return found
