"""fio-style command lines: what is global, what is a job, what is a file, what is the caller's."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from blklab.core.errors import BlklabError
from blklab.workload.cmdline import Takes, parse_command_line
from blklab.workload.jobspec import JobSpec


def jobs(line: str) -> tuple[JobSpec, ...]:
    found, rest = parse_command_line(shlex.split(line))
    assert found is not None and not rest
    return found.jobs


def test_options_before_a_name_are_global() -> None:
    first, second = jobs("--bs=8k --rw=randread --name=a --iodepth=4 --name=b --bs=16k")
    assert (first.name, first.rw, first.min_bs_bytes[0], first.iodepth) == ("a", "randread", 8192, 4)
    assert (second.name, second.rw, second.min_bs_bytes[0], second.iodepth) == ("b", "randread", 16384, 1)
    assert dict(first.options) == {"name": "a", "iodepth": "4"}
    assert dict(first.global_options) == {"bs": "8k", "rw": "randread"}


def test_name_global_changes_what_later_jobs_start_from() -> None:
    first, second = jobs("--name=a --name=global --bs=8k --name=b")
    assert (first.min_bs_bytes[0], second.min_bs_bytes[0]) == (4096, 8192)


def test_ways_to_write_an_option() -> None:
    spec = jobs("-name=a -bs 8k --thread --runtime 5 --norandommap=1 --numj=2 --time_based")[0]
    assert (spec.min_bs_bytes[0], spec.thread, spec.norandommap, spec.numjobs) == (8192, True, True, 2)


def test_files_come_after_the_jobs_of_the_line_and_each_waits(tmp_path: Path) -> None:
    (tmp_path / "one.fio").write_text("[global]\nbs=2k\n[x]\n[y]\n")
    (tmp_path / "two.fio").write_text("[z]\n")
    found, _ = parse_command_line(
        [str(tmp_path / "one.fio"), "--rw=write", "--name=a", str(tmp_path / "two.fio")]
    )
    assert found is not None
    assert [s.name for s in found.jobs] == ["a", "x", "y", "z"]
    assert [s.rw for s in found.jobs] == ["write", "write", "write", "read"]
    assert [s.min_bs_bytes[0] for s in found.jobs] == [4096, 2048, 2048, 4096]
    assert [s.stonewall for s in found.jobs] == [False, False, False, True]
    assert found.jobs[1].where == f"{tmp_path / 'one.fio'}:3"
    assert dict(found.global_options) == {"rw": "write", "bs": "2k"}


def test_sections(tmp_path: Path) -> None:
    (tmp_path / "job.fio").write_text("[a]\n[b]\n")
    found, _ = parse_command_line(["--section=b", str(tmp_path / "job.fio")])
    assert found is not None
    assert [s.name for s in found.jobs] == ["b"]
    assert [s.name for s in jobs("--section=b --name=a --bs=8k --name=b")] == ["b"]


def test_what_is_not_an_option_of_a_job_is_handed_back() -> None:
    own = {"machine": Takes.VALUE, "zero": Takes.NOTHING}
    line = "--name=a --machine nvme --zero --output-format json+ --eta=never --version --output=x"
    found, rest = parse_command_line(shlex.split(line), own)
    assert found is not None and len(found.jobs) == 1
    assert rest == [
        "--machine=nvme",
        "--zero",
        "--output-format=json+",
        "--eta=never",
        "--version",
        "--output=x",
    ]
    assert parse_command_line(["--version"]) == (None, ["--version"])
    assert parse_command_line([]) == (None, [])


def test_options_of_fios_own_process_are_noted() -> None:
    found, rest = parse_command_line(["--alloc-size=100", "--name=a"])
    assert found is not None and not rest
    assert found.notes[0].startswith("--alloc-size")


OWN = {"machine": Takes.VALUE}

REFUSED = {
    "--name=a --bogus=1": "unknown option 'bogus'",
    "--name=a --iodepht=4": "did you mean 'iodepth'",
    "--name=a --iod=4": "may be iodepth, iodepth_batch",
    "--name=a --machin=x --machne=y": "did you mean 'machine'",
    "--name": "needs a value",
    "--name=": "value is missing",
    "--name=a --size": "needs a value",
    "--name=a --size=": "value is missing",
    "--name=a --size=0": "--size: size=0",
    "--name=a --version=3": "takes no value",
    "--client=host --name=a": "not built",
    "--section=global": "only section",
    "--readonly --name=a --rw=write": "--readonly forbids",
    "--warnings-fatal --name=a --verify=md5": "verify has no effect",
    "--name=a --fixedbufs": "option of ioengine io_uring",
    "--fdp=1 --name=a": "newer than fio 3.33",
    "nowhere.fio": "nowhere.fio: cannot be read",
}


@pytest.mark.parametrize(("line", "message"), REFUSED.items())
def test_refused(line: str, message: str) -> None:
    with pytest.raises(BlklabError) as refusal:
        parse_command_line(shlex.split(line), OWN)
    assert message in str(refusal.value)


def test_public_command_lines(shared: Path) -> None:
    """Each command line that someone posted is jobs, or refused for an option that is named."""
    lines = (shared / "corpus/fio/community/commands.txt").read_text().splitlines()
    lines += (shared / "corpus/fio/community/axboe_mq_deadline_scaletest.cmd").read_text().splitlines()
    accepted, refused = 0, []
    for line in lines:
        if not line.startswith("fio "):
            continue
        words = shlex.split(line.split(" # ")[0].replace("$RW", "randread").replace("$depth", "8"))
        try:
            found, _ = parse_command_line(words[1:])
            assert found is not None
            accepted += 1
        except BlklabError as error:
            refused.append(str(error))
    assert accepted == 16
    assert [message.split(":")[0] for message in refused] == ["--bs"]
