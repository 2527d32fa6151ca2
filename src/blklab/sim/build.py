"""From a machine's description to the machine: CPUs, devices with their queues, attributes written in order.

Attributes are written as a user of sysfs would after boot, each at once; the first write of a device that the simulated
kernel refuses is the error, with the place in the machine file that wrote it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from blklab.block.attributes import write
from blklab.block.elevator import Elevator
from blklab.block.features import default_scheduler
from blklab.block.switch import set_elevator
from blklab.core.errors import AttributeRefused, BlklabError, nearest
from blklab.device.registry import Shared, find_model, make_queue, settings_of
from blklab.sim.cpu import MachineHost
from blklab.sim.events import EventQueue

if TYPE_CHECKING:
    from blklab.block.queue import RequestQueue
    from blklab.block.trace import Tracer
    from blklab.sim.machine import DeviceConfig, Machine


class BuiltMachine:
    """A machine that can run: its clock, its host, its queues by device name, and what the user should know."""

    def __init__(self, machine: Machine, seed: int) -> None:
        self.machine = machine
        self.seed = seed
        self.events = EventQueue()
        self.host = MachineHost(self.events, machine.cpus.count, preempt_full=machine.cpus.preempt == "full")
        self.host.set_costs(machine.cpus.costs.ns)
        self.host.jiffy_ns = 1_000_000_000 // machine.cpus.hz
        self.queues: dict[str, RequestQueue] = {}
        self.notes: list[str] = machine.notes()
        self.tracer: Tracer | None = None

    def queue(self, name: str, where: str | None = None) -> RequestQueue:
        """The queue of a device, named with or without /dev/. Raises BlklabError if there is none of that name."""
        short = name.removeprefix("/dev/")
        if short not in self.queues:
            have = f"it has {', '.join(self.queues)}{nearest(short, self.queues)}"
            raise BlklabError(f"the machine {self.machine.name} has no device {name!r}; {have}", where)
        return self.queues[short]

    def trace(self, tracer: Tracer, mask: int) -> None:
        """Record tracepoints of all devices."""
        self.tracer = tracer
        for queue in self.queues.values():
            queue.set_trace(tracer, mask)


def build(machine: Machine, seed: int = 1, scheduler: str | type[Elevator] | None = None) -> BuiltMachine:
    """Make the machine. `scheduler` is put on every device after its attributes' own scheduler, before the others."""
    built = BuiltMachine(machine, seed)
    shared = Shared()
    for number, config in enumerate(machine.devices):
        model = find_model(config.model, config.where("model"))
        settings = settings_of(model, config.preset, config.parameters, config.where)
        try:
            queue = make_queue(
                config.name, number, model, settings, built.host, machine.features, seed, shared
            )
        except BlklabError as error:
            raise BlklabError(error.message, error.where or config.where("model")) from None
        built.queues[config.name] = queue
    # A second device on a tag set changes the first one's rules, so schedulers come when all are there
    for config in machine.devices:
        _set_up(built, config, scheduler)
    return built


def _set_up(built: BuiltMachine, config: DeviceConfig, scheduler: str | type[Elevator] | None) -> None:
    queue = built.queues[config.name]
    chosen = any(attribute.path == "queue/scheduler" for attribute in config.attributes)
    if scheduler is None and not chosen:
        _default_elevator(built, queue)
    if scheduler is not None:
        set_elevator(queue, scheduler)
    for attribute in config.attributes:
        if attribute.path == "queue/scheduler" and scheduler is not None:
            continue
        try:
            write(queue, attribute.path, attribute.value)
        except AttributeRefused as error:
            where = attribute.where or error.where
            what = "" if where and attribute.path in where else f"{attribute.path}: "
            raise AttributeRefused(what + error.message, where, error.errno) from None


def _default_elevator(built: BuiltMachine, queue: RequestQueue) -> None:
    tag_set = queue.tag_set
    name = default_scheduler(built.machine.features, tag_set.nr_hw_queues, tag_set.hctx_shared)
    if name != "none":
        set_elevator(queue, name)
