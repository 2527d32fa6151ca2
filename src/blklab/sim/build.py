"""From a machine's description to the machine: CPUs, devices with their queues, attributes written in order.

Attributes are written as a user of sysfs would after boot, each at once; the first write of a device that the simulated
kernel refuses is the error, with the place in the machine file that wrote it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from blklab.block.attributes import write
from blklab.block.cgroup import CgroupTree
from blklab.block.elevator import Elevator
from blklab.block.features import default_scheduler
from blklab.block.memory import MemoryLayout
from blklab.block.models import Shared, find_model, make_queue, settings_of
from blklab.block.switch import set_elevator
from blklab.core.errors import AttributeRefused, BlklabError, nearest
from blklab.rqos.throttle import throttle_init
from blklab.sim.cgroups import set_up_groups
from blklab.sim.cpu import MachineHost
from blklab.sim.events import EventQueue
from blklab.sim.volume import Volume

if TYPE_CHECKING:
    from blklab.block.queue import RequestQueue
    from blklab.block.trace import Tracer
    from blklab.sim.machine import DeviceConfig, Machine


class BuiltMachine:
    """A machine that can run: its clock, its host, its queues by device name, `tops`: those that no other device is
    made of, `memory`: how its pages lie (None: every one elsewhere), `cgroups`: its control groups (None: it has none),
    and what the user should know."""

    def __init__(self, machine: Machine, seed: int) -> None:
        self.machine = machine
        self.seed = seed
        self.events = EventQueue()
        self.host = MachineHost(self.events, machine.cpus.count, preempt_full=machine.cpus.preempt == "full")
        self.host.set_costs(machine.cpus.costs.ns)
        self.host.jiffy_ns = 1_000_000_000 // machine.cpus.hz
        self.queues: dict[str, RequestQueue] = {}
        self.tops: list[RequestQueue] = []
        self.notes: list[str] = machine.notes()
        self.volumes: list[Volume] = []
        self.tracer: Tracer | None = None
        self.memory = MemoryLayout(seed, machine.contiguous) if machine.contiguous else None
        self.cgroups = None if machine.cgroups is None else CgroupTree(machine.cgroups.version)

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
    plans = [_Plan(number, config) for number, config in enumerate(machine.devices)]
    for plan in plans:
        plan.check_members(machine)
    _check_shared(plans)
    leaves = [plan for plan in plans if not plan.members]
    for plan in leaves:
        _make(built, plan, shared)
    # A second device on a tag set changes the first one's rules, so schedulers come when all are there
    for plan in leaves:
        _set_up(built, plan.config, scheduler)
    # A stacked device takes the limits that its members have when it is made
    waiting = [plan for plan in plans if plan.members]
    while waiting:
        ready = [plan for plan in waiting if all(name in shared.queues for name in plan.members)]
        if not ready:
            names = ", ".join(plan.config.name for plan in waiting)
            raise BlklabError(f"these devices are made of each other: {names}", waiting[0].where())
        for plan in ready:
            waiting.remove(plan)
            _make(built, plan, shared)
            _set_up(built, plan.config, scheduler)
    built.queues = {config.name: shared.queues[config.name] for config in machine.devices}
    single = [
        f"{queue.name} ({queue.elevator_name})" for queue in built.queues.values() if queue.legacy is not None
    ]
    if single:
        built.notes.append(f"with a single queue, as before blk-mq (legacy_request_fn): {', '.join(single)}")
    below = {name for plan in plans for name in plan.members}
    built.tops = [built.queues[config.name] for config in machine.devices if config.name not in below]
    built.volumes = [Volume(config, built.queues[config.device], seed) for config in machine.volumes]
    set_up_groups(built)
    return built


class _Plan:
    """A device that is to be made: its model, its checked settings, and which devices it is made of."""

    def __init__(self, number: int, config: DeviceConfig) -> None:
        self.number = number
        self.config = config
        self.model = find_model(config.model, config.where("model"))
        self.settings = settings_of(self.model, config.preset, config.parameters, config.where)
        self.members = self.model.members(self.settings)

    def check_members(self, machine: Machine) -> None:
        names = [device.name for device in machine.devices]
        for name in self.members:
            if name not in names:
                have = f"the machine has {', '.join(names)}{nearest(name, names)}"
                raise BlklabError(
                    f"{self.config.name} is made of {name!r}, which there is not; {have}", self.where(name)
                )

    def where(self, member: str = "") -> str:
        """The place that names a member, or any."""
        for parameter in self.model.parameters:
            value = self.settings[parameter.name]
            if (parameter.kind == "device" and value and member in ("", value)) or (
                parameter.kind == "devices" and value
            ):
                return self.config.where(parameter.name)
        return self.config.where("model")


def _check_shared(plans: list[_Plan]) -> None:
    # md and most of device mapper want their members for themselves; partitions and linear devices take parts
    users: dict[str, _Plan] = {}
    for plan in plans:
        for name in plan.members:
            other = users.setdefault(name, plan)
            if other is not plan and not (other.model.shares_members and plan.model.shares_members):
                raise BlklabError(
                    f"{name} is a member of {other.config.name} already, and of {plan.config.name} too; only partition "
                    f"and linear devices can lie on one together",
                    plan.where(name),
                )


def _make(built: BuiltMachine, plan: _Plan, shared: Shared) -> None:
    config = plan.config
    try:
        make_queue(
            config.name,
            plan.number,
            plan.model,
            plan.settings,
            built.host,
            built.machine.features,
            built.seed,
            shared,
        )
    except BlklabError as error:
        raise BlklabError(error.message, error.where or plan.where()) from None
    built.queues[config.name] = shared.queues[config.name]
    built.queues[config.name].limits.memory = built.memory
    if built.cgroups is not None and built.queues[config.name].whole is None:
        built.cgroups.add_queue(built.queues[config.name])
        throttle_init(built.queues[config.name])


def _set_up(built: BuiltMachine, config: DeviceConfig, scheduler: str | type[Elevator] | None) -> None:
    queue = built.queues[config.name]
    if queue.bio_based:
        scheduler = None
    chosen = any(attribute.path == "queue/scheduler" for attribute in config.attributes)
    if scheduler is None and not chosen and not queue.bio_based:
        _default_elevator(built, queue)
    if scheduler is not None:
        _check_chosen_once(config, scheduler)
        set_elevator(queue, scheduler)
    for attribute in config.attributes:
        if attribute.path == "queue/scheduler" and scheduler is not None:
            continue
        try:
            write(queue, attribute.path, attribute.value)
        except AttributeRefused as error:
            if attribute.every and find_model(config.model).stacked:
                continue
            where = attribute.where or error.where
            what = "" if where and attribute.path in where else f"{attribute.path}: "
            raise AttributeRefused(what + error.message, where, error.errno) from None


def _check_chosen_once(config: DeviceConfig, scheduler: str | type[Elevator]) -> None:
    # A machine file's scheduler is a default that --scheduler replaces; two on one command line contradict each other
    for write_ in config.attributes:
        if (
            write_.path == "queue/scheduler"
            and write_.where.startswith("--set")
            and write_.value != scheduler
        ):
            raise BlklabError(
                f"asks for {write_.value!r} on {config.name} where --scheduler asks for {scheduler!r}: say one of them",
                write_.where,
            )


def _default_elevator(built: BuiltMachine, queue: RequestQueue) -> None:
    tag_set = queue.tag_set
    single = queue.legacy is not None
    name = default_scheduler(built.machine.features, tag_set.nr_hw_queues, tag_set.hctx_shared, single)
    if name != "none":
        set_elevator(queue, name)
