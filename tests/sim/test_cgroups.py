"""Control groups as a user sees them: machine files, --set, --at, --show, fio's options, jobs in groups, results."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blklab import simulate
from blklab.block import cgroup_stat
from blklab.cli.main import main
from blklab.core.errors import BlklabError
from blklab.metrics.result import CgroupResult, RunResult
from blklab.rqos import io_weight, ioprio
from blklab.sim.build import BuiltMachine, build
from blklab.sim.cgroups import show_files
from blklab.sim.machine import load_machine
from blklab.workload.jobfile import parse_job_text
from blklab.workload.jobspec import JobFile

SLOW = ["device/irqmode=2", "device/completion_nsec=100000", "device/hw_queue_depth=8"]
JOB = """
[global]
ioengine=libaio
direct=1
rw=randread
bs=4k
iodepth=16
time_based
runtime=40ms
"""


def jobs(*sections: str) -> JobFile:
    return parse_job_text(JOB + "\n".join(sections), "test.fio")


def file(tmp_path: Path, text: str, name: str = "m.toml") -> Path:
    path = tmp_path / name
    path.write_text(text)
    return path


def groups_of(built: BuiltMachine) -> dict[str, list[str]]:
    """Path of each group -> its files with what they show."""
    assert built.cgroups is not None
    return {
        group.name: show_files(built, [f"cgroup{group.name.rstrip('/')}/io.*"])
        for group in built.cgroups.root.walk()
    }


def by_path(result: RunResult) -> dict[str, CgroupResult]:
    return {group.path: group for group in result.cgroups}


# -- machine files -----------------------------------------------------------------------


def test_a_machine_without_groups_has_none() -> None:
    built = build(load_machine("null"))
    assert built.cgroups is None
    assert all(queue.blkcg is None for queue in built.queues.values())
    result = simulate(jobs("[a]"), "null")
    assert result.cgroups == []


def test_groups_come_with_their_parents_and_files_have_what_was_written(tmp_path: Path) -> None:
    text = """extends = "null"
