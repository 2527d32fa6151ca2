"""io.max and blkio.throttle.*: what is taken, what is refused and how, what is shown (tg_set_limit,
tg_set_conf, tg_prfill_limit of 6.1.187; case cgroup-v1/throttle-iops for the statistics' lines)."""

from __future__ import annotations

import pytest
from throttle_rig import MS, ThrottleRig

from blklab.block.attributes import write
from blklab.block.consts import F_SYNC, OP_WRITE
from blklab.core.errors import BlklabError


def group(version: int = 2, **more: str) -> ThrottleRig:
    rig = ThrottleRig(**more)  # type: ignore[arg-type]
    rig.cgroup("/a", version)
    return rig


@pytest.mark.parametrize(
    ("texts", "shown"),
    [
        (["dev0 riops=500 wiops=200"], "259:0 rbps=max wbps=max riops=500 wiops=200"),
        (["259:0 rbps=2097152 riops=max"], "259:0 rbps=2097152 wbps=max riops=max wiops=max"),
        (["/dev/dev0 wbps=2"], "259:0 rbps=max wbps=2 riops=max wiops=max"),
        (["dev0 riops=500", "dev0 wbps=10"], "259:0 rbps=max wbps=10 riops=500 wiops=max"),
        (["dev0 riops=500 riops=7"], "259:0 rbps=max wbps=max riops=7 wiops=max"),
        (["dev0 riops=500", "dev0 riops=max"], ""),
        (["dev0"], ""),
        (["dev0 riops=4294967294"], "259:0 rbps=max wbps=max riops=4294967294 wiops=max"),
        (["dev0 riops=4294967296"], ""),  # cut at UINT_MAX, which is none
        (["dev0 rbps=18446744073709551615"], ""),
        (["dev0 rbps=12abc"], "259:0 rbps=12 wbps=max riops=max wiops=max"),  # sscanf("%llu")
        ([], ""),
    ],
)
def test_what_io_max_shows(texts: list[str], shown: str) -> None:
    rig = group()
    for text in texts:
        rig.write_file("/a", "io.max", text)
    assert rig.read_file("/a", "io.max") == shown


@pytest.mark.parametrize(
    ("text", "errno"),
    [
        ("dev0 rbps=0", "ERANGE"),  # tg_set_limit has -ERANGE for it
        ("dev0 rbps=1", "EINVAL"),
        ("dev0 rbps", "EINVAL"),
        ("dev0 rbps=", "EINVAL"),
        ("dev0 rbps=-5", "EINVAL"),
        ("dev0 rbps=most", "EINVAL"),
        ("dev0 reads=5", "EINVAL"),
        ("dev0 reads=0", "ERANGE"),
        ("dev0 idle=5", "EINVAL"),
        ("dev0 riops=5 nonsense", "EINVAL"),
        ("sda riops=5", "ENODEV"),
        ("8:0 riops=5", "ENODEV"),
        ("259:7 riops=5", "ENODEV"),
        ("riops=5", "ENODEV"),
    ],
)
def test_what_io_max_refuses_and_that_nothing_of_it_is_taken(text: str, errno: str) -> None:
    rig = group()
    rig.limit("/a", "riops=500")
    with pytest.raises(BlklabError, match=rf"^/a/io.max: .*\({errno}\)"):
        rig.write_file("/a", "io.max", text)
    assert rig.read_file("/a", "io.max") == "259:0 rbps=max wbps=max riops=500 wiops=max"


def test_the_root_has_no_io_max_and_v1_has_none() -> None:
    with pytest.raises(BlklabError, match="the root has no such file"):
        group().write_file("/", "io.max", "dev0 riops=5")
    with pytest.raises(BlklabError, match="cgroup v2"):
        group(1).write_file("/a", "io.max", "dev0 riops=5")


