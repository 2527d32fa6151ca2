"""Control groups on BFQ: their files, who is in which group, and what happens when a task or a group goes."""

from __future__ import annotations

import pytest
from bfq_group_rig import backlog, group_at, group_rig, path_of, set_weights
from bfq_rig import Process, bfq_of, from_sector, later, queue_of
from rig import MS, Rig, ScriptedDriver

from blklab.block.cgroup import POLICY_BFQ, CgroupTree
from blklab.block.cgroup_files import files_of
from blklab.block.consts import F_SYNC, OP_WRITE
from blklab.block.switch import set_elevator
from blklab.core.errors import BlklabError
from blklab.elevator.bfq.bfqq import BfqQueue
from blklab.elevator.bfq.group import BfqGroup

ONE_BY_ONE = {"max_budget": 16, "timeout_sync": 8}


def async_queues(group: BfqGroup) -> list[BfqQueue]:
    return [bfqq for bfqq in group.async_bfqqs if bfqq is not None]


# -- files -------------------------------------------------------------------------------


def test_the_weight_of_version_2_as_the_kernel_shows_it() -> None:
    rig = group_rig(["/a"])
    assert rig.read_file("/a", "io.bfq.weight") == "default 100"
    for text, shown in (("500", "500"), ("default 700", "700"), ("0x10", "16"), ("1", "1"), ("1000", "1000")):
        rig.write_file("/a", "io.bfq.weight", text)
        assert rig.read_file("/a", "io.bfq.weight") == f"default {shown}"
    rig.write_file("/a", "io.bfq.weight", "dev0 200")
    assert rig.read_file("/a", "io.bfq.weight") == "default 1000\n259:0 200"
    rig.write_file("/a", "io.bfq.weight", "259:0 300")
    assert rig.read_file("/a", "io.bfq.weight") == "default 1000\n259:0 300"
    assert group_at(rig, "/a").new_weight == 300


def test_default_for_a_device_leaves_it_the_weight_it_had() -> None:
    # bfq_io_set_device_weight takes the weight in use, not the default, for what is to be used now
    rig = group_rig(["/a"])
    rig.write_file("/a", "io.bfq.weight", "dev0 300")
    backlog(rig, 0, count=1)
    rig.run(10 * MS)
    assert group_at(rig, "/a").weight == 300
    rig.write_file("/a", "io.bfq.weight", "dev0 default")
    assert rig.read_file("/a", "io.bfq.weight") == "default 100"
    assert group_at(rig, "/a").new_weight == 300
    rig.write_file("/a", "io.bfq.weight", "100")
    assert group_at(rig, "/a").new_weight == 100


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("0", "ERANGE"),
        ("1001", "ERANGE"),
        ("default 0", "ERANGE"),
        ("dev0 0", "ERANGE"),
        ("dev0 1001", "ERANGE"),
        ("dev0 heavy", "EINVAL"),
        ("heavy", "EINVAL"),
        ("-5", "EINVAL"),
        ("", "EINVAL"),
        ("dev7 100", "ENODEV"),
    ],
)
def test_what_is_no_weight_is_refused_and_changes_nothing(text: str, error: str) -> None:
    rig = group_rig(["/a"])
    rig.write_file("/a", "io.bfq.weight", "500")
    with pytest.raises(BlklabError, match=error):
        rig.write_file("/a", "io.bfq.weight", text)
    assert rig.read_file("/a", "io.bfq.weight") == "default 500"
    assert group_at(rig, "/a").new_weight == 500


def test_a_weight_for_a_device_needs_bfq_there_and_one_for_all_does_not() -> None:
    rig = Rig(ScriptedDriver())
    rig.cgroup("/a")
    rig.write_file("/a", "io.bfq.weight", "500")
    with pytest.raises(BlklabError, match=r"none, not bfq .EOPNOTSUPP"):
        rig.write_file("/a", "io.bfq.weight", "dev0 200")
    set_elevator(rig.queue, "bfq")
    assert group_at(rig, "/a").weight == 500
    rig.write_file("/a", "io.bfq.weight", "dev0 200")
    set_elevator(rig.queue, "mq-deadline")
    assert rig.read_file("/a", "io.bfq.weight") == "default 500"
    set_elevator(rig.queue, "bfq")
    assert group_at(rig, "/a").weight == 500


