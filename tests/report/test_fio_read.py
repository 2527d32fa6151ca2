"""Reading fio's JSON: what comes back, and what is refused."""

from __future__ import annotations

import json

import pytest
from tests.report.fio_output import recorded

from blklab.core.errors import BlklabError
from blklab.report.fio_json import render_json
from blklab.report.fio_read import precision_of, read_fio_json


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "no JSON found"),
        ("fio-3.33\nStarting 1 process\n", "no JSON found"),
        ('{"jobs": [', "not JSON"),
        ("{}", "it has no 'timestamp'"),
        ('{"timestamp": 1, "time": "", "jobs": [{"jobname": "a"}]}', "it has no 'groupid'"),
        ('{"timestamp": 1, "time": "", "jobs": 7}', "not a fio result"),
    ],
)
def test_what_is_not_a_fio_result_is_refused(text: str, complaint: str) -> None:
    with pytest.raises(BlklabError, match=complaint) as error:
        read_fio_json(text, "result.json")
    assert str(error.value).startswith("result.json: ")


def test_notes_around_the_json_are_skipped() -> None:
    output = recorded("async-job")
    noisy = f"note: both iodepth >= 1 and synchronous I/O engine\n{output.json}\nfio: done\n"
    assert render_json(read_fio_json(noisy), True) == render_json(read_fio_json(output.json), True)


def test_what_is_read() -> None:
    output = recorded("windows-in-bits")
    job = json.loads(output.json)["jobs"][0]
    result = read_fio_json(output.json).jobs[0]
    assert (result.unit_base, result.rw, result.ioengine, result.iodepth) == (1, "randrw", "null", 1)
    d = result.stats.write
    assert (d.ios, d.bytes) == (job["write"]["total_ios"], job["write"]["io_bytes"])
    assert d.clat_hist.n == d.clat.n == job["write"]["clat_ns"]["N"]
    assert d.bw.n == job["write"]["bw_samples"]
    assert sum(result.stats.latency_counts()) == d.ios + result.stats.read.ios


def test_json_without_bins_keeps_the_percentiles() -> None:
    output = recorded("all-percentiles")
    plain = render_json(output.result)
    assert "bins" not in plain
    assert render_json(read_fio_json(plain)) == plain


def test_precision_of_percentiles() -> None:
    lists = (None, "1:50", "99.9", "1.5:99.999:100")
    assert [precision_of(text) for text in lists] == [2, 0, 1, 3]
