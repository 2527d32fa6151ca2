"""fio job files: sections, globals, comments, includes, variables, and the specs that come of them."""

from __future__ import annotations

import dataclasses
import subprocess
from pathlib import Path

import pytest

from blklab.core.errors import BlklabError
from blklab.workload.jobfile import Context, parse_job_file, parse_job_text
from blklab.workload.jobspec import JobFile, JobSpec, describe_options, expand


def jobs(text: str, **context: object) -> tuple[JobSpec, ...]:
    return parse_job_text(text, "job.fio", Context(**context)).jobs  # type: ignore[arg-type]


def only(text: str) -> JobSpec:
    (spec,) = jobs(text)
    return spec


def test_globals_add_up_and_hold_for_later_jobs() -> None:
    first, second, third = jobs("[global]\nbs=8k\n[a]\n[b]\niodepth=4\n[global]\nbs=16k\niodepth=2\n[a]\n")
    assert [s.name for s in (first, second, third)] == ["a", "b", "a"]
    assert [s.min_bs_bytes[0] for s in (first, second, third)] == [8192, 8192, 16384]
    assert [s.iodepth for s in (first, second, third)] == [1, 4, 2]


def test_a_name_that_begins_with_global_is_global() -> None:
    assert only("[globalish]\nbs=8k\n[a]\n").min_bs_bytes == (8192, 8192, 8192)


def test_comments_blanks_and_aliases() -> None:
    spec = only(
        "; comment\n# another\n\n  [a] ; job\n\treadwrite = randwrite # not read\nblocksize=8k;comment\n"
        "timeout=5\n   iodepth_batch_submit=3\niodepth=8\n"
    )
    assert (spec.rw, spec.min_bs_bytes[0], spec.runtime_ns, spec.iodepth_batch) == (
        "randwrite",
        8192,
        5 * 10**9,
        3,
    )


def test_quotes_are_part_of_a_value() -> None:
    assert only('[a]\ndescription="two words"\n').description == '"two words"'


def test_an_option_may_stand_alone() -> None:
    spec = only("[a]\nnorandommap\nthread\nstonewall\ngroup_reporting\n")
    assert spec.norandommap and spec.thread and spec.stonewall and spec.group_reporting


def test_kb_base_is_read_before_sizes() -> None:
    spec = only("[a]\nsize=1m\nbs=4k\nkb_base=1000\n")
    assert (spec.size_bytes, spec.min_bs_bytes[0]) == (1_000_000, 4000)


def test_variables_and_keywords() -> None:
    environment = {"SIZE": "8m", "HALF": "ran", "EMPTY": ""}
    spec = jobs(
        "[a]\nsize=${SIZE}\nrw=${HALF}dread${EMPTY}${MISSING}\nnumjobs=$ncpus\nio_size=$mb_memory*2\n"
        "bs=$pagesize\ndescription=/x/$ncpus/y${unclosed\n",
        environment=environment,
        keywords={"$ncpus": 6, "$pagesize": 4096, "$mb_memory": 100},
    )[0]
    assert (spec.size_bytes, spec.rw, spec.numjobs) == (8 << 20, "randread", 6)
    assert (spec.io_size_bytes, spec.min_bs_bytes[0]) == (200, 4096)
    assert spec.description == "/x/6/y${unclosed"


def test_sections_can_be_chosen() -> None:
    assert [s.name for s in jobs("[a]\n[b]\n[c]\n", sections=("a", "c"))] == ["a", "c"]
    with pytest.raises(BlklabError, match="no job of d"):
        jobs("[a]\n", sections=("d",))


def test_filenames_add_up_as_in_fio() -> None:
    first, second, third = jobs(
        "[global]\nfilename=/dev/nvme0n1\n[a]\nfilename=nvme1n1:/dev/nvme2n1\n[b]\nnrfiles=3\n[c]\nfilename=x\\:y\n"
    )
    assert first.filenames == ("nvme0n1", "nvme1n1", "nvme2n1")
    assert second.filenames == ("nvme0n1",)
    assert third.filenames == ("nvme0n1", "x:y")


