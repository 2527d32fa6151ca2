"""What the tests of kyber share: a machine whose driver keeps requests until told, and tokens as few as wanted."""

from __future__ import annotations

from itertools import groupby
from typing import Any

from rig import Rig, ScriptedDriver

from blklab.block.attributes import read
from blklab.block.bio import Bio
from blklab.block.consts import F_SYNC, OP_DISCARD, OP_READ, OP_WRITE, OP_WRITE_ZEROES
from blklab.block.request import Request
from blklab.block.switch import set_elevator

READ, WRITE, DISCARD, OTHER = range(4)
LETTERS = {OP_READ: "R", OP_WRITE: "W", OP_DISCARD: "D", OP_WRITE_ZEROES: "O"}
# The three ages, and the combination that never was
AGES: dict[str, dict[str, int]] = {
    "4.12": {"kyber_ctx_queue": 0, "kyber_histogram": 0},
    "4.18": {"kyber_ctx_queue": 1, "kyber_histogram": 0},
    "4.20": {"kyber_ctx_queue": 1, "kyber_histogram": 1},
    "never": {"kyber_ctx_queue": 0, "kyber_histogram": 1},
}


class KyberRig(Rig):
    """`service_ns` None: requests stay in the driver until `end`. `tokens`: how many of each domain, in order."""

    def __init__(
        self,
        service_ns: int | None = None,
        tokens: tuple[int, ...] = (),
        nr_cpus: int = 1,
        nr_hw_queues: int = 1,
        depth: int = 64,
        features: dict[str, int] | None = None,
    ) -> None:
        super().__init__(
            ScriptedDriver(service_ns),
            nr_cpus=nr_cpus,
            nr_hw_queues=nr_hw_queues,
            depth=depth,
            features=features,
        )
        limits = self.queue.limits
        limits.max_discard_sectors = limits.max_hw_discard_sectors = 1 << 20
        set_elevator(self.queue, "kyber")
        for domain, number in zip(self.kyber.domains, tokens, strict=False):
            domain.tokens.resize(number)

    @property
    def kyber(self) -> Any:
        """The scheduler."""
        return self.queue.elevator

    def one(
        self, sector: int, op: int = OP_READ, cpu: int = 0, nr_sectors: int = 8, flags: int = F_SYNC
    ) -> KyberRig:
        """One bio, submitted at once by the task of a CPU."""
        self.send([self.bio(sector, nr_sectors, op, flags, cpu=cpu)], cpu=cpu)
        return self.soon()

    def soon(self) -> KyberRig:
        """Let everything happen that takes no time to speak of."""
        self.run(self.events.now_ns + 1000)
        return self

    def wait(self, time_ns: int) -> KyberRig:
        """Let time pass, also where nothing happens."""
        until_ns = self.events.now_ns + time_ns
        self.events.at(until_ns, self.senders[0])
        self.run(until_ns)
        return self

    def end(self, count: int = 1) -> KyberRig:
        """The driver ends the requests that it has held longest."""
        for _ in range(count):
            self.driver.finish(self.driver.held[0])
        return self.soon()

    def end_all(self) -> None:
        """It ends all, also those that come to it by that; then nothing may be left."""
        self.driver.service_ns = 1000
        while self.driver.held:
            self.end()
        self.run()
        self.assert_clean()
        assert all(d.tokens.used == 0 and d.tokens.waiting == 0 for d in self.kyber.domains)

    def data(self, hctx: int = 0) -> Any:
        """The scheduler's part of a hardware queue."""
        return self.queue.hctxs[hctx].sched_data

    def held(self) -> list[Request]:
        """What is in the driver."""
        return self.driver.held

    def gather(self, bios: list[Bio]) -> KyberRig:
        """All of these are queued before any is dispatched."""
        self.queue.set_quiesced(True)
        for cpu in range(self.host.nr_cpus):
            mine = [[bio] for bio in bios if bio.submitter is self.senders[cpu]]
            if mine:
                self.send(*mine, cpu=cpu)
        self.soon()
        self.queue.set_quiesced(False)
        self.queue.run_all()
        return self

    def runs(self) -> list[tuple[str, int]]:
        """What was dispatched: letter of the operation (O for others), and how many in a row."""
        letters = []
        for record in self.tracer:
            if record.action == "D":
                letters.append("O" if record.sector >= 1 << 25 else record.rwbs[0])
        return [(letter, len(list(group))) for letter, group in groupby(letters)]

    def messages(self, kind: str = "") -> list[str]:
        """What kyber said, of one kind ("adjust", "latency", "throttled") without its first word, or all."""
        found = list(self.tracer.messages)
        return [m.partition(" ")[2] for m in found if m.startswith(f"kyber_{kind} ")] if kind else found

    def shown(self, name: str, hctx: int = 0) -> Any:
        """A debugfs attribute: of the queue if it is there, else of a hardware queue."""
        if name.endswith("_tokens") or name == "async_depth":
            return read(self.queue, f"sched/{name}")
        return read(self.queue, f"hctx{hctx}/sched/{name}")