def test_the_root_has_no_weight_and_a_scheduler_without_bfq_no_file() -> None:
    rig = group_rig(["/a"])
    with pytest.raises(BlklabError, match="the root has no such file"):
        rig.write_file("/", "io.bfq.weight", "500")
    old = Rig(ScriptedDriver(), features={"sched_bfq": 0})
    old.cgroup("/a")
    with pytest.raises(BlklabError, match="this kernel has no such file"):
        old.read_file("/a", "io.bfq.weight")


def test_the_files_of_version_1() -> None:
    # As in the capture cgroup-v1/bfq-weights-500-1000, a kernel without CONFIG_BFQ_CGROUP_DEBUG
    rig = group_rig(["/a"], version=1)
    assert isinstance(rig.cgroups, CgroupTree)
    names = [name for name in files_of(rig.cgroup("/a"), rig.cgroups, rig.features) if ".bfq." in name]
    assert sorted(names) == [
        "blkio.bfq.io_service_bytes",
        "blkio.bfq.io_service_bytes_recursive",
        "blkio.bfq.io_serviced",
        "blkio.bfq.io_serviced_recursive",
        "blkio.bfq.weight",
        "blkio.bfq.weight_device",
    ]
    with pytest.raises(BlklabError, match="this kernel has no such file"):
        rig.read_file("/a", "blkio.bfq.time")
    rig.write_file("/a", "blkio.bfq.weight", "500")
    assert rig.read_file("/a", "blkio.bfq.weight") == "500"
    assert rig.read_file("/a", "blkio.bfq.weight_device") == "default 500"
    with pytest.raises(BlklabError, match="EINVAL"):
        rig.write_file("/a", "blkio.bfq.weight", "dev0 400")
    rig.write_file("/a", "blkio.bfq.weight_device", "dev0 400")
    assert rig.read_file("/a", "blkio.bfq.weight_device") == "default 500\n259:0 400"


def test_statistics_of_version_1_are_of_requests_as_they_are_inserted() -> None:
    rig = group_rig(["/a", "/a/b"], version=1)
    backlog(rig, 0, count=3)
    Process(rig, 1, from_sector(1 << 20, 16), count=2, nr_sectors=8, op=OP_WRITE, flags=0)
    rig.run(100 * MS)

    def shown(path: str, name: str) -> list[str]:
        return rig.read_file(path, f"blkio.bfq.{name}").split("\n")

    assert shown("/a", "io_serviced") == [
        "259:0 Read 3",
        "259:0 Write 0",
        "259:0 Sync 3",
        "259:0 Async 0",
        "259:0 Discard 0",
        "259:0 Total 3",
        "Total 3",
    ]
    assert shown("/a/b", "io_service_bytes")[1:4] == ["259:0 Write 8192", "259:0 Sync 0", "259:0 Async 8192"]
    assert shown("/a", "io_service_bytes_recursive")[-1] == f"Total {3 * 16 * 512 + 8192}"
    assert shown("/a", "io_service_bytes")[-1] == f"Total {3 * 16 * 512}"
    rig.write_file("/a", "blkio.reset_stats", "1")
    assert shown("/a", "io_serviced")[-1] == "Total 3"


# -- who is where ------------------------------------------------------------------------


def test_each_group_has_queues_of_its_own() -> None:
    rig = group_rig(["/a", "/b"])
    for cpu in range(2):
        backlog(rig, cpu, count=4)
        Process(rig, cpu, from_sector(5 << 24, 16), count=1, op=OP_WRITE, flags=0)
    rig.run(100 * MS)
    assert [path_of(rig, cpu) for cpu in range(2)] == ["/a", "/b"]
    (a,), (b,) = (async_queues(group_at(rig, path)) for path in ("/a", "/b"))
    assert a is not b
    assert async_queues(bfq_of(rig).bfqd.root_group) == []