[cgroup."/system.slice/db.service"]
io.weight = 500
io.prio.class = "restrict-to-be"
[cgroup.backup]
"io.weight" = ["default 50", "60"]
"""
    built = build(load_machine(file(tmp_path, text)))
    found = groups_of(built)
    assert list(found) == ["/", "/system.slice", "/system.slice/db.service", "/backup"]
    below = found["/system.slice/db.service"]
    assert "cgroup/system.slice/db.service/io.weight: default 500" in below
    assert "cgroup/system.slice/db.service/io.prio.class: restrict-to-be" in below
    assert "cgroup/system.slice/io.weight: default 100" in found["/system.slice"]
    assert "cgroup/backup/io.weight: default 60" in found["/backup"]
    assert built.cgroups is not None and built.cgroups.version == 2


NAMES = st.sampled_from(["a", "b", "x.slice", "a/b", "a/b/c", "x.slice/y"])
FILES: st.SearchStrategy[dict[str, int | str]] = st.fixed_dictionaries(
    {},
    optional={
        "io.weight": st.integers(1, 10000),
        "io.prio.class": st.sampled_from(["idle", "no-change", "restrict-to-be"]),
    },
)


@settings(max_examples=30, deadline=None)
@given(st.dictionaries(NAMES, FILES, max_size=5), st.booleans(), st.data())
def test_every_way_to_write_them_gives_the_same_tree(
    tmp_path_factory: pytest.TempPathFactory,
    groups: dict[str, dict[str, int | str]],
    slash: bool,
    data: st.DataObject,
) -> None:
    folder = tmp_path_factory.mktemp("machines")
    keys = [(name, key, value) for name, found in groups.items() for key, value in found.items()]
    in_base = data.draw(st.lists(st.booleans(), min_size=len(keys), max_size=len(keys)))

    def toml(pairs: list[tuple[str, str, int | str]], dotted: bool) -> str:
        text = "[cgroup]\nversion = 2\n"
        for name in groups:
            text += f'[cgroup."{"/" if slash else ""}{name}"]\n'
            for owner, key, value in pairs:
                if owner == name:
                    key_text = key if dotted else f'"{key}"'
                    text += (
                        f"{key_text} = {value}\n" if isinstance(value, int) else f'{key_text} = "{value}"\n'
                    )
        return text

    one = file(folder, 'extends = "null"\n' + toml(keys, True), "one.toml")
    # Some of it, with other values, in a file that the other one extends
    other: list[tuple[str, str, int | str]] = [
        (name, key, 77 if key == "io.weight" else "none-to-rt")
        for (name, key, _), there in zip(keys, in_base, strict=True)
        if there
    ]
    file(folder, 'extends = "null"\n' + toml(other, False), "base.toml")
    two = file(folder, 'extends = "base.toml"\n' + toml(keys, False), "two.toml")
    empty = file(folder, 'extends = "null"\n' + toml([], True), "three.toml")
    three = load_machine(empty, [f"cgroup/{name}/{key}={value}" for name, key, value in keys])

    trees = [groups_of(build(machine)) for machine in (load_machine(one), load_machine(two), three)]

    assert trees[0] == trees[1] == trees[2]
    for name, key, value in keys:
        shown = f"default {value}" if key == "io.weight" else value
        assert f"cgroup/{name}/{key}: {shown}" in trees[0][f"/{name}"]


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("io.wieght = 5\n", 3, r"/db/io\.wieght: no file 'io.wieght' \(ENOENT\).*did you mean 'io.weight'"),
        ("io.weight = 0\n", 3, r"EINVAL.*1 to 10000"),
        ('io.weight = "sdx 100"\n', 3, r"no such device: 'sdx' \(ENODEV\); there are nullb0"),
        ('io.weight = ["1", "x"]\n', 3, "'x' is not a weight"),
        ("io.weight = true\n", 3, "should be text, a number, or a list of lines"),
        ("io.weight = 1\nblkio.reset_stats = 1\n", 4, "a machine has one version"),
        ("weight = 1\n", 3, "unknown key 'weight'; accepted are control files as io.max, and jobs, unit"),
        ('unit = "none.service"\n', 3, "No such file"),
        ("jobs = 3.5\n", 3, "should be text"),
        ("io.weight = 1\n[cgroup]\nversion = 1\n", 3, "a machine has one version"),
        ('jobs = ["a"]\n[cgroup.x]\njobs = "a"\n', 4, r"jobs 'a' are in /db already \(.*:2\)"),
        ('jobs = ["a"]\n[cgroup."/"]\nio.weight = 1\n', 5, "the root has no such file"),
        ('jobs = ["a"]\n[cgroup."/../x"]\n', 4, "is not the path of a control group"),
        ('jobs = ["a"]\n[cgroup]\nversion = 3\n', 5, "is 1 or 2"),
        ('[cgroup]\ndb2 = "x"\n', 4, "should be a table"),
    ],
)
def test_a_wrong_group_gives_one_clear_error(tmp_path: Path, text: str, line: int, message: str) -> None:
    path = file(tmp_path, 'extends = "null"\n[cgroup."/db"]\n' + text)
    with pytest.raises(BlklabError, match=message) as caught:
        build(load_machine(path))
    assert caught.value.where == f"{path}:{line}"


@pytest.mark.parametrize(
    ("kernel", "setting", "version"),
    [
        ("6.1", "cgroup/db/jobs=a", 2),
        ("4.4", "cgroup/db/jobs=a", 1),
        ("6.1", "cgroup/version=1", 1),
        ("6.1", "cgroup/db/blkio.reset_stats=1", 1),
        ("6.1", "cgroup/db/io.weight=1", 2),
    ],
)
def test_the_version_follows_from_the_names(kernel: str, setting: str, version: int) -> None:
    machine = load_machine("null", [setting], kernel=kernel)
    assert machine.cgroups is not None and machine.cgroups.version == version


def test_a_kernel_before_4_5_has_no_version_2() -> None:
    with pytest.raises(BlklabError, match=r"of /db is of cgroup v2, which came with Linux 4\.5") as caught:
        load_machine("null", ["cgroup/db/io.weight=1"], kernel="4.4")
    assert caught.value.where == "--set cgroup/db/io.weight"


# -- jobs ------------------------------------------------------------------------------------


def test_jobs_are_put_into_groups_by_name() -> None:
    result = simulate(
        jobs("[a]", "numjobs=2", "[bob]", "[c]"),
        "null",
        settings=[*SLOW, "cgroup/x/y/jobs=a.1", "cgroup/z/jobs=b* nobody"],
    )
    found = by_path(result)
    assert list(found) == ["/", "/x", "/x/y", "/z"]
    assert found["/x"].devices == found["/x/y"].devices
    ios = [job.stats.read.done_ios for job in result.jobs]
    assert found["/x/y"].devices[0].rios == ios[1]
    assert found["/z"].devices[0].rios == ios[2]
    assert found["/"].devices[0].rios == sum(ios) == result.disk_util[0].read_ios
    assert found["/"].devices[0].share == 1.0
    assert found["/z"].devices[0].share == pytest.approx(ios[2] / sum(ios))
    assert "--set cgroup/z/jobs: no job fits 'nobody'" in result.notes


def test_fio_puts_a_job_into_a_group() -> None:
    # What a job says itself counts more than where it was put
    result = simulate(
        jobs("[a]", "cgroup=one", "[b]", "cgroup=x/two", "cgroup_nodelete=1"),
        "null",
        settings=[*SLOW, "cgroup/x/jobs=b"],
    )
    found = by_path(result)
    assert list(found) == ["/", "/x", "/x/two", "/one"]
    ios = [job.stats.read.done_ios for job in result.jobs]
    assert [found[path].devices[0].rios for path in ("/one", "/x/two")] == ios
    assert any("cgroup_nodelete" in note for note in result.notes)


def test_a_job_s_group_is_enough_to_have_groups() -> None:
    result = simulate(jobs("[a]", "cgroup=one", "[b]"), "null", settings=SLOW)
    assert [(group.path, len(group.devices)) for group in result.cgroups] == [("/", 1), ("/one", 1)]
    assert result.cgroups[1].io_stat[0].startswith("259:0 rbytes=")
    assert 0.4 < result.cgroups[1].devices[0].share < 0.6


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("cgroup=x/y", r"fio makes /x/y but not /x, which there is not \(ENOENT\)"),
        ("cgroup=x\ncgroup_weight=200", "cgroup_weight does not work with cgroup v2"),
        ("cgroup=../x", "is not the path of a control group"),
        ("cgroup=x\ncgroup_weight=50", "100"),
    ],
)
def test_what_fio_cannot_set_up(option: str, message: str) -> None:
    with pytest.raises(BlklabError, match=message) as caught:
        simulate(jobs("[a]", option), "null")
    assert caught.value.where is not None and caught.value.where.startswith("test.fio:")


def test_cgroup_weight_needs_a_scheduler_that_has_the_file() -> None:
    """blkio.weight was CFQ's: a kernel without it has no such file, as fio finds out (cgroup open weight: ENOENT)."""
    with pytest.raises(
        BlklabError, match=r"cgroup_weight=200: /x/blkio\.weight: no file 'blkio.weight' \(ENOENT\)"
    ):
        simulate(jobs("[a]", "cgroup=x", "cgroup_weight=200"), "null", settings=["cgroup/version=1"])


