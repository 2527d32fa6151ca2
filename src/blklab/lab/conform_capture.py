"""Captures of a real kernel: what was set up, what was sent, what the tracepoints saw.

What: `Capture` is one case of the kernel lab as data: its declarative setup, its job files, its bios, the events
of each traced device, and what fio reported. Why: the model is set up from the same data and compared with it.

Theory of operation
-------------------
A case is read from either of two forms: the folder that the lab writes (setup.json, bios.tsv.gz, *.fio, *.json,
DEVICE.blkparse.txt.gz), or one compact file, CASE.json.gz, that `tools/make_reference.py` makes of such a folder:

    setup   setup.json as it is
    files   name -> text of each job file
    iops    FILE/SECTION.POSITION -> [reads, writes] a second, from fio's JSON
    gaps    "A B" -> [how many, median ns] from an event A to the next one, B, of the same task (one-CPU captures)
    bios    columns task, job, batch, device; op, sector and size are the Q events of that device, in their order
    events  device -> columns kind (an index into `kinds`), sector (as a difference to the one before), nr_sectors

Times of events are not kept: order and counts are compared, and the cost table stands on the gaps.
"""

from __future__ import annotations

import gzip
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from blklab.core.errors import BlklabError

COMPACT_SUFFIX = ".json.gz"
# blkparse's default line: device, CPU, number, time, pid, action, rwbs, and what depends on the action
_LINE = re.compile(r"\s*\d+,\d+\s+(\d+)\s+\d+\s+(\d+)\.(\d+)\s+(\d+)\s+(\S+)\s+(\S+)\s*(.*)")
_RANGE = re.compile(r"(\d+) [+/] (\d+)")
_KINDS = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


class TracedEvent(NamedTuple):
    """One event, as blkparse prints it. `unplugged`: requests of U and UT; `rwbs` is N where there is none."""

    action: str
    rwbs: str
    sector: int
    nr_sectors: int
    unplugged: int = 0

    def text(self) -> str:
        """As it stands in reports."""
        if self.action in ("P", "U", "UT"):
            return f"{self.action} {self.unplugged}" if self.unplugged else self.action
        return f"{self.action} {self.rwbs} {self.sector} + {self.nr_sectors}"


class TimedEvent(NamedTuple):
    """An event with what the compact form leaves out."""

    time_ns: int
    cpu: int
    pid: int
    event: TracedEvent


class SentBio(NamedTuple):
    """A bio as it was submitted. `task` numbers threads by first appearance, `batch` the task's system calls."""

    task: int
    job: str
    device: str
    rwbs: str
    sector: int
    nr_sectors: int
    batch: int


@dataclass(frozen=True)
class Capture:
    """One case. `events` has an entry for each traced device, in capture order."""

    case: str
    setup: dict[str, Any]
    files: dict[str, str]
    iops: dict[str, tuple[float, float]]
    gaps: dict[str, tuple[int, int]] = field(default_factory=dict)
    bios: list[SentBio] = field(default_factory=list)
    events: dict[str, list[TracedEvent]] = field(default_factory=dict)

    @property
    def cpus(self) -> int:
        """CPUs of the guest."""
        return int(self.setup["cpus"])


def find_cases(root: Path) -> dict[str, Path]:
    """The cases below a folder, of either form: "group/case" -> path, sorted."""
    found = {}
    for path in root.glob("*/*/setup.json"):
        found[f"{path.parent.parent.name}/{path.parent.name}"] = path.parent
    for path in root.glob(f"*/*{COMPACT_SUFFIX}"):
        found[f"{path.parent.name}/{path.name.removesuffix(COMPACT_SUFFIX)}"] = path
    return dict(sorted(found.items()))


def read_capture(path: Path) -> Capture:
    """A case from its folder or its compact file. Raises BlklabError if it cannot be read as one."""
    try:
        return _read_folder(path) if path.is_dir() else _read_compact(path)
    except (OSError, ValueError, KeyError, IndexError, EOFError) as error:
        raise BlklabError(f"is not a capture: {type(error).__name__}: {error}", str(path)) from None


# The lab's folder


def timed_events(folder: Path, device: str) -> Iterator[TimedEvent]:
    """The events of one device with their times, from the lab's blkparse text."""
    with gzip.open(folder / f"{device}.blkparse.txt.gz", "rt", errors="replace") as lines:
        for line in lines:
            found = _LINE.match(line)
            if found is None:
                continue
            cpu, seconds, fraction, pid, action, rwbs, rest = found.groups()
            time_ns = int(seconds) * 1_000_000_000 + int(fraction.ljust(9, "0"))
            place = _RANGE.match(rest)
            sector, nr_sectors = (int(place[1]), int(place[2])) if place else (0, 0)
            count = 0
            if action in ("U", "UT"):
                count = int(rest.split()[-1])
            elif action == "X":
                nr_sectors -= sector  # blkparse prints where the rest begins, not how long the part is
            yield TimedEvent(
                time_ns, int(cpu), int(pid), TracedEvent(action, rwbs, sector, nr_sectors, count)
            )


