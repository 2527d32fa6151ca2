"""What a machine is: CPUs, devices with their attribute writes, the kernel version. Plain frozen data.

`load_machine("nvme-server", settings=["queue/scheduler=kyber"], kernel="6.1")` gives one from a preset or a
TOML file. `sim/machinefile.py` reads the file, `sim/settings.py` applies what is set on top; both feed the
builder here, so that a file, a file that extends another, and `--set` obey the same rules.

Theory of operation
-------------------
The builder takes single settings, each with the place it came from, and the last one of a path counts. An
attribute write keeps the position of the first write of that path: `--set queue/scheduler=none` replaces
the preset's scheduler where it stood, before its nr_requests, because switching the scheduler afterwards
would reset that (as the kernel does). Writes below queue/iosched/ belong to the scheduler they were made
for and go with it when it is replaced.

Whether an attribute exists and takes a value is the simulated kernel's business; it is asked when the
machine is built, and its refusal is reported with the `where` kept here. The same holds for the parameters
of a device model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from blklab.block.features import SCHEDULER_FEATURES, Features
from blklab.core.errors import BlklabError, nearest
from blklab.sim.cgroup_config import CgroupsBuilder, CgroupsConfig
from blklab.sim.costs import CostTable, load_costs
from blklab.sim.kernels import (
    DEFAULT_KERNEL,
    feature_history,
    load_features,
    scheduler_available,
    unbuilt_differences,
)
from blklab.sim.volume_config import VolumeBuilder, VolumeConfig, check_volumes

DEFAULT_MACHINE = "default"
DEFAULT_COSTS = "icpe24"

PREEMPT_MODELS = ("voluntary", "full")
HZ_VALUES = (100, 250, 300, 1000)
MAX_CPUS = 1024

# Attributes below the device's own folder in sysfs, beside its queue/: `device.queue_depth = 2` is a write of
# one of them, not a parameter of the model
DEVICE_ATTRIBUTES = ("device/queue_depth",)

ParameterValue = str | int | float | bool | list[str]


class AttributeWrite(NamedTuple):
    """One write of `value` to an attribute, `path` as below /sys/block/DEVICE: "queue/nr_requests". `every`: it was
    asked for of every device, so one that is made of others and refuses it is left as it is."""

    path: str
    value: str
    where: str
    every: bool = False


@dataclass(frozen=True, slots=True)
class CpuConfig:
    """The CPUs. `hz`: timer ticks a second; `preempt`: the kernel's preemption model."""

    count: int
    costs: CostTable
    preempt: str = "voluntary"
    hz: int = 250


@dataclass(frozen=True, slots=True)
class DeviceConfig:
    """A device: its model, what is said of it, and the attributes written to it, in order.

    `parameters` are the model's own, by name, not yet checked; `wheres` says where each came from, and
    under "model" and "preset" where those did.
    """

    name: str
    model: str
    preset: str | None
    parameters: Mapping[str, ParameterValue]
    attributes: tuple[AttributeWrite, ...]
    wheres: Mapping[str, str]

    def where(self, key: str) -> str:
        """Where a parameter, the model or the preset was set."""
        return self.wheres.get(key) or self.wheres.get("model") or self.name


@dataclass(frozen=True, slots=True)
class Machine:
    """Everything about a machine. `kernel` is as it was asked for; `features` is what it means. `contiguous`: the share
    of memory pages that lie behind the one before them (block/memory.py). `cgroups`: None without control groups."""

    name: str
    about: str
    kernel: str
    features: Features = field(compare=False)
    cpus: CpuConfig
    devices: tuple[DeviceConfig, ...]
    contiguous: float = 0.0
    volumes: tuple[VolumeConfig, ...] = ()
    cgroups: CgroupsConfig | None = None

    def notes(self) -> list[str]:
        """What a user should know about this machine: how its kernel differs in ways that are not built."""
        differences = unbuilt_differences(self.features)
        if not differences:
            return []
        names = ", ".join(differences)
        return [f"Linux {self.features.kernel} differs from 6.1 in what is not built yet: {names}"]

    def device(self, name: str) -> DeviceConfig:
        """The device of that name. Raises BlklabError if there is none."""
        for device in self.devices:
            if device.name == name:
                return device
        names = [device.name for device in self.devices]
        raise BlklabError(
            f"machine {self.name} has no device {name!r}{nearest(name, names)}; it has {', '.join(names)}"
        )


