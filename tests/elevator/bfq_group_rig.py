"""Control groups on bfq for its tests: a process in each, on a CPU of its own."""

from __future__ import annotations

from bfq_rig import Process, bfq_of, from_sector
from rig import MS, Rig, ScriptedDriver

from blklab.block.attributes import write
from blklab.block.cgroup import POLICY_BFQ
from blklab.block.switch import set_elevator
from blklab.elevator.bfq.group import BfqGroup

SECTORS = 16  # of an I/O


def group_rig(
    paths: list[str], version: int = 2, service_ns: int | None = MS, depth: int = 1, **tunables: int
) -> Rig:
    """A device that serves `depth` requests at a time, with bfq; the task of CPU n is in the group `paths[n]`.

    Weights are not raised unless `low_latency=1` is given.
    """
    rig = Rig(ScriptedDriver(service_ns, budgets=depth), nr_cpus=len(paths), depth=64)
    for cpu, path in enumerate(paths):
        rig.senders[cpu].cgroup = rig.cgroup(path, version)
    set_elevator(rig.queue, "bfq")
    for name, value in {"low_latency": 0, **tunables}.items():
        write(rig.queue, f"queue/iosched/{name}", str(value))
    return rig


def set_weights(rig: Rig, weights: dict[str, int]) -> None:
    """io.bfq.weight of some groups."""
    assert rig.cgroups is not None
    name = "io.bfq.weight" if rig.cgroups.version == 2 else "blkio.bfq.weight"
    for path, weight in weights.items():
        rig.write_file(path, name, str(weight))


def group_at(rig: Rig, path: str) -> BfqGroup:
    """What the scheduler has of a control group; that begins to exist with this."""
    assert rig.queue.blkcg is not None
    group = rig.queue.blkcg.lookup_create(rig.cgroup(path)).pd[POLICY_BFQ]
    assert isinstance(group, BfqGroup)
    return group


def backlog(rig: Rig, cpu: int, in_flight: int = 4, **options: int) -> Process:
    """A process that has always requests waiting: small, near one another, but none beside another."""
    return Process(
        rig,
        cpu,
        from_sector(cpu << 24, SECTORS + 8),
        in_flight=in_flight,
        nr_sectors=SECTORS,
        **options,
    )


def path_of(rig: Rig, cpu: int) -> str:
    """The group in which the scheduler has the synchronous queue of a process."""
    bic = bfq_of(rig).processes.find(rig.senders[cpu])
    assert bic is not None and bic.sync_bfqq is not None
    group = bfq_of(rig).bfqd.group_of(bic.sync_bfqq)
    assert rig.queue.blkcg is not None
    (path,) = (blkg.cgroup.name for blkg in rig.queue.blkcg.root.walk() if blkg.pd[POLICY_BFQ] is group)
    return path
