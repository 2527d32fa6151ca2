"""bfq's weight raising: who is raised, for how long, and who is not."""

from __future__ import annotations

from bfq_rig import BE, Process, bfq_of, bfq_rig, from_sector, later, queue_of
from rig import MS

from blklab.block.attributes import read, write
from blklab.block.consts import OP_WRITE

FAR = 1 << 24
SECOND = 1000 * MS


def test_a_new_process_is_raised_as_interactive() -> None:
    rig = bfq_rig()
    Process(rig, 0, from_sector(0, 16), in_flight=4)
    later(rig, 20 * MS)
    bfqq = queue_of(rig, 0)
    assert (bfqq.wr_coeff, bfqq.weight) == (30, 1200)
    # 33000 * 625 jiffies / 22000: 937 jiffies of 4 ms
    assert bfqq.wr_cur_max_time_ns == 3748 * MS


def test_it_ends_after_its_time() -> None:
    rig = bfq_rig(processes=1, service_ns=4 * MS)
    Process(rig, 0, from_sector(0, 16), in_flight=2)
    later(rig, 3700 * MS)
    assert queue_of(rig, 0).wr_coeff == 30
    later(rig, 200 * MS)
    assert (queue_of(rig, 0).wr_coeff, queue_of(rig, 0).weight) == (1, 40)
    assert bfq_of(rig).bfqd.wr_busy_queues == 0


def test_it_ends_when_it_has_read_more_than_an_application() -> None:
    rig = bfq_rig(processes=1)
    Process(rig, 0, from_sector(0, 1024), in_flight=2, nr_sectors=512)
    later(rig, 230 * MS)
    assert queue_of(rig, 0).wr_coeff == 30
    later(rig, 20 * MS)
    # 120000 sectors, at 512 a millisecond
    assert queue_of(rig, 0).wr_coeff == 1


def test_one_that_was_idle_for_two_seconds_is_raised_again() -> None:
    rig = bfq_rig(processes=1)
    Process(rig, 0, from_sector(0, 1024), in_flight=2, nr_sectors=512, count=300)
    later(rig, SECOND)
    assert queue_of(rig, 0).wr_coeff == 1
    later(rig, 2 * SECOND)
    Process(rig, 0, from_sector(0, 16), in_flight=2, count=4)
    later(rig, MS)
    assert queue_of(rig, 0).wr_coeff == 30


def test_the_raised_one_is_served_before_the_greedy() -> None:
    rig = bfq_rig()
    Process(rig, 0, from_sector(0, 1024), in_flight=8, nr_sectors=256)
    later(rig, SECOND)
    starting = Process(rig, 1, from_sector(FAR, 5000), count=100)
    later(rig, SECOND)
    with_raising = sum(starting.latencies_ns[10:]) / len(starting.latencies_ns[10:])
    rig = bfq_rig(low_latency=0)
    Process(rig, 0, from_sector(0, 1024), in_flight=8, nr_sectors=256)
    later(rig, SECOND)
    starting = Process(rig, 1, from_sector(FAR, 5000), count=100)
    later(rig, SECOND)
    without = sum(starting.latencies_ns) / len(starting.latencies_ns)
    assert with_raising < without / 2


def test_other_priorities_are_not_raised() -> None:
    rig = bfq_rig(processes=1)
    Process(rig, 0, from_sector(0, 16), in_flight=2, ioprio=BE + 3)
    later(rig, 20 * MS)
    assert queue_of(rig, 0).wr_coeff == 1


def test_a_player_is_soft_real_time() -> None:
    rig = bfq_rig(processes=1)
    # A first, long time of reading much, so that it is not interactive any more
    Process(rig, 0, from_sector(0, 1024), in_flight=2, nr_sectors=512, count=300)
    later(rig, SECOND)
    bfqq = queue_of(rig, 0)
    bfqq.soft_rt_next_start_ns = 0
    assert bfqq.wr_coeff == 1
    # 64 sectors every 40 ms: 1600 sectors/s
    Process(rig, 0, from_sector(FAR, 64), nr_sectors=64, think_ns=40 * MS, count=20)
    seen = []
    for _ in range(80):
        later(rig, 10 * MS)
        seen.append((bfqq.wr_coeff, bfqq.wr_cur_max_time_ns))
    assert (3000, 300 * MS) in seen


def test_a_greedy_process_is_not_soft_real_time() -> None:
    rig = bfq_rig(processes=1)
    Process(rig, 0, from_sector(0, 1024), in_flight=2, nr_sectors=512, count=300)
    later(rig, SECOND)
    bfqq = queue_of(rig, 0)
    # 2560 sectors every 45 ms: 57000 sectors/s
    Process(rig, 0, from_sector(FAR, 2560), nr_sectors=2560, think_ns=45 * MS, count=20)
    for _ in range(100):
        later(rig, 10 * MS)
        assert bfqq.wr_coeff == 1


def test_ten_processes_at_once_get_no_raising() -> None:
    rig = bfq_rig(processes=10, rotational=True)
    for cpu in range(10):
        Process(rig, cpu, from_sector(cpu * FAR, 16), in_flight=2)
    later(rig, 500 * MS)
    # All that came with or after the eighth, and the seven before it once they are served
    assert [queue_of(rig, cpu).wr_coeff for cpu in range(10)] == [1] * 10
    assert all(queue_of(rig, cpu).in_large_burst for cpu in range(10))


def test_a_few_at_once_are_raised() -> None:
    rig = bfq_rig(processes=4, rotational=True)
    for cpu in range(4):
        Process(rig, cpu, from_sector(cpu * FAR, 16), in_flight=2)
    later(rig, 200 * MS)
    assert [queue_of(rig, cpu).wr_coeff for cpu in range(4)] == [30] * 4


def test_low_latency_0_ends_all_raising_and_begins_none() -> None:
    rig = bfq_rig(processes=3, rotational=True)
    for cpu in range(2):
        Process(rig, cpu, from_sector(cpu * FAR, 16), in_flight=4)
    later(rig, 100 * MS)
    write(rig.queue, "queue/iosched/low_latency", "0")
    assert read(rig.queue, "queue/iosched/low_latency") == 0
    later(rig, SECOND)
    waiting = [
        queue_of(rig, cpu) for cpu in range(2) if queue_of(rig, cpu) is not bfq_of(rig).bfqd.in_service_queue
    ]
    assert all(bfqq.wr_coeff == 1 and bfqq.weight == 40 for bfqq in waiting)
    Process(rig, 2, from_sector(2 * FAR, 16), in_flight=4)
    later(rig, 50 * MS)
    assert queue_of(rig, 2).wr_coeff == 1


def test_asynchronous_writes_are_raised_if_they_had_no_turn_for_half_a_second() -> None:
    rig = bfq_rig(processes=1, service_ns=200 * MS)
    rig.send([rig.bio(i * 1000, op=OP_WRITE) for i in range(8)])
    later(rig, 600 * MS)
    bic = bfq_of(rig).processes.find(rig.senders[0])
    assert bic is not None and bic.async_bfqq is not None
    bfqq = bic.async_bfqq
    rig.send([rig.bio(100_000, op=OP_WRITE)])
    later(rig, 2 * MS)
    assert bfqq.busy and bfqq.wr_coeff == 1
    # The end of each turn counts as the end of a raising
    bfqq.last_wr_start_finish_ns -= 504 * MS
    rig.send([rig.bio(200_000, op=OP_WRITE)])
    later(rig, 2 * MS)
    assert bfqq.wr_coeff == 30
