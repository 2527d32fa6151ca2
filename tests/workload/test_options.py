"""The option table against fio's own lists, and how values of each kind are read."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from blklab.core.errors import BlklabError
from blklab.workload.option import Kind, Option, Status
from blklab.workload.options import OPTIONS, find_option, no_effect_note, option_names, read_value
from blklab.workload.units import Percent


def fio_help(fio: Path, argument: str) -> dict[str, str]:
    """Names of fio's help and what it says of each."""
    # fio says of an engine without options that it has none, and fails
    text = subprocess.run([fio, argument], capture_output=True, text=True, check=False).stdout
    return dict(re.findall(r"^ *([\w-]+) *: (.*)$", text, re.MULTILINE))


def test_every_job_option_of_fio_is_in_the_table(fio: Path) -> None:
    names = fio_help(fio, "--cmdhelp=all")
    assert len(names) > 200
    assert not set(names) - set(option_names())


def test_every_engine_option_of_fio_is_in_the_table(fio: Path) -> None:
    listing = subprocess.run([fio, "--enghelp"], capture_output=True, text=True, check=True).stdout
    engines = listing.split()[3:]
    assert "io_uring" in engines
    for engine in engines:
        for name in fio_help(fio, f"--enghelp={engine}"):
            assert name in option_names(), f"{engine}: {name}"
            option = find_option(name)
            assert not option.engines or engine in option.engines, (
                f"{name} is not known to belong to {engine}"
            )


def test_aliases_defaults_and_choices_are_fios(fio: Path) -> None:
    wrong = []
    for option in OPTIONS:
        if option.engines or option.kind is Kind.DEPRECATED or option.group == "profile":
            continue
        run = subprocess.run([fio, f"--cmdhelp={option.name}"], capture_output=True, text=True, check=False)
        said = dict(re.findall(r"^ *(alias|default|valid values): +(.*)$", run.stdout, re.MULTILINE))
        if not said:
            continue  # an option that this build of fio leaves out
        if said.get("alias", "") != option.alias:
            wrong.append(f"{option.name}: alias {said.get('alias')}")
        default = said.get("default", "no default")
        if default != "no default" and not same_value(option, default):
            wrong.append(f"{option.name}: default {default!r}, here {option.default!r}")
        if "valid values" in said and option.kind is Kind.CHOICE:
            listed = re.findall(r"^ *(?:valid values)?: ([\w-]+) +", run.stdout, re.MULTILINE)
            missing = set(listed) - {*option.choices, *option.not_built}
            if missing:
                wrong.append(f"{option.name}: choices {sorted(missing)}")
    assert not wrong


def same_value(option: Option, default: str) -> bool:
    """fio writes some defaults in another way: bs as 4096, hugepage-size in bytes."""
    if default == option.default:
        return True
    try:
        return read_value(option, default) == read_value(option, option.default)
    except BlklabError:
        return option.status is Status.NOT_BUILT  # its values cannot be read


def test_defaults_can_be_read_and_names_are_unique() -> None:
    seen: set[str] = set()
    for option in OPTIONS:
        assert option.help, option.name
        assert not seen & set(option.names), option.name
        seen |= set(option.names)
        if option.default and option.status is not Status.NOT_BUILT:
            read_value(option, option.default)
        if option.status is Status.NO_EFFECT:
            assert "it cannot change a result" not in no_effect_note(option), option.name
        for harmless in option.harmless:
            read_value(option, harmless)