class _DeviceBuilder:
    def __init__(self, name: str, where: str) -> None:
        self.name = name
        self.model: str | None = None
        self.preset: str | None = None
        self.parameters: dict[str, ParameterValue] = {}
        self.writes: dict[str, AttributeWrite] = {}
        self.wheres: dict[str, str] = {"": where}

    def set_model(self, model: str, where: str) -> None:
        if model != self.model and self.model is not None:
            self.preset = None
            self.parameters = {}
            self.wheres = {}
        self.model = model
        self.wheres["model"] = where

    def set_preset(self, preset: str, where: str) -> None:
        self.preset = preset
        self.wheres["preset"] = where

    def set_parameter(self, name: str, value: ParameterValue, where: str) -> None:
        self.parameters[name] = value
        self.wheres[name] = where

    def write(self, path: str, value: str, where: str, every: bool = False) -> None:
        old = self.writes.get(path)
        if path == "queue/scheduler" and old is not None and old.value != value:
            self.writes = {
                key: write for key, write in self.writes.items() if not key.startswith("queue/iosched/")
            }
        self.writes[path] = AttributeWrite(path, value, where, every)

    def build(self) -> DeviceConfig:
        if self.model is None:
            raise BlklabError(
                f'device {self.name} has no model; say `model = "ssd"` or another of `blklab list devices`',
                self.wheres[""],
            )
        return DeviceConfig(
            name=self.name,
            model=self.model,
            preset=self.preset,
            parameters=self.parameters,
            attributes=tuple(self.writes.values()),
            wheres={key: where for key, where in self.wheres.items() if key},
        )


class MachineBuilder:
    """Collects settings; `build` makes the machine of them.

    Every method takes the place its value came from.
    """

    def __init__(self) -> None:
        self.name = ""
        self.about = ""
        self.source = ""
        self.devices: dict[str, _DeviceBuilder] = {}
        self.volumes: dict[str, VolumeBuilder] = {}
        self.cgroups = CgroupsBuilder()
        self._kernel = (DEFAULT_KERNEL, "")
        self._features: dict[str, tuple[str, str]] = {}
        self._costs = (DEFAULT_COSTS, "")
        self._count = 8
        self._preempt = PREEMPT_MODELS[0]
        self._hz = 250
        self._contiguous = 0.0

    def set_kernel(self, kernel: str, where: str) -> None:
        """The kernel version."""
        self._kernel = (kernel, where)

    def set_feature(self, name: str, value: str, where: str) -> None:
        """One feature of the kernel."""
        self._features[name] = (value, where)

    def set_costs(self, name: str, where: str) -> None:
        """The cost table, by name or file."""
        self._costs = (name, where)

    def set_cpu(self, key: str, value: int | str, where: str) -> None:
        """One key of [cpu]. Raises BlklabError for one that there is not, or a value that does not fit."""
        if key == "costs":
            self.set_costs(str(value), where)
        elif key == "count":
            self._count = _number(key, value, range(1, MAX_CPUS + 1), f"1 to {MAX_CPUS}", where)
        elif key == "hz":
            self._hz = _number(key, value, HZ_VALUES, ", ".join(map(str, HZ_VALUES)), where)
        elif key == "preempt":
            if value not in PREEMPT_MODELS:
                raise BlklabError(f"cpu/preempt is one of {', '.join(PREEMPT_MODELS)}, not {value!r}", where)
            self._preempt = str(value)
        else:
            known = ("count", "costs", "preempt", "hz")
            raise BlklabError(f"no cpu/{key}{nearest(key, known)}; there are {', '.join(known)}", where)

    def set_memory(self, key: str, value: float | str, where: str) -> None:
        """One key of [memory]: `contiguous`. Raises BlklabError for another one, or a value outside 0 to 1."""
        if key != "contiguous":
            raise BlklabError(f"no memory/{key}; there is contiguous", where)
        try:
            self._contiguous = float(value)
        except ValueError:
            self._contiguous = -1.0
        if not 0.0 <= self._contiguous <= 1.0:
            raise BlklabError(f"memory/contiguous is 0 to 1, not {value!r}", where)

    def device(self, name: str, where: str) -> _DeviceBuilder:
        """The device of that name, made if it is new."""
        return self.devices.setdefault(name, _DeviceBuilder(name, where))

    def volume(self, name: str, where: str) -> VolumeBuilder:
        """The volume of that name, made if it is new."""
        return self.volumes.setdefault(name, VolumeBuilder(name, where))

    def build(self) -> Machine:
        """The machine.

        Raises BlklabError for what does not go together: a scheduler that the kernel has not, say.
        """
        kernel, kernel_where = self._kernel
        features = load_features(
            kernel,
            {name: value for name, (value, _) in self._features.items()},
            where=kernel_where or "--kernel",
            override_wheres={name: where for name, (_, where) in self._features.items()},
        )
        if not self.devices:
            raise BlklabError("the machine has no device: add a [device.NAME] with a model", self.source)
        devices = tuple(device.build() for device in self.devices.values())
        for device in devices:
            for write in device.attributes:
                if write.path == "queue/scheduler":
                    check_scheduler(features, write.value, write.where)
        volumes = [volume.build() for volume in self.volumes.values()]
        check_volumes(volumes, [device.name for device in devices])
        costs, costs_where = self._costs
        cpus = CpuConfig(
            count=self._count,
            costs=load_costs(costs, costs_where or "--costs"),
            preempt=self._preempt,
            hz=self._hz,
        )
        return Machine(
            name=self.name,
            about=self.about,
            kernel=kernel,
            features=features,
            cpus=cpus,
            devices=devices,
            contiguous=self._contiguous,
            volumes=tuple(volumes),
            cgroups=self.cgroups.build(features),
        )


