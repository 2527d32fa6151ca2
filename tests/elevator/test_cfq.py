"""CFQ without groups: slices, idling, seeks, preemption, depth, cooperators; on the kernels where they differ."""

from __future__ import annotations

from collections import Counter

import pytest
from cfq_rig import AGES, BE, IDLE, RT, CfqRig, Later, Load, check_state, random_sectors, sequential
from rig import MS, ScriptedDriver

from blklab.block.consts import F_IDLE, F_SYNC, MAY_QUEUE, MUST_QUEUE, OP_READ, OP_WRITE
from blklab.block.hwqueue import HardwareQueue
from blklab.block.request import Request
from blklab.core.errors import AttributeRefused


class SeekingDriver(ScriptedDriver):
    """One request at a time: 0.2 ms where the head is, 8 ms elsewhere."""

    head = 0

    def queue_rq(self, hctx: HardwareQueue, rq: Request, last: bool) -> int:
        """The next answer."""
        self.service_ns = 200_000 if rq.sector == self.head else 8 * MS
        status = super().queue_rq(hctx, rq, last)
        if status == 0:
            self.head = rq.sector + rq.nr_sectors
        return status


class SeekingRig(CfqRig):
    """A disk where seeks cost."""

    def make_driver(self, service_ns: int, at_once: int | None) -> ScriptedDriver:
        """The disk."""
        return SeekingDriver(service_ns, at_once)


def set_slices(rig: CfqRig, load: Load) -> list[int]:
    """The slices that a task's queue was given, in ticks."""
    name = f"cfq{load.sender.pid}S"
    return [int(t.rpartition("set_slice=")[2]) for t in rig.messages("set_slice") if t.startswith(name)]


# -- slices ------------------------------------------------------------------------------


@pytest.mark.parametrize(("level", "ms"), [(0, 180), (4, 100), (7, 40)])
def test_a_level_of_priority_is_a_fifth_of_a_slice(level: int, ms: int) -> None:
    # cfq_prio_slice: slice_sync + slice_sync / 5 * (4 - level)
    for kernel, tick_ns in (("2.6.34", 4 * MS), ("4.14", 1)):
        rig = CfqRig(kernel, tunables={"low_latency": 0})
        load = rig.load(1, sequential(0), ioprio=BE | level)
        rig.load(1, sequential(1 << 24))
        rig.run_for(1000 * MS)
        assert {length * tick_ns for length in set_slices(rig, load)} == {ms * MS}


def test_time_is_shared_by_the_slices_of_priorities() -> None:
    rig = CfqRig("2.6.34", service_ns=MS, tunables={"low_latency": 0})
    high = rig.load(2, sequential(0), ioprio=BE | 0)
    low = rig.load(2, sequential(1 << 24), ioprio=BE | 7)
    rig.run_for(20_000 * MS)
    assert high.done / low.done == pytest.approx(180 / 40, rel=0.05)


@pytest.mark.parametrize("kernel", AGES)
def test_slices_shrink_with_the_number_of_queues(kernel: str) -> None:
    # 10 queues within 300 ms: 30 ms each, and two idle slices at least (16 ms)
    shortest = {}
    for low_latency in (0, 1):
        rig = CfqRig(kernel, tunables={"low_latency": low_latency}, service_ns=MS)
        loads = [rig.load(2, sequential(n << 22)) for n in range(10)]
        rig.run_for(3000 * MS)
        shortest[low_latency] = (
            min(length for load in loads for length in set_slices(rig, load)) * rig.cfqd.tick_ns
        )
    assert shortest[0] == 100 * MS
    assert 26 * MS <= shortest[1] <= 30 * MS
    # The feature is what low_latency switches on
    rig = CfqRig(kernel, features={"cfq_slice_scaled": 0}, service_ns=MS)
    loads = [rig.load(2, sequential(n << 22)) for n in range(10)]
    rig.run_for(2000 * MS)
    assert {length * rig.cfqd.tick_ns for load in loads for length in set_slices(rig, load)} == {100 * MS}


def test_shorter_slices_serve_sequential_readers_sooner_and_less() -> None:
    # Corrado Zoccolo's measurement of 2009 has both directions: 28093 -> 24393 KB/s, 3.781 -> 1.115 s
    done, longest = {}, {}
    for low_latency in (0, 1):
        rig = SeekingRig("2.6.34", tunables={"low_latency": low_latency})
        loads = [rig.load(1, sequential(n << 22)) for n in range(16)]
        rig.run_for(10_000 * MS)
        done[low_latency] = sum(load.done for load in loads)
        longest[low_latency] = max(max(load.latencies_ns) for load in loads)
    assert done[1] < done[0]
    assert longest[1] < longest[0] / 2