VALUES = [
    ("bs", "4k", (4096,)),
    ("bs", "4k,8k", (4096, 8192)),
    ("bs", "4k:8k", (4096, 8192)),
    ("bs", "4k-8k", (4096, 8192)),
    ("bs", ",8k", (None, 8192)),
    ("bs", "8k,", (8192, None)),
    ("bs", ",8k,", (None, 8192, None)),
    ("iodepth", "1k", 1024),
    ("iodepth", "0x10", 16),
    ("rw", "randread", ("randread", "")),
    ("rw", "randread:8", ("randread", "8")),
    ("rw", " write:-8k", ("write", "-8k")),
    ("size", "20%", Percent(20)),
    ("size", "1g", 1 << 30),
    ("runtime", "1m", 60_000_000),
    ("runtime", "30", 30_000_000),
    ("thinktime", "30", 30),
    ("thinktime_iotime", "30", 30_000_000),
    ("startdelay", "1-3", (1_000_000, 3_000_000)),
    ("direct", "1", True),
    ("norandommap", None, True),
    ("norandommap", "0", False),
    ("thread", "2", True),
    ("bsrange", "4k-16k,8k", None),
    ("bsrange", "4k-16k,8k-32k", ((4096, 16384), (8192, 32768))),
    ("bsrange", ",4k-16k", (None, (4096, 16384))),
    ("bssplit", "4k/60:64k/40", (((65536, 40), (4096, 60)),) * 3),
    ("bssplit", "4k:64k:8k/10", (((8192, 10), (4096, 45), (65536, 45)),) * 3),
    ("bssplit", "4k", (((4096, 100),),) * 3),
    ("bssplit", "4k,8k/50:16k", (((4096, 100),), ((8192, 50), (16384, 50)), ((8192, 50), (16384, 50)))),
    ("percentile_list", "50:99.9", (50.0, 99.9)),
    ("cpus_allowed", "0-2,5", (0, 1, 2, 5)),
    ("cpumask", "5", (0, 2)),
    ("rate", "1m,500k", (1 << 20, 512000)),
    ("filesize", "1m-4m", (1 << 20, 4 << 20)),
    ("nice", "-10", -10),
    ("fsync", "0", 0),
    ("sync", "none", ("none", "")),
]


@pytest.mark.parametrize(("name", "text", "value"), VALUES)
def test_values(name: str, text: str | None, value: object) -> None:
    if value is None:
        with pytest.raises(BlklabError, match="not a range"):
            read_value(find_option(name), text)
    else:
        assert read_value(find_option(name), text) == value


REFUSED = [
    ("iodepth", "0", "too small"),
    ("iodepth", "4,8", "one value"),
    ("iodepth", "5000000000", "too large"),
    ("iodepth", None, "needs a value"),
    ("bs", "0", "too small"),
    ("bs", "4k,foo", "not a size"),
    ("bs", "1,2,3,4", "at most 3"),
    ("bs", ",", "no value"),
    ("rw", "randred", "did you mean 'randread'"),
    ("rw", "rand", "unknown value"),
    ("rw", "read:", "missing after"),
    ("ioengine", "libao", "did you mean 'libaio'"),
    ("random_distribution", "zipf:1.2", "not built yet"),
    ("file_service_type", "zipf", "not built yet"),
    ("direct", "2", "neither 0 nor 1"),
    ("direct", None, "needs a value"),
    ("rwmixread", "200", "too large"),
    ("size", "200%", "not a percentage"),
    ("size", "10z", "zones"),
    ("fill_device", "1", "fill_device=0"),
    ("ioengine", "mmap", "not built yet"),
    ("hipri", None, "not built yet"),
    ("prio", "9", "too large"),
    ("nice", "-30", "too small"),
    ("percentile_list", "101", "out of range"),
    ("percentile_list", ":".join(["1"] * 21), "at most 20"),
    ("cpus_allowed", "3-1", "ascends"),
    ("cpus_allowed", "a", "neither a CPU"),
    ("cpus_allowed", "0-99999999", "do not exist"),
    ("bssplit", "4k/50:8k/60:16k", "leaves nothing"),
    ("bssplit", "0/50", "BYTES/PERCENT"),
    ("bssplit", ":".join(["4k"] * 65), "at most 64"),
    ("rwmixcycle", "5", "gone from fio"),
]


@pytest.mark.parametrize(("name", "text", "message"), REFUSED)
def test_refused_values(name: str, text: str | None, message: str) -> None:
    with pytest.raises(BlklabError, match=message):
        read_value(find_option(name), text)


def test_unknown_names_get_the_nearest() -> None:
    with pytest.raises(BlklabError, match="did you mean 'iodepth'"):
        find_option("iodpth")
    with pytest.raises(BlklabError, match="did you mean 'scheduler'"):
        find_option("schedulr", ["scheduler"])
    with pytest.raises(BlklabError, match=r"newer than fio 3\.33"):
        find_option("fdp")
