"""`--set PATH=VALUE`: one setting on top of a machine.

The forms of PATH (`SETTING_FORMS` is the table that help and errors show):

    queue/nr_requests            an attribute, on every device; one that is made of others and refuses it is left alone
    nvme0n1/queue/nr_requests    an attribute, on one device (nvme0n1:queue/nr_requests means the same)
    device/completion_nsec       a parameter of the device model, on every device; also nullb0/device/...
    device/model, device/preset  which model and preset
    cpu/count                    a key of [cpu]
    memory/contiguous            the key of [memory]
    volume/sunit                 a key of every [volume.NAME]
    cgroup/db/io.max             a file of a control group, written behind what was written before
    cgroup/db/jobs               the jobs that are in it; also cgroup/db/unit, and cgroup/version
    feature/kyber_ctx_queue      a feature of the kernel
    kernel                       the kernel version
"""

from __future__ import annotations

from blklab.block.models import models
from blklab.core.errors import BlklabError, nearest
from blklab.sim.machine import DEVICE_ATTRIBUTES, MachineBuilder

# form, example, what it sets
SETTING_FORMS: list[tuple[str, str, str]] = [
    (
        "queue/ATTRIBUTE",
        "queue/nr_requests=64",
        "an attribute of every device (those made of others: if they take it)",
    ),
    ("DEVICE/queue/ATTRIBUTE", "nvme0n1/queue/scheduler=kyber", "an attribute of one device"),
    (
        "device/PARAMETER",
        "device/completion_nsec=10000",
        "a parameter of the device model (device/model: another model)",
    ),
    ("DEVICE/device/PARAMETER", "nullb0/device/irqmode=1", "the same of one device"),
    ("cpu/KEY", "cpu/count=4", "count, costs, preempt, hz"),
    ("memory/contiguous", "memory/contiguous=0.5", "share of memory pages that lie behind the one before"),
    (
        "volume/KEY",
        "volume/max_extent=1m",
        "a key of every volume: sunit, swidth, agcount, log_size, max_extent, ...",
    ),
    (
        "cgroup/GROUP/FILE",
        "cgroup/db/io.max='sda riops=100'",
        "a file of a control group (cgroup/GROUP/jobs: the jobs in it; cgroup/version)",
    ),
    ("feature/NAME", "feature/plug_lifo=0", "a feature of the kernel: `blklab list features`"),
    ("kernel", "kernel=5.10", "the kernel version"),
]

MAX_VALUE_LENGTH = 4096  # a page: what a sysfs file takes


def split_setting(setting: str) -> tuple[list[str], str, str]:
    """Splits "a/b=c" to (["a", "b"], "c", where). Raises BlklabError if it has no "=" or an empty part."""
    path, equals, value = setting.partition("=")
    path = path.strip()
    where = f"--set {path}" if path else "--set"
    if not equals:
        raise BlklabError(f"{setting!r} is not PATH=VALUE, as in queue/scheduler=kyber", "--set")
    head, colon, rest = path.partition(":")
    parts = [head, *rest.split("/")] if colon and "/" not in head else path.split("/")
    if not all(parts):
        raise BlklabError(
            f"{path!r} is not a path; examples: {', '.join(form[1] for form in SETTING_FORMS)}", where
        )
    if len(value) > MAX_VALUE_LENGTH or "\0" in value:
        raise BlklabError(f"the value is not one line of at most {MAX_VALUE_LENGTH} characters", where)
    return parts, value.strip(), where


def apply_setting(builder: MachineBuilder, setting: str) -> None:
    """Applies one "PATH=VALUE". Raises BlklabError for a path that means nothing here."""
    parts, value, where = split_setting(setting)
    first = parts[0]
    if parts == ["kernel"]:
        builder.set_kernel(value, where)
    elif first == "feature" and len(parts) == 2:
        builder.set_feature(parts[1], value, where)
    elif first == "cpu" and len(parts) == 2:
        builder.set_cpu(parts[1], value, where)
    elif first == "memory" and len(parts) == 2:
        builder.set_memory(parts[1], value, where)
    elif first == "volume" and len(parts) == 2:
        if not builder.volumes:
            raise BlklabError("the machine has no volume: add a [volume.NAME] with a device", where)
        for volume in builder.volumes.values():
            volume.set(parts[1], value, where)
    elif parts == ["cgroup", "version"]:
        builder.cgroups.set_version(value, where)
    elif first == "cgroup" and len(parts) > 1:
        builder.cgroups.group("/".join(parts[1:-1]), where).set(parts[-1], value, where, later=True)
    elif first in ("queue", "device") and len(parts) > 1:
        for name in _all_that_take(builder, parts):
            _set_on_device(builder, name, parts, value, where, every=True)
    elif first in builder.devices and len(parts) > 2 and parts[1] in ("queue", "device"):
        _set_on_device(builder, first, parts[1:], value, where)
    elif len(parts) > 2 and parts[1] in ("queue", "device"):
        names = list(builder.devices)
        raise BlklabError(
            f"no device {first!r}{nearest(first, names)}; the machine has {', '.join(names)}", where
        )
    else:
        known = [
            word
            for word in (
                "queue",
                "device",
                "cpu",
                "memory",
                "volume",
                "cgroup",
                "feature",
                "kernel",
                *builder.devices,
            )
            if word != first
        ]
        forms = ", ".join(form for form, _, _ in SETTING_FORMS)
        raise BlklabError(
            f"cannot set {'/'.join(parts)!r}{nearest(first, known)}; accepted are {forms}", where
        )


def _all_that_take(builder: MachineBuilder, parts: list[str]) -> list[str]:
    # Every device; a parameter not those made of others that have none of that name, nor a model or preset any of them
    names = list(builder.devices)
    if parts[0] == "queue" or len(parts) != 2:
        return names
    known = models()
    plain = []
    for name in names:
        model = known.get(builder.devices[name].model or "")
        if (
            model is None
            or not model.stacked
            or parts[1] in [parameter.name for parameter in model.parameters]
        ):
            plain.append(name)
    return plain or names


def _is_parameter(model: str | None, name: str) -> bool:
    # An SSD's queue_depth is a parameter of its model, a SCSI disk's an attribute
    return model in models() and any(parameter.name == name for parameter in models()[model].parameters)


def _set_on_device(
    builder: MachineBuilder, name: str, path: list[str], value: str, where: str, every: bool = False
) -> None:
    device = builder.device(name, where)
    whole = "/".join(path)
    if path[0] == "queue" or (whole in DEVICE_ATTRIBUTES and not _is_parameter(device.model, path[1])):
        device.write(whole, value, where, every)
    elif path == ["device", "model"]:
        device.set_model(value, where)
    elif path == ["device", "preset"]:
        device.set_preset(value, where)
    elif len(path) == 2:
        device.set_parameter(path[1], value, where)
    else:
        raise BlklabError(f"{whole!r} is neither an attribute nor a parameter of a device model", where)
