"""CFQ's groups: shares by weight in trees, isolation of seeking queues, idling on groups, the files."""

from __future__ import annotations

import pytest
from cfq_rig import AGES, CfqRig, Load, check_state, random_sectors, sequential
from hypothesis import given, settings
from hypothesis import strategies as st
from rig import MS

from blklab.block.consts import F_IDLE, F_SYNC, OP_WRITE
from blklab.core.errors import BlklabError

SECONDS = 1000 * MS


# -- shares ------------------------------------------------------------------------------------


def expected_shares(
    weights: dict[str, int], leaf_weights: dict[str, int], busy: list[str]
) -> dict[str, float]:
    """What each busy group deserves: its tasks compete with its children by leaf_weight, its children by weight."""

    def active(path: str) -> bool:
        return any(b == path or b.startswith(f"{path}/") for b in busy)

    def children(path: str) -> list[str]:
        return [p for p in weights if p.rpartition("/")[0] == path and active(p)]

    def share(path: str, of: float) -> dict[str, float]:
        own = leaf_weights[path] if path in busy else 0
        total = own + sum(weights[c] for c in children(path))
        found = {path: of * own / total} if own else {}
        for child in children(path):
            found |= share(child, of * weights[child] / total)
        return found

    tops = [p for p in weights if p.count("/") == 1 and active(p)]
    total = sum(weights[p] for p in tops)
    result: dict[str, float] = {}
    for top in tops:
        result |= share(top, weights[top] / total)
    return result


PATHS = ("/a", "/a/b", "/a/b/c", "/d")


@given(
    weights=st.tuples(*[st.integers(100, 1000)] * 4),
    leaves=st.tuples(*[st.integers(100, 1000)] * 4),
    iops=st.booleans(),
    kernel=st.sampled_from(["3.10", "4.14"]),
)
@settings(max_examples=8, deadline=None)
def test_shares_are_the_weights_in_a_tree_of_depth_3(
    weights: tuple[int, ...], leaves: tuple[int, ...], iops: bool, kernel: str
) -> None:
    # All backlogged, 16 I/Os each of 128 requests. In IOPS mode a share is of requests, else of the time charged
    tunables = {"slice_idle": 0 if iops else 8}
    at_once, service_ns = (8, 16 * MS) if iops else (1, 2 * MS)
    rig = CfqRig(kernel, PATHS, at_once, service_ns, tunables=tunables, quiet=True)
    by_path = dict(zip(PATHS, weights, strict=True))
    leaf_by_path = dict(zip(PATHS, leaves, strict=True))
    for path in PATHS:
        rig.write_file(path, "blkio.weight", str(by_path[path]))
        rig.write_file(path, "blkio.leaf_weight", str(leaf_by_path[path]))
    loads = {path: rig.load(16, random_sectors(i), path) for i, path in enumerate(PATHS)}
    rig.run_for(SECONDS)
    begin = {path: measure(rig, load, path, iops) for path, load in loads.items()}
    rig.run_for(60 * SECONDS)
    served = {path: measure(rig, load, path, iops) - begin[path] for path, load in loads.items()}
    total = sum(served.values())
    for path, share in expected_shares(by_path, leaf_by_path, list(PATHS)).items():
        assert served[path] / total == pytest.approx(share, rel=0.03, abs=0.003)
    check_state(rig)


def measure(rig: CfqRig, load: Load, path: str, iops: bool) -> int:
    """The service that a group has received."""
    return load.done if iops else int(rig.group(path).stats.time_ticks)


@pytest.mark.parametrize("kernel", AGES)
def test_twice_the_weight_is_twice_the_time_and_nearly_the_requests(kernel: str) -> None:
    rig = CfqRig(kernel, ("/a", "/b"))
    rig.write_file("/a", "blkio.weight", "1000")
    rig.write_file("/b", "blkio.weight", "500")
    a, b = (rig.load(16, sequential(n << 24), path) for n, path in enumerate(("/a", "/b")))
    rig.run_for(30 * SECONDS)
    assert measure(rig, a, "/a", False) / measure(rig, b, "/b", False) == pytest.approx(2, rel=0.03)
    assert a.done / b.done == pytest.approx(2, rel=0.06)


def test_before_3_9_the_tree_of_groups_is_flat() -> None:
    # /a/b competes with /a and /d as one of three; since 3.9 it is a part of /a
    share = {}
    for kernel in ("3.2", "3.10"):
        rig = CfqRig(kernel, ("/a", "/a/b", "/d"))
        loads = {path: rig.load(16, sequential(n << 24), path) for n, path in enumerate(("/a", "/a/b", "/d"))}
        rig.run_for(20 * SECONDS)
        served = {path: measure(rig, load, path, False) for path, load in loads.items()}
        share[kernel] = served["/d"] / sum(served.values())
    assert share["3.2"] == pytest.approx(1 / 3, abs=0.02)
    assert share["3.10"] == pytest.approx(1 / 2, abs=0.02)


