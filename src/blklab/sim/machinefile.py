"""Machine files: TOML to settings of a machine. The only place where pydantic is used.

    kernel = "6.1"
    [cpu]
    count = 8
    costs = "icpe24"
    [device.nvme0n1]
    model = "ssd"
    preset = "samsung-980pro-1tb"
    queue.scheduler = "kyber"
    queue.iosched.read_lat_nsec = 2000000
    [volume.data]
    device = "nvme0n1"
    [cgroup."/db"]
    io.max = "nvme0n1 riops=20000"

Below [device.NAME], `queue.*` are attribute writes in the order they stand there, `model` and `preset`
choose what the device is, and every other key is a parameter of the model. [volume.NAME] puts a file system on
a device (volume_config.py), [cgroup."/PATH"] describes a control group (cgroup_config.py). `extends = "default"` (or a
file) starts from another machine: keys given here replace its keys, devices of the same name are the same
device. Presets are the files of sim/machines.

Wrong files are refused with everything that is wrong in them, not only the first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from blklab.core.errors import BlklabError, nearest
from blklab.sim.machine import DEVICE_ATTRIBUTES, MAX_CPUS, MachineBuilder
from blklab.sim.tomlfile import Lines, parse_toml, read_toml

_DEVICE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,31}")
_RESERVED_NAMES = ("queue", "device", "feature", "cpu", "memory", "volume", "cgroup", "kernel")
_SCALARS = (str, int, float, bool)


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class _CpuSection(_Section):
    count: Annotated[int, Field(ge=1, le=MAX_CPUS)] | None = None
    costs: str | None = None
    preempt: Literal["voluntary", "full"] | None = None
    hz: Literal[100, 250, 300, 1000] | None = None


class _MemorySection(_Section):
    contiguous: Annotated[float, Field(ge=0, le=1)] | None = None


class _MachineFile(_Section):
    about: str | None = None
    extends: str | None = None
    kernel: str | None = None
    cpu: _CpuSection = _CpuSection()
    memory: _MemorySection = _MemorySection()
    feature: dict[str, bool | int | str] = {}
    device: dict[str, dict[str, Any]] = {}
    volume: dict[str, dict[str, bool | int | str]] = {}
    cgroup: dict[str, Any] = {}


_KEYS: dict[tuple[str, ...], list[str]] = {
    (): list(_MachineFile.model_fields),
    ("cpu",): list(_CpuSection.model_fields),
    ("memory",): list(_MemorySection.model_fields),
}


def machine_names() -> list[str]:
    """The presets, sorted."""
    folder = resources.files("blklab.sim").joinpath("machines")
    return sorted(item.name.removesuffix(".toml") for item in folder.iterdir() if item.name.endswith(".toml"))


def _is_file(name: str) -> bool:
    return "/" in name or name.endswith(".toml")


def _content(name: str, where: str) -> tuple[dict[str, Any], Lines]:
    if _is_file(name):
        return read_toml(Path(name), "machine")
    names = machine_names()
    if name not in names:
        raise BlklabError(
            f"no machine {name!r}{nearest(name, names)}; there are {', '.join(names)}, or a .toml file",
            where,
        )
    data = resources.files("blklab.sim").joinpath("machines", f"{name}.toml").read_bytes()
    return parse_toml(data, f"{name}.toml", "machine")


def read_machine(builder: MachineBuilder, name: str, where: str, seen: tuple[str, ...] = ()) -> None:
    """Applies the preset or file `name` to `builder`, after what it extends.

    Raises BlklabError; if several things are wrong, its message lists each on a line of its own.
    """
    identity = str(Path(name).resolve()) if _is_file(name) else name
    if identity in seen:
        chain = " -> ".join(Path(item).name for item in (*seen, identity))
        raise BlklabError(f"machine files extend each other in a circle: {chain}", where)
    content, lines = _content(name, where)
    parsed = _validate(content, lines)
    if parsed.extends is not None:
        base = parsed.extends
        if _is_file(base):
            base = str(Path(lines.source).parent / base)
        read_machine(builder, base, lines.where(("extends",)), (*seen, identity))
    builder.name = Path(name).stem if _is_file(name) else name
    builder.source = lines.source
    builder.about = parsed.about or ("" if _is_file(name) else builder.about)
    _apply(builder, parsed, lines)


def _validate(content: dict[str, Any], lines: Lines) -> _MachineFile:
    problems: list[BlklabError] = []
    parsed = None
    try:
        parsed = _MachineFile.model_validate(content)
    except ValidationError as error:
        problems += [_problem(detail, lines) for detail in error.errors()]
    groups = content.get("cgroup")
    if isinstance(groups, dict):
        for name, keys in groups.items():
            if name != "version" and not isinstance(keys, dict):
                problems.append(
                    BlklabError(
                        f'cgroup.{name} should be a table, [cgroup."/{name}"], or version = 1',
                        lines.where(("cgroup", name)),
                    )
                )
    devices = content.get("device")
    if isinstance(devices, dict):
        for name, keys in devices.items():
            if isinstance(keys, dict):
                problems += _device_problems(name, keys, lines)
    if problems:
        if len(problems) == 1:
            raise problems[0]
        text = "".join(f"\n  {problem}" for problem in problems)
        raise BlklabError(f"{len(problems)} errors:{text}", lines.source)
    assert parsed is not None
    return parsed


def _problem(detail: Any, lines: Lines) -> BlklabError:
    """A pydantic error in our words: place, key, what was found, what would be accepted."""
    # A union names its branches in the location; the key ends before them
    path = tuple(str(part) for part in detail["loc"] if part not in ("bool", "int", "str"))
    key = ".".join(path)
    where = lines.where(path)
    found = detail["input"]
    if detail["type"] == "extra_forbidden":
        known = _KEYS.get(path[:-1], [])
        return BlklabError(
            f"unknown key {key!r}{nearest(path[-1], known)}; accepted are {', '.join(known)}", where
        )
    if path == ("kernel",) and isinstance(found, int | float):
        return BlklabError(f'kernel is text, or 6.10 would be 6.1: write kernel = "{found}"', where)
    message = str(detail["msg"])
    message = message.replace(
        "Input should be a valid dictionary or instance of _CpuSection", "should be a table"
    )
    message = message.replace("Input should be a valid dictionary", "should be a table")
    message = message.replace("Input should be", "should be").replace("a valid string", "text")
    return BlklabError(f"{key} {message}, found {found!r}", where)


def _device_problems(name: str, keys: dict[str, Any], lines: Lines) -> Iterator[BlklabError]:
    place = lines.where(("device", name))
    if not _DEVICE_NAME.fullmatch(name) or name in _RESERVED_NAMES:
        yield BlklabError(
            f"{name!r} cannot be the name of a device; names are like nvme0n1, sda, nullb0", place
        )
    for path, value in _flatten(keys):
        key = ".".join(path)
        where = lines.where(("device", name, *path))
        if path in (("model",), ("preset",)):
            if not isinstance(value, str):
                yield BlklabError(f"{key} should be text, found {value!r}", where)
        elif isinstance(value, list):
            if len(path) > 1 or not all(isinstance(item, str) for item in value):
                yield BlklabError(
                    f"{key} should be one value, or a list of texts where a model asks for it", where
                )
        elif not isinstance(value, _SCALARS):
            yield BlklabError(f"{key} should be text or a number, found {value!r}", where)
        elif len(path) > 1 and path[0] != "queue" and "/".join(path) not in DEVICE_ATTRIBUTES:
            yield BlklabError(
                f"unknown key {key!r}{nearest(path[0], ('queue', 'device'))}; attributes are queue.* and "
                f"{', '.join(item.replace('/', '.') for item in DEVICE_ATTRIBUTES)}",
                where,
            )


def _flatten(keys: dict[str, Any], prefix: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for key, value in keys.items():
        if isinstance(value, dict):
            yield from _flatten(value, (*prefix, key))
        else:
            yield (*prefix, key), value


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "1" if value else "0"
    return str(value)


def _apply(builder: MachineBuilder, parsed: _MachineFile, lines: Lines) -> None:
    if parsed.kernel is not None:
        builder.set_kernel(parsed.kernel, lines.where(("kernel",)))
    for key in _CpuSection.model_fields:
        value = getattr(parsed.cpu, key)
        if value is not None:
            if key == "costs" and _is_file(value):
                value = str(Path(lines.source).parent / value)
            builder.set_cpu(key, value, lines.where(("cpu", key)))
    if parsed.memory.contiguous is not None:
        builder.set_memory("contiguous", parsed.memory.contiguous, lines.where(("memory", "contiguous")))
    for name, flag in parsed.feature.items():
        builder.set_feature(name, _text(flag), lines.where(("feature", name)))
    for name, keys in parsed.device.items():
        device = builder.device(name, lines.where(("device", name)))
        # Of all keys the model must come first: choosing another one forgets the parameters of the old
        if "model" in keys:
            device.set_model(keys["model"], lines.where(("device", name, "model")))
        for path, value in _flatten(keys):
            where = lines.where(("device", name, *path))
            if path == ("preset",):
                device.set_preset(value, where)
            elif len(path) > 1:
                device.write("/".join(path), _text(value), where)
            elif path != ("model",):
                device.set_parameter(path[0], value, where)
    for name, settings in parsed.volume.items():
        volume = builder.volume(name, lines.where(("volume", name)))
        for key, value in settings.items():
            volume.set(key, value, lines.where(("volume", name, key)))
    for name, keys in parsed.cgroup.items():
        if not isinstance(keys, dict):
            builder.cgroups.set_version(keys, lines.where(("cgroup", name)))
            continue
        group = builder.cgroups.group(name, lines.where(("cgroup", name)))
        for path, value in _flatten(keys):
            group.set(".".join(path), value, lines.where(("cgroup", name, *path)), Path(lines.source).parent)
