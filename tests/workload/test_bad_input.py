"""Every wrong job file gives one clear error with its place; nothing hangs."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blklab.core.errors import BlklabError
from blklab.workload.iostream import make_stream
from blklab.workload.jobfile import MAX_FILE_BYTES, parse_job_file, parse_job_text
from blklab.workload.jobspec import expand

WRONG = {  # text: (place, what the message must say)
    "": ("job.fio", "no job"),
    "   \n# only comments\n": ("job.fio", "no job"),
    "[global]\nbs=4k\n": ("job.fio", "no job"),
    "bs=4k\n[a]\n": ("job.fio:1", "before the first"),
    "include x.fio\n[a]\n": ("job.fio:1", "before the first"),
    "[a\n": ("job.fio:1", "']' is missing"),
    "[" + "x" * 300 + "]\n": ("job.fio:1", "255"),
    "[a]\n=4k\n": ("job.fio:2", "name of an option is missing"),
    "[a]\niodepht=4\n": ("job.fio:2", "did you mean 'iodepth'"),
    "[a]\n\n\niodepth=0\n": ("job.fio:4", "iodepth=0: 0 is too small"),
    "[a]\nsize=0\n": ("job.fio:2", "size=0 leaves nothing"),
    "[a]\nsize=4k\nbs=8k\n": ("job.fio:2", "bs is larger than size: 8192 > 4096"),
    "[a]\ntime_based\n": ("job.fio:2", "has no end"),
    "[a]\ntime_based\nruntime=0\n": ("job.fio:2", "runtime=SECONDS"),
    "[a]\nnumjobs=0\n": ("job.fio:2", "too small"),
    "[a]\nnumjobs=5000\n": ("job.fio:2", "1 to 4096"),
    "[a]\nnumjobs=4000\n[b]\nnumjobs=4000\n": ("job.fio:3", "8000 jobs"),
    "[a]\nrate=1m\nrate_iops=5\n": ("job.fio:3", "exclude"),
    "[a]\nwait_for=a\n": ("job.fio:2", "itself"),
    "[a]\nwait_for=b\n[b]\n": ("job.fio:1", "no earlier jobs"),
    "[a]\n[a]\n[b]\nwait_for=a\n": ("job.fio:3", "2 earlier jobs"),
    "[a]\nnrfiles=4\n": ("job.fio:2", "filename=A:B"),
    "[a]\nrw=randread:x\n": ("job.fio:2", "not a whole number"),
    "[a]\nrw=read:x\n": ("job.fio:2", "not a size"),
    "[a]\nfile_service_type=random:0\n": ("job.fio:2", "1 or more"),
    "[a]\nstartdelay=5-2\n": ("job.fio:2", "less than"),
    "[a]\nsync_file_range=write:1\n": ("job.fio:2", "not built"),
    "[a]\nthread\ndirect\n": ("job.fio:3", "needs a value"),
    "[a]\nfilename=\n": ("job.fio:2", "needs a value"),
    "[a]\nfilename=${NO_SUCH_VARIABLE_IS_SET}\n": ("job.fio:2", "needs a value"),
    "[a]\n" + "x" * 9000 + "=1\n": ("job.fio:2", "8191"),
    "[a]\ninclude\tnowhere.fio\n": ("job.fio:2", "No such file"),
    "[a]\ninclude\n": ("job.fio:2", "needs the name of a file"),
}


@pytest.mark.parametrize(("text", "wanted"), WRONG.items(), ids=lambda value: str(value)[:30])
def test_one_error_with_its_place(text: str, wanted: tuple[str, str]) -> None:
    place, message = wanted
    with pytest.raises(BlklabError) as refusal:
        parse_job_text(text, "job.fio")
    assert refusal.value.where == place
    assert message in refusal.value.message
    assert "\n" not in str(refusal.value)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(BlklabError, match="No such file"):
        parse_job_file(tmp_path / "missing.fio")
    with pytest.raises(BlklabError, match="Is a directory"):
        parse_job_file(tmp_path)
    with pytest.raises(BlklabError, match="null byte"):
        parse_job_file("a\0b")


@pytest.mark.parametrize(
    "data", [b"\0" * 100, b"[a]\nbs=4k\n\x01\x02", b"\x7fELF\x02\x01\x01\0\0", bytes(range(256))]
)
def test_binary_files(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "job.fio"
    path.write_bytes(data)
    with pytest.raises(BlklabError, match="not a text file"):
        parse_job_file(path)


def test_huge_files(tmp_path: Path) -> None:
    path = tmp_path / "job.fio"
    with path.open("wb") as file:
        file.truncate(MAX_FILE_BYTES + 1)
    with pytest.raises(BlklabError, match="larger than 2 MiB"):
        parse_job_file(path)
    with pytest.raises(BlklabError, match="larger than 2 MiB"):
        parse_job_file("/dev/zero")
    path.write_text("[a]\n" * 5000)
    with pytest.raises(BlklabError, match="more than 4096 jobs"):
        parse_job_file(path)
    path.write_text("[a]\n" + "bs=4k\n" * 1001)
    with pytest.raises(BlklabError, match=r"job.fio:1: section \[a\] has 1001 options"):
        parse_job_file(path)


def test_latin_1_comments_are_text(tmp_path: Path) -> None:
    path = tmp_path / "job.fio"
    path.write_bytes(b"; gr\xfc\xdfe\n[a]\nbs=4k\n")
    assert parse_job_file(path).jobs[0].name == "a"
    path.write_bytes(b"\xef\xbb\xbf[b]\r\nbs=4k\r\n")
    assert parse_job_file(path).jobs[0].name == "b"


def test_cyclic_includes(tmp_path: Path) -> None:
    (tmp_path / "a.fio").write_text("[a]\ninclude b.fio\n")
    (tmp_path / "b.fio").write_text("bs=4k\ninclude c.fio\n")
    (tmp_path / "c.fio").write_text("include b.fio\n")
    with pytest.raises(BlklabError) as refusal:
        parse_job_file(tmp_path / "a.fio")
    assert refusal.value.where == f"{tmp_path / 'c.fio'}:1"
    assert "a.fio includes b.fio includes c.fio includes b.fio" in refusal.value.message
    (tmp_path / "a.fio").write_text("[a]\ninclude a.fio\n")
    with pytest.raises(BlklabError, match=r"a.fio:2: include a.fio: files include each other"):
        parse_job_file(tmp_path / "a.fio")


def test_deep_includes(tmp_path: Path) -> None:
    for number in range(100):
        (tmp_path / f"{number}.fio").write_text(f"include {number + 1}.fio\n")
    (tmp_path / "job.fio").write_text("[a]\ninclude 0.fio\n")
    with pytest.raises(BlklabError, match="more than 64 files"):
        parse_job_file(tmp_path / "job.fio")


def test_sections_in_included_files(tmp_path: Path) -> None:
    (tmp_path / "a.fio").write_text("[a]\ninclude b.fio\n")
    (tmp_path / "b.fio").write_text("bs=4k\n[b]\n")
    with pytest.raises(BlklabError, match=r"b.fio:2: '\[b\]': an included file cannot start a section"):
        parse_job_file(tmp_path / "a.fio")


NO_FIT = {
    "[a]\noffset=8m\n": "offset 8388608 is not below the size",
    "[a]\noffset=4m\noffset_increment=2m\nnumjobs=4\n": "of clone 3",
    "[a]\nbs=16m\n": "bs is larger than the range",
    "[a]\nfilesize=4m\noffset=5m\n": "not below filesize",
    "[a]\nfilesize=9m-10m\n": "not built yet",
    "[a]\nrw=randread\nrandom_generator=lfsr\nrandrepeat=0\nrandseed=0\nsize=1m\n": "",
}


@pytest.mark.parametrize(("text", "message"), NO_FIT.items())
def test_jobs_that_do_not_fit_the_device(text: str, message: str) -> None:
    clones = expand(parse_job_text(text, "job.fio").jobs)
    if not message:
        for clone in clones:
            assert make_stream(clone.spec, clone.clone, clone.job_number, [8 << 20]).advance()
        return
    with pytest.raises(BlklabError, match=message) as refusal:
        for clone in clones:
            make_stream(clone.spec, clone.clone, clone.job_number, [8 << 20])
    assert refusal.value.where == "job.fio:1"


@given(st.text(alphabet="[]=;#\n abgiklobsrwz0123456789:,-/%${}()", max_size=200))
def test_any_text_is_jobs_or_one_error(text: str) -> None:
    try:
        found = parse_job_text(text, "job.fio")
    except BlklabError as error:
        assert error.where
        assert error.where.startswith("job.fio")
        return
    assert found.jobs