def test_a_job_named_as_a_device_uses_it() -> None:
    assert only("[/dev/sda]\n").filenames == ("sda",)
    assert only("[sda]\n").filenames == ()


def test_values_that_bound_each_other() -> None:
    spec = only(
        "[a]\nioengine=libaio\niodepth=8\niodepth_batch=0\niodepth_low=20\niodepth_batch_complete_min=4\n"
    )
    assert (spec.iodepth_batch, spec.iodepth_low) == (8, 8)
    assert (spec.iodepth_batch_complete_min, spec.iodepth_batch_complete_max) == (4, 4)
    spec = only("[a]\niodepth=8\nioengine=psync\n")
    assert spec.is_sync and "queue depth is 1, not 8" in spec.notes[0]


def test_buffered_is_the_opposite_of_direct_and_the_later_one_holds() -> None:
    assert [s.direct for s in jobs("[a]\n[b]\nbuffered=0\n[c]\ndirect=1\nbuffered=1\n[d]\nbuffered=1\ndirect=1\n")] == [
        False, True, False, True,
    ]  # fmt: skip


def test_block_sizes() -> None:
    assert only("[a]\nbs=4k,8k\n").min_bs_bytes == (4096, 8192, 8192)
    assert only("[a]\nbs=,8k,\n").min_bs_bytes == (4096, 8192, 4096)
    spec = only("[a]\nbsrange=4k-16k,8k-32k\nbs=1k\n")
    assert (spec.min_bs_bytes, spec.max_bs_bytes) == ((4096, 8192, 8192), (16384, 32768, 32768))
    spec = only("[a]\nbssplit=4k/60:64k/40,8k\n")
    assert spec.bssplit == (((65536, 40), (4096, 60)), ((8192, 100),), ((8192, 100),))
    assert (spec.min_bs_bytes, spec.max_bs_bytes) == ((4096, 8192, 8192), (65536, 8192, 8192))


def test_blockalign_turns_the_map_off_for_random_jobs_only() -> None:
    random, sequential = jobs("[a]\nrw=randread\nba=512\n[b]\nba=512\n")
    assert random.norandommap and random.ba_bytes == (512, 512, 512) and "random map" in random.notes[0]
    assert not sequential.norandommap and sequential.ba_bytes == (4096, 4096, 4096)


def test_gtod_reduce() -> None:
    spec = only("[a]\ngtod_reduce=1\n")
    assert spec.disable_lat and spec.disable_clat and spec.disable_slat and spec.disable_bw
    assert not spec.clat_percentiles
    assert not only("[a]\ndisable_clat=1\n").clat_percentiles


def test_percentiles_have_the_precision_of_their_list() -> None:
    assert only("[a]\n").percentile_precision == 2
    assert only("[a]\npercentile_list=50:99\n").percentile_precision == 0
    assert only("[a]\npercentile_list=50:99.999\n").percentile_precision == 3


def test_sequence_modifiers() -> None:
    assert [(s.rw_seq_nr, s.rw_seq_add_bytes) for s in jobs("[a]\nrw=randread:8\n[b]\nrw=write:-8k\n[c]\n")] == [
        (8, 0), (1, -8192), (1, 0),
    ]  # fmt: skip


def test_engine_options_follow_the_engine() -> None:
    assert only("[a]\nregisterfiles\nioengine=io_uring\nfixedbufs=1\n").registerfiles
    first, second = jobs("[global]\nioengine=io_uring\nfixedbufs\n[a]\n[b]\nioengine=libaio\n")
    assert first.fixedbufs and not second.fixedbufs
    assert "fixedbufs is ignored: this job has ioengine=libaio" in second.notes[0]
    with pytest.raises(BlklabError, match=r"job.fio:2: 'fixedbufs' is an option of ioengine io_uring"):
        jobs("[a]\nfixedbufs\nioengine=libaio\n")