def test_cgroup_weight_alone_has_no_effect_as_in_fio() -> None:
    result = simulate(jobs("[a]", "cgroup_weight=200"), "null", settings=SLOW)
    assert result.cgroups == []
    assert any("cgroup_weight has no effect without cgroup" in note for note in result.notes)


# -- during a run ------------------------------------------------------------------------------


def test_files_are_written_and_read_during_a_run() -> None:
    result = simulate(
        jobs("[a]"),
        "null",
        settings=[*SLOW, "cgroup/db/jobs=a"],
        at=["10ms:cgroup/db/io.weight=300", "20ms:cgroup/io.prio.class=idle", "9s:cgroup/db/io.weight=1"],
        show=["cgroup/db/io.w*", "cgroup/io.prio.class"],
    )
    assert result.attributes == ["cgroup/io.prio.class: idle", "cgroup/db/io.weight: default 300"]
    assert "--at 9s:cgroup/db/io.weight: the run had ended by then" in result.notes


def test_a_job_moves_to_another_group() -> None:
    result = simulate(
        jobs("[a]"),
        "null",
        settings=[*SLOW, "cgroup/one/jobs=a", "cgroup/two/jobs="],
        at=["10ms:cgroup/two/cgroup.procs=2001"],
    )
    one, two = (by_path(result)[path].devices[0].rios for path in ("/one", "/two"))
    assert one + two == result.jobs[0].stats.read.done_ios
    assert two / one == pytest.approx(3, rel=0.1)  # 30 of 40 ms


