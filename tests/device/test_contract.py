"""What every device model must do: end each bio exactly once, conserve sectors, give everything back, and
repeat itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blklab.block.attributes import read
from blklab.block.consts import F_FUA, F_PREFLUSH, F_SYNC, OP_DISCARD, OP_READ, OP_WRITE, STS_OK
from blklab.block.models import find_model, models
from blklab.device.presets import load_presets

Rig = Callable[..., Any]

# Every model, in forms that together take every path of it
FORMS: dict[str, tuple[str, dict[str, Any]]] = {
    "null-timer": ("null", {"irqmode": 2, "discard": True, "memory_backed": True}),
    "null-softirq": ("null", {"irqmode": 1}),
    "null-inline": ("null", {"irqmode": 0}),
    "null-cache": ("null", {"irqmode": 2, "memory_backed": True, "cache_size": 1}),
    # A request larger than what a tick brings is never served, here as there: 20 ms of 16 MiB/s are more than any
    "null-mbps": ("null", {"irqmode": 2, "mbps": 16}),
    "null-two-queues": ("null", {"irqmode": 2, "submit_queues": 2, "hw_queue_depth": 3}),
    "scsi": ("scsi", {"ndelay": 50_000, "dev_size_mb": 64, "lbpu": True}),
    "scsi-four-tags": ("scsi", {"ndelay": 50_000, "dev_size_mb": 64, "max_queue": 4}),
    "scsi-target": ("scsi", {"ndelay": 50_000, "dev_size_mb": 64, "target_can_queue": 2}),
    "scsi-busy": ("scsi", {"ndelay": 50_000, "dev_size_mb": 64, "opts": 0x8000, "every_nth": 5}),
    "scsi-random": ("scsi", {"ndelay": 50_000, "dev_size_mb": 64, "random": True, "submit_queues": 2}),
    "scsi-at-once": ("scsi", {"delay": 0, "dev_size_mb": 64}),
    "ssd": ("ssd", {}),
    "ssd-few": ("ssd", {"units": 2, "queues": 1, "queue_depth": 3, "slots": 2, "read_shape": "exponential"}),
    "ssd-full": (
        "ssd",
        {"units": 3, "buffer": "96k", "cache": "288k", "gc_amplification": 3.0, "preconditioned": True,
         "read_iops": 50_000, "write_iops": 30_000, "read_bytes_per_s": 10_000_000, "write_bytes_per_s":
         9_000_000, "program_shape": "exponential", "read_retry_ppm": 300_000, "read_retry_ns": 5000},
    ),
    "hdd": ("hdd", {}),
    "hdd-small-cache": (
        "hdd",
        {"cache": "16k", "cache_runs": 2, "segment": "8k", "segments": 2, "readahead": "4k", "window": 2,
         "queue_depth": 3, "destage_bytes": "4k", "destage_high": 0},
    ),
    "hdd-write-through": ("hdd", {"write_cache": False, "readahead": 0, "starve_ns": 1_000_000}),
    "hdd-sas": ("hdd", {"exclusive_flush": False, "fua": True, "cache_runs": 4, "command_ns": 0}),
    "array": ("array", {"disks": 3, "chunk": "8k"}),
    "array-full": (
        "array",
        {"disks": 2, "chunk": "4k", "cache": "1m", "destage_high": 1, "destage_low": 0, "destage_first": True,
         "disk_depth": 1, "destage_depth": 2, "queue_depth": 4},
    ),
    "virtio": ("virtio", {"iothreads": 2, "queue_size": 8}),
    "ssd-no-buffer": ("ssd", {"units": 3, "buffer": 0, "queues": 2}),
}  # fmt: skip


def test_every_model_has_a_form_here() -> None:
    assert {model for model, _ in FORMS.values()} == {
        name for name, model in models().items() if not model.stacked and name != "error"
    }


@pytest.mark.parametrize("form", FORMS)
@settings(max_examples=25)
@given(data=st.data())
def test_every_bio_ends_once_and_nothing_is_left(device_rig: Rig, form: str, data: st.DataObject) -> None:
    model, parameters = FORMS[form]
    cpus = data.draw(st.integers(1, 3), "CPUs")
    rig = device_rig(model, dict(parameters), nr_cpus=cpus)
    discards = int(read(rig.queue, "queue/discard_max_bytes")) > 0
    ops = [OP_READ, OP_WRITE] + ([OP_DISCARD] if discards else [])
    sent = {}
    for cpu in range(cpus):
        batches = data.draw(
            st.lists(
                st.lists(
                    st.tuples(st.sampled_from(ops), st.integers(0, 200), st.integers(1, 40), st.booleans()),
                    min_size=1,
                    max_size=6,
                ),
                max_size=6,
            ),
            f"batches of CPU {cpu}",
        )
        made = []
        for batch in batches:
            bios = []
            for op, place, length, far in batch:
                bio = rig.bio(place * 8 + (cpu << 14) + (far << 13), length, op, cpu=cpu)
                sent[bio.io] = length
                bios.append(bio)
            made.append(bios)
        if made:
            rig.send(*made, cpu=cpu)
    rig.run()
    assert rig.statuses() == dict.fromkeys(sent, STS_OK)
    counts = rig.counts()
    # Some drivers say BUSY before they have started the request, some after: R without or with a D
    assert counts["C"] <= counts["D"] <= counts["C"] + counts["R"]
    assert sum(record.nr_sectors for record in rig.records("C")) == sum(sent.values())
    rig.assert_clean()


@pytest.mark.parametrize("form", FORMS)
@settings(max_examples=15)
@given(data=st.data())
def test_flushes_end_and_what_is_written_with_fua_too(
    device_rig: Rig, form: str, data: st.DataObject
) -> None:
    model, parameters = FORMS[form]
    cpus = data.draw(st.integers(1, 3), "CPUs")
    rig = device_rig(model, dict(parameters), nr_cpus=cpus)
    sectors = 0
    for cpu in range(cpus):
        made = []
        for flags, place, empty in data.draw(
            st.lists(
                st.tuples(
                    st.sampled_from([0, F_PREFLUSH, F_FUA, F_PREFLUSH | F_FUA]),
                    st.integers(0, 200),
                    st.booleans(),
                ),
                min_size=1,
                max_size=12,
            ),
            f"CPU {cpu}",
        ):
            length = 0 if empty and flags & F_PREFLUSH else 8
            sectors += length
            where = place * 8 + (cpu << 14) if length else 0
            made.append([rig.bio(where, length, OP_WRITE, flags | F_SYNC, cpu=cpu)])
        rig.send(*made, cpu=cpu)
    rig.run()
    assert set(rig.statuses().values()) == {STS_OK}
    assert len(rig.statuses()) == rig.next_io
    assert sum(record.nr_sectors for record in rig.records("C")) == sectors
    rig.assert_clean()


@pytest.mark.parametrize("form", FORMS)
def test_the_same_seed_gives_the_same_trace(device_rig: Rig, form: str) -> None:
    model, parameters = FORMS[form]
    traces = []
    for _ in range(2):
        rig = device_rig(model, dict(parameters), nr_cpus=2)
        for cpu in (0, 1):
            rig.send(
                *[[rig.bio(64 * i + (cpu << 14), 8 + i % 24, i % 2, cpu=cpu)] for i in range(40)], cpu=cpu
            )
        rig.run()
        traces.append(list(rig.tracer))
    assert traces[0] == traces[1]


@pytest.mark.parametrize("preset", [preset.name for preset in load_presets()])
def test_every_preset_makes_a_device_that_works(device_rig: Rig, preset: str) -> None:
    found = next(p for p in load_presets() if p.name == preset)
    rig = device_rig(found.model, {"preset": preset}, nr_cpus=4)
    rig.send(*[[rig.bio(64 * i, 8, i % 2)] for i in range(50)]).run()
    assert set(rig.statuses().values()) == {STS_OK}
    rig.assert_clean()


@pytest.mark.parametrize("name", models())
def test_parameters_are_documented_and_their_defaults_are_in_range(name: str) -> None:
    for parameter in find_model(name).parameters:
        assert len(parameter.help) > 5, parameter.name
        if parameter.kind in ("int", "float", "bytes"):
            assert parameter.least <= parameter.default <= parameter.most, parameter.name