def test_bios_of_two_groups_do_not_merge_and_their_queues_do_not() -> None:
    # Two processes that read one file between them, interleaved: in one group their queues are merged
    def merged(paths: list[str]) -> bool:
        rig = group_rig(paths)
        rig.queue.rotational = True
        for cpu in range(2):
            Process(rig, cpu, from_sector(8 * cpu, 16), in_flight=4, nr_sectors=8)
        rig.run(300 * MS)
        return queue_of(rig, 0) is queue_of(rig, 1)

    assert merged(["/a", "/a"])
    assert not merged(["/a", "/b"])


def test_a_device_idles_for_the_queue_in_service_where_groups_compete() -> None:
    # Two groups of one weight: still, who has nothing to send for a moment would lose its share
    def idles(paths: list[str]) -> bool:
        rig = group_rig(paths)
        backlog(rig, 0)
        later(rig)
        backlog(rig, 1)
        rig.run(rig.events.now_ns + 100 * MS)
        assert bfq_of(rig).bfqd.tot_busy_queues == 2
        return bfq_of(rig).idling.needed_for_guarantees(queue_of(rig, 0))

    assert not idles(["/", "/"])
    assert idles(["/a", "/b"])


def test_groups_with_requests_are_counted_until_the_last_one_is_served() -> None:
    rig = group_rig(["/a/b", "/c"], slice_idle=0)
    backlog(rig, 0, count=8)
    backlog(rig, 1, count=2)
    rig.run(1 * MS)
    bfqd = bfq_of(rig).bfqd
    assert bfqd.num_groups_with_pending_reqs == 3
    rig.run(9 * MS)
    rig.run(100 * MS)
    assert bfqd.num_groups_with_pending_reqs == 0


def test_a_process_may_use_its_groups_part_of_the_tags() -> None:
    rig = group_rig(["/a", "/b"], service_ns=None)
    set_weights(rig, {"/a": 100, "/b": 300})
    for cpu in range(2):
        backlog(rig, cpu, in_flight=20)
    rig.run(MS)
    bfq = bfq_of(rig)
    small, big = queue_of(rig, 0), queue_of(rig, 1)
    assert (small.allocated, big.allocated) == (20, 20)
    # A quarter and three quarters
    for limit, over in ((76, (True, False)), (84, (False, False)), (24, (True, True))):
        assert (bfq.depths.is_over(small, limit), bfq.depths.is_over(big, limit)) == over


# -- moves -------------------------------------------------------------------------------


def test_a_queue_moves_with_its_process() -> None:
    rig = group_rig(["/a", "/b"], **ONE_BY_ONE)
    set_weights(rig, {"/b": 300})
    moving, other = (backlog(rig, cpu) for cpu in range(2))
    rig.run(100 * MS)
    bfqq = queue_of(rig, 0)
    assert bfqq.sort_list.count > 0
    rig.senders[0].cgroup = rig.cgroup("/c/d")
    rig.run(110 * MS)
    assert queue_of(rig, 0) is bfqq
    assert path_of(rig, 0) == "/c/d"
    assert not group_at(rig, "/a").on_st_or_in_serv
    before = moving.done, other.done
    rig.run(510 * MS)
    gained = moving.done - before[0], other.done - before[1]
    assert gained == pytest.approx((100, 300), abs=8)
    rig.senders[0].cgroup = rig.cgroup("/")
    rig.run(520 * MS)
    assert path_of(rig, 0) == "/"


def test_a_queue_that_is_in_service_and_empty_moves_too() -> None:
    rig = group_rig(["/a", "/b"])
    Process(rig, 0, from_sector(0, 24), nr_sectors=16, think_ns=2 * MS)
    rig.run(301 * MS)
    bfqq = queue_of(rig, 0)
    assert bfq_of(rig).bfqd.in_service_queue is bfqq
    rig.senders[0].cgroup = rig.cgroup("/b")
    rig.run(400 * MS)
    assert path_of(rig, 0) == "/b"
    assert queue_of(rig, 0) is bfqq


