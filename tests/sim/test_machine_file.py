"""Machine files: the form of the design, and files that are empty, binary, huge, cyclic or wrong."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blklab.core.errors import BlklabError
from blklab.sim.machine import load_machine
from blklab.sim.tomlfile import MAX_BYTES, Lines, parse_toml

DESIGN = """\
kernel = "6.1"
[cpu]
count = 8
costs = "xeon-2018"
[device.nvme0n1]
model = "ssd"
preset = "intel-ssdpekkr128g7"
queue.scheduler = "kyber"
queue.nr_requests = 256
queue.iosched.read_lat_nsec = 2000000
[device.md0]
model = "stripe"
members = ["nvme0n1", "nvme1n1"]
chunk = "64k"
"""


def write(folder: Path, text: str | bytes, name: str = "m.toml") -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_the_form_of_the_design(tmp_path: Path) -> None:
    path = write(tmp_path, DESIGN)
    machine = load_machine(path)
    assert machine.name == "m"
    assert machine.cpus.costs.name == "xeon-2018"
    ssd, stripe = machine.devices
    assert [tuple(item)[:3] for item in ssd.attributes] == [
        ("queue/scheduler", "kyber", f"{path}:8"),
        ("queue/nr_requests", "256", f"{path}:9"),
        ("queue/iosched/read_lat_nsec", "2000000", f"{path}:10"),
    ]
    assert (ssd.preset, dict(ssd.parameters)) == ("intel-ssdpekkr128g7", {})
    assert dict(stripe.parameters) == {"members": ["nvme0n1", "nvme1n1"], "chunk": "64k"}
    assert stripe.where("chunk") == f"{path}:14"


def test_tables_of_attributes_are_the_same_as_dotted_keys(tmp_path: Path) -> None:
    dotted = '[device.a]\nmodel = "null"\nqueue.scheduler = "none"\nqueue.iosched.x = true\n'
    tables = "[device.a]\nmodel = 'null'\n[device.a.queue]\nscheduler = 'none'\n[device.a.queue.iosched]\nx = true\n"
    first = load_machine(write(tmp_path, dotted)).devices[0]
    second = load_machine(write(tmp_path, tables)).devices[0]
    assert [item[:2] for item in first.attributes] == [("queue/scheduler", "none"), ("queue/iosched/x", "1")]
    assert [item[:2] for item in first.attributes] == [item[:2] for item in second.attributes]


def test_a_file_extends_a_preset_and_another_file(tmp_path: Path) -> None:
    write(tmp_path, 'extends = "default"\n[device.nvme0n1]\nqueue.nr_requests = 64\n', "base.toml")
    path = write(tmp_path, 'extends = "base.toml"\n[cpu]\ncount = 2\n[device.nvme0n1]\nqueue.nomerges = 2\n')
    machine = load_machine(path)
    assert machine.cpus.count == 2
    (device,) = machine.devices
    assert (device.model, device.preset) == ("ssd", "samsung-980pro-1tb")
    assert [item[:2] for item in device.attributes] == [("queue/nr_requests", "64"), ("queue/nomerges", "2")]


def test_another_model_forgets_the_parameters_of_the_one_extended(tmp_path: Path) -> None:
    path = write(tmp_path, 'extends = "default"\n[device.nvme0n1]\nirqmode = 1\nmodel = "null"\n')
    (device,) = load_machine(path).devices
    assert (device.model, device.preset, dict(device.parameters)) == ("null", None, {"irqmode": 1})


def test_costs_are_found_beside_the_file(tmp_path: Path) -> None:
    write(tmp_path, 'extends = "zero"\nsteps.irq = { ns = 7, source = "x" }\n', "mine.toml")
    path = write(tmp_path, 'extends = "default"\ncpu.costs = "mine.toml"\n')
    assert sum(load_machine(path).cpus.costs.ns) == 7


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        (b"", None, "is empty"),
        (b"# nothing but a comment\n", None, "is empty"),
        (b"\x7fELF\x00\x01", None, "a binary file"),
        (b'kernel = "\xff"\n', None, "not UTF-8"),
        (b"#" * (MAX_BYTES + 1), None, "larger than"),
        (b"[cpu\n", 1, "not valid TOML"),
        (b'kernel = "6.1"\nkernel = "6.2"\n', 2, "not valid TOML"),
        (b"kernel = 6.10\n", 1, "kernel is text"),
        (b'kernel = "6.1"\n', None, "no device"),
        (b'kernal = "6.1"\n', 1, "did you mean 'kernel'"),
        (b"[cpu]\ncuont = 8\n", 2, "did you mean 'count'"),
        (b"[cpu]\ncount = 0\n", 2, "greater than or equal to 1, found 0"),
        (b'[cpu]\ncount = "8"\n', 2, "should be a valid integer, found '8'"),
        (b"[cpu]\nhz = 60\n", 2, "100, 250, 300 or 1000, found 60"),
        (b"cpu = 8\n", 1, "should be a table"),
        (b"device = 8\n", 1, "should be a table"),
        (b"[device]\nsda = 8\n", 2, "should be a table"),
        (b'[device.sda]\nqueue.scheduler = "none"\n', 1, "device sda has no model"),
        (b"[device.sda]\nmodel = 8\n", 2, "model should be text"),
        (b'[device."a/b"]\nmodel = "null"\n', 1, "cannot be the name of a device"),
        (b'[device.queue]\nmodel = "null"\n', 1, "cannot be the name of a device"),
        (b'[device.a]\nmodel = "null"\nqueu.x = 1\n', 3, "did you mean 'queue'"),
        (b'[device.a]\nmodel = "null"\nqueue.x = [1]\n', 3, "should be one value"),
        (b'[device.a]\nmodel = "null"\nx = 1979-05-27\n', 3, "should be text or a number"),
        (b'extends = "default"\n[feature]\nplug_lif = 1\n', 3, "did you mean 'plug_lifo'"),
        (b'extends = "default"\n[feature]\nplug_lifo = "x"\n', 3, "accepted are 0 and 1"),
        (b'extends = "default"\ncpu.costs = "zeero"\n', 2, "did you mean 'zero'"),
        (b'extends = "default"\nkernel = "4.21"\n', 2, "ended with 4.20"),
        (b'extends = "defalt"\n', 1, "did you mean 'default'"),
        (b'extends = "m.toml"\n', 1, "in a circle"),
        (b'extends = "none.toml"\n', None, "there is no such machine file"),
        (b'extends = "default"\n[cgroup]\ndb = 1\n', 3, "should be a table"),
    ],
)
def test_a_wrong_file_gives_one_clear_error(
    tmp_path: Path, text: bytes, line: int | None, message: str
) -> None:
    path = write(tmp_path, text)
    with pytest.raises(BlklabError, match=re.escape(message)) as caught:
        load_machine(path)
    expected = path.parent / "none.toml" if "none.toml" in str(caught.value.where) else path
    assert caught.value.where == (str(expected) if line is None else f"{path}:{line}")
    assert "\n" not in str(caught.value)


def test_all_that_is_wrong_in_a_file_is_listed(tmp_path: Path) -> None:
    path = write(tmp_path, 'kernel = 6.1\n[cpu]\ncuont = 3\npreempt = "x"\n[device.sda]\nqueu.x = 1\n')
    with pytest.raises(BlklabError) as caught:
        load_machine(path)
    lines = str(caught.value).splitlines()
    assert lines[0] == f"{path}: 4 errors:"
    assert sorted(re.findall(rf"{re.escape(str(path))}:(\d+)", "\n".join(lines))) == ["1", "3", "4", "6"]


def test_two_files_in_a_circle_are_named(tmp_path: Path) -> None:
    write(tmp_path, 'extends = "b.toml"\n', "a.toml")
    write(tmp_path, 'extends = "a.toml"\n', "b.toml")
    with pytest.raises(BlklabError, match=re.escape("a.toml -> b.toml -> a.toml")):
        load_machine(tmp_path / "a.toml")


def test_what_is_not_a_file_does_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.toml")
    with pytest.raises(BlklabError, match="not a regular file"):
        load_machine(tmp_path / "pipe.toml")
    with pytest.raises(BlklabError, match="Is a directory"):
        load_machine(tmp_path)
    with pytest.raises(BlklabError, match="there is no such machine file"):
        load_machine(tmp_path / "missing.toml")
    with pytest.raises(BlklabError, match="larger than"):
        load_machine("/dev/zero")


@given(st.binary(max_size=60))
def test_any_bytes_are_a_machine_or_one_clear_error(data: bytes) -> None:
    try:
        parse_toml(data, "x.toml", "machine")
    except BlklabError as error:
        assert str(error).startswith("x.toml")


def test_lines_are_found_again() -> None:
    text = 'a = 1\n[b.c]\n"d e".f = 2\n\n# g = 1\n[b.c.h]\ni=3\n'
    lines = Lines(text, "x")
    assert lines.where(("a",)) == "x:1"
    assert lines.where(("b", "c", "d e", "f")) == "x:3"
    assert lines.where(("b", "c", "h", "i")) == "x:7"
    assert lines.where(("b", "c", "unknown")) == "x:2"
    assert lines.where(("g",)) == "x"