# -- idling ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", AGES)
def test_idling_pays_on_a_disk_that_seeks(kernel: str) -> None:
    done = {}
    for idle in (0, 8):
        rig = SeekingRig(kernel, tunables={"slice_idle": idle})
        loads = [rig.load(1, sequential(n << 24), think_ns=MS // 2) for n in range(3)]
        rig.run_for(5000 * MS)
        done[idle] = sum(load.done for load in loads)
    assert done[8] > 3 * done[0]


@pytest.mark.parametrize("kernel", AGES)
def test_idling_costs_where_nothing_seeks_but_the_kernel_thinks_so(kernel: str) -> None:
    done = {}
    for idle in (0, 8):
        rig = CfqRig(kernel, service_ns=MS // 2, tunables={"slice_idle": idle})
        loads = [rig.load(1, sequential(n << 24), think_ns=3 * MS) for n in range(4)]
        rig.run_for(2000 * MS)
        done[idle] = sum(load.done for load in loads)
    assert done[0] > 2 * done[8]


def test_a_device_that_queues_and_does_not_seek_is_not_idled_on() -> None:
    rig = CfqRig("2.6.34", at_once=None, service_ns=MS, rotational=False, tunables={"low_latency": 0})
    loads = [rig.load(16, random_sectors(n), nr_sectors=128) for n in range(2)]
    rig.run_for(500 * MS)
    assert rig.cfqd.hw_tag == 1
    for load in loads:
        load.stopped = True
    rig.run()
    before = len(rig.messages("arm_idle"))
    rig.load(1, random_sectors(5), nr_sectors=128, think_ns=MS)
    rig.run_for(100 * MS)
    assert len(rig.messages("arm_idle")) == before


def test_what_a_device_holds_at_once_is_found_under_load() -> None:
    for at_once, hw_tag in ((1, 0), (32, 1)):
        rig = CfqRig("2.6.34", at_once=at_once, service_ns=MS)
        assert rig.cfqd.hw_tag == -1
        rig.load(32, random_sectors(1))
        rig.run_for(1000 * MS)
        assert rig.cfqd.hw_tag == hw_tag


def test_slice_idle_begins_at_0_without_seeks_since_4_3() -> None:
    # 41c0126b3f22
    assert CfqRig("4.2", rotational=False).tuned("slice_idle") == 8
    assert CfqRig("4.3", rotational=False).tuned("slice_idle") == 0
    assert CfqRig("4.3", rotational=True).tuned("slice_idle") == 8


@pytest.mark.parametrize("kernel", AGES)
def test_a_queue_that_seeks_loses_its_idle_window_and_a_deep_one_keeps_it(kernel: str) -> None:
    for depth, window in ((1, False), (8, True)):
        rig = CfqRig(kernel, at_once=1)
        load = rig.load(depth, random_sectors(3))
        rig.run_for(2000 * MS)
        cfqq = rig.cfq.processes.find(load.sender).sync_cfqq
        assert rig.cfq.seeks.is_seeky(cfqq)
        assert cfqq.idle_window is window


def test_small_requests_count_as_seeks_where_nothing_seeks() -> None:
    rig = CfqRig("2.6.34", rotational=False)
    small = rig.load(1, sequential(0))
    large = rig.load(1, sequential(1 << 24, 64), nr_sectors=64)
    rig.run_for(2000 * MS)
    seeky = [rig.cfq.seeks.is_seeky(rig.cfq.processes.find(x.sender).sync_cfqq) for x in (small, large)]
    assert seeky == [True, False]


def test_before_2_6_34_the_mean_distance_decides() -> None:
    # One long seek in ten requests: 3 of 32 are few, but the mean is far
    def where(n: int) -> int:
        return n * 8 + n // 10 * 10_000_000

    seeky = {}
    for kernel in ("2.6.33", "2.6.34"):
        rig = CfqRig(kernel, service_ns=MS)
        load = rig.load(1, where, most=31)
        rig.run()
        seeky[kernel] = rig.cfq.seeks.is_seeky(rig.cfq.processes.find(load.sender).sync_cfqq)
    assert seeky == {"2.6.33": True, "2.6.34": False}


def test_a_process_that_thinks_for_too_long_is_not_waited_for() -> None:
    rig = CfqRig("2.6.34", service_ns=MS)
    load = rig.load(1, sequential(0), think_ns=20 * MS)
    rig.load(1, sequential(1 << 24))
    rig.run_for(2000 * MS)
    assert not rig.cfq.processes.find(load.sender).sync_cfqq.idle_window


def test_a_write_after_which_none_follows_is_not_waited_for_since_2_6_37() -> None:
    window = {}
    for kernel in ("2.6.36", "2.6.37"):
        rig = CfqRig(kernel, service_ns=MS)
        load = rig.load(1, sequential(0), op=OP_WRITE, flags=F_SYNC)
        rig.run_for(500 * MS)
        window[kernel] = rig.cfq.processes.find(load.sender).sync_cfqq.idle_window
    assert window == {"2.6.36": True, "2.6.37": False}


# -- order and depth -------------------------------------------------------------------------


def dispatched(rig: CfqRig) -> list[int]:
    """Sectors in the order of issue."""
    return [r.sector for r in rig.records("D")]


def test_nearest_first_a_way_back_counts_twice() -> None:
    rig = CfqRig("4.14", tunables={"quantum": 1})
    rig.send([rig.bio(10_000)], [rig.bio(s) for s in (9_000, 11_500, 50_000, 8_000)])
    rig.run()
    # Back 1008 counts 2016, forward 1492; from 11,508 on: forward 38,492, back 2508 and 3508 times 2
    assert dispatched(rig) == [10_000, 11_500, 9_000, 8_000, 50_000]


def test_farther_back_than_back_seek_max_comes_last() -> None:
    rig = CfqRig("4.14", tunables={"back_seek_max": 1})
    rig.send([rig.bio(10_000)], [rig.bio(s) for s in (9_000, 50_000, 60_000)])
    rig.run()
    assert dispatched(rig) == [10_000, 50_000, 60_000, 9_000]


def test_what_has_waited_for_too_long_goes_first_once_a_slice() -> None:
    rig = CfqRig("2.6.34", service_ns=5 * MS, tunables={"fifo_expire_sync": 40})
    first = rig.task()
    stream = rig.load(8, sequential(1 << 20))
    bio = rig.bio(0)
    bio.submitter = stream.sender
    rig.run_for(10 * MS)
    stream.sender.batches.append([bio])
    rig.host.wake(stream.sender)
    # Slices end only if somebody else wants to be served
    other = rig.load(1, sequential(1 << 26))
    rig.run_for(2000 * MS)
    assert first.state is not None
    assert other.done
    assert 0 in dispatched(rig)
    assert rig.messages("fifo=0")


@pytest.mark.parametrize(("kernel", "most"), [("2.6.33", 4), ("2.6.34", 8), ("4.14", 8)])
def test_a_queue_has_a_quantum_in_the_device_while_others_wait(kernel: str, most: int) -> None:
    rig = CfqRig(kernel, at_once=32, service_ns=5 * MS)
    loads = [rig.load(32, random_sectors(n)) for n in range(2)]
    rig.run_for(500 * MS)
    deepest = 0
    for _ in range(400):
        rig.run_for(MS)
        deepest = max(deepest, *(rig.cfq.processes.find(x.sender).sync_cfqq.dispatched for x in loads))
    assert deepest == most
    alone = CfqRig(kernel, at_once=32)
    alone.load(32, random_sectors(1))
    alone.run_for(3 * MS)
    assert alone.cfqd.rq_in_driver == 32


def test_asynchronous_writes_begin_one_by_one_after_a_late_read() -> None:
    rig = CfqRig("2.6.34", at_once=32, service_ns=200 * MS)
    rig.send([rig.bio(0)])
    rig.run_for(201 * MS)  # it took longer than fifo_expire_sync: last_delayed_sync is now
    writer = rig.load(32, random_sectors(1), op=OP_WRITE)
    rig.run_for(20 * MS)  # first the reader is waited for
    assert rig.cfq.processes.find(writer.sender).async_cfqq.dispatched == 1
    rig.tune("low_latency", 0)
    rig.run_for(250 * MS)
    assert rig.cfq.processes.find(writer.sender).async_cfqq.dispatched == 32


# -- classes and preemption ----------------------------------------------------------------------


def test_real_time_first_and_the_idle_class_last() -> None:
    rig = CfqRig("2.6.34", service_ns=MS)
    rt = rig.load(2, sequential(0), ioprio=RT | 4)
    be = rig.load(2, sequential(1 << 24), ioprio=BE | 4)
    idle = rig.load(2, sequential(1 << 25), ioprio=IDLE | 7)
    rig.run_for(2000 * MS)
    assert (be.done, idle.done) == (0, 0)
    rt.stopped = True
    rig.run_for(2000 * MS)
    assert be.done > 1900
    assert idle.done == 0
    be.stopped = True
    rig.run_for(1000 * MS)
    assert idle.done > 500


@pytest.mark.parametrize("kernel", AGES)
def test_a_read_preempts_asynchronous_writes(kernel: str) -> None:
    rig = CfqRig(kernel, service_ns=5 * MS)
    rig.load(32, random_sectors(1), op=OP_WRITE)
    rig.run_for(52 * MS)
    reader = rig.load(1, sequential(1 << 24), most=1)
    rig.run_for(200 * MS)
    assert [t.split()[-1] for t in rig.messages("preempt")] == ["preempt"]
    # One write is in the driver, one before it in line. Until 2.6.38 the group goes on with what it was interrupted in
    at_once = tuple(map(int, kernel.split("."))) >= (2, 6, 38)
    assert (reader.latencies_ns[0] <= 15 * MS) is at_once


def test_a_queue_that_is_waited_for_must_have_a_request_once_a_slice() -> None:
    rig = CfqRig("2.6.34", service_ns=MS)
    load = rig.load(1, sequential(0), think_ns=3 * MS)
    rig.run_for(3 * MS)
    cfqq = rig.cfq.processes.find(load.sender).sync_cfqq
    assert cfqq.wait_request
    assert rig.cfq.may_queue(load.sender, OP_READ, 0) == MUST_QUEUE
    assert rig.cfq.may_queue(load.sender, OP_READ, 0) == MAY_QUEUE
    assert rig.cfq.may_queue(rig.task(), OP_READ, 0) == MAY_QUEUE


# -- cooperators -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", AGES)
def test_queues_that_read_one_file_are_merged_and_split(kernel: str) -> None:
    rig = CfqRig(kernel, service_ns=MS)
    apart = 300

    def stripe(place: int) -> Load:
        # Every other 4 KiB of one file; after 300 of them, each somewhere else
        def where(n: int) -> int:
            return n * 16 + place * 8 if n < apart else random_sectors(place)(n)

        return rig.load(1, where)

    pair = [stripe(0), stripe(1)]
    rig.run_for(250 * MS)
    contexts = [rig.cfq.processes.find(load.sender) for load in pair]
    assert rig.messages("merging with queue")
    assert contexts[0].sync_cfqq is contexts[1].sync_cfqq
    rig.run_for(6000 * MS)
    assert rig.messages("breaking apart cfqq")
    assert contexts[0].sync_cfqq is not contexts[1].sync_cfqq
    check_state(rig)


# -- life ---------------------------------------------------------------------------------------------


def test_a_task_that_ends_leaves_nothing() -> None:
    rig = CfqRig("2.6.34", service_ns=MS)
    load = rig.load(2, sequential(0), most=20)
    rig.run()
    cfqq = rig.cfq.processes.find(load.sender).sync_cfqq
    rig.cfq.exit_icq(load.sender)
    assert cfqq.ref == 0
    assert rig.cfq.processes.find(load.sender) is None
    check_state(rig)


def test_another_priority_is_taken_over_by_the_next_request() -> None:
    rig = CfqRig("2.6.34", service_ns=MS)
    load = rig.load(1, sequential(0), ioprio=BE | 2)
    rig.load(1, sequential(0), op=OP_WRITE, ioprio=BE | 2)
    rig.run_for(20 * MS)
    cfqq = rig.cfq.processes.find(load.sender).sync_cfqq
    assert (cfqq.ioprio_class, cfqq.ioprio) == (2, 2)
    load.ioprio = RT | 6
    rig.run_for(20 * MS)
    assert (cfqq.ioprio_class, cfqq.ioprio) == (1, 6)


def test_writes_of_one_priority_share_a_queue() -> None:
    rig = CfqRig("4.14", service_ns=MS)
    loads = [rig.load(4, random_sectors(n), op=OP_WRITE, ioprio=p) for n, p in enumerate((0, BE | 4, BE | 6))]
    rig.run_for(20 * MS)
    queues = [rig.cfq.processes.find(load.sender).async_cfqq for load in loads]
    assert queues[0] is queues[1]  # no priority is that of a nice of 0
    assert queues[0] is not queues[2]


@pytest.mark.parametrize("kernel", AGES)
def test_ticks_are_jiffies_and_later_nanoseconds(kernel: str) -> None:
    rig = CfqRig(kernel)
    later = tuple(map(int, kernel.split("."))) >= (4, 8)
    assert rig.cfqd.tick_ns == (1 if later else 4 * MS)
    # HZ / 8 is 31 jiffies of 4 ms
    assert rig.tuned("fifo_expire_sync") == (125 if later else 124)
    rig.tune("slice_idle", 5)
    assert rig.tuned("slice_idle") == (5 if later else 8)


def test_tunables_of_each_age() -> None:
    common = {
        "quantum", "fifo_expire_sync", "fifo_expire_async", "back_seek_max", "back_seek_penalty", "slice_sync",
        "slice_async", "slice_async_rq", "slice_idle", "low_latency",
    }  # fmt: skip
    microseconds = {"slice_sync_us", "slice_async_us", "slice_idle_us", "group_idle_us", "target_latency_us"}
    more = {
        "2.6.34": {"group_isolation"},
        "2.6.38": {"group_isolation", "group_idle"},
        "3.2": {"group_idle"},
        "3.10": {"group_idle", "target_latency"},
        "4.14": {"group_idle", "target_latency"} | microseconds,
    }
    for kernel, names in more.items():
        assert {a.path for a in CfqRig(kernel).cfq.attributes()} == common | names


@pytest.mark.parametrize(
    ("name", "written", "read"),
    [("quantum", "0", 1), ("slice_async_rq", "0", 1), ("slice_idle", "0", 0), ("low_latency", "7", 1),
     ("back_seek_penalty", "0", 1), ("slice_sync", "0", 1), ("slice_idle_us", "250", 250),
     ("back_seek_max", "99999999999", (1 << 32) - 1)],
)  # fmt: skip
def test_what_is_out_of_range_becomes_the_nearest_value(name: str, written: str, read: int) -> None:
    rig = CfqRig("4.14")
    rig.tune(name, written)
    assert rig.tuned(name) == read


def test_no_number_is_refused() -> None:
    with pytest.raises(AttributeRefused, match="not a decimal number"):
        CfqRig("4.14").tune("slice_idle", "soon")


def test_a_story_of_two_readers() -> None:
    rig = CfqRig("2.6.34", service_ns=30 * MS)
    one = rig.load(1, sequential(0), most=5)
    rig.load(1, sequential(1 << 24), most=2)
    rig.run_for(20 * MS)
    assert one.sent == 1
    rig.run()
    pids = [load.sender.pid for load in rig.loads]
    words = [t for t in rig.texts() if "slice" in t and "workload" not in t]
    # A slice begins when its first request has ended: 100 ms, in which three more end, and one late
    assert words[:2] == [f"cfq{pids[0]}S set_slice=25", f"cfq{pids[0]}S slice expired t=1"]
    order = [0 if sector < 1 << 24 else 1 for sector in dispatched(rig)]
    assert order[0] == 0
    assert Counter(order) == {0: 5, 1: 2}


def test_flags_of_direct_writes_make_deep_random_writers_sequential() -> None:
    # The thread of 2009: "random writers are largely sync queues"
    rig = CfqRig("2.6.33", service_ns=MS)
    load = rig.load(32, random_sectors(4), op=OP_WRITE, flags=F_SYNC | F_IDLE)
    rig.run_for(500 * MS)
    cfqq = rig.cfq.processes.find(load.sender).sync_cfqq
    assert (cfqq.wl_type(), cfqq.deep) == (2, True)


def test_the_timer_fires_when_nobody_comes() -> None:
    rig = CfqRig("4.14", service_ns=MS)
    rig.send([rig.bio(0)])
    other = rig.task()
    late = rig.bio(1 << 24)
    late.submitter = other

    def send_late() -> None:
        other.batches.append([late])
        rig.host.wake(other)

    rig.events.at(2 * MS, Later(send_late))
    rig.run()
    fired = [
        r for r in rig.tracer if r.action == "m" and rig.tracer.messages[r.extra] == "cfq idle timer fired"
    ]
    assert len(fired) >= 1
    # The first read ended after 1 ms, and was waited for 8 ms
    issued = [r.time_ns for r in rig.records("D")]
    assert issued[1] == pytest.approx(9 * MS, abs=MS // 10)