def test_an_asynchronous_queue_stays_with_its_group() -> None:
    rig = group_rig(["/a"])
    Process(rig, 0, from_sector(0, 16), in_flight=2, op=OP_WRITE, flags=0)
    rig.run(20 * MS)
    (old,) = async_queues(group_at(rig, "/a"))
    bic = bfq_of(rig).processes.find(rig.senders[0])
    assert bic is not None and bic.async_bfqq is old
    rig.senders[0].cgroup = rig.cgroup("/b")
    rig.run(40 * MS)
    (new,) = async_queues(group_at(rig, "/b"))
    assert bic.async_bfqq is new and new is not old
    assert async_queues(group_at(rig, "/a")) == [old]


def test_a_process_leaves_a_queue_that_it_shares() -> None:
    rig = group_rig(["/a", "/a"])
    rig.queue.rotational = True
    for cpu in range(2):
        Process(rig, cpu, from_sector(8 * cpu, 16), in_flight=4, nr_sectors=8)
    rig.run(300 * MS)
    shared = queue_of(rig, 0)
    assert queue_of(rig, 1) is shared
    rig.senders[0].cgroup = rig.cgroup("/b")
    rig.run(400 * MS)
    assert queue_of(rig, 0) is not shared
    assert queue_of(rig, 1) is shared
    assert [path_of(rig, cpu) for cpu in range(2)] == ["/b", "/a"]


def test_the_queues_of_a_group_that_goes_are_the_roots() -> None:
    rig = group_rig(["/a", "/b", "/a"], **ONE_BY_ONE)
    processes = [backlog(rig, cpu) for cpu in range(2)]
    processes.append(Process(rig, 2, from_sector(7 << 24, 24), in_flight=2, op=OP_WRITE, flags=0))
    rig.run(100 * MS)
    bfq = bfq_of(rig)
    a = group_at(rig, "/a")
    (writes,) = async_queues(a)
    bfq.moves.offline(a)
    assert path_of(rig, 0) == "/"
    assert writes.parent is None
    assert async_queues(a) == [] and not a.on_st_or_in_serv and not a.online
    before = [process.done for process in processes]
    rig.run(200 * MS)
    # Bios of the group that is gone are taken for the root's
    assert path_of(rig, 0) == "/"
    assert all(process.done > b for process, b in zip(processes, before, strict=True))


def test_groups_come_and_go_with_the_scheduler() -> None:
    rig = group_rig(["/a", "/a/b"])
    processes = [backlog(rig, cpu, count=150) for cpu in range(2)]
    rig.run(20 * MS)
    assert isinstance(group_at(rig, "/a/b"), BfqGroup)
    set_elevator(rig.queue, "none")
    rig.run(200 * MS)
    assert rig.queue.elevator_name == "none" and rig.queue.blkcg is not None
    assert all(blkg.pd[POLICY_BFQ] is None for blkg in rig.queue.blkcg.root.walk())
    set_elevator(rig.queue, "bfq")
    rig.run(900 * MS)
    assert [process.done for process in processes] == [150, 150]
    rig.assert_clean()


def test_low_latency_off_ends_raising_in_all_groups() -> None:
    rig = group_rig(["/a", "/b"], low_latency=1)
    for cpu in range(2):
        backlog(rig, cpu, in_flight=8)
        Process(rig, cpu, from_sector(9 << 24, 24), in_flight=2, op=OP_WRITE, flags=0)
    rig.run(5 * MS)
    queues = [queue_of(rig, 0), queue_of(rig, 1)]
    queues += [async_queues(group_at(rig, path))[0] for path in ("/a", "/b")]
    queues = [bfqq for bfqq in queues if bfqq is not bfq_of(rig).bfqd.in_service_queue]
    for bfqq in queues:
        bfqq.wr_coeff = 30
    bfq_of(rig).end_raising()
    assert [bfqq.wr_coeff for bfqq in queues] == [1] * len(queues)


def test_without_control_groups_there_is_only_the_root() -> None:
    rig = Rig(ScriptedDriver(MS, budgets=1), nr_cpus=1)
    set_elevator(rig.queue, "bfq")
    backlog(rig, 0, count=10, flags=F_SYNC)
    rig.run(100 * MS)
    assert bfq_of(rig).group_policy is None
    assert queue_of(rig, 0).parent is None
    assert bfq_of(rig).bfqd.num_groups_with_pending_reqs == 0