@pytest.mark.parametrize("kernel", AGES)
def test_no_group_starves(kernel: str) -> None:
    rig = CfqRig(kernel, ("/heavy", "/light"))
    for path, weight in (("/heavy", 1000), ("/light", 100)):
        rig.write_file(path, "blkio.weight", str(weight))
    for n in range(4):
        rig.load(16, sequential(n << 24), "/heavy")
    light = rig.load(1, random_sectors(1), "/light")
    rig.run_for(30 * SECONDS)
    assert light.done > 50
    assert max(light.latencies_ns) < 3 * SECONDS


def test_a_new_weight_counts_from_the_next_turn() -> None:
    rig = CfqRig("4.14", ("/a", "/b"))
    a, b = (rig.load(16, sequential(n << 24), path) for n, path in enumerate(("/a", "/b")))
    rig.run_for(10 * SECONDS)
    assert a.done / b.done == pytest.approx(1, rel=0.1)
    rig.write_file("/a", "blkio.weight", "1000")
    rig.write_file("/b", "blkio.weight", "250")
    before = (a.done, b.done)
    rig.run_for(20 * SECONDS)
    assert (a.done - before[0]) / (b.done - before[1]) == pytest.approx(4, rel=0.15)


# -- isolation -------------------------------------------------------------------------------------


def test_a_queue_that_seeks_moves_to_the_root_group_and_back() -> None:
    # The two messages of the patch of 2009
    def where(n: int) -> int:
        return random_sectors(1)(n) if n < 100 else n * 8

    for kernel in ("2.6.33", "2.6.34", "2.6.38"):
        rig = CfqRig(kernel, ("/test1", "/test2"))
        load = rig.load(1, where, "/test1")
        rig.load(1, sequential(1 << 26), "/test2")
        rig.run_for(3 * SECONDS)
        name = f"cfq{load.sender.pid}S"
        moved = [t for t in rig.texts() if t.startswith(name) and " mov" in t]
        assert moved[0] == f"{name} /test1 moving to root group"
        assert f"{name} /test1 moved to origin group" in moved
        assert [t.split(" ", 2)[2] for t in moved] == ["moving to root group", "moved to origin group"] * (
            len(moved) // 2
        )
        check_state(rig)


@pytest.mark.parametrize(("kernel", "tunables"), [("2.6.34", {"group_isolation": 1}), ("3.2", {})])
def test_with_isolation_nothing_moves(kernel: str, tunables: dict[str, int]) -> None:
    rig = CfqRig(kernel, ("/test1", "/test2"), tunables=tunables)
    load = rig.load(1, random_sectors(1), "/test1")
    rig.load(1, sequential(1 << 26), "/test2")
    rig.run_for(3 * SECONDS)
    assert not rig.messages("root group")
    assert rig.cfq.processes.find(load.sender).sync_cfqq.cfqg is rig.group("/test1")


def test_isolation_gives_each_seeking_group_its_weight_and_costs_idling() -> None:
    # Four groups with a random reader each: served together from the root group, or one by one
    done, spread = {}, {}
    for isolation in (0, 1):
        paths = tuple(f"/g{n}" for n in range(4))
        rig = CfqRig("2.6.34", paths, at_once=8, tunables={"group_isolation": isolation})
        for n, path in enumerate(paths):
            rig.write_file(path, "blkio.weight", "1000" if n < 2 else "200")
        loads = [rig.load(1, random_sectors(n), path) for n, path in enumerate(paths)]
        rig.run_for(20 * SECONDS)
        done[isolation] = sum(load.done for load in loads)
        spread[isolation] = (loads[0].done + loads[1].done) / (loads[2].done + loads[3].done)
        if isolation:
            times = [measure(rig, load, path, False) for load, path in zip(loads, paths, strict=True)]
            assert times[0] / times[3] == pytest.approx(5, rel=0.05)
    assert done[0] > 2 * done[1]
    assert spread[0] == pytest.approx(1, abs=0.1)
    assert spread[1] > 4