@pytest.mark.parametrize(
    ("at", "message"),
    [
        ("1ms:cgroup/dbb/io.weight=1", "no control group /dbb.*did you mean 'db'"),
        ("1ms:cgroup/db/io.wieght=1", "did you mean 'io.weight'"),
        ("1ms:cgroup/db/io.weight=0", "1 to 10000"),
        ("1ms:cgroup/db/io.stat=1", "cannot be written"),
    ],
)
def test_a_wrong_write_is_refused(at: str, message: str) -> None:
    with pytest.raises(BlklabError, match=message) as caught:
        simulate(jobs("[a]"), "null", settings=[*SLOW, "cgroup/db/jobs=a"], at=[at])
    assert caught.value.where == f"--at {at.partition('=')[0]}"


def test_a_machine_without_groups_says_so() -> None:
    with pytest.raises(BlklabError, match="the machine has no control groups"):
        simulate(jobs("[a]"), "null", at=["1ms:cgroup/db/io.weight=1"])
    with pytest.raises(BlklabError, match="no attribute fits 'cgroup/"):
        simulate(jobs("[a]"), "null", show=["cgroup/*"])


def test_the_command_line_shows_groups(capsys: pytest.CaptureFixture[str]) -> None:
    job = ["--name=a", "--rw=randread", "--direct=1", "--ioengine=libaio", "--number_ios=10", "--bs=4k"]
    machine = ["--machine=null", "--set=cgroup/db/jobs=a", "--set=cgroup/db/io.weight=7"]

    assert main(["run", *job, *machine, "--show=cgroup/db/*"]) == 0

    captured = capsys.readouterr()
    assert "\nCgroups (read/write):\n" in captured.out
    assert "cgroup/db/io.stat: 259:0 rbytes=40960 wbytes=0 rios=10 wios=0 dbytes=0 dios=0\n" in captured.err
    assert "cgroup/db/io.weight: default 7\n" in captured.err
    assert "note: --set cgroup/db/io.weight: io.weight is iocost's" in captured.err


# -- what is charged ------------------------------------------------------------------------------


def test_a_stacked_device_s_bios_stay_with_the_group(tmp_path: Path) -> None:
    text = """extends = "null"
[device.nullb1]
model = "null"
[device.md0]
model = "raid0"
members = ["nullb0", "nullb1"]
chunk = "64k"
[cgroup.db]
jobs = "a"
"""
    result = simulate(
        jobs("[a]", "filename=/dev/md0", "bs=128k", "[b]", "filename=/dev/nullb1"),
        file(tmp_path, text),
        settings=["nullb0/device/irqmode=2", "nullb0/device/completion_nsec=100000"],
    )
    done = {device.name: device for device in by_path(result)["/db"].devices}
    job = result.jobs[0].stats.read
    assert done["md0"].rbytes == job.bytes
    # Each I/O begins at some 4k of a chunk: most are cut, and the parts go to both members
    assert done["nullb0"].rbytes + done["nullb1"].rbytes == job.bytes
    assert done["nullb0"].rbytes > 0.4 * job.bytes
    whole = {device.name: device for device in by_path(result)["/"].devices}
    assert whole["nullb1"].rbytes == done["nullb1"].rbytes + result.jobs[1].stats.read.bytes


