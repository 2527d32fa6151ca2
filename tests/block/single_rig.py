"""What the tests of the single queue share: a device with one, in the plug of either age, and a scheduler on it."""

from __future__ import annotations

from typing import Any

from rig import Rig, ScriptedDriver

from blklab.block.switch import set_elevator


class SingleRig(Rig):
    """One device with a single queue. `old`: of before 2.6.39. `budgets`: how many requests the device takes at a
    time (NCQ). A batch of one bio or more has a plug, as in those kernels."""

    def __init__(
        self,
        scheduler: str = "noop",
        old: bool = False,
        budgets: int | None = None,
        service_ns: int | None = 10_000,
        nr_cpus: int = 1,
        plug_from: int = 1,
        features: dict[str, int] | None = None,
        **more: Any,
    ) -> None:
        super().__init__(
            ScriptedDriver(service_ns, budgets),
            nr_cpus=nr_cpus,
            features={"queue_plug": int(old), "plug_max": 16, **(features or {})},
            single_queue=True,
            **more,
        )
        for queue in self.queues:
            queue.rotational = True
            set_elevator(queue, scheduler)
        for sender in self.senders:
            sender.plug_from = plug_from

    @property
    def path(self) -> Any:
        """The single queue."""
        return self.queue.legacy

    def tell(self, actions: str = "Q G S P U UT I M F X D R C") -> str:
        """The story so far."""
        return self.story(actions)
