"""A copy of a scheduler is loaded beside the original, and both of them have the groups' control files."""

from __future__ import annotations

from pathlib import Path

import pytest
from bfq_group_rig import SECTORS
from bfq_rig import Process, from_sector
from copies import copy_of
from rig import MS, Rig, ScriptedDriver

from blklab.block.attributes import write
from blklab.block.switch import set_elevator
from blklab.sim.kernels import load_features

FILES = {"bfq": ("io.bfq.weight", 2), "cfq": ("blkio.weight", 1)}


def share(name: str, choice: str) -> float:
    """What the group with a third of the weight gets."""
    file, version = FILES[name]
    rig = Rig(
        ScriptedDriver(MS, budgets=1),
        nr_cpus=2,
        depth=64,
        features=load_features("4.14" if name == "cfq" else "6.1").as_dict(),
        single_queue=name == "cfq",
    )
    for cpu, path in enumerate(("/a", "/b")):
        rig.senders[cpu].cgroup = rig.cgroup(path, version)
    set_elevator(rig.queue, choice)
    if name == "bfq":
        write(rig.queue, "queue/iosched/low_latency", "0")
        write(rig.queue, "queue/iosched/max_budget", "16")
        write(rig.queue, "queue/iosched/timeout_sync", "8")
    a, b = (
        Process(rig, cpu, from_sector(cpu << 24, SECTORS), in_flight=4, nr_sectors=SECTORS) for cpu in (0, 1)
    )
    rig.run(1000 * MS)
    rig.write_file("/a", file, "300")
    rig.write_file("/b", file, "900")
    rig.run(2000 * MS)
    before = [len(process.latencies_ns) for process in (a, b)]
    rig.run(10_000 * MS)
    done = [len(process.latencies_ns) - old for process, old in zip((a, b), before, strict=True)]
    return done[0] / sum(done)


@pytest.mark.parametrize("name", FILES)
def test_weights_count_for_both(name: str, tmp_path: Path) -> None:
    copy = copy_of(name, tmp_path)

    assert share(name, copy) == pytest.approx(0.25, abs=0.04)
    assert share(name, name) == pytest.approx(0.25, abs=0.04)