@pytest.mark.parametrize("scheduler", ["none", "mq-deadline", "kyber"])
def test_case_36_io_weight_has_no_effect(scheduler: str) -> None:
    """systemd PR 13335, youki issue 3731: io.weight is iocost's file, and no scheduler looks at it."""
    placed = ["cgroup/a/jobs=a", "cgroup/b/jobs=b"]
    weights = ["cgroup/a/io.weight=100", "cgroup/b/io.weight=900"]
    result = simulate(
        jobs("[a]", "[b]", "offset=50%"), "null", scheduler, settings=[*SLOW, *placed, *weights]
    )
    shares = [by_path(result)[path].devices[0].share for path in ("/a", "/b")]
    assert shares == [pytest.approx(0.5, abs=0.02), pytest.approx(0.5, abs=0.02)]
    notes = [note for note in result.notes if "io.weight" in note]
    assert len(notes) == 1
    assert notes[0].startswith("--set cgroup/a/io.weight: io.weight is iocost's")


def test_being_in_groups_changes_nothing_by_itself() -> None:
    work = ("[a]", "[b]", "rw=randwrite")
    plain = simulate(jobs(*work), "null", settings=SLOW)
    grouped = simulate(jobs(*work), "null", settings=[*SLOW, "cgroup/x/jobs=a", "cgroup/y/jobs=b"])
    for one, two in zip(plain.jobs, grouped.jobs, strict=True):
        assert one.stats.read.done_ios == two.stats.read.done_ios
        assert one.stats.write.clat.mean == two.stats.write.clat.mean


def test_the_documentation_has_every_file_of_every_group() -> None:
    text = (Path(__file__).parents[2] / "docs" / "cgroups.md").read_text()
    for module in (cgroup_stat, io_weight, ioprio):
        for item in module.CGROUP_FILES:
            assert item.name in text, item.name


def test_a_limit_is_set_and_taken_away_while_a_job_runs() -> None:
    result = simulate(
        parse_job_text(JOB.replace("40ms", "1s") + "[a]", "test.fio"),
        "null",
        settings=[*SLOW, "cgroup/db/jobs=a", "cgroup/db/io.max=nullb0 riops=1000"],
        at=["500ms:cgroup/db/io.max=nullb0 riops=4000", "900ms:cgroup/db/io.max=259:0 riops=2000 rbps=max"],
        show=["cgroup/db/io.max"],
    )
    # A new limit begins with a new slice of 100 ms: that much may come at once
    ios = result.jobs[0].stats.read.done_ios
    assert 500 + 1600 + 200 - 400 <= ios <= 500 + 1600 + 200 + 400
    assert result.attributes == ["cgroup/db/io.max: 259:0 rbps=max wbps=max riops=2000 wiops=max"]


def test_case_36_bfq_reads_its_own_file() -> None:
    """The same with bfq: io.weight does nothing there either, io.bfq.weight of 100 and 900 is a tenth and nine."""
    placed = ["cgroup/a/jobs=a", "cgroup/b/jobs=b", "queue/iosched/low_latency=0", "queue/nr_requests=128"]

    def shares(file: str) -> list[float]:
        weights = [f"cgroup/a/{file}=100", f"cgroup/b/{file}=900"]
        long = "runtime=400ms"
        result = simulate(
            jobs("[a]", long, "[b]", long, "offset=50%"), "null", "bfq", settings=[*SLOW, *placed, *weights]
        )
        return [by_path(result)[path].devices[0].share for path in ("/a", "/b")]

    assert shares("io.weight") == [pytest.approx(0.5, abs=0.05), pytest.approx(0.5, abs=0.05)]
    assert shares("io.bfq.weight") == [pytest.approx(0.1, abs=0.03), pytest.approx(0.9, abs=0.03)]