def test_notes_name_what_has_no_effect_once_and_not_what_is_the_default() -> None:
    found = parse_job_text("[global]\nclocksource=clock_gettime\nverify=crc32c\n[a]\n[b]\n", "job.fio")
    assert [note.split(":")[1] for note in found.notes] == ["3"]
    assert "verify has no effect" in found.notes[0]


def test_options_as_given() -> None:
    found = parse_job_text("[global]\nreadwrite=read\nsize=1m\n[a]\nthread\nblocksize=8k\nbs=4k\n", "job.fio")
    assert describe_options(found.jobs[0]) == {
        "job options": {"thread": "", "bs": "4k"},
        "global options": {"rw": "read", "size": "1m"},
    }
    assert dict(found.global_options) == {"rw": "read", "size": "1m"}


def test_clones_are_numbered_as_in_fio() -> None:
    clones = expand(jobs("[a]\nnumjobs=3\n[b]\nstonewall\n[c]\nnew_group\nnumjobs=2\n"))
    assert [c.spec.name for c in clones] == ["a", "a", "a", "b", "c", "c"]
    assert [c.job_number for c in clones] == [1, 2, 3, 4, 5, 6]
    assert [c.subjob_number for c in clones] == [0, 2, 1, 0, 0, 1]
    assert [c.group for c in clones] == [0, 0, 0, 1, 2, 2]


def test_specs_are_frozen_and_have_slots() -> None:
    spec = only("[a]\n")
    with pytest.raises(dataclasses.FrozenInstanceError):
        spec.iodepth = 2  # type: ignore[misc]
    assert not hasattr(spec, "__dict__")


def test_includes(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "job.fio").write_text("[global]\ninclude sub/common.fio\n[a]\niodepth=2\n")
    (tmp_path / "sub/common.fio").write_text("# common\nbs=8k\ninclude more.fio\nrw=randread\n")
    (tmp_path / "sub/more.fio").write_text("size=1m\n")
    (spec,) = parse_job_file(tmp_path / "job.fio").jobs
    assert (spec.min_bs_bytes[0], spec.size_bytes, spec.rw, spec.iodepth) == (8192, 1 << 20, "randread", 2)


def test_a_wrong_option_in_an_included_file_is_named_there(tmp_path: Path) -> None:
    (tmp_path / "job.fio").write_text("[a]\ninclude inc.fio\n")
    (tmp_path / "inc.fio").write_text("bs=4k\niodepht=4\n")
    with pytest.raises(BlklabError, match=r"inc.fio:2: unknown option 'iodepht'; did you mean 'iodepth'"):
        parse_job_file(tmp_path / "job.fio")


def test_exitall_of_one_job_is_everyones() -> None:
    assert [s.exitall for s in jobs("[a]\n[b]\nexitall\n")] == [True, True]
    assert [s.exitall for s in jobs("[a]\n[b]\n")] == [False, False]


def test_later_files_of_a_command_line_wait() -> None:
    first, second = parse_job_text("[a]\n[b]\n", "job.fio", stonewall=True).jobs
    assert first.stonewall and not second.stonewall


SAME_AS_FIO = [
    "[a]\nbs=,8k\nsize=1m\n",
    "[a]\nsize=$pagesize*400\n",
    "[global]\nbs=8k\n[a]\nsize=1m\n[global]\niodepth=4\n[b]\nsize=2m\n",
    "[a]\nreadwrite=randrw\nrwmixwrite=30\nsize=1m\n",
]


@pytest.mark.parametrize("text", SAME_AS_FIO)
def test_fio_accepts_the_same(fio: Path, tmp_path: Path, text: str) -> None:
    path = tmp_path / "job.fio"
    path.write_text(text)
    assert subprocess.run([fio, "--parse-only", path], capture_output=True, check=False).returncode == 0
    assert isinstance(parse_job_file(path), JobFile)
