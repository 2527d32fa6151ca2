"""systemd's I/O settings as control files. What systemd writes was read in src/core/cgroup.c of v254."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blklab import simulate
from blklab.core.errors import BlklabError
from blklab.sim.systemd_unit import bfq_weight, blkio_to_io, io_to_blkio, read_unit, size
from blklab.workload.cmdline import parse_command_line


def unit(tmp_path: Path, text: str, name: str = "db.service") -> Path:
    path = tmp_path / name
    path.write_text(text)
    return path


def writes(tmp_path: Path, text: str, version: int = 2) -> list[tuple[str, str]]:
    found = read_unit(unit(tmp_path, "[Service]\n" + text)).writes(version)
    return [(name, value) for name, value, _ in found.writes]


@pytest.mark.parametrize(
    ("weight", "bfq"),
    [
        (1, 1),
        (50, 50),
        (100, 100),
        (101, 100),
        (111, 101),
        (200, 109),
        (666, 151),
        (1000, 181),
        (10000, 1000),
    ],
)
def test_case_35_an_io_weight_for_bfq(tmp_path: Path, weight: int, bfq: int) -> None:
    """systemd issues 22897, 21187: IOWeight=666 gives 151."""
    assert bfq_weight(weight) == bfq
    assert writes(tmp_path, f"IOWeight={weight}\n") == [
        ("io.bfq.weight", str(bfq)),
        ("io.weight", f"default {weight}"),
    ]


@given(st.integers(1, 10000))
def test_weights_stay_in_their_ranges(weight: int) -> None:
    assert 1 <= bfq_weight(weight) <= 1000
    assert bfq_weight(weight) <= bfq_weight(min(weight + 1, 10000))
    assert 10 <= io_to_blkio(weight) <= 1000
    assert 2 <= blkio_to_io(io_to_blkio(weight)) <= 200


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("5M", 5_000_000),
        ("1500", 1500),
        ("10K", 10_000),
        ("1.5G", 1_500_000_000),
        ("2G 500M", 2_500_000_000),
        ("1T", 10**12),
        ("7B", 7),
    ],
)
def test_sizes_are_powers_of_1000(text: str, number: int) -> None:
    assert size(text) == number


@pytest.mark.parametrize("text", ["", "M", "5m", "-1", "5Mi", "500M 2G", "1G 1G", "99999999999E"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(ValueError):
        size(text)


def test_limits_of_a_device_are_one_line(tmp_path: Path) -> None:
    text = """IOReadBandwidthMax=/dev/sda 5M
IOWriteIOPSMax=/dev/sda 1K
IOReadIOPSMax=/dev/sdb infinity
IOWriteBandwidthMax=/dev/sdb 10M
"""
    assert writes(tmp_path, text)[2:] == [
        ("io.max", "sda rbps=5000000 wbps=max riops=max wiops=1000"),
        ("io.max", "sdb rbps=max wbps=10000000 riops=max wiops=max"),
    ]
    assert writes(tmp_path, text, 1) == [
        ("blkio.bfq.weight", "136"),  # 500, the default, on BFQ's scale: 100 + 400 * 900 / 9900
        ("blkio.weight", "500"),
        ("blkio.throttle.read_bps_device", "sda 5000000"),
        ("blkio.throttle.write_bps_device", "sda 18446744073709551615"),
        ("blkio.throttle.read_bps_device", "sdb 18446744073709551615"),
        ("blkio.throttle.write_bps_device", "sdb 10000000"),
    ]


def test_version_1_has_no_limits_of_ios(tmp_path: Path) -> None:
    path = unit(tmp_path, "[Service]\nIOReadBandwidthMax=/dev/sda 5M\nIOReadIOPSMax=/dev/sda 10\n")
    found = read_unit(path).writes(1)
    assert found.notes == [f"{path}:3: IOReadIOPSMax: systemd sets no limits of I/Os a second with cgroup v1"]
    assert not any("iops" in name for name, _, _ in found.writes)


def test_the_older_names(tmp_path: Path) -> None:
    text = """BlockIOWeight=1000
BlockIODeviceWeight=/dev/sda 250
BlockIOReadBandwidth=/dev/sda 1M
"""
    assert writes(tmp_path, text) == [
        ("io.bfq.weight", "109"),
        ("io.weight", "default 200"),
        ("io.bfq.weight", "sda 50"),
        ("io.weight", "sda 50"),
        ("io.max", "sda rbps=1000000 wbps=max riops=max wiops=max"),
    ]
    assert ("blkio.weight", "1000") in writes(tmp_path, text, 1)
    assert ("blkio.weight_device", "sda 250") in writes(tmp_path, text, 1)


def test_io_settings_hide_the_older_ones(tmp_path: Path) -> None:
    found = read_unit(unit(tmp_path, "[Slice]\nBlockIOWeight=1000\nIOWeight=50\n")).writes(2)
    assert [value for _, value, _ in found.writes] == ["50", "default 50"]
    assert any("does not look at its BlockIO settings" in note for note in found.notes)


def test_empty_values_take_back_and_lines_may_go_on(tmp_path: Path) -> None:
    text = """# a comment
