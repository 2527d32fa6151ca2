"""kyber's dispatch: tokens, batches, who waits, what may merge, in all ages."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kyber_rig import AGES, DISCARD, LETTERS, OTHER, READ, WRITE, KyberRig
from rig import MS

from blklab.block.attributes import attribute_paths, read, write
from blklab.block.consts import F_SYNC, OP_DISCARD, OP_READ, OP_WRITE, OP_WRITE_ZEROES
from blklab.block.switch import set_elevator
from blklab.core.errors import AttributeRefused

NO_CTX_QUEUE = AGES["never"]


# -- tokens ----------------------------------------------------------------------------------


def test_without_a_token_requests_stay_where_bios_of_their_cpu_can_merge() -> None:
    rig = KyberRig(tokens=(2,))
    for sector in (0, 100, 200, 208, 216):
        rig.one(sector)

    assert rig.story("D M") == "D0+8 D100+8 M208+8 M216+8"
    assert rig.shown("read_tokens").startswith("depth=2 busy=2 ")
    assert (rig.shown("read_waiting"), rig.shown("read_rqs"), rig.shown("write_waiting")) == (1, 0, 0)
    assert set(rig.messages("throttled")) == {"READ"}

    rig.end()

    assert rig.story("D") == "D0+8 D100+8 D200+24"
    assert rig.shown("read_waiting") == 0
    rig.end_all()


def test_before_the_ctx_queue_they_were_taken_over_and_could_not() -> None:
    """The complaint of 2018: even with the tokens of one domain used up, looking for others takes all over."""
    rig = KyberRig(tokens=(2,), features=NO_CTX_QUEUE)
    for sector in (0, 100, 200, 208, 216):
        rig.one(sector)

    assert (rig.story("D M"), rig.shown("read_rqs")) == ("D0+8 D100+8", 3)

    rig.end(2)

    assert rig.story("D M") == "D0+8 D100+8 D200+8 D208+8"
    rig.end_all()


@pytest.mark.parametrize("age", AGES)
@pytest.mark.parametrize(("short", "other"), [(OP_READ, OP_WRITE), (OP_WRITE, OP_READ)])
def test_a_domain_without_tokens_is_in_nobodys_way(age: str, short: int, other: int) -> None:
    tokens = (1, 128) if short == OP_READ else (256, 1)
    rig = KyberRig(tokens=tokens, features=AGES[age])
    for k in range(5):
        rig.one(1000 * k, short)
    assert len(rig.records("D")) == 1
    for k in range(20):
        rig.one(100_000 + 1000 * k, other)

    assert len(rig.records("D")) == 21
    rig.end_all()
    assert len(rig.ended()) == 25


@pytest.mark.parametrize("age", AGES)
def test_tokens_are_held_from_dispatch_to_the_end(age: str) -> None:
    rig = KyberRig(depth=2, features=AGES[age])
    for k in range(4):
        rig.one(1000 * k)
    # Two in the driver, one on the dispatch list for want of a driver tag; the fourth waits for a scheduler tag
    tokens = rig.kyber.domains[READ].tokens
    assert (len(rig.held()), rig.queue.hctxs[0].dispatch_list.count) == (2, 1)
    assert tokens.used == 3
    rig.end()
    assert tokens.used == 3
    rig.end_all()


def test_a_requeued_request_gives_its_token_back_and_goes_first() -> None:
    rig = KyberRig(tokens=(1,))
    rig.one(0).one(100)
    rq = rig.held()[0]
    rig.driver.held.remove(rq)
    rig.driver.in_service[rig.queue.hctxs[0]] -= 1
    rig.queue.requeue(rq)
    rig.soon()

    assert rig.story("D R") == "D0+8 R0+8 D0+8"
    rig.end_all()
    assert rig.ended() == [0, 1]


OPS = [OP_READ, OP_WRITE, OP_DISCARD, OP_WRITE_ZEROES]


@pytest.mark.parametrize("age", AGES)
@given(
    bios=st.lists(st.tuples(st.sampled_from(OPS), st.booleans(), st.integers(0, 3)), max_size=80),
    tokens=st.tuples(*[st.integers(1, 4)] * 4),
    hw_queues=st.sampled_from([1, 2, 4]),
)
def test_no_domain_has_more_in_the_driver_than_tokens(
    age: str, bios: list[tuple[int, bool, int]], tokens: tuple[int, ...], hw_queues: int
) -> None:
    rig = KyberRig(20_000, tokens, nr_cpus=4, nr_hw_queues=hw_queues, features=AGES[age])
    # Sectors far apart: nothing merges, and each tells its domain
    made = [
        rig.bio(1000 * k, 8, op, F_SYNC if sync else 0, cpu=cpu) for k, (op, sync, cpu) in enumerate(bios)
    ]
    for bio, (_, _, cpu) in zip(made, bios, strict=True):
        rig.send([bio], cpu=cpu)
    inside: Counter[int] = Counter()
    worst: Counter[int] = Counter()
    domain_of = {bio.sector: rig.kyber.domain_of(bio.op, bio.is_sync()) for bio in made}

    rig.run()

    for record in rig.records("D C"):
        domain = domain_of[record.sector]
        inside[domain] += 1 if record.action == "D" else -1
        worst[domain] = max(worst[domain], inside[domain])
    assert sorted(rig.ended()) == list(range(len(bios)))
    assert all(most <= tokens[domain] for domain, most in worst.items())
    rig.end_all()


# -- turns -----------------------------------------------------------------------------------


def saturated(features: dict[str, int] | None = None) -> KyberRig:
    """40 of each kind wait; the driver takes whatever comes."""
    rig = KyberRig(10_000, depth=128, features=features)
    bios = []
    for kind, op in enumerate(OPS):
        bios += [rig.bio((kind << 25 if kind == OTHER else kind << 20) + 100 * k, 8, op) for k in range(40)]
    for bio in bios:
        bio.flags = F_SYNC
    rig.gather(bios).run()
    assert len(rig.ended()) == 160
    rig.end_all()
    return rig


def test_16_reads_8_writes_1_discard_1_other_in_turn() -> None:
    singles = [("D", 1), ("O", 1)]

    assert saturated().runs() == [
        *[("R", 16), ("W", 8), *singles] * 2,
        *[("R", 8), ("W", 8), *singles],
        *[("W", 8), *singles] * 2,
        *singles * 11,
        # All this took no time, and OTHER has 16 tokens
        ("D", 24),
        ("O", 24),
    ]


def test_before_the_histogram_16_reads_8_writes_8_others() -> None:
    runs = saturated(AGES["4.18"]).runs()
    turns = [("R" if letter == "R" else "W" if letter == "W" else "other", n) for letter, n in runs]

    # Discards came first, and are OTHER too
    assert turns[:6] == [("R", 16), ("W", 8), ("other", 8)] * 2


def test_a_new_turn_begins_where_requests_are() -> None:
    rig = KyberRig()
    rig.one(0, OP_WRITE)
    assert (rig.shown("cur_domain"), rig.shown("batching")) == ("WRITE", 1)
    rig.one(100, OP_WRITE).one(200)
    # The turn of writes was not over, so the next of them would still be the third of its batch
    assert (rig.shown("cur_domain"), rig.shown("batching")) == ("READ", 1)
    rig.end_all()


def test_nobody_waits_more_than_one_round_of_the_others() -> None:
    rig = saturated()
    place = [n for n, record in enumerate(rig.records("D")) if record.sector >= 1 << 25][:16]

    assert place[0] == 16 + 8 + 1
    assert max(b - a for a, b in pairwise(place)) == 16 + 8 + 1 + 1


# -- hardware queues that wait ----------------------------------------------------------------


def test_hardware_queues_that_wait_for_the_same_tokens_get_equal_shares() -> None:
    rig = KyberRig(100_000, (4,), nr_cpus=4, nr_hw_queues=4)
    for cpu in range(4):
        rig.send(*[[rig.bio(1_000_000 * cpu + 100 * k, cpu=cpu)] for k in range(60)], cpu=cpu)
    rig.run()

    first_half = Counter(record.sector // 1_000_000 for record in rig.records("D")[:120])
    assert sum(first_half.values()) == 120
    assert max(first_half.values()) - min(first_half.values()) <= 8, first_half
    rig.end_all()


def test_a_waiter_moves_on_to_the_next_of_eight_wait_queues() -> None:
    rig = KyberRig(tokens=(1,))
    for sector in (0, 100, 200):
        rig.one(sector)
    waits = rig.data().waits[READ]
    seen = []
    for sector in range(300, 1200, 100):
        seen.append(waits.next_index)
        rig.end().one(sector)

    assert seen == [1, 2, 3, 4, 5, 6, 7, 0, 1]
    rig.end_all()


def test_being_woken_runs_the_hardware_queue_in_a_worker() -> None:
    rig = KyberRig(tokens=(1,), nr_cpus=2, nr_hw_queues=2)
    rig.one(0, cpu=0).one(100, cpu=1)
    assert rig.shown("read_waiting", 1) == 1
    rig.end()

    assert rig.story("D") == "D0+8 D100+8"
    assert rig.records("D")[1].pid >= 1000
    rig.end_all()


# -- merging ---------------------------------------------------------------------------------


def test_bios_merge_with_the_last_eight_of_their_cpu_and_domain() -> None:
    def merges(sectors: list[int], cpus: list[int] | None = None, ops: list[int] | None = None) -> int:
        rig = KyberRig(nr_cpus=2)
        bios = [
            rig.bio(s, op=(ops or [OP_READ] * 99)[k], flags=F_SYNC, cpu=(cpus or [0] * 99)[k])
            for k, s in enumerate(sectors)
        ]
        rig.gather(bios)
        rig.end_all()
        return len(rig.records("M F"))

    apart = [1000 * k for k in range(1, 8)]
    assert merges([0, *apart, 8]) == 1
    assert merges([0, *apart, 90_000, 8]) == 0
    assert merges([8, 0]) == 1
    assert merges([0, 8], cpus=[0, 1]) == 0
    assert merges([0, 8], ops=[OP_READ, OP_WRITE]) == 0
    # Those of other domains do not count among the eight
    assert merges([0, *apart, 90_000, 8], ops=[OP_READ, *[OP_WRITE] * 8, OP_READ]) == 1


@pytest.mark.parametrize("age", AGES)
@pytest.mark.parametrize(("nomerges", "merges"), [(0, 3), (1, 3), (2, 0)])
def test_nomerges_1_does_not_keep_kyber_from_merging(age: str, nomerges: int, merges: int) -> None:
    rig = KyberRig(features=AGES[age])
    write(rig.queue, "queue/nomerges", str(nomerges))
    rig.gather([rig.bio(8 * k) for k in range(4)])
    rig.end_all()

    assert len(rig.records("M")) == merges


# -- the limit of asynchronous requests --------------------------------------------------------


def granted(rig: KyberRig, op: int, flags: int) -> int:
    """How many of these get a scheduler tag while nothing completes."""
    rig.send(*[[rig.bio(100 * k, op=op, flags=flags)] for k in range(200)])
    rig.soon()
    got = len(rig.records("G"))
    rig.one(1 << 24, cpu=1)
    assert len(rig.records("G")) == (got + 1 if got < rig.queue.nr_requests else got)
    rig.end_all()
    return got


@pytest.mark.parametrize(
    ("depth", "limit", "writes"),
    # 2 x depth tags in words of 32, 8, 2 bits: in each, three quarters
    [(64, 24, 96), (16, 6, 24), (4, 1, 4)],
)
def test_asynchronous_requests_may_use_three_quarters_of_each_word(
    depth: int, limit: int, writes: int
) -> None:
    rig = KyberRig(nr_cpus=2, depth=depth)
    assert rig.shown("async_depth") == limit
    tags = rig.queue.hctxs[0].sched_tags
    assert tags is not None
    assert tags.bitmap.min_shallow_depth == limit
    assert granted(rig, OP_WRITE, 0) == writes


@pytest.mark.parametrize(
    ("feature", "op", "flags", "tags"),
    [
        (0, OP_WRITE, F_SYNC, 128),
        (1, OP_WRITE, F_SYNC, 96),
        (0, OP_READ, 0, 128),
        (1, OP_READ, 0, 128),
        (0, OP_DISCARD, 0, 96),
    ],
)
def test_who_is_limited(feature: int, op: int, flags: int, tags: int) -> None:
    rig = KyberRig(nr_cpus=2, features={"kyber_limit_all_but_sync_reads": feature})

    assert granted(rig, op, flags) == tags


def test_the_limit_follows_nr_requests() -> None:
    rig = KyberRig(depth=16)
    shown = [rig.shown("async_depth")]
    # captures merge/*: 32 tags at first; more than there ever were are new ones, with larger words
    for nr in (128, 8, 64):
        write(rig.queue, "queue/nr_requests", str(nr))
        shown.append(rig.shown("async_depth"))

    assert shown == [6, 24, 24, 24]


def test_as_a_number_of_requests_it_lags_one_write_behind() -> None:
    rig = KyberRig(nr_cpus=2, features={"sched_async_depth_whole": 1})
    shown = [rig.shown("async_depth")]
    for nr in (64, 32, 32, 128, 64):
        write(rig.queue, "queue/nr_requests", str(nr))
        shown.append(rig.shown("async_depth"))

    # Writing the value that it has changes nothing
    assert shown == [96, 96, 48, 48, 24, 96]
    write(rig.queue, "queue/nr_requests", "128")
    write(rig.queue, "queue/nr_requests", "100")
    assert rig.shown("async_depth") == 96
    rig = KyberRig(nr_cpus=2, features={"sched_async_depth_whole": 1})
    assert granted(rig, OP_WRITE, 0) == 96


# -- what it shows, and life ---------------------------------------------------------------------


def test_targets_are_attributes() -> None:
    rig = KyberRig()
    assert [read(rig.queue, f"queue/iosched/{kind}_lat_nsec") for kind in ("read", "write")] == [
        2_000_000,
        10_000_000,
    ]
    write(rig.queue, "queue/iosched/read_lat_nsec", "0\n")
    assert read(rig.queue, "queue/iosched/read_lat_nsec") == 0
    for bad in ("", "1ms", "-1", "1.5"):
        with pytest.raises(AttributeRefused, match="EINVAL"):
            write(rig.queue, "queue/iosched/write_lat_nsec", bad)
    with pytest.raises(AttributeRefused, match="it has read_lat_nsec, write_lat_nsec"):
        write(rig.queue, "queue/iosched/discard_lat_nsec", "1")


@pytest.mark.parametrize("age", AGES)
def test_debugfs_has_the_domains_of_its_age(age: str) -> None:
    rig = KyberRig(features=AGES[age])
    labels = ["read", "write", "discard", "other"]
    tokens = [256, 128, 64, 16]
    if not AGES[age]["kyber_histogram"]:
        labels = ["read", "sync_write", "other"]
        tokens = [256, 128, 64]
    paths = [path for path in attribute_paths(rig.queue) if "sched/" in path and "iosched" not in path]

    assert paths == [
        *[f"sched/{label}_tokens" for label in labels],
        "sched/async_depth",
        *[f"hctx0/sched/{label}_{what}" for label in labels for what in ("rqs", "waiting")],
        "hctx0/sched/cur_domain",
        "hctx0/sched/batching",
    ]
    for label, number in zip(labels, tokens, strict=True):
        assert rig.shown(f"{label}_tokens").startswith(f"depth={number} busy=0 ")
    for path in paths:
        read(rig.queue, path)


def test_the_bitmaps_are_the_kernels() -> None:
    """Capture merge/kyber-read, snapshot of debugfs."""
    rig = KyberRig()

    assert [
        rig.shown(f"{label}_tokens").partition(" ws_")[0] for label in ("read", "write", "discard", "other")
    ] == [
        "depth=256 busy=0 bits_per_word=64 map_nr=4 wake_batch=8",
        "depth=128 busy=0 bits_per_word=32 map_nr=4 wake_batch=8",
        "depth=64 busy=0 bits_per_word=16 map_nr=4 wake_batch=8",
        "depth=16 busy=0 bits_per_word=4 map_nr=4 wake_batch=2",
    ]


@pytest.mark.parametrize("age", AGES)
def test_domains_of_operations(age: str) -> None:
    domain_of = KyberRig(features=AGES[age]).kyber.domain_of
    found = {(LETTERS[op], sync): domain_of(op, sync) for op in OPS for sync in (False, True)}
    if AGES[age]["kyber_histogram"]:
        assert found == {
            (letter, sync): kind
            for kind, letter in ((READ, "R"), (WRITE, "W"), (DISCARD, "D"), (OTHER, "O"))
            for sync in (False, True)
        }
    else:
        assert [key for key, kind in found.items() if kind == 0] == [("R", False), ("R", True)]
        assert [key for key, kind in found.items() if kind == 1] == [("W", True)]


@pytest.mark.parametrize("age", AGES)
def test_a_timer_of_a_scheduler_that_is_gone_does_nothing(age: str) -> None:
    rig = KyberRig(3 * MS, features=AGES[age])
    rig.one(0)
    rig.run(5 * MS)
    gone = rig.kyber
    assert gone.latencies.armed
    set_elevator(rig.queue, "none")
    set_elevator(rig.queue, "kyber")
    gone.domains[0].sum_ns = 1 << 40
    gone.domains[0].nr_samples = 1
    rig.run()

    assert rig.messages() == []
    assert not rig.kyber.latencies.armed
