"""The device models by name, and their parameters: what `model = "..."` in a machine file can be.

A model is a `Driver` with a literal table of parameters. `settings_of` checks the parameters and `make_queue` makes the
queue of one device. A new model: a file in device/ or stack/ with a subclass of `Driver` and a `MODEL`, and its name in
`MODULES`.

A stacked device has parameters of kind `device` or `devices`, which name other devices of the machine: `make` finds
their queues in its settings. It is made after them, so it stacks the limits that they have then.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from blklab.block.bio import BioPool
from blklab.block.driver import Driver
from blklab.block.legacy import LegacyPath
from blklab.block.queue import RequestQueue
from blklab.block.tags import TagSet
from blklab.core.errors import BlklabError, nearest

if TYPE_CHECKING:
    from blklab.block.features import Features
    from blklab.core.host import Host

MODULES = (
    "device.null",
    "device.scsi",
    "device.hdd",
    "device.storage_array",
    "device.ssd",
    "device.virtio",
    "stack.linear",
    "stack.stripe",
    "stack.raid0",
    "stack.raid1",
    "stack.raid10",
    "stack.raid5",
    "stack.partition",
    "stack.multipath",
    "stack.delay",
    "stack.flakey",
    "stack.error",
)

Settings = dict[str, Any]


class Parameter(NamedTuple):
    """One parameter. `kind` is int, bool, float, str, bytes (a size as fio writes sizes), device or devices (names of
    other devices: one, or a list or words with commas between); `least`, `most`: its limits, of devices how many."""

    name: str
    kind: str
    default: Any
    help: str
    least: float = 0
    most: float = 1 << 62


def before_blk_mq(settings: Settings, features: Features) -> bool:
    """Most drivers came to blk-mq with it (3.13); until then every device had a single queue."""
    return not features.sched_none_mq


class DeviceModel(NamedTuple):
    """A model. `make(settings, host, seed)` gives the driver, `tag_set(settings, nr_cpus)` its tags;
    `presets()` names its presets with their settings. Devices for which `shares(settings)` is the same key
    use one tag set; '': its own. A stacked device that takes bios has no tags: `no_tags`. `shares_members`: others of
    such a kind may lie on the same member, each on a part of it. `single_queue(settings, features)`: whether it has the
    single queue of kernels before 5.0 (block/legacy.py); raises BlklabError if it was to have what the kernel lacks."""

    name: str
    help: str
    parameters: tuple[Parameter, ...]
    make: Callable[[Settings, Host, int], Driver]
    tag_set: Callable[[Settings, int], TagSet | None]
    presets: Callable[[], Mapping[str, Settings]]
    shares: Callable[[Settings], str] = lambda settings: ""
    shares_members: bool = False
    single_queue: Callable[[Settings, Features], bool] = before_blk_mq

    def members(self, settings: Settings) -> list[str]:
        """The names of the devices that one with these settings is made of."""
        names: list[str] = []
        for parameter in self.parameters:
            if parameter.kind == "device" and settings[parameter.name]:
                names.append(settings[parameter.name])
            elif parameter.kind == "devices":
                names += settings[parameter.name]
        return names

    @property
    def stacked(self) -> bool:
        """Whether devices of this model are made of others."""
        return any(parameter.kind in ("device", "devices") for parameter in self.parameters)


class Shared:
    """What devices of one machine share: tag sets by key, bios, and their queues by name."""

    def __init__(self) -> None:
        self.tag_sets: dict[str, TagSet] = {}
        self.bios = BioPool()
        self.queues: dict[str, RequestQueue] = {}


def no_presets() -> Mapping[str, Settings]:
    """For models without any."""
    return {}


def no_tags(settings: Settings, nr_cpus: int) -> None:
    """For stacked devices that take bios."""
    return


def models() -> dict[str, DeviceModel]:
    """All models by name."""
    found = (importlib.import_module(f"blklab.{name}").MODEL for name in MODULES)
    return {model.name: model for model in found}


def find_model(name: str, where: str | None = None) -> DeviceModel:
    """The model of that name. Raises BlklabError."""
    known = models()
    if name not in known:
        raise BlklabError(
            f"no device model {name!r}; there are {', '.join(known)}{nearest(name, known)}", where
        )
    return known[name]


def _convert(parameter: Parameter, value: Any, where: str) -> Any:
    kind = parameter.kind
    try:
        if kind == "bool":
            text = str(value).strip().lower()
            if text not in ("0", "1", "true", "false", "y", "n"):
                raise ValueError
            return text in ("1", "true", "y")
        if kind in ("str", "device"):
            return str(value).removeprefix("/dev/")
        if kind == "float":
            result: Any = float(value)
        elif kind == "devices":
            return _names(parameter, value, where)
        elif kind == "bytes" and isinstance(value, str):
            result = size_bytes(value)
        elif isinstance(value, bool) or (isinstance(value, float) and value != int(value)):
            raise ValueError
        else:
            result = int(value)
    except (ValueError, TypeError):
        raise BlklabError(f"{parameter.name} is a {kind}, not {value!r}", where) from None
    if not parameter.least <= result <= parameter.most:
        raise BlklabError(
            f"{parameter.name} = {value} is out of range, "
            f"{parameter.least:g} to {parameter.most:g} is accepted",
            where,
        )
    return result


def _names(parameter: Parameter, value: Any, where: str) -> list[str]:
    words = value if isinstance(value, list) else str(value).replace(",", " ").split()
    names = [str(word).removeprefix("/dev/") for word in words]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise BlklabError(f"{parameter.name} names {twice} twice", where)
    if not parameter.least <= len(names) <= parameter.most:
        raise BlklabError(
            f"{parameter.name} names {len(names)} devices, {parameter.least:g} to {parameter.most:g} are accepted",
            where,
        )
    return names


def size_bytes(text: str) -> int:
    """4k, 1M, 1GiB, 2T: powers of 1024, as sizes of devices are written here; plain numbers are bytes. Raises
    ValueError."""
    text = text.strip().lower().removesuffix("b").removesuffix("i")
    shift = {"k": 10, "m": 20, "g": 30, "t": 40}.get(text[-1:], 0)
    return int(float(text[: -1 if shift else None]) * (1 << shift))


def settings_of(
    model: DeviceModel,
    preset: str | None,
    given: Mapping[str, Any],
    where: Callable[[str], str],
) -> Settings:
    """The checked value of every parameter: default, preset, what was given."""
    known = {parameter.name: parameter for parameter in model.parameters}
    settings: Settings = {parameter.name: parameter.default for parameter in model.parameters}
    if preset is not None:
        presets = model.presets()
        if preset not in presets:
            have = ", ".join(presets) or "none"
            raise BlklabError(
                f"model {model.name} has no preset {preset!r}; it has {have}{nearest(preset, presets)}",
                where("preset"),
            )
        for name, value in presets[preset].items():
            settings[name] = _convert(known[name], value, f"preset {preset}")
    for name, value in given.items():
        if name not in known:
            raise BlklabError(
                f"model {model.name} has no parameter {name!r}; "
                f"it has {', '.join(known)}{nearest(name, known)}",
                where(name),
            )
        settings[name] = _convert(known[name], value, where(name))
    for parameter in model.parameters:
        if parameter.kind == "devices" and len(settings[parameter.name]) < parameter.least:
            raise BlklabError(
                f"{parameter.name} is missing: the devices that a {model.name} is made of", where("model")
            )
    return settings


def make_queue(
    name: str,
    number: int,
    model: DeviceModel,
    settings: Settings,
    host: Host,
    features: Features,
    seed: int,
    shared: Shared,
) -> RequestQueue:
    """The queue of one device. Devices whose model gives the same key (`shares`) use one tag set; those that it is made
    of must have been made."""
    driver = model.make(_with_queues(model, settings, shared), host, seed)
    key = model.shares(settings)
    tag_set = shared.tag_sets.get(key) if key else None
    single = not driver.bio_based and model.single_queue(settings, features)
    if tag_set is None:
        tag_set = model.tag_set(settings, host.nr_cpus)
        if single and tag_set is not None and tag_set.nr_hw_queues > 1:
            tag_set = TagSet(1, tag_set.queue_depth, host.nr_cpus)
        if key and tag_set is not None:
            shared.tag_sets[key] = tag_set
    queue = RequestQueue(name, number, host, driver, tag_set, features, shared.bios)
    if single:
        LegacyPath(queue)
    shared.queues[name] = queue
    return queue


def _with_queues(model: DeviceModel, settings: Settings, shared: Shared) -> Settings:
    # The same settings with queues for the names of devices
    found = dict(settings)
    for parameter in model.parameters:
        if parameter.kind == "device":
            found[parameter.name] = shared.queues.get(settings[parameter.name])
        elif parameter.kind == "devices":
            found[parameter.name] = [shared.queues[name] for name in settings[parameter.name]]
    return found
