"""bfq's queues: who is served next and for how long, in which order, when the device idles, and what can be set."""

from __future__ import annotations

import random

import pytest
from bfq_rig import BE, IDLE, RT, Process, bfq_of, bfq_rig, from_sector, later, queue_of
from hypothesis import given, settings
from hypothesis import strategies as st
from rig import MS, Rig, ScriptedDriver

from blklab.block.attributes import read, write
from blklab.block.consts import F_META, F_SYNC, OP_READ, OP_WRITE
from blklab.block.switch import set_elevator
from blklab.core.errors import AttributeRefused

FAR = 1 << 24


def owners(rig: Rig) -> str:
    """Which process each dispatched request was of, as letters."""
    by_sector = {r.sector: r.pid - 100 for r in rig.records("Q")}
    return "".join("abcdefghij"[by_sector[r.sector]] for r in rig.records("D"))


def expirations(rig: Rig, cpu: int) -> list[int]:
    """Why the turns of a process' queue ended (BFQQE_: 0 too idle, 1 timeout, 2 exhausted, 3 no more, 4 preempted)."""
    name = f"bfq{100 + cpu}S expire ("
    return [int(text.split("(")[1].split(",")[0]) for text in rig.tracer.messages if text.startswith(name)]


class TestIdling:
    """Whether the device waits for the next request of the queue in service."""

    def two(self, rotational: bool = True, step: int = 8, think_ns: int = MS // 10, **tunables: int) -> Rig:
        """A reader that sends one I/O at a time, beside one that always has some waiting."""
        rig = bfq_rig(rotational=rotational, low_latency=0, **tunables)
        Process(rig, 0, from_sector(0, step), count=20, think_ns=think_ns)
        Process(rig, 1, from_sector(FAR, 100_000), count=60, in_flight=4)
        return rig.run(2000 * MS)

    def test_on_a_disk_it_waits_for_a_sequential_reader(self) -> None:
        assert owners(self.two()).startswith("a" * 20 + "b" * 20)

    def test_for_no_longer_than_slice_idle(self) -> None:
        rig = self.two()
        last = [r.time_ns for r in rig.records("C") if r.sector < FAR][-1]
        first = next(r.time_ns for r in rig.records("D") if r.sector >= FAR)
        assert first - last == 8 * MS
        assert expirations(rig, 0) == [0]

    def test_slice_idle_0_does_not_wait(self) -> None:
        rig = self.two(slice_idle=0)
        assert "bab" in owners(rig)
        gaps = zip(rig.records("C"), rig.records("D")[1:], strict=False)
        assert all(d.time_ns <= c.time_ns for c, d in gaps)

    def test_not_for_one_that_thinks_for_long(self) -> None:
        # Idle for more than a fifth of its time: after the first turns it is not waited for
        assert "ab" * 3 in owners(self.two(think_ns=MS)).replace("bbb", "b").replace("bb", "b")

    def test_not_for_one_that_seeks_on_a_disk_with_queueing(self) -> None:
        rig = bfq_rig(rotational=True, low_latency=0)
        bfq_of(rig).bfqd.hw_tag = 1
        Process(rig, 0, from_sector(0, 100_000), count=60)
        Process(rig, 1, from_sector(FAR, 100_000), count=200, in_flight=4)
        rig.run(2000 * MS)
        assert queue_of(rig, 0).is_seeky()
        assert "aa" not in owners(rig)[80:160] and "a" in owners(rig)[80:160]

    def test_on_flash_with_queueing_it_waits_for_nobody(self) -> None:
        rig = self.two(rotational=False)
        assert rig.records("D")[2].sector >= FAR
        assert not any("(0," in text for text in rig.tracer.messages if "expire" in text and "100S" in text)

    def test_on_flash_it_waits_where_weights_differ(self) -> None:
        rig = bfq_rig(low_latency=0)
        Process(rig, 0, from_sector(0), count=20, think_ns=MS // 10, ioprio=BE + 1)
        rig.run(MS // 10)
        Process(rig, 1, from_sector(FAR), count=60, in_flight=4, ioprio=BE + 7)
        rig.run(2000 * MS)
        # One may be injected while the device waits
        assert owners(rig)[:21].count("b") <= 1

    def test_strict_guarantees_waits_for_all_and_has_one_request_in_the_device(self) -> None:
        rig = bfq_rig(depth=8, low_latency=0, strict_guarantees=1)
        Process(rig, 0, from_sector(0, 100_000), count=200, think_ns=MS)
        later(rig)
        Process(rig, 1, from_sector(FAR, 100_000), count=20, in_flight=4)
        rig.run(2000 * MS)
        actions = "".join(r.action for r in rig.records("D C"))
        assert actions == "DC" * 220
        assert "b" * 15 in owners(rig)


class TestTurns:
    """When the turn of a queue ends."""

    def test_budgets_divide_sectors_not_time(self) -> None:
        rig = bfq_rig(low_latency=0, max_budget=64)
        Process(rig, 0, from_sector(0, 128), in_flight=4, nr_sectors=64)
        later(rig)
        Process(rig, 1, from_sector(FAR, 16), in_flight=16)
        later(rig, 400 * MS)
        sectors = dict.fromkeys("ab", 0)
        for owner, r in zip(owners(rig), rig.records("D"), strict=True):
            if r.time_ns > 200 * MS:
                sectors[owner] += r.nr_sectors
        assert 0.8 < sectors["a"] / sectors["b"] < 1.25
        assert 2 in expirations(rig, 0) and 2 in expirations(rig, 1)

    def test_a_slow_queue_is_timed_out(self) -> None:
        rig = bfq_rig(low_latency=0, service_ns=5 * MS)
        Process(rig, 0, from_sector(0, 16), in_flight=4, count=200)
        later(rig)
        Process(rig, 1, from_sector(FAR, 16), in_flight=4, count=200)
        later(rig, 800 * MS)
        assert set(expirations(rig, 0)) == {1}, expirations(rig, 0)
        runs = [len(run) for run in owners(rig).replace("ab", "a b").replace("ba", "b a").split()]
        # 124 ms, in 5 ms steps
        assert runs[1] in (25, 26)

    def test_a_shorter_timeout(self) -> None:
        rig = bfq_rig(low_latency=0, service_ns=5 * MS, timeout_sync=20)
        Process(rig, 0, from_sector(0, 16), in_flight=4, count=100)
        later(rig)
        Process(rig, 1, from_sector(FAR, 16), in_flight=4, count=100)
        later(rig, 800 * MS)
        runs = [len(run) for run in owners(rig).replace("ab", "a b").replace("ba", "b a").split()]
        assert runs[1] in (4, 5)

    def test_real_time_preempts_and_goes_first(self) -> None:
        rig = bfq_rig(low_latency=0)
        Process(rig, 0, from_sector(0, 16), in_flight=8, count=200)
        rig.run(50 * MS)
        Process(rig, 1, from_sector(FAR, 16), in_flight=2, count=20, ioprio=RT + 4)
        rig.run(2000 * MS)
        assert "b" * 20 in owners(rig)
        assert owners(rig).index("b") <= 52
        assert 4 in expirations(rig, 0)

    def test_the_idle_class_waits_for_the_others_but_not_for_ever(self) -> None:
        rig = bfq_rig(low_latency=0)
        Process(rig, 0, from_sector(0, 16), in_flight=4, count=600)
        Process(rig, 1, from_sector(FAR, 16), in_flight=4, count=20, ioprio=IDLE)
        rig.run(3000 * MS)
        during = owners(rig)[10:600]
        # One about every 200 ms (BFQ_CL_IDLE_TIMEOUT)
        assert 1 <= during.count("b") <= 5
        assert owners(rig).endswith("b" * 10)

    def test_weights_divide_the_device(self) -> None:
        rig = bfq_rig(low_latency=0, max_budget=128)
        fast = Process(rig, 0, from_sector(0, 16), in_flight=8, ioprio=BE + 0)
        slow = Process(rig, 1, from_sector(FAR, 16), in_flight=8, ioprio=BE + 6)
        rig.run(1500 * MS)
        # Levels 0 and 6: weights 80 and 20
        assert 3.3 < fast.done / slow.done < 4.7

    def test_asynchronous_writes_are_charged_three_times(self) -> None:
        rig = bfq_rig(low_latency=0)
        rig.send([rig.bio(0, op=OP_WRITE)], [rig.bio(FAR, op=OP_READ)]).run()
        charged = [text for text in rig.tracer.messages if "bfqq_served" in text]
        assert "bfq100A bfqq_served 24 secs" in charged and "bfq100S bfqq_served 8 secs" in charged


class TestOrder:
    """Which request of a queue comes next."""

    def served(self, *sectors: int, flags: dict[int, int] | None = None, **tunables: int) -> list[int]:
        rig = bfq_rig(processes=1, low_latency=0, **tunables)  # type: ignore[arg-type]
        rig.send([rig.bio(s, flags=(flags or {}).get(s, 0)) for s in sectors]).run()
        return [sector for sector, _ in rig.driver.served]

    def test_upwards_from_where_the_device_is(self) -> None:
        assert self.served(1000, 5000, 3000, 4000) == [1000, 3000, 4000, 5000]

    def test_a_way_back_counts_twice(self) -> None:
        rig = bfq_rig(processes=1, low_latency=0)
        rig.send([rig.bio(10_000)]).run(100_000)
        rig.send([rig.bio(9_000), rig.bio(12_500), rig.bio(30_000)]).run()
        assert [s for s, _ in rig.driver.served] == [10_000, 9_000, 12_500, 30_000]

    def test_back_seek_penalty(self) -> None:
        rig = bfq_rig(processes=1, low_latency=0, back_seek_penalty=3)
        rig.send([rig.bio(10_000)]).run(100_000)
        rig.send([rig.bio(9_000), rig.bio(12_500), rig.bio(30_000)]).run()
        assert [s for s, _ in rig.driver.served] == [10_000, 12_500, 9_000, 30_000]

    def test_back_seek_max(self) -> None:
        rig = bfq_rig(processes=1, low_latency=0, back_seek_max=100)
        rig.send([rig.bio(10_000)]).run(100_000)
        rig.send([rig.bio(9_000), rig.bio(30_000), rig.bio(40_000)]).run()
        assert [s for s, _ in rig.driver.served] == [10_000, 30_000, 40_000, 9_000]

    def test_metadata_first(self) -> None:
        assert self.served(1000, 2000, 9000, flags={9000: F_META}) == [9000, 2000, 1000]

    def test_who_waited_for_too_long_goes_first_once_a_turn(self) -> None:
        rig = bfq_rig(processes=1, low_latency=0, fifo_expire_sync=20, timeout_sync=40)
        rig.send([rig.bio(10_000)]).run(100_000)
        rig.send([rig.bio(1 << 26), *(rig.bio(20_000 + 16 * i) for i in range(100))]).run()
        served = [s for s, _ in rig.driver.served]
        # When a turn begins after it has expired, which is the second one
        assert 38 <= served.index(1 << 26) <= 44

    def test_one_process_has_only_its_own_merges(self) -> None:
        rig = bfq_rig(service_ns=None, low_latency=0, rotational=True)
        rig.send([rig.bio(1000)], [rig.bio(0)], cpu=0).run(MS)
        rig.send([rig.bio(5000, cpu=1)], cpu=1).run(2 * MS)
        rig.send([rig.bio(8, cpu=1)], cpu=1).run(3 * MS)
        assert not rig.records("M F")
        rig.send([rig.bio(16, cpu=1)], cpu=1).run(4 * MS)
        assert len(rig.records("M")) == 1
        rig.driver.service_ns = 1000
        for rq in list(rig.driver.held):
            rig.driver.finish(rq)
        rig.run()


class TestDepths:
    """How many tags who may use."""

    def test_asynchronous_writes_leave_half_of_the_tags(self) -> None:
        rig = bfq_rig(processes=1, service_ns=None, low_latency=0)
        rig.send([rig.bio(i * 1000, op=OP_WRITE) for i in range(200)]).run(MS)
        assert rig.queue.nr_requests == 128
        assert len(rig.records("G")) == 64

    def test_synchronous_writes_leave_a_quarter(self) -> None:
        rig = bfq_rig(processes=1, service_ns=None, low_latency=0)
        rig.send([rig.bio(i * 1000, op=OP_WRITE, flags=F_SYNC) for i in range(200)]).run(MS)
        assert len(rig.records("G")) == 96

    def test_a_process_has_its_share_once_others_are_there(self) -> None:
        rig = bfq_rig(service_ns=None, low_latency=0)
        rig.send([rig.bio(FAR, cpu=1)], [rig.bio(2 * FAR, cpu=1)], cpu=1)
        later(rig)
        rig.send([rig.bio(i * 1000) for i in range(3)], [rig.bio(i * 1000) for i in range(3, 203)])
        later(rig)
        mine = [r for r in rig.records("G") if r.sector < FAR]
        # Its share of 128 is 64, not counting what is in the plug; then one bit of each word of the bitmap
        assert 64 <= len(mine) <= 72


class TestTunables:
    """Names, units and clamps."""

    @pytest.mark.parametrize(
        ("name", "text", "value"),
        [
            ("slice_idle", "20", 20),
            ("slice_idle_us", "1500", 1500),
            ("slice_idle", "5000", 705),  # 5e9 ns in 32 bits
            ("timeout_sync", "0", 4),
            ("timeout_sync", "125", 128),
            ("back_seek_penalty", "0", 1),
            ("back_seek_max", "0", 0),
            ("back_seek_max", "99999999999", (1 << 31) - 1),
            ("fifo_expire_sync", "0", 1),
            ("fifo_expire_async", "500", 500),
            ("max_budget", "1000", 1000),
            ("max_budget", "0", 0),
            ("strict_guarantees", "7", 1),
            ("low_latency", "5", 1),
        ],
    )
    def test_what_is_written_is_read_as_the_kernel_does(self, name: str, text: str, value: int) -> None:
        rig = bfq_rig()
        write(rig.queue, f"queue/iosched/{name}", text)
        assert read(rig.queue, f"queue/iosched/{name}") == value

    @pytest.mark.parametrize("name", ["slice_idle", "max_budget", "low_latency", "strict_guarantees"])
    @pytest.mark.parametrize("text", ["", "x", "-1", "1.5"])
    def test_only_numbers_are_taken(self, name: str, text: str) -> None:
        rig = bfq_rig()
        with pytest.raises(AttributeRefused):
            write(rig.queue, f"queue/iosched/{name}", text)

    def test_defaults(self) -> None:
        rig = bfq_rig()
        names = {
            "fifo_expire_async": 250, "fifo_expire_sync": 125, "back_seek_max": 16384, "back_seek_penalty": 2,
            "slice_idle": 8, "slice_idle_us": 8000, "max_budget": 0, "timeout_sync": 124, "strict_guarantees": 0,
            "low_latency": 1,
        }  # fmt: skip
        assert {name: read(rig.queue, f"queue/iosched/{name}") for name in names} == names

    def test_strict_guarantees_needs_idling(self) -> None:
        rig = bfq_rig(slice_idle=0)
        write(rig.queue, "queue/iosched/strict_guarantees", "1")
        assert read(rig.queue, "queue/iosched/slice_idle") == 8

    def test_max_budget_0_follows_the_peak_rate(self) -> None:
        rig = bfq_rig(max_budget=100)
        write(rig.queue, "queue/iosched/max_budget", "0")
        # 22000 / 2**16 sectors/us for 124 ms
        assert bfq_of(rig).bfqd.max_budget == 41625
        Process(rig, 0, from_sector(0, 512), in_flight=16, nr_sectors=256)
        rig.run(3000 * MS)
        assert bfq_of(rig).bfqd.max_budget < 35000

    def test_ended_processes_leave_nothing_behind(self) -> None:
        rig = bfq_rig()
        Process(rig, 0, from_sector(0), count=30, in_flight=3)
        Process(rig, 1, from_sector(FAR), count=30)
        rig.run(1000 * MS)
        bfqq = queue_of(rig, 0)
        for sender in rig.senders:
            sender.exit_io_context([rig.queue])
        assert bfq_of(rig).processes.contexts == {} and bfqq.process_refs() == 0
        bfq_of(rig).exit()
        assert bfqq.ref == 0


@given(
    seed=st.integers(0, 1 << 30),
    processes=st.integers(1, 5),
    rotational=st.booleans(),
    depth=st.sampled_from([1, 2, 16]),
    strict=st.integers(0, 1),
    slice_idle=st.sampled_from([0, 8]),
)
@settings(max_examples=40, deadline=None)
def test_every_request_is_dispatched_once_and_nobody_starves(
    seed: int, processes: int, rotational: bool, depth: int, strict: int, slice_idle: int
) -> None:
    rng = random.Random(seed)
    rig = Rig(ScriptedDriver(MS // 5, budgets=depth), nr_cpus=processes, depth=8)
    rig.queue.rotational = rotational
    set_elevator(rig.queue, "bfq")
    write(rig.queue, "queue/iosched/slice_idle", str(slice_idle))
    write(rig.queue, "queue/iosched/strict_guarantees", str(strict))
    made = []
    for cpu in range(processes):
        first = rng.randrange(1 << 20)
        step = rng.choice([8, 8, 16, 5000])
        made.append(
            Process(
                rig,
                cpu,
                from_sector(first, step),
                count=rng.randrange(1, 40),
                think_ns=rng.choice([0, 0, MS // 10, 12 * MS]),
                in_flight=rng.choice([1, 1, 4]),
                op=rng.choice([OP_READ, OP_READ, OP_WRITE]),
                flags=rng.choice([F_SYNC, 0]),
                ioprio=rng.choice([0, 0, BE + 2, RT + 4, IDLE]),
            )
        )
    rig.run()
    assert all(process.left == 0 and not process.sent_ns for process in made)
    assert len(rig.ended()) == rig.next_io
    assert len(rig.records("I")) == len(rig.records("D")) == len(rig.records("C"))
    rig.assert_clean()
    for sender in rig.senders:
        sender.exit_io_context([rig.queue])
    bfqd = bfq_of(rig).bfqd
    assert (
        bfqd.queued == 0 and bfqd.rq_in_driver == 0 and bfqd.tot_busy_queues == 0 and bfqd.wr_busy_queues == 0
    )
    assert not bfqd.weights