def test_a_writer_and_a_reader_in_groups_of_their_own() -> None:
    # The thread's case: deep direct random writers count as sequential and stay in their group
    rig = CfqRig("2.6.33", ("/test1", "/test2"), tunables={"group_isolation": 0})
    writers = [
        rig.load(16, random_sectors(n), "/test1", op=OP_WRITE, flags=F_SYNC | F_IDLE) for n in range(4)
    ]
    reader = rig.load(1, random_sectors(9), "/test2")
    rig.run_for(10 * SECONDS)
    groups = [rig.cfq.processes.find(x.sender).sync_cfqq.cfqg.path for x in (*writers, reader)]
    assert groups == ["/test1"] * 4 + ["/"]
    assert reader.done > 20


# -- idling on groups -----------------------------------------------------------------------------------


def shares_of_thinkers(
    kernel: str, tunables: dict[str, int], features: dict[str, int] | None = None
) -> float:
    """How much a group with one random reader, who is not waited for by himself, has beside a busy one."""
    rig = CfqRig(kernel, ("/one", "/busy"), features=features, tunables=tunables)
    one = rig.load(1, random_sectors(1), "/one", think_ns=MS)
    busy = rig.load(16, random_sectors(2), "/busy")
    rig.run_for(20 * SECONDS)
    return one.done / (one.done + busy.done)


def test_group_idle_keeps_the_place_of_a_group_without_queue_idling() -> None:
    without = shares_of_thinkers("3.2", {"slice_idle": 0, "group_idle": 0})
    with_it = shares_of_thinkers("3.2", {"slice_idle": 0, "group_idle": 8})
    assert with_it > 3 * without
    assert with_it > 0.3


def test_in_the_thread_group_idle_was_a_flag() -> None:
    features = {"cfq_group_idle_flag": 1, "cfq_group_isolation": 0}
    rig = CfqRig("2.6.33", features=features)
    assert rig.tuned("group_idle") == 1
    rig.tune("group_idle", 5)
    assert rig.tuned("group_idle") == 1
    rig.tune("group_idle", 0)
    assert rig.tuned("group_idle") == 0
    assert "group_idle" not in {a.path for a in CfqRig("2.6.33").cfq.attributes()}