IOWeight=50
IOWeight=
IODeviceWeight=/dev/sda 10
IODeviceWeight=
IOReadBandwidthMax=\\
  /dev/sda 5M
StartupIOWeight=900
ExecStart=/bin/true --x=1

[Install]
IOWeight=7
"""
    path = unit(tmp_path, "[Service]\n" + text)
    found = read_unit(path).writes(2)
    assert found.writes == [
        ("io.bfq.weight", "100", f"{path}:4"),
        ("io.weight", "default 100", f"{path}:4"),
        ("io.max", "sda rbps=5000000 wbps=max riops=max wiops=max", f"{path}:7"),
    ]
    assert found.notes == [f"{path}:9: StartupIOWeight is not looked at: it is for the time of booting"]


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("IOWeight=0\n", 2, "a weight from 1 to 10000, not '0'"),
        ("BlockIOWeight=5\n", 2, "a weight from 10 to 1000"),
        ("IODeviceWeight=100\n", 2, "'/dev/sda 100'"),
        ("IOReadBandwidthMax=/dev/sda 5m\n", 2, "a limit as 5M or infinity"),
        ("IOReadBandwithMax=/dev/sda 5M\n", 2, "did you mean 'IOReadBandwidthMax'"),
        ("IODeviceLatencyTargetSec=/dev/sda 10ms\n", 2, "io.latency is not built yet"),
        ("nonsense\n", 2, "neither a section nor KEY=VALUE"),
    ],
)
def test_a_wrong_unit_gives_one_clear_error(tmp_path: Path, text: str, line: int, message: str) -> None:
    path = unit(tmp_path, "[Service]\n" + text)
    with pytest.raises(BlklabError, match=message) as caught:
        read_unit(path)
    assert caught.value.where == f"{path}:{line}"


def test_a_machine_file_takes_a_unit_beside_it(tmp_path: Path) -> None:
    unit(tmp_path, "[Service]\nIOWeight=666\nIODeviceWeight=/dev/nullb0 50\n")
    machine = tmp_path / "m.toml"
    machine.write_text(
        'extends = "null"\n[cgroup."/system.slice/db.service"]\nunit = "db.service"\njobs = "a"\n'
    )
    job, _ = parse_command_line(
        ["--name=a", "--rw=randread", "--direct=1", "--ioengine=libaio", "--number_ios=10"]
    )
    assert job is not None

    result = simulate(job, machine, show=["cgroup/system.slice/db.service/io.*weight"])

    assert "cgroup/system.slice/db.service/io.weight: default 666" in result.attributes
    # As in systemd's log: only where iocost runs can a device have a weight of its own
    notes = "\n".join(result.notes)
    assert "db.service:3: /system.slice/db.service/io.weight is not written: a weight for nullb0" in notes
    assert "db.service:2: io.weight is iocost's" in notes


def test_a_unit_limits_a_job(tmp_path: Path) -> None:
    """IOReadIOPSMax=500 of the slice holds for the service in it."""
    unit(tmp_path, "[Slice]\nIOReadIOPSMax=/dev/nullb0 500\n", "system.slice")
    unit(tmp_path, "[Service]\nIOReadBandwidthMax=/dev/nullb0 40M\n")
    machine = tmp_path / "m.toml"
    machine.write_text(
        'extends = "null"\n[cgroup."/system.slice"]\nunit = "system.slice"\n'
        '[cgroup."/system.slice/db.service"]\nunit = "db.service"\njobs = "a"\n'
    )
    job, _ = parse_command_line(
        [
            "--name=a",
            "--rw=randread",
            "--direct=1",
            "--ioengine=libaio",
            "--bs=4k",
            "--iodepth=8",
            "--runtime=2",
        ]
    )
    assert job is not None

    result = simulate(job, machine, show=["cgroup/*/io.max"])

    assert result.attributes == [
        "cgroup/system.slice/io.max: 259:0 rbps=max wbps=max riops=500 wiops=max",
        "cgroup/system.slice/db.service/io.max: 259:0 rbps=40000000 wbps=max riops=max wiops=max",
    ]
    found = {group.path: group for group in result.cgroups}["/system.slice/db.service"]
    assert found.rate(found.devices[0].rios) == pytest.approx(500, rel=0.05)
