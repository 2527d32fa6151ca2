"""blk-throttle beside the captured kernel, and what its parts do by themselves.

Oracles: /reference cgroup/io-max-trace and io-max-split of kernel 6.1.187 (blktrace, times in ns after the
first Q; the messages are from the binary trace of the former, with jiffies counted from the first).
"""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from throttle_rig import AREA, MS, ThrottleRig, rate

from blklab.block.attributes import write
from blklab.block.consts import OP_DISCARD, OP_WRITE
from blklab.core.host import JIFFY_NS
from blklab.rqos.throttle_queue import fires_at

SECOND = 1000 * MS
FIRST_JIFFY = (1 << 32) - 300 * 250
# In io-max-trace the first bio came 1.474 ms behind a tick whose number is 8 modulo the 25 of a slice, long
# after the limit was written
PHASE_NS = next(k for k in range(50, 75) if (FIRST_JIFFY + k) % 25 == 8) * JIFFY_NS + 1_474_000

BIO = "throtl [R] bio. bdisp={} sz=4096 bps=18446744073709551615 iodisp=10 iops=100 queued={}/0"
ROUND = (
    "throtl dispatch nr_queued=0 read=0 write=0",
    "throtl [R] extend slice start={0} end={2} jiffies={1}",
    "throtl [R] trim slice nr=1 bytes=1844674407370955161 io=10 start={3} end={2} jiffies={1}",
    "throtl bios disp=10",
    "throtl schedule timer. delay=24 jiffies={1}",
    "throtl dispatch nr_queued=0 read=0 write=0",
    "throtl [R] trim slice nr=1 bytes=1844674407370955161 io=429496729 start={3} end={2} jiffies={1}",
    "throtl bios disp=10",
)
CAPTURED = [
    "throtl [R] new slice start=0 end=25 jiffies=0",
    BIO.format(40960, 0),
    "throtl schedule timer. delay=25 jiffies=0",
    *(BIO.format(40960, queued) for queued in range(1, 16)),
    *(line.format(0, 26, 67, 25) for line in ROUND[:2]),
    "throtl [R] new slice with credit start=0 end=51 jiffies=26",
    *(line.format(0, 26, 67, 25) for line in ROUND[2:]),
    *(BIO.format(36864, queued) for queued in range(6, 16)),
    *(line.format(25, 51, 92, 50) for line in ROUND),
    *(BIO.format(36864, queued) for queued in range(6, 16)),
]


def captured_job(seconds: float) -> ThrottleRig:
    """Case cgroup/io-max-trace: riops=100, 16 reads under way, a device that takes 4 at a time for 1 ms
    each."""
    rig = ThrottleRig(depth=4, service_ns=MS)
    rig.cgroup("/a")
    rig.limit("/a", "riops=100")
    rig.keep_busy("/a", PHASE_NS + int(seconds * SECOND), in_flight=16, start_ns=PHASE_NS)
    rig.run()
    rig.assert_clean()
    return rig


def test_ten_go_at_once_and_the_next_ten_when_the_kernel_let_them() -> None:
    rig = captured_job(2)
    went = [at - PHASE_NS for at, _ in rig.went("/a")]
    starts = [went[i] for i in range(0, len(went), 10)]
    captured = [0, *(102_558_000 + 100 * MS * i for i in range(21))]

    assert len(went) == 216
    assert [abs(ours - theirs) < MS for ours, theirs in zip(starts, captured, strict=True)] == [True] * 22
    for i in range(0, 210, 10):
        assert went[i + 9] - went[i] < 4 * MS, "ten come together, as fast as the device takes them"


def test_the_messages_are_those_of_the_kernel() -> None:
    said = captured_job(0.3).messages()
    ours = said[4:]  # behind those of the write to io.max
    base = FIRST_JIFFY + PHASE_NS // JIFFY_NS
    plain = [re.sub(r"429489\d{4}", lambda found: str(int(found[0]) - base), text) for text in ours]

    assert plain[: len(CAPTURED)] == CAPTURED
    assert said[1].startswith(
        "throtl limit change rbps=18446744073709551615 wbps=18446744073709551615 riops=100"
    )