def _read_folder(folder: Path) -> Capture:
    setup = json.loads((folder / "setup.json").read_text())
    names = [job["file"] for job in setup["jobs"] if job["kind"] == "fio"]
    bios = []
    if setup["bios"]:
        with gzip.open(folder / setup["bios"], "rt") as lines:
            for row in list(lines)[1:]:
                task, job, device, rwbs, sector, nr_sectors, batch = row.rstrip("\n").split("\t")
                bios.append(SentBio(int(task), job, device, rwbs, int(sector), int(nr_sectors), int(batch)))
    timed = {device: list(timed_events(folder, device)) for device in setup["traced"]}
    return Capture(
        case=setup["case"],
        setup=setup,
        files={name: (folder / name).read_text() for name in names},
        iops=_iops(folder, names),
        gaps=gaps(timed.values()) if setup["cpus"] == 1 else {},
        bios=bios,
        events={device: [item.event for item in events] for device, events in timed.items()},
    )


def _iops(folder: Path, names: Sequence[str]) -> dict[str, tuple[float, float]]:
    found: dict[str, tuple[float, float]] = {}
    for name in names:
        result = json.loads((folder / name).with_suffix(".json").read_text())
        seen: dict[str, int] = defaultdict(int)
        for job in result["jobs"]:
            section = job["jobname"]
            key = f"{Path(name).stem}/{section}.{seen[section]}"
            seen[section] += 1
            found[key] = (round(job["read"]["iops"], 2), round(job["write"]["iops"], 2))
    return found


def gaps(devices: Iterable[Sequence[TimedEvent]]) -> dict[str, tuple[int, int]]:
    """Median ns from one event to the next of its device where both are of one task: "A B" -> (how many, ns)."""
    times: dict[str, list[int]] = defaultdict(list)
    for events in devices:
        for one, two in pairwise(events):
            if one.pid == two.pid:
                times[f"{one.event.action} {two.event.action}"].append(two.time_ns - one.time_ns)
    return {pair: (len(found), int(median(found))) for pair, found in sorted(times.items())}


# The compact form


def compact(capture: Capture) -> dict[str, Any]:
    """A capture as what stands in a compact file."""
    devices = list(capture.events)
    kinds: list[str] = []
    events = {}
    for device, found in capture.events.items():
        letters, sectors, numbers = [], [], []
        before = 0
        for event in found:
            kind = f"{event.action} {event.rwbs}"
            if kind not in kinds:
                kinds.append(kind)
            letters.append(_KINDS[kinds.index(kind)])
            sectors.append(event.sector - before)
            numbers.append(event.unplugged or event.nr_sectors)
            before = event.sector
        events[device] = {"kind": "".join(letters), "sector": sectors, "nr_sectors": numbers}
    jobs = list(dict.fromkeys(bio.job for bio in capture.bios))
    batches: dict[int, int] = {}
    steps = []
    for bio in capture.bios:
        steps.append(bio.batch - batches.get(bio.task, 0))
        batches[bio.task] = bio.batch
    return {
        "setup": capture.setup,
        "files": capture.files,
        "iops": capture.iops,
        "gaps": capture.gaps,
        "bios": {
            "jobs": jobs,
            "task": [bio.task for bio in capture.bios],
            "job": [jobs.index(bio.job) for bio in capture.bios],
            "device": [devices.index(bio.device) for bio in capture.bios],
            "batch": steps,
        },
        "kinds": kinds,
        "events": events,
    }


def encode(capture: Capture) -> bytes:
    """The content of the compact file; the same capture gives the same bytes."""
    text = json.dumps(compact(capture), separators=(",", ":"))
    return gzip.compress(text.encode(), 9, mtime=0)


def _read_compact(path: Path) -> Capture:
    content = json.loads(gzip.decompress(path.read_bytes()))
    kinds = [kind.split(" ") for kind in content["kinds"]]
    events = {}
    for device, columns in content["events"].items():
        found = []
        sector = 0
        for letter, step, number in zip(
            columns["kind"], columns["sector"], columns["nr_sectors"], strict=True
        ):
            action, rwbs = kinds[_KINDS.index(letter)]
            sector += step
            if action in ("U", "UT"):
                found.append(TracedEvent(action, rwbs, sector, 0, number))
            else:
                found.append(TracedEvent(action, rwbs, sector, number))
        events[device] = found
    return Capture(
        case=content["setup"]["case"],
        setup=content["setup"],
        files=content["files"],
        iops={job: (read, write) for job, (read, write) in content["iops"].items()},
        gaps={pair: (count, ns) for pair, (count, ns) in content["gaps"].items()},
        bios=_bios(content["bios"], events),
        events=events,
    )


def _bios(columns: dict[str, list[Any]], events: dict[str, list[TracedEvent]]) -> list[SentBio]:
    devices = list(events)
    queued = {name: iter([event for event in found if event.action == "Q"]) for name, found in events.items()}
    batches: dict[int, int] = defaultdict(int)
    bios = []
    for task, job, device, step in zip(
        columns["task"], columns["job"], columns["device"], columns["batch"], strict=True
    ):
        event = next(queued[devices[device]])
        batches[task] += step
        bios.append(
            SentBio(
                task,
                columns["jobs"][job],
                devices[device],
                event.rwbs,
                event.sector,
                event.nr_sectors,
                batches[task],
            )
        )
    return bios
