"""Machines: presets, `--set`, and what does not go together."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blklab.core.errors import BlklabError
from blklab.sim.machine import AttributeWrite, DeviceConfig, Machine, check_scheduler, load_machine
from blklab.sim.machinefile import machine_names
from blklab.sim.settings import SETTING_FORMS


def only_device(machine: Machine) -> DeviceConfig:
    (device,) = machine.devices
    return device


def writes(device: DeviceConfig) -> list[tuple[str, str]]:
    return [(write.path, write.value) for write in device.attributes]


@pytest.mark.parametrize("name", machine_names())
def test_a_preset_loads_and_says_what_it_is(name: str) -> None:
    machine = load_machine(name)
    assert machine.name == name
    assert len(machine.about) > 20
    assert machine.devices


def test_the_default_machine() -> None:
    machine = load_machine()
    assert machine.name == "default"
    assert (machine.cpus.count, machine.cpus.hz, machine.cpus.preempt) == (8, 250, "voluntary")
    assert machine.features.kernel == "6.1.187"
    device = only_device(machine)
    assert (device.name, device.model, device.preset) == ("nvme0n1", "ssd", "samsung-980pro-1tb")


def test_the_machine_of_the_kyber_thread() -> None:
    machine = load_machine("kyber-thread")
    assert (machine.kernel, machine.cpus.count, machine.cpus.costs.name) == ("4.17", 8, "kyber-thread")
    assert writes(only_device(machine)) == [("queue/scheduler", "kyber")]
    assert only_device(machine).preset == "intel-ssdpekkr128g7"


def test_the_machine_of_the_icpe24_study() -> None:
    machine = load_machine("icpe24")
    assert (machine.kernel, machine.cpus.count, machine.cpus.costs.name) == ("6.3", 10, "icpe24")
    assert machine.features.async_dispatch_from_worker == 0


def test_a_preset_extends_another() -> None:
    server = load_machine("nvme-server")
    assert [device.name for device in server.devices] == ["nvme0n1", "nvme1n1"]
    assert server.cpus.count == 32


def test_a_machine_is_frozen() -> None:
    machine = load_machine()
    with pytest.raises(dataclasses.FrozenInstanceError):
        machine.name = "other"  # type: ignore[misc]


def test_settings_apply_in_order_to_every_device_or_to_one() -> None:
    machine = load_machine(
        "nvme-server",
        [
            "queue/nr_requests=64",
            "nvme1n1/queue/nr_requests=32",
            "nvme0n1:queue/scheduler=kyber",
            "queue/nomerges=2",
        ],
    )
    first, second = machine.devices
    assert writes(first) == [
        ("queue/nr_requests", "64"),
        ("queue/scheduler", "kyber"),
        ("queue/nomerges", "2"),
    ]
    assert writes(second) == [("queue/nr_requests", "32"), ("queue/nomerges", "2")]
    assert second.attributes[0].where == "--set nvme1n1/queue/nr_requests"


def test_a_replaced_scheduler_stays_in_its_place_and_takes_its_tunables_along() -> None:
    """Switching afterwards would reset nr_requests, and none has no read_lat_nsec."""
    settings = [
        "queue/scheduler=kyber",
        "queue/iosched/read_lat_nsec=1",
        "queue/nr_requests=64",
        "queue/scheduler=none",
    ]
    machine = load_machine("default", settings)
    assert writes(only_device(machine)) == [("queue/scheduler", "none"), ("queue/nr_requests", "64")]


def test_the_same_scheduler_again_keeps_its_tunables() -> None:
    settings = ["queue/scheduler=kyber", "queue/iosched/read_lat_nsec=1", "queue/scheduler=kyber"]
    assert len(writes(only_device(load_machine("default", settings)))) == 2


def test_parameters_and_another_model() -> None:
    device = only_device(load_machine("default", ["device/preset=x", "device/channels=4"]))
    assert (device.model, device.preset, dict(device.parameters)) == ("ssd", "x", {"channels": "4"})
    device = only_device(
        load_machine("default", ["device/channels=4", "device/model=null", "device/irqmode=1"])
    )
    assert (device.model, device.preset, dict(device.parameters)) == ("null", None, {"irqmode": "1"})
    assert device.where("irqmode") == "--set device/irqmode"
    assert device.where("unset") == device.where("model") == "--set device/model"


def test_queue_depth_below_device_is_an_attribute() -> None:
    device = only_device(load_machine("scsi-debug", ["device/queue_depth=2", "device/max_queue=4"]))
    assert writes(device) == [("device/queue_depth", "2")]
    assert dict(device.parameters) == {"max_queue": "4"}


def test_cpu_kernel_and_features() -> None:
    settings = [
        "cpu/count=4",
        "cpu/hz=1000",
        "cpu/preempt=full",
        "cpu/costs=zero",
        "feature/plug_lifo=0",
        "kernel=5.4",
    ]
    machine = load_machine("default", settings, kernel="6.12")
    assert (machine.cpus.count, machine.cpus.hz, machine.cpus.preempt) == (4, 1000, "full")
    assert machine.cpus.costs.free
    assert (machine.kernel, machine.features.plug_lifo) == ("5.4", 0)


def test_the_examples_of_the_forms_are_accepted(tmp_path: Path) -> None:
    file = tmp_path / "m.toml"
    file.write_text('extends = "default"\n[volume.data]\ndevice = "nvme0n1"\n')
    for _, example, _ in SETTING_FORMS:
        assert load_machine("null" if "nullb0" in example else file, [example]).devices


@pytest.mark.parametrize(
    ("setting", "where", "message"),
    [
        ("queue/scheduler", "--set", "is not PATH=VALUE"),
        ("", "--set", "is not PATH=VALUE"),
        ("=1", "--set", "is not a path"),
        ("queue//x=1", "--set queue//x", "is not a path"),
        ("quue/nr_requests=1", "--set quue/nr_requests", "did you mean 'queue'"),
        ("queue=1", "--set queue", "accepted are queue/ATTRIBUTE"),
        ("nvme1n1/queue/x=1", "--set nvme1n1/queue/x", "did you mean 'nvme0n1'"),
        ("nvme0n1/quque/x=1", "--set nvme0n1/quque/x", "accepted are"),
        ("cpu/cuont=1", "--set cpu/cuont", "did you mean 'count'"),
        ("cpu/count=0", "--set cpu/count", "1 to 1024"),
        ("cpu/count=many", "--set cpu/count", "1 to 1024"),
        ("cpu/hz=60", "--set cpu/hz", "100, 250, 300, 1000"),
        ("cpu/preempt=rt", "--set cpu/preempt", "voluntary, full"),
        ("cpu/costs=none", "--set cpu/costs", "no cost table"),
        ("cgroup/db=1", "--set cgroup/db", "unknown key 'db'"),
        ("cgroup/version=3", "--set cgroup/version", "is 1 or 2"),
        ("device/a/b=1", "--set device/a/b", "neither an attribute nor a parameter"),
        ("feature/nope=1", "--set feature/nope", "no feature 'nope'"),
        ("kernel=4.21", "--set kernel", "ended with 4.20"),
        ("queue/scheduler=cfq", "--set queue/scheduler", "cfq went with 5.0"),
        ("queue/x=" + "a" * 5000, "--set queue/x", "at most 4096"),
    ],
)
def test_a_wrong_setting_gives_one_clear_error(setting: str, where: str, message: str) -> None:
    with pytest.raises(BlklabError, match=re.escape(message)) as caught:
        load_machine("default", [setting])
    assert caught.value.where == where


@given(st.text(max_size=30))
def test_any_text_is_a_setting_or_one_clear_error(text: str) -> None:
    try:
        load_machine("default", [text])
    except BlklabError as error:
        assert error.where is not None


def test_a_scheduler_that_the_kernel_lacks_is_refused_where_it_was_written() -> None:
    with pytest.raises(
        BlklabError, match=r"Linux 4\.1 has no scheduler 'kyber': kyber came with 4\.12"
    ) as caught:
        load_machine("default", ["queue/scheduler=kyber"], kernel="4.1")
    assert caught.value.where == "--set queue/scheduler"
    with pytest.raises(BlklabError, match=r"kyber came with 4\.12") as caught:
        load_machine("kyber-thread", kernel="4.10")
    assert caught.value.where == "kyber-thread.toml:12"
    check_scheduler(load_machine().features, "a-users-own", "here")


def test_a_kernel_from_before_blk_mq_has_other_schedulers() -> None:
    assert load_machine("default", ["queue/scheduler=deadline"], kernel="2.6.36").kernel == "2.6.36"
    with pytest.raises(BlklabError, match=r"Linux 2\.6\.36 has no scheduler 'none': none came with 3\.13"):
        load_machine("default", ["queue/scheduler=none"], kernel="2.6.36")


def test_what_a_kernel_differs_in_and_is_not_built_is_noted() -> None:
    assert load_machine().notes() == []
    (note,) = load_machine("default", kernel="4.1").notes()
    assert note.startswith("Linux 4.1 differs from 6.1 in what is not built yet: ")


def test_an_unknown_machine_says_which_there_are() -> None:
    with pytest.raises(BlklabError, match=r"did you mean 'nvme-server'.*default") as caught:
        load_machine("nvme-serve")
    assert caught.value.where == "--machine"


def test_a_device_by_name() -> None:
    machine = load_machine("nvme-server")
    assert machine.device("nvme1n1") is machine.devices[1]
    with pytest.raises(BlklabError, match="did you mean 'nvme1n1'"):
        machine.device("nvme1")


def test_a_path_object_is_a_file(tmp_path: Path) -> None:
    path = tmp_path / "m.toml"
    path.write_text('[device.sda]\nmodel = "null"\nqueue.scheduler = "none"\n')
    device = only_device(load_machine(path))
    assert device.attributes == (AttributeWrite("queue/scheduler", "none", f"{path}:3"),)
