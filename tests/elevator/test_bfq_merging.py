"""bfq's cooperators: queues that become one, and become several again; wakers and injection."""

from __future__ import annotations

from itertools import pairwise

from bfq_rig import Process, bfq_of, bfq_rig, from_sector, later, queue_of
from rig import MS

FAR = 1 << 24
SECOND = 1000 * MS


def messages(rig, word: str) -> int:  # type: ignore[no-untyped-def]
    """How often a message was traced."""
    return sum(word in text for text in rig.tracer.messages)


def test_interleaved_readers_of_a_disk_share_a_queue() -> None:
    rig = bfq_rig(rotational=True, low_latency=0)
    Process(rig, 0, from_sector(0, 16), count=100, in_flight=2)
    Process(rig, 1, from_sector(8, 16), count=100, in_flight=2)
    rig.run(50 * MS)
    assert queue_of(rig, 0) is queue_of(rig, 1)
    assert queue_of(rig, 0).coop and queue_of(rig, 0).name() == "bfqSHARED-S"
    rig.run(SECOND)
    # In one queue a bio of one process can be merged into a request of the other
    assert any(size == 16 for _, size in rig.driver.served)
    rig.assert_clean()


def test_readers_of_far_places_do_not() -> None:
    rig = bfq_rig(rotational=True, low_latency=0)
    Process(rig, 0, from_sector(0, 16), count=100, in_flight=2)
    Process(rig, 1, from_sector(FAR, 16), count=100, in_flight=2)
    rig.run(SECOND)
    assert queue_of(rig, 0) is not queue_of(rig, 1)
    assert messages(rig, "merging with") == 0


def test_nor_those_that_were_served_alone_for_long() -> None:
    rig = bfq_rig(rotational=True, low_latency=0)
    Process(rig, 0, from_sector(0, 16), in_flight=2)
    Process(rig, 1, from_sector(FAR, 16), in_flight=2)
    rig.run(300 * MS)
    near = queue_of(rig, 0).next_rq
    assert near is not None
    Process(rig, 1, from_sector(near.sector + 1000, 16), in_flight=2)
    rig.run(360 * MS)
    assert queue_of(rig, 0) is not queue_of(rig, 1)


def test_a_shared_queue_that_seeks_is_split() -> None:
    rig = bfq_rig(rotational=True, low_latency=0)
    Process(rig, 0, from_sector(0, 16), count=40, in_flight=2)
    Process(rig, 1, from_sector(8, 16), count=40, in_flight=2)
    rig.run(100 * MS)
    shared = queue_of(rig, 0)
    assert shared is queue_of(rig, 1)
    Process(rig, 0, from_sector(FAR, 20_000), count=200, in_flight=2)
    Process(rig, 1, from_sector(4 * FAR, 20_000), count=200, in_flight=2)
    rig.run(5 * SECOND)
    assert messages(rig, "splitting queue") >= 2
    assert queue_of(rig, 0) is not queue_of(rig, 1)
    assert {queue_of(rig, 0).name(), queue_of(rig, 1).name()} == {"bfq100S", "bfq101S"}
    rig.assert_clean()


def test_on_flash_queues_born_together_are_one_and_stay_it() -> None:
    rig = bfq_rig(processes=3)
    Process(rig, 0, from_sector(0, 20_000), count=100)
    Process(rig, 1, from_sector(FAR, 20_000), count=100)
    later(rig)
    Process(rig, 2, from_sector(2 * FAR, 20_000), count=100)
    rig.run(SECOND)
    assert queue_of(rig, 0) is queue_of(rig, 1) is not queue_of(rig, 2)
    assert messages(rig, "splitting queue") == 0


def test_on_a_disk_they_are_merged_later_unless_idling_pays() -> None:
    rig = bfq_rig(rotational=True, low_latency=0)
    bfq_of(rig).bfqd.hw_tag = 1
    Process(rig, 0, from_sector(0, 20_000), think_ns=3 * MS)
    Process(rig, 1, from_sector(FAR, 20_000), think_ns=3 * MS)
    rig.run(500 * MS)
    assert queue_of(rig, 0) is not queue_of(rig, 1)
    rig.run(SECOND)
    assert queue_of(rig, 0) is queue_of(rig, 1)


def test_the_end_of_a_process_that_shares() -> None:
    rig = bfq_rig()
    Process(rig, 0, from_sector(0, 20_000), count=50)
    Process(rig, 1, from_sector(FAR, 20_000), count=100)
    rig.run(70 * MS)
    shared = queue_of(rig, 1)
    assert shared.process_refs() == 2
    rig.senders[0].exit_io_context([rig.queue])
    assert shared.process_refs() == 1
    rig.run(SECOND)
    rig.assert_clean()


def test_who_completes_before_another_begins_is_its_waker() -> None:
    rig = bfq_rig(low_latency=0)
    writer = Process(rig, 0, from_sector(0, 5000), count=1)
    later(rig)
    reader = Process(rig, 1, from_sector(FAR, 5000), count=1)
    later(rig)
    waker, woken = queue_of(rig, 0), queue_of(rig, 1)
    # Each waits for the other, and for long: nobody would be idled for
    for _ in range(100):
        writer.left = reader.left = 1
        writer._send()
        later(rig, 2 * MS)
        reader._send()
        later(rig, 20 * MS)
        if woken.waker_bfqq is not None:
            break
    assert woken.waker_bfqq is waker
    assert woken in waker.woken
    assert messages(rig, "set waker bfq100S") == 1


def test_others_are_injected_while_the_device_waits_for_a_queue_that_thinks() -> None:
    rig = bfq_rig(depth=4, low_latency=0)
    # Of different weights, so that the device idles for the first
    thinker = Process(rig, 0, from_sector(0, 5000), think_ns=3 * MS, ioprio=(2 << 13) + 1)
    Process(rig, 1, from_sector(FAR, 16), in_flight=16, ioprio=(2 << 13) + 7)
    later(rig, 2 * SECOND)
    bfqd = bfq_of(rig).bfqd
    assert bfqd.is_asymmetric(queue_of(rig, 0))
    assert queue_of(rig, 0).inject_limit >= 1
    completed = [r for r in rig.records("C") if r.sector < FAR]
    injected = 0
    for this, following in pairwise(completed[50:]):
        injected += any(
            this.time_ns <= r.time_ns < following.time_ns - MS for r in rig.records("D") if r.sector >= FAR
        )
        if injected:
            break
    assert injected and thinker.done > 300