def _number(key: str, value: int | str, allowed: Sequence[int], text: str, where: str) -> int:
    try:
        number = int(value)
    except ValueError:
        number = -1
    if number not in allowed:
        raise BlklabError(f"cpu/{key} is {text}, not {value!r}", where)
    return number


def check_scheduler(features: Features, name: str, where: str) -> None:
    """Raises BlklabError if the kernel of `features` lacks the scheduler `name`; says which there are."""
    if scheduler_available(features, name) or (name == "deadline" and features.sched_mq_deadline):
        return  # deadline is mq-deadline's alias
    history = feature_history(SCHEDULER_FEATURES[name])
    since = next(version for version, value in history if value)
    gone = next((version for version, value in history if not value and version != history[0][0]), None)
    has = [known for known in SCHEDULER_FEATURES if scheduler_available(features, known)]
    came = f"{name} came with {since}" + (f" and went with {gone}" if gone else "")
    if since == history[0][0]:
        came = f"{name} went with {gone}"
    raise BlklabError(
        f"Linux {features.kernel} has no scheduler {name!r}: {came}; it has {', '.join(has)}", where
    )


def load_machine(
    name: str | Path = DEFAULT_MACHINE,
    settings: Sequence[str] = (),
    kernel: str | None = None,
    costs: str | None = None,
) -> Machine:
    """A machine from a preset's name or a TOML file's path, with settings on top.

    `settings` are "PATH=VALUE" as `--set` takes them, applied in order after `kernel` and `costs`. Raises
    BlklabError with the place and what would be accepted.
    """
    # Here and not above: both build on this module, and the first brings pydantic with it
    from blklab.sim.machinefile import read_machine
    from blklab.sim.settings import apply_setting

    builder = MachineBuilder()
    read_machine(builder, str(name), "--machine")
    if kernel is not None:
        builder.set_kernel(kernel, "--kernel")
    if costs is not None:
        builder.set_costs(costs, "--costs")
    for setting in settings:
        apply_setting(builder, setting)
    return builder.build()