def test_a_group_that_comes_back_goes_to_the_end_or_to_the_front() -> None:
    # Two groups without a break; one that thinks for 30 ms between its reads, and is not waited for
    worst = {}
    for to_front in (0, 1):
        rig = CfqRig("2.6.34", ("/x", "/y", "/z"), features={"cfq_return_to_front": to_front},
                     tunables={"group_isolation": 1})  # fmt: skip
        for n, path in enumerate(("/x", "/y")):
            rig.load(8, random_sectors(n + 5), path)
        late = rig.load(1, random_sectors(1), "/z", think_ns=30 * MS)
        rig.run_for(20 * SECONDS)
        worst[to_front] = sorted(late.latencies_ns)[len(late.latencies_ns) // 2]
    assert worst[1] < 0.7 * worst[0]


# -- queues and groups ---------------------------------------------------------------------------------------


def test_asynchronous_queues_are_the_root_groups_until_4_3() -> None:
    paths = {}
    for kernel in ("4.2", "4.3"):
        rig = CfqRig(kernel, ("/a",))
        load = rig.load(2, random_sectors(1), "/a", op=OP_WRITE)
        rig.run_for(50 * MS)
        paths[kernel] = rig.cfq.processes.find(load.sender).async_cfqq.cfqg.path
    assert paths == {"4.2": "/", "4.3": "/a"}


@pytest.mark.parametrize("kernel", AGES)
def test_a_task_that_moves_gets_a_new_queue(kernel: str) -> None:
    rig = CfqRig(kernel, ("/a", "/b"))
    load = rig.load(2, sequential(0), "/a")
    rig.run_for(100 * MS)
    before = rig.cfq.processes.find(load.sender).sync_cfqq
    load.sender.cgroup = rig.cgroup("/b")
    rig.run_for(200 * MS)
    after = rig.cfq.processes.find(load.sender).sync_cfqq
    assert (before.cfqg.path, after.cfqg.path) == ("/a", "/b")
    assert before.ref == 0
    assert rig.messages("changed cgroup")
    check_state(rig)


def test_groups_protect_from_preemption_and_since_4_5_not_from_the_parent() -> None:
    preempted = {}
    for allowed in (0, 1):
        features = {"cfq_preempt_child": allowed}
        rig = CfqRig("4.14", ("/a", "/a/b"), service_ns=MS, features=features)
        rig.load(1, random_sectors(1), "/a/b", think_ns=2 * MS)
        rig.load(1, random_sectors(2), "/a", think_ns=12 * MS)
        rig.run_for(3 * SECONDS)
        preempted[allowed] = len(rig.messages("preempt"))
    assert preempted[0] == 0
    assert preempted[1] > 10


# -- files -------------------------------------------------------------------------------------------------


def test_the_files_show_what_a_group_did() -> None:
    rig = CfqRig("4.14", ("/a", "/a/b"), service_ns=2 * MS)
    rig.load(1, sequential(0), "/a", most=10)
    rig.load(1, sequential(1 << 24, 16), "/a/b", op=OP_WRITE, flags=F_SYNC | F_IDLE, nr_sectors=16, most=5)
    rig.run()
    assert rig.read_file("/a", "blkio.io_serviced").splitlines() == [
        "259:0 Read 10", "259:0 Write 0", "259:0 Sync 10", "259:0 Async 0", "259:0 Total 10", "Total 10",
    ]  # fmt: skip
    assert rig.read_file("/a", "blkio.io_service_bytes_recursive").splitlines()[:2] == [
        "259:0 Read 40960",
        "259:0 Write 40960",
    ]
    assert rig.read_file("/a/b", "blkio.sectors") == "259:0 80"
    assert rig.read_file("/a", "blkio.sectors_recursive") == "259:0 160"
    assert rig.read_file("/a", "blkio.io_queued").splitlines()[-1] == "Total 0"
    service = int(rig.read_file("/a", "blkio.io_service_time").splitlines()[0].split()[-1])
    assert service == pytest.approx(20 * MS, rel=0.01)
    assert int(rig.read_file("/a", "blkio.time").split()[1]) > 10 * MS  # ns since 4.8
    assert int(rig.read_file("/a", "blkio.dequeue").split()[1]) >= 1
    rig.write_file("/a", "blkio.reset_stats", "1")
    assert rig.read_file("/a", "blkio.io_serviced").splitlines()[-1] == "Total 0"


def test_weights_by_device_and_their_limits() -> None:
    rig = CfqRig("4.14", ("/a",))
    assert rig.read_file("/a", "blkio.weight") == "500"
    assert rig.read_file("/", "blkio.weight") == "1000"
    rig.write_file("/a", "blkio.weight_device", "dev0 700")
    assert rig.read_file("/a", "blkio.weight_device") == "259:0 700"
    rig.write_file("/a", "blkio.weight", "300")
    assert (rig.group("/a").dev_weight, rig.group("/a").new_weight) == (700, 700)
    rig.write_file("/a", "blkio.weight_device", "259:0 0")
    assert rig.read_file("/a", "blkio.weight_device") == ""
    assert rig.group("/a").new_weight == 300
    for text, reason in (("9", "ERANGE"), ("1001", "ERANGE"), ("much", "EINVAL")):
        with pytest.raises(BlklabError, match=reason):
            rig.write_file("/a", "blkio.weight", text)
    rig.write_file("/a", "blkio.weight", "10")
    with pytest.raises(BlklabError, match="100 to 1000"):
        CfqRig("2.6.38", ("/a",)).write_file("/a", "blkio.weight", "99")


def test_leaf_weight_exists_since_3_9_and_on_the_root_weight_is_that_one() -> None:
    with pytest.raises(BlklabError, match="this kernel has no such file"):
        CfqRig("3.2", ("/a",)).read_file("/a", "blkio.leaf_weight")
    rig = CfqRig("3.10", ("/a",))
    rig.write_file("/", "blkio.weight", "600")
    assert rig.read_file("/", "blkio.leaf_weight") == "600"
    rig.write_file("/a", "blkio.leaf_weight_device", "dev0 250")
    assert rig.read_file("/a", "blkio.leaf_weight_device") == "259:0 250"


def test_in_version_2_the_file_is_io_weight() -> None:
    rig = CfqRig("4.14", ("/a", "/b"), version=2)
    assert rig.read_file("/a", "io.weight") == "default 100"
    rig.write_file("/a", "io.weight", "default 400")
    rig.write_file("/b", "io.weight", "200")
    rig.write_file("/b", "io.weight", "dev0 100")
    assert rig.read_file("/b", "io.weight").splitlines() == ["default 200", "259:0 100"]
    a, b = (rig.load(16, sequential(n << 24), path) for n, path in enumerate(("/a", "/b")))
    rig.run_for(20 * SECONDS)
    assert measure(rig, a, "/a", False) / measure(rig, b, "/b", False) == pytest.approx(4, rel=0.05)
    rig.write_file("/b", "io.weight", "dev0 default")
    assert rig.read_file("/b", "io.weight") == "default 200"
    with pytest.raises(BlklabError, match="1 to 10000"):
        rig.write_file("/a", "io.weight", "0")
