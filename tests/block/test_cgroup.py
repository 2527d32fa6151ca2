"""Control groups in the block layer: who a bio is charged to, the files of every group, and its priority class."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blklab.block.bio import Bio
from blklab.block.cgroup import MAJOR, POLICY_BFQ, BlkcgPolicy, Blkg
from blklab.block.cgroup_files import CGROUP_MODULES, all_files, device_line
from blklab.block.consts import OP_DISCARD, OP_READ, OP_WRITE
from blklab.block.switch import set_elevator
from blklab.core.errors import BlklabError
from blklab.lab.rig import Rig, ScriptedDriver
from blklab.trace import blkparse

PATHS = ("/", "/a", "/a/b", "/a/b/c", "/a/d", "/e")


def figures(text: str) -> dict[str, int]:
    words = [word.split("=") for word in text.split()[1:]]
    return {name: int(value) for name, value in words}


class Policy(BlkcgPolicy):
    """Keeps the names of the groups that it was told of, in order."""

    slot = POLICY_BFQ

    def __init__(self) -> None:
        self.seen: list[str] = []

    def pd_alloc(self, blkg: Blkg) -> object:
        assert blkg.parent is None or blkg.parent.pd[self.slot] is not None
        return f"data of {blkg.cgroup.name}"

    def pd_online(self, blkg: Blkg) -> None:
        self.seen.append(f"+{blkg.cgroup.name}")

    def pd_offline(self, blkg: Blkg) -> None:
        self.seen.append(f"-{blkg.cgroup.name}")

    def pd_reset_stats(self, blkg: Blkg) -> None:
        self.seen.append(f"0{blkg.cgroup.name}")


def test_a_group_comes_with_its_parents_and_gets_the_policy_s_data() -> None:
    rig = Rig()
    rig.cgroup("/a/b")
    groups = rig.queue.blkcg
    assert groups is not None
    policy = Policy()
    groups.activate(policy)
    assert policy.seen == ["+/"]

    rig.send([rig.bio(0)], cgroup="/a/b").run()

    assert policy.seen == ["+/", "+/a", "+/a/b"]
    assert [blkg.pd[POLICY_BFQ] for blkg in groups.root.walk()] == [
        "data of /",
        "data of /a",
        "data of /a/b",
    ]
    groups.deactivate(policy)
    assert policy.seen[3:] == ["-/a/b", "-/a", "-/"]
    assert [blkg.pd[POLICY_BFQ] for blkg in groups.root.walk()] == [None, None, None]


def test_a_policy_is_told_when_statistics_are_reset() -> None:
    rig = Rig()
    rig.cgroup("/a/b", version=1)
    groups = rig.queue.blkcg
    assert groups is not None
    policy = Policy()
    groups.activate(policy)
    rig.send([rig.bio(0, 16)], cgroup="/a/b").run()
    blkg = rig.cgroup("/a/b").blkgs[0]
    assert (blkg.stat.rios, blkg.stat.rbytes) == (1, 8192)

    rig.write_file("/a/b", "blkio.reset_stats", "1")

    assert (blkg.stat.rios, blkg.stat.rbytes) == (0, 0)
    assert policy.seen[-1] == "0/a/b"


@pytest.mark.parametrize(("other", "merges"), [("/a", 1), ("/b", 0)])
def test_only_bios_of_one_group_merge(other: str, merges: int) -> None:
    # The device takes one request, so the next ones wait in the scheduler, where the last bio finds the one before it
    rig = Rig(ScriptedDriver(service_ns=None, budgets=1))
    rig.cgroup("/a")
    set_elevator(rig.queue, "mq-deadline")
    rig.send([rig.bio(1000)], [rig.bio(200)], cgroup="/a").run()

    rig.send([rig.bio(208)], cgroup=other).run()

    assert rig.counts()["M"] == merges


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(PATHS), st.sampled_from((OP_READ, OP_WRITE, OP_DISCARD)), st.integers(1, 600)
        ),
        max_size=25,
    )
)
def test_io_stat_is_what_was_submitted_and_sums_up_the_tree(sent: list[tuple[str, int, int]]) -> None:
    driver = ScriptedDriver()
    driver.max_sectors = 256  # bios of up to 300 KiB are cut in up to three: one I/O each
    rig = Rig(driver)
    rig.cgroup("/")
    rig.queue.limits.max_discard_sectors = 1 << 20
    sector = 0
    for path, op, nr_sectors in sent:
        rig.send([rig.bio(sector, nr_sectors, op)], cgroup=path)
        sector += 10_000
    rig.run()
    rig.assert_clean()

    for path in PATHS[1:]:
        below = [one for one in sent if one[0] == path or one[0].startswith(f"{path}/")]
        expected = dict.fromkeys(("rbytes", "wbytes", "rios", "wios", "dbytes", "dios"), 0)
        for _, op, nr_sectors in below:
            letter = {OP_READ: "r", OP_WRITE: "w", OP_DISCARD: "d"}[op]
            expected[f"{letter}bytes"] += nr_sectors << 9
            expected[f"{letter}ios"] += 1 if op == OP_DISCARD else (nr_sectors + 255) // 256
        text = rig.read_file(path, "io.stat")
        if not below:
            assert text == ""
        elif not any(expected[field] for field in ("rios", "wios")):
            assert text == f"{MAJOR}:0 "
        else:
            assert text.startswith(f"{MAJOR}:0 ")
            assert list(figures(text)) == ["rbytes", "wbytes", "rios", "wios", "dbytes", "dios"]
            assert figures(text) == expected
    # The root's are the disk's
    whole = figures(rig.read_file("/", "io.stat"))
    if whole:
        stat = rig.queue.stat
        assert (whole["rbytes"], whole["wbytes"]) == (stat.sectors[0] << 9, stat.sectors[1] << 9)
        assert whole["rbytes"] == sum(n << 9 for _, op, n in sent if op == OP_READ)


def test_io_stat_lists_the_newest_device_first() -> None:
    rig = Rig(devices=2)
    rig.cgroup("/a")
    rig.send([rig.bio(0, device=0)], [rig.bio(0, device=1)], cgroup="/a").run()

    lines = rig.read_file("/a", "io.stat").splitlines()

    assert [line.split()[0] for line in lines] == [f"{MAJOR}:1", f"{MAJOR}:0"]


def test_device_numbers_are_those_of_traces() -> None:
    assert MAJOR == blkparse.MAJOR


def test_a_device_is_named_or_numbered() -> None:
    rig = Rig(devices=2)
    rig.cgroup("/")
    tree = rig.cgroups
    assert tree is not None
    for text in ("dev1 rbps=1", f"{MAJOR}:1 rbps=1", "/dev/dev1  rbps=1 "):
        queue, rest = device_line(text, tree)
        assert (queue.name, rest) == ("dev1", "rbps=1")
    for name in ("dev2", f"{MAJOR}:2", "8:1", ""):
        with pytest.raises(BlklabError, match=r"ENODEV.*dev0, dev1"):
            tree.queue(name)


def test_a_task_is_moved_by_its_pid() -> None:
    rig = Rig()
    rig.cgroup("/a")
    tree = rig.cgroups
    assert tree is not None
    sender = rig.senders[0]
    tree.attach(sender, tree.make("/a"))
    assert rig.read_file("/a", "cgroup.procs") == "100"

    rig.write_file("/b", "cgroup.procs", "100")
    rig.send([rig.bio(0)]).run()

    assert (rig.read_file("/a", "cgroup.procs"), rig.read_file("/b", "cgroup.procs")) == ("", "100")
    assert figures(rig.read_file("/b", "io.stat"))["rios"] == 1
    with pytest.raises(BlklabError, match=r"no task '7' \(ESRCH\); .* 100"):
        rig.write_file("/b", "cgroup.procs", "7")


@pytest.mark.parametrize(
    ("version", "path", "name", "text", "message"),
    [
        (2, "/a", "io.wieght", "1", "did you mean 'io.weight'"),
        (2, "/a", "blkio.reset_stats", "1", "a file of cgroup v1; this machine's groups are v2"),
        (1, "/a", "io.stat", "1", "a file of cgroup v2; this machine's groups are v1"),
        (1, "/a", "blkio.reset_stats", "now", "EINVAL"),
        (2, "/", "io.weight", "1", "the root has no such file"),
        (2, "/a", "io.stat", "1", "cannot be written"),
        (2, "/a", "io.weight", "0", "1 to 10000"),
        (2, "/a", "io.weight", "10001", "1 to 10000"),
        (2, "/a", "io.weight", "default", "1 to 10000"),
        (2, "/a", "io.weight", "dev0 100", "EOPNOTSUPP"),
        (2, "/a", "io.weight", "dev7 100", "ENODEV"),
        (2, "/a", "cgroup.subtree_control", "+cpu", "the only controller is io"),
        (2, "/a", "cgroup.subtree_control", "-io", "cannot be taken away"),
        (2, "/a", "io.prio.class", "rt", "no-change, none-to-rt, restrict-to-be, idle"),
    ],
)
def test_what_the_kernel_refuses(version: int, path: str, name: str, text: str, message: str) -> None:
    rig = Rig()
    rig.cgroup("/a", version)
    with pytest.raises(BlklabError, match=message) as caught:
        rig.write_file(path, name, text)
    assert caught.value.where == f"{path.rstrip('/')}/{name}"


def test_io_weight_is_shown_as_it_was_set() -> None:
    rig = Rig()
    rig.cgroup("/a")
    assert rig.read_file("/a", "io.weight") == "default 100"  # capture cgroup/io-max-iops
    for text, shown in (("300", 300), ("default 7", 7), ("default 10000", 10000)):
        rig.write_file("/a", "io.weight", text)
        assert rig.read_file("/a", "io.weight") == f"default {shown}"


# Priorities as class << 13 | level; 0 is none. Read in blk-ioprio.c of 6.1 and 6.12
RT0, RT4, BE0, BE4, BE7, IDLE = 1 << 13, 1 << 13 | 4, 2 << 13, 2 << 13 | 4, 2 << 13 | 7, 3 << 13


@pytest.mark.parametrize(
    ("kernel", "name", "given", "expected"),
    [
        (2, "no-change", [0, RT4, BE7, IDLE], [0, RT4, BE7, IDLE]),
        (2, "none-to-rt", [0, RT4, BE7, IDLE], [BE4, RT4, BE7, IDLE]),
        (1, "none-to-rt", [0, RT4, BE7, IDLE], [RT0, RT4, BE7, IDLE]),
        (3, "none-to-rt", [0, RT0, BE7, IDLE], [RT4, RT0, RT4, RT4]),
        (3, "promote-to-rt", [0, RT0, BE7, IDLE], [RT4, RT0, RT4, RT4]),
        (1, "restrict-to-be", [0, RT4, BE7, IDLE], [BE0, BE0, BE7, IDLE]),
        (2, "restrict-to-be", [0, RT4, BE7, IDLE], [BE4, BE0, BE7, IDLE]),
        (2, "idle", [0, RT4, BE7, IDLE], [IDLE, IDLE, IDLE, IDLE]),
    ],
)
def test_a_group_s_priority_class(kernel: int, name: str, given: list[int], expected: list[int]) -> None:
    rig = Rig(ScriptedDriver(service_ns=None), features={"io_prio_class": kernel})
    rig.write_file("/a", "io.prio.class", name)
    assert rig.read_file("/a", "io.prio.class") == name
    bios: list[Bio] = []
    for number, ioprio in enumerate(given):
        bio = rig.bio(1000 * number)
        bio.ioprio = ioprio
        bios.append(bio)

    rig.send(*([bio] for bio in bios), cgroup="/a").run()

    assert [rq.ioprio for rq in rig.driver.held] == expected


def test_a_kernel_before_5_14_has_no_priority_class() -> None:
    rig = Rig(features={"io_prio_class": 0})
    with pytest.raises(BlklabError, match="this kernel has no such file"):
        rig.write_file("/a", "io.prio.class", "idle")


def test_every_module_with_files_registers_them() -> None:
    files = all_files()
    assert {file.name for file in files} >= {"io.stat", "io.weight", "io.prio.class", "blkio.reset_stats"}
    for file in files:
        assert file.versions and set(file.versions) <= {1, 2}
        debug = file.name.startswith(
            "blkio.bfq."
        )  # some are there with CONFIG_BFQ_CGROUP_DEBUG only, by name
        assert file.get is not None or file.set is not None or debug, file.name
        assert file.help and not file.help.endswith("."), file.name
    assert len(CGROUP_MODULES) == len(set(CGROUP_MODULES))