def test_a_limit_above_counts_for_a_group_that_comes_later() -> None:
    rig = group()
    rig.limit("/a", "riops=10")
    for _ in range(3):
        rig.send([rig.bio_of("/a/new")], cgroup="/a/new")
    rig.run(50 * MS)
    assert len(rig.went("/a/new")) == 1


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("dev0 500", "259:0 500"),
        ("259:0 1", "259:0 1"),
        ("dev0 0", ""),
        ("dev0 4294967301", "259:0 5"),  # written to an unsigned int
    ],
)
def test_limits_of_v1(text: str, shown: str) -> None:
    rig = group(1)
    rig.write_file("/a", "blkio.throttle.read_iops_device", text)
    assert rig.read_file("/a", "blkio.throttle.read_iops_device") == shown
    assert rig.read_file("/a", "blkio.throttle.write_iops_device") == ""


@pytest.mark.parametrize(("text", "errno"), [("dev0", "EINVAL"), ("dev0 max", "EINVAL"), ("sdz 5", "ENODEV")])
def test_what_v1_refuses(text: str, errno: str) -> None:
    with pytest.raises(BlklabError, match=errno):
        group(1).write_file("/a", "blkio.throttle.read_bps_device", text)


def test_a_limit_of_a_v1_group_does_not_hold_for_those_below_and_the_root_may_have_one() -> None:
    rig = group(1)
    rig.write_file("/a", "blkio.throttle.read_iops_device", "dev0 10")
    rig.write_file("/", "blkio.throttle.read_iops_device", "dev0 10")
    for path in ("/a/b", "/a", "/"):
        for _ in range(5):
            rig.send([rig.bio_of(path)], cgroup=path)
    rig.run(50 * MS)
    assert [len(rig.went(path)) for path in ("/a/b", "/a", "/")] == [5, 1, 1]


def statistics(kernel: str) -> list[str]:
    """1 MiB in two parts, 2 reads and a synchronous write; reads are limited."""
    rig = ThrottleRig(kernel=kernel)
    write(rig.queue, "queue/max_sectors_kb", "512")
    rig.cgroup("/a", 1)
    rig.write_file("/a", "blkio.throttle.read_iops_device", "dev0 1000")
    rig.send([rig.bio_of("/a", 2048)], [rig.bio_of("/a")], [rig.bio_of("/a", 8, OP_WRITE)], cgroup="/a")
    rig.send([rig.bio(1 << 20, 8, OP_WRITE, F_SYNC)], cgroup="/a")
    rig.run()
    return [
        rig.read_file("/a", f"blkio.throttle.{name}").replace("259:0 ", "").replace("\n", ", ")
        for name in ("io_serviced", "io_service_bytes")
    ]


@pytest.mark.parametrize(
    ("kernel", "serviced", "bytes_"),
    [
        # Each bio once, all of them
        ("5.10", (2, 2, 3, 1), (1052672, 8192, 1056768, 4096)),
        # Those that a limit applies to, and the rest of a cut one again, with its bytes
        ("6.1", (3, 0, 3, 0), (1576960, 0, 1576960, 0)),
        # Each part, bytes once
        ("6.12", (3, 2, 4, 1), (1052672, 8192, 1056768, 4096)),
    ],
)
def test_what_the_statistics_of_v1_count(
    kernel: str, serviced: tuple[int, ...], bytes_: tuple[int, ...]
) -> None:
    for text, (read, written, sync, other) in zip(statistics(kernel), (serviced, bytes_), strict=True):
        total = read + written
        assert text == (
            f"Read {read}, Write {written}, Sync {sync}, Async {other}, Discard 0, "
            f"Total {total}, Total {total}"
        )


def test_recursive_statistics_and_their_reset() -> None:
    rig = ThrottleRig(kernel="5.10")
    rig.cgroup("/a/b", 1)
    rig.send([rig.bio_of("/a")], cgroup="/a")
    rig.send([rig.bio_of("/a/b")], cgroup="/a/b").run()
    assert rig.read_file("/a", "blkio.throttle.io_serviced").endswith("Total 1")
    assert rig.read_file("/a", "blkio.throttle.io_serviced_recursive").endswith("Total 2")
    rig.write_file("/a", "blkio.reset_stats", "1")
    assert rig.read_file("/a", "blkio.throttle.io_serviced_recursive").endswith("Total 1")