def test_parts_of_a_bio_are_charged_bytes_once() -> None:
    """Case cgroup/io-max-split: rbps=4 MiB, 1 MiB reads cut in 8: one each 248 or 252 ms, whose 8 parts go at
    once."""
    rig = ThrottleRig(depth=4, service_ns=MS)
    write(rig.queue, "queue/max_sectors_kb", "128")
    rig.cgroup("/a")
    rig.limit("/a", "rbps=4194304")
    rig.keep_busy("/a", 2 * SECOND, in_flight=4, nr_sectors=2048, start_ns=MS)
    rig.run()
    went = [at for at, _ in rig.went("/a")]

    assert len(went) == 11
    gaps = {(later - earlier) // MS for earlier, later in pairwise(went)}
    assert gaps == {248, 252}
    assert rig.counts()["D"] == 88


def test_a_group_without_a_limit_costs_nothing() -> None:
    rig = ThrottleRig()
    rig.cgroup("/a")
    rig.cgroup("/b")
    rig.send([rig.bio_of("/a")], cgroup="/a").run()
    assert rig.queue.throttle is None

    rig.limit("/b", "wiops=10")
    before = len(rig.messages())
    rig.keep_busy("/a", 20 * MS)
    rig.keep_busy("/b", 20 * MS)  # reads, which are not limited
    rig.run()
    assert len(rig.messages()) == before
    assert rig.queue.throttle.held == 0  # type: ignore[attr-defined]
    assert rig.queue.throttle.lock.taken == 0  # type: ignore[attr-defined]


def test_a_limit_that_is_written_while_it_runs_counts_at_once() -> None:
    rig = ThrottleRig()
    rig.cgroup("/a")
    rig.limit("/a", "riops=100")
    rig.at(SECOND, lambda: rig.limit("/a", "riops=1000"))
    rig.at(2 * SECOND, lambda: rig.limit("/a", "riops=max"))
    rig.keep_busy("/a", 2 * SECOND + 10 * MS, in_flight=256)
    rig.run()
    went = rig.went("/a")

    assert rate(went, 0, SECOND) == pytest.approx(100, rel=0.11)  # with the burst
    assert rate(went, SECOND + 50 * MS, 2 * SECOND) == pytest.approx(1000, rel=0.1)
    waited = [at for at, _ in went if at >= 2 * SECOND]
    assert waited[0] < 2 * SECOND + 3 * JIFFY_NS, "what waits goes with the next tick but one"
    assert len(waited) > 256


def test_a_lowered_limit_lets_all_go_that_wait_in_6_1_and_not_later() -> None:
    """6.1 keeps carryover_ios without a sign: io_allowed wraps around (tg_within_iops_limit of 6.1.187 and
    6.12.117)."""

    def after_lowering(kernel: str) -> int:
        rig = ThrottleRig(kernel=kernel)
        rig.cgroup("/a")
        rig.limit("/a", "riops=100")
        rig.at(4 * MS, lambda: rig.limit("/a", "riops=50"))
        for _ in range(100):
            rig.send([rig.bio_of("/a")], cgroup="/a")
        rig.run()
        return sum(at < 90 * MS for at, _ in rig.went("/a"))

    assert (after_lowering("5.15"), after_lowering("6.1"), after_lowering("6.12")) == (10 + 5, 100, 10)


def test_children_take_turns_at_their_parents_limit() -> None:
    rig = ThrottleRig()
    rig.cgroup("/p/a")
    rig.cgroup("/p/b")
    rig.limit("/p", "riops=200")
    rig.keep_busy("/p/a", 2 * SECOND, in_flight=200)
    rig.keep_busy("/p/b", 2 * SECOND, in_flight=20)
    rig.run()
    counts = [sum(SECOND <= at < 2 * SECOND for at, _ in rig.went(path)) for path in ("/p/a", "/p/b")]

    assert counts == [100, 100]


def test_reads_have_three_quarters_of_a_round() -> None:
    rig = ThrottleRig()
    rig.cgroup("/a")
    rig.limit("/a", "riops=100 wiops=100")
    for _ in range(30):
        rig.send([rig.bio_of("/a")], [rig.bio_of("/a", op=OP_WRITE)], cgroup="/a")
    rig.run()
    # The first round that had both: 6 reads and 2 writes, then 4 reads and 2 writes..., but reads are
    # submitted first
    second = [r.rwbs for r in rig.records("Q") if 100 * MS < r.time_ns < 110 * MS]
    assert second == ["R"] * 10 + ["W"] * 10


@pytest.mark.parametrize(("nr_sectors", "expected"), [(8, 40), (1 << 16, 40)])
def test_a_discard_is_charged_one_sector(nr_sectors: int, expected: int) -> None:
    rig = ThrottleRig()
    rig.queue.limits.max_discard_sectors = rig.queue.limits.max_hw_discard_sectors = 1 << 20
    rig.cgroup("/a")
    rig.limit("/a", "wbps=204800")
    for _ in range(100):
        rig.send([rig.bio_of("/a", nr_sectors, OP_DISCARD)], cgroup="/a")
    rig.run(80 * MS)
    assert len(rig.went("/a")) == expected


@pytest.mark.parametrize(
    ("kernel", "per_second"),
    [
        ("4.14", 25),
        ("4.15", 50),
        ("5.10", 50),
        ("5.15", 25),
        ("5.17", 25),
        ("5.17.2", 25),
        ("6.1", 25),
        ("6.12", 25),
        ("6.16", 25),
    ],
)
def test_case_38_what_a_cut_bio_costs(kernel: str, per_second: int) -> None:
    """wiops=50, 1 MiB writes, max_sectors_kb=512: 25 a second if both parts count, else 50."""
    rig = ThrottleRig(kernel=kernel)
    write(rig.queue, "queue/max_sectors_kb", "512")
    rig.cgroup("/a")
    rig.limit("/a", "wiops=50")
    rig.keep_busy("/a", 10 * SECOND, in_flight=8, nr_sectors=2048, op=OP_WRITE)
    rig.run(10 * SECOND)
    ended = sum(at >= SECOND for sender in rig.senders for _, _, at in sender.ended)

    assert ended / 9 == pytest.approx(per_second, rel=0.03)


def test_since_6_16_the_rest_of_a_bio_does_not_wait_behind_others_bytes() -> None:
    """The example of the patch (blk-throttle: prevents the bps restricted io from entering the bps queue again): two
    1 MiB writes at 1 MiB/s, cut by the device; both ended after 2 s, now one after each."""
    ends = {}
    for kernel in ("6.12", "6.16"):
        rig = ThrottleRig(kernel=kernel)
        write(rig.queue, "queue/max_sectors_kb", "512")
        rig.cgroup("/a")
        rig.limit("/a", "wbps=1048576 wiops=1000")
        for _ in range(2):
            rig.send([rig.bio_of("/a", 2048, OP_WRITE)], cgroup="/a")
        rig.run()
        ends[kernel] = [at / SECOND for sender in rig.senders for _, _, at in sender.ended]
    assert ends["6.12"] == pytest.approx([2, 2], abs=0.03)
    assert ends["6.16"] == pytest.approx([1, 2], abs=0.03)


def test_before_4_15_the_rest_of_a_bio_is_charged_its_bytes_again() -> None:
    rates = {}
    for kernel in ("4.14", "4.15"):
        rig = ThrottleRig(kernel=kernel)
        write(rig.queue, "queue/max_sectors_kb", "512")
        rig.cgroup("/a")
        rig.limit("/a", "wbps=20971520")
        rig.keep_busy("/a", 10 * SECOND, in_flight=8, nr_sectors=2048, op=OP_WRITE)
        rig.run(10 * SECOND)
        rates[kernel] = sum(at >= SECOND for sender in rig.senders for _, _, at in sender.ended) / 9
    assert rates["4.15"] == pytest.approx(20, rel=0.03)
    assert rates["4.14"] == pytest.approx(20 / 1.5, rel=0.03)


def test_before_4_14_messages_name_the_group() -> None:
    rig = ThrottleRig(kernel="4.13")
    rig.cgroup("/a/b")
    rig.limit("/a/b", "riops=10")
    assert "throtl /a/b [R] new slice" in rig.messages()[1]


def test_a_timer_of_the_wheel_is_late_but_never_early() -> None:
    # calc_wheel_index: one jiffy later below 63, then multiples of 8, of 64
    assert fires_at(125, 100) == 126
    assert fires_at(90, 100) == 101
    assert fires_at(162, 100) == 163
    assert fires_at(163, 100) == 168
    assert fires_at(1000 + 504, 1000) == 1536
    for ahead in range(1, 3000, 7):
        assert 1000 + ahead < fires_at(1000 + ahead, 1000) <= 1000 + ahead + ahead // 7 + 1


def test_sectors_say_whose_a_bio_is() -> None:
    rig = ThrottleRig()
    rig.cgroup("/a")
    assert [rig.bio_of(path).sector for path in ("/a", "/b", "/a")] == [0, 1 << AREA, 16]
