"""Real fio outputs, and reading them back.

`data/` holds outputs of fio 3.33, made by `record.py`: one run each, printed as text and as json+. What is read from
the JSON, rendered as text, has to be the text that fio printed of the same run.
"""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from typing import Any

from blklab.metrics.result import RunResult
from blklab.metrics.stats import JobStats
from blklab.report.fio_read import read_fio_json

DATA = Path(__file__).parent / "data"

# Keys of fio 3.36 that 3.33 does not write.
NEW_KEYS = (
    "job_start",
    "read_sectors",
    "write_sectors",
    "aggr_read_sectors",
    "aggr_write_sectors",
    "priohint",
)


class FioOutput:
    """One run of fio 3.33 with --output-format=normal,json+: the parts of what it printed, and the result."""

    def __init__(self, output: str) -> None:
        self.header, brace, rest = output.partition("{\n")
        document, end, self.text = rest.partition("\n}\n")
        self.json = brace + document + end
        self.result = self._read()

    def _read(self) -> RunResult:
        """The result in the JSON, with what only the text has: pids, and how many jobs an entry stands for."""
        result = read_fio_json(self.json)
        blocks = re.findall(r"jobs=(\d+)\): err=.*: pid=(\d+): (.*)\n", self.text)
        shown = [job for job in result.jobs if any(d.ios for d in job.stats.directions())]
        assert len(blocks) == len(shown) > 0
        for job, (members, pid, when) in zip(shown, blocks, strict=True):
            job.pid, result.time_text = int(pid), when
            for _ in range(int(members) - 1):
                result.jobs.insert(result.jobs.index(job) + 1, idle_clone(job))
        return result


def idle_clone(job: Any) -> Any:
    """A job of the same entry that has done nothing."""
    options = job.stats
    clone = copy.copy(job)
    clone.stats = JobStats(options.clat_percentiles, options.lat_percentiles, options.slat_percentiles)
    clone.group_reporting = True
    return clone


def recorded(name: str) -> FioOutput:
    """A file of `data/`."""
    return FioOutput((DATA / f"{name}.out").read_text().partition("\n")[2])


def recorded_names() -> list[str]:
    """The files of `data/`."""
    return sorted(path.stem for path in DATA.glob("*.out"))


def assert_same_text(ours: str, fios: str) -> None:
    """The texts are the same, except that two means or deviations may be one off in their last decimal.

    JSON holds means with six decimals. Where the third to sixth are 5000, the text's two decimals cannot be told.
    """
    number = r"(?<=avg=|dev=) *\d+\.\d\d"
    assert re.sub(number, "", ours) == re.sub(number, "", fios)
    pairs = zip(re.findall(number, ours), re.findall(number, fios), strict=True)
    off = [(float(a), float(b)) for a, b in pairs if a != b]
    assert len(off) <= 2
    assert all(abs(a - b) < 0.0101 for a, b in off), off


def comparable(document: str) -> Any:
    """A JSON document with its keys in order and its numbers as written, without what differs between versions.

    fio 3.33 leaves out options without a value and has not all keys.
    """

    def pairs(items: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
        return [(k, v) for k, v in items if k not in (*NEW_KEYS, "fio version", "time") and v != ""]

    return json.loads(document, parse_float=str, object_pairs_hook=pairs)
