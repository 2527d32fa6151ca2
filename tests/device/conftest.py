"""A machine with one or more devices of a model, tasks that submit what they are told, and a tracer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from rig import Rig, Sender

from blklab.block.consts import TR_ALL
from blklab.block.features import Features
from blklab.block.models import Shared, find_model, make_queue, settings_of
from blklab.block.trace import Tracer
from blklab.sim.cpu import MachineHost
from blklab.sim.events import EventQueue

NEVER = (1 << 63) - 1


class DeviceRig(Rig):
    """The machine. `settings` of one device each; all tracepoints and checks are on, nothing costs CPU
    time."""

    def __init__(self, model: str, *settings: dict[str, Any], nr_cpus: int = 1, seed: int = 1) -> None:
        self.events = EventQueue()
        self.host = MachineHost(self.events, nr_cpus)
        found = find_model(model)
        shared = Shared()
        self.queues = []
        for number, given in enumerate(settings or ({},)):
            checked = settings_of(found, given.pop("preset", None), given, lambda name: name)
            name = f"dev{number}"
            self.queues.append(make_queue(name, number, found, checked, self.host, Features(), seed, shared))
        self.queue = self.queues[0]
        self.driver: Any = self.queue.driver
        self.tracer = Tracer(self.host)
        for queue in self.queues:
            queue.checks = True
            queue.set_trace(self.tracer, TR_ALL)
        self.senders = [Sender(self.host, cpu, 100 + cpu) for cpu in range(nr_cpus)]
        self.next_io = 0

    def run(self, until_ns: int = NEVER) -> DeviceRig:
        """Let time pass until nothing is left to happen, or to a time."""
        while self.events.run(until_ns, 100_000) and self.events.head_ns <= until_ns:
            pass
        return self

    def times(self, action: str, device: int | None = None) -> list[int]:
        """When an action was traced, nanoseconds."""
        return [record.time_ns for record in self.records(action, device)]

    def statuses(self) -> dict[int, int]:
        """The status of each bio that has ended, by number; an AssertionError if one ended twice."""
        ends = [(io, status) for sender in self.senders for io, status, _ in sender.ended]
        assert len({io for io, _ in ends}) == len(ends)
        return dict(ends)

    def last_end_ns(self) -> int:
        """When the last bio ended. (`run` without a time goes on until the timeout timer has nothing left to
        look at.)"""
        return max(at for sender in self.senders for _, _, at in sender.ended)

    def assert_clean(self) -> None:
        """Nothing is in flight, nothing leaked."""
        for queue in self.queues:
            assert queue.usage == 0
            assert queue.stat.in_flight_read == queue.stat.in_flight_write == 0
            for hctx in queue.hctxs:
                assert hctx.tags.nr_in_use == 0
                assert hctx.dispatch_list.count == 0
                assert hctx.nr_pending == 0


@pytest.fixture(scope="session")
def device_rig() -> Callable[..., DeviceRig]:
    """Makes a machine: `device_rig("ssd", {"units": 4}, nr_cpus=2)`."""
    return DeviceRig
