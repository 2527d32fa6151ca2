"""The example schedulers: the contract that every scheduler is held to, and what each of them is for."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import pytest

from blklab.block.attributes import read, write
from blklab.block.consts import F_SYNC, OP_DISCARD, OP_READ, OP_WRITE
from blklab.block.hwqueue import HardwareQueue
from blklab.block.request import Request
from blklab.block.switch import set_elevator
from blklab.core.clock import Event
from blklab.core.errors import AttributeRefused
from blklab.lab.contract import check_scheduler, starves_nobody
from blklab.lab.rig import MS, Rig, ScriptedDriver

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "schedulers"
NOOP = f"{EXAMPLES / 'noop.py'}:Noop"
ADIOS = f"{EXAMPLES / 'adios.py'}:Adios"
US = 1000


@pytest.mark.parametrize("choice", [NOOP, ADIOS])
def test_an_example_keeps_the_contract(choice: str) -> None:
    assert check_scheduler(choice, loads=10) > 0


@pytest.mark.parametrize("op", [OP_READ, OP_WRITE])
def test_nobody_starves_under_adios(op: int) -> None:
    assert starves_nobody(ADIOS, 100 * MS, op) > 0


@pytest.mark.parametrize(("name", "lines"), [("fifo", 40), ("noop", 80), ("adios", 200)])
def test_an_example_can_be_read_at_a_sitting(name: str, lines: int) -> None:
    assert len((EXAMPLES / f"{name}.py").read_text().splitlines()) <= lines


class Device(ScriptedDriver):
    """One command at a time: 80 us, and 1 us for each KiB above 4; writes half of it."""

    def __init__(self) -> None:
        super().__init__(budgets=1)
        self.max_sectors = 2560

    def queue_rq(self, hctx: HardwareQueue, rq: Request, last: bool) -> int:
        kib = rq.nr_sectors // 2
        self.service_ns = (80 + max(kib - 4, 0)) * US >> (rq.op == OP_WRITE)
        return super().queue_rq(hctx, rq, last)


def busy(choice: str, driver: ScriptedDriver | None = None) -> Rig:
    """A rig whose device takes one request and keeps it, so that all others stay with the scheduler."""
    rig = Rig(driver or ScriptedDriver(service_ns=None, budgets=1))
    set_elevator(rig.queue, choice)
    return rig


class Nothing(Event):
    """Lets the clock go on: it stands at the last thing that happened."""

    def fire(self, now_ns: int) -> int:
        return 0


def wait(rig: Rig, time_ns: int) -> None:
    """Let time pass."""
    until_ns = rig.events.now_ns + time_ns
    rig.events.at(until_ns, Nothing())
    rig.run(until_ns)


def order(rig: Rig) -> str:
    """What was issued after the first request, once the device goes on."""
    rig.driver.service_ns = 10 * US
    for rq in list(rig.driver.held):
        rig.driver.finish(rq)
    rig.run().assert_clean()
    return " ".join(f"{r.sector}+{r.nr_sectors}" for r in rig.records("D")[1:])


class TestNoop:
    def send(self, *sectors: int, op: int = OP_READ) -> Rig:
        rig = busy(NOOP)
        rig.send([rig.bio(999_000)], *[[rig.bio(sector, 8, op)] for sector in sectors])
        return rig.run(MS)

    def test_first_in_first_out(self) -> None:
        assert order(self.send(500, 100, 900, 300)) == "500+8 100+8 900+8 300+8"

    def test_back_merge_with_any_request_that_waits(self) -> None:
        rig = self.send(500, 100, 508, 108)
        assert rig.story("M F") == "M508+8 M108+8"
        assert order(rig) == "500+16 100+16"

    def test_front_merge_only_with_the_request_that_merged_last(self) -> None:
        rig = self.send(500, 100, 508, 492, 92)
        assert rig.story("M F") == "M508+8 F492+8"
        assert order(rig) == "492+24 100+8 92+8"

    def test_a_gap_that_is_filled_joins_neighbours_of_the_fifo(self) -> None:
        rig = self.send(500, 516, 508)
        assert rig.story("M F") == "M508+8 M516+8"
        assert order(rig) == "500+24"

    def test_neighbours_on_the_disk_alone_are_not_joined(self) -> None:
        assert order(self.send(500, 100, 516, 508)) == "500+16 100+8 516+8"

    def test_requests_from_a_plug_join_what_waits(self) -> None:
        rig = busy(NOOP)
        rig.send([rig.bio(999_000)], [rig.bio(500)])
        rig.run(MS)
        rig.send([rig.bio(508), rig.bio(900), rig.bio(516), rig.bio(700)])
        rig.run(2 * MS)
        assert sorted(order(rig).split()) == ["500+24", "700+8", "900+8"]

    def test_nomerges(self) -> None:
        rig = busy(NOOP)
        write(rig.queue, "queue/nomerges", "2")
        rig.send(*[[rig.bio(s)] for s in (0, 500, 508, 516)]).run(MS)
        assert order(rig) == "500+8 508+8 516+8"


class TestAdiosLearns:
    def learnt(self, *bios: tuple[int, int, int]) -> Rig:
        # (how many, sectors, operation), each alone on the device
        rig = busy(ADIOS, Device())
        for count, nr_sectors, op in bios:
            rig.send(*[[rig.bio(i * 10_000, nr_sectors, op)] for i in range(count)])
            rig.run()
        rig.assert_clean()
        return rig

    def model(self, rig: Rig, kind: str) -> list[int]:
        text = str(read(rig.queue, f"queue/iosched/lat_model_{kind}"))
        return [int(line.split(":")[1].split()[0]) for line in text.splitlines()]

    def test_base_from_small_requests(self) -> None:
        rig = self.learnt((50, 8, OP_READ), (20, 8, OP_WRITE))
        assert self.model(rig, "read") == [80 * US, 0]
        assert self.model(rig, "write") == [40 * US, 0]
        assert self.model(rig, "discard") == [0, 0]

    def test_slope_from_large_requests(self) -> None:
        rig = self.learnt((1, 8, OP_READ), (2000, 128, OP_READ))
        base, slope = self.model(rig, "read")
        # 140 us for 64 KiB; each time that samples are taken the base is taken off once
        assert base == 80 * US
        assert 2160 < slope < 140 * US / 64
        elevator: Any = rig.queue.elevator
        assert elevator.models[0].predict(65536) == 80 * US + 60 * slope

    def test_nothing_from_large_requests_before_there_is_a_base(self) -> None:
        assert self.model(self.learnt((200, 128, OP_READ)), "read") == [0, 0]

    def test_outliers_are_left_out(self) -> None:
        rig = busy(ADIOS)
        elevator: Any = rig.queue.elevator
        model = elevator.models[0]
        model.samples[0].append((100, 100, 4096))
        model.update(0)
        model.samples[0].extend((ns, ns, 4096) for ns in [100] * 1980 + [1_000_000] * 20)
        model.update(1)
        assert model.rates == [100, 0]

    def test_it_forgets_when_it_knows_much(self) -> None:
        rig = busy(ADIOS)
        elevator: Any = rig.queue.elevator
        model = elevator.models[0]
        model.rates, model.sums = [100, 0], [(500_000_000, 5_000_000), (0, 0)]
        model.samples[0].extend([(90_000, 90_000, 4096)] * 2000)
        model.update(0)
        # Three quarters of the old ones and all but 1 % of the new ones
        assert model.sums[0] == (375_000_000 + 90_000 * 1980, 3_750_000 + 1980)
        assert model.rates[0] == 147

    def test_latencies_above_the_limit_teach_nothing(self) -> None:
        rig = busy(ADIOS, Device())
        write(rig.queue, "queue/iosched/lat_model_latency_limit", "79999")
        rig.send(*[[rig.bio(i * 100, 8, op)] for i in range(20) for op in (OP_READ, OP_WRITE)]).run()
        assert self.model(rig, "read") == [0, 0]
        assert self.model(rig, "write") == [40 * US, 0]


class TestAdiosChooses:
    def rig(self, **tunables: int) -> Rig:
        """Models that know: 100 us for anything small; a device that is busy with a request at sector 0."""
        rig = busy(ADIOS)
        for name, value in tunables.items():
            write(rig.queue, f"queue/iosched/{name}", str(value))
        elevator: Any = rig.queue.elevator
        for model in elevator.models:
            model.rates[0] = 100 * US
        elevator.stable = True
        rig.send([rig.bio(0)]).run(MS)
        elevator.debt_ns = 0
        return rig

    def add(self, rig: Rig, *bios: tuple[int, int, int]) -> Rig:
        # (sector, operation, flags)
        rig.send(*[[rig.bio(sector, 8, op, flags)] for sector, op, flags in bios])
        return rig.run(rig.events.now_ns + MS // 10)

    def test_everything_is_first_in_first_out_until_it_knows_reads_and_writes(self) -> None:
        rig = busy(ADIOS)
        rig.send([rig.bio(0)]).run(MS)
        self.add(rig, (500, OP_WRITE, 0), (100, OP_READ, 0), (508, OP_WRITE, 0))
        assert order(rig) == "500+8 100+8 508+8"

    def test_reads_go_before_writes_that_came_before(self) -> None:
        rig = self.rig()
        self.add(rig, (500, OP_WRITE, 0), (100, OP_READ, 0), (900, OP_WRITE, 0), (300, OP_READ, 0))
        assert order(rig) == "100+8 300+8 500+8 900+8"

    def test_it_merges(self) -> None:
        rig = self.rig()
        self.add(rig, (500, OP_WRITE, 0), (100, OP_READ, 0), (508, OP_WRITE, 0), (92, OP_READ, 0))
        assert order(rig) == "100+8 92+8 500+16"

    def test_a_joined_request_leaves_its_tree(self) -> None:
        rig = self.rig()
        self.add(rig, (2000, OP_WRITE, 0))
        # From a plug come 592, then 584, which looks only for what ends where it begins, then 600, which joins all
        plug = [rig.bio(sector, 8, OP_WRITE) for sector in (592, 3000, 584, 4000, 600, 5000)]
        rig.send(plug).run(rig.events.now_ns + MS // 10)
        assert rig.story("M F") == "M600+8 M592+16"
        elevator: Any = rig.queue.elevator
        assert sorted(entry[2].sector for entry in elevator.trees[1]) == [584, 2000, 3000, 4000, 5000]
        assert "584+24" in order(rig).split()

    def test_the_deadline_is_start_target_and_prediction(self) -> None:
        rig = self.rig()
        elevator: Any = rig.queue.elevator
        self.add(rig, (100, OP_READ, 0), (500, OP_WRITE, 0), (600, OP_WRITE, F_SYNC), (700, OP_DISCARD, 0))
        waiting = [entry[2] for tree in elevator.trees for entry in tree]
        after_start = {rq.sector: rq.elv_ns - rq.start_ns for rq in waiting}
        assert after_start == {100: 2_100 * US, 500: 2_000_100 * US, 600: 0, 700: 8_000_100 * US}

    def test_within_a_type_the_earliest_deadline_goes_first(self) -> None:
        rig = self.rig(batch_limit_write=1)
        self.add(rig, (500, OP_WRITE, 0), (900, OP_WRITE, 0))
        wait(rig, 5 * MS)
        self.add(rig, (100, OP_WRITE, F_SYNC), (200, OP_WRITE, F_SYNC))
        assert order(rig) == "100+8 200+8 500+8 900+8"

    @pytest.mark.parametrize(("priority", "debt_us"), [(0, 100), (8, 16.8), (19, 1.5), (-20, 8674)])
    def test_a_read_that_overtakes_late_writes_goes_into_debt(self, priority: int, debt_us: float) -> None:
        rig = self.rig(batch_limit_read=1, batch_limit_write=1, read_priority=priority, lat_target_write=0)
        self.add(rig, *[(sector, OP_WRITE, 0) for sector in (500, 510, 520)])
        wait(rig, 5 * MS)
        self.add(rig, *[(sector, OP_READ, 0) for sector in (100, 200, 300)])
        # Then all writes go first that have earlier deadlines; within a batch, reads go first
        assert order(rig) == "100+8 500+8 510+8 200+8 520+8 300+8"
        elevator: Any = rig.queue.elevator
        assert -elevator.debt_ns / US == pytest.approx(debt_us, rel=0.03)

    def test_a_write_that_overtakes_reads_pays(self) -> None:
        rig = self.rig(lat_target_write=0, lat_target_read=0)
        elevator: Any = rig.queue.elevator
        elevator.debt_ns = -150 * US
        self.add(rig, (100, OP_READ, 0))
        wait(rig, 5 * MS)
        self.add(rig, (500, OP_WRITE, 0), (510, OP_WRITE, 0), (520, OP_WRITE, 0))
        rig.driver.finish(rig.driver.held[0])
        wait(rig, MS)
        # Two writes and then the read, in one batch; the last write finds no read any more
        assert elevator.debt_ns == (-150 + 2 * 100) * US
        assert order(rig) == "100+8 500+8 510+8 520+8"

    def test_a_read_waits_for_the_batch_and_the_window_limits_it(self) -> None:
        def place_of_the_read(window_ns: int) -> int:
            rig = self.rig(global_latency_window=window_ns)
            self.add(rig, *[(1000 + 100 * i, OP_WRITE, 0) for i in range(60)])
            rig.driver.finish(rig.driver.held[0])  # the first write is issued, and a batch is made
            self.add(rig, (100, OP_READ, 0))
            return order(rig).split().index("100+8")

        assert place_of_the_read(1 * MS) < place_of_the_read(3 * MS) < place_of_the_read(100 * MS) == 60

    def test_a_requeued_request_comes_first(self) -> None:
        rig = self.rig()
        self.add(rig, (100, OP_READ, 0), (200, OP_READ, 0))
        held = rig.driver.held.pop()
        rig.driver.in_service.clear()
        rig.driver.service_ns = 10 * US
        held.queue.requeue(held)
        rig.run()
        assert rig.story("D") == "D0+8 D0+8 D100+8 D200+8"


@pytest.mark.parametrize(
    ("name", "default", "refused"),
    [
        ("global_latency_window", 16_000_000, ["-1", "x", str(2**64)]),
        ("bq_refill_below_ratio", 20, ["-1", "101"]),
        ("lat_model_latency_limit", 500_000_000, ["-1", "2000000001"]),
        ("batch_limit_read", 36, ["0"]),
        ("batch_limit_write", 72, ["0"]),
        ("batch_limit_discard", 1, ["0", "0.5"]),
        ("lat_target_read", 2_000_000, ["-1", "2ms"]),
        ("lat_target_write", 2_000_000_000, [""]),
        ("lat_target_discard", 8_000_000_000, ["-1"]),
        ("read_priority", 8, ["-21", "20"]),
    ],
)
def test_adios_tunables(name: str, default: int, refused: list[str]) -> None:
    rig = Rig()
    set_elevator(rig.queue, ADIOS)
    path = f"queue/iosched/{name}"
    assert read(rig.queue, path) == default
    for text in refused:
        with pytest.raises(AttributeRefused, match="EINVAL"):
            write(rig.queue, path, text)
    assert read(rig.queue, path) == default
    write(rig.queue, path, "7\n")
    assert read(rig.queue, path) == 7


def test_adios_models_cannot_be_written() -> None:
    rig = Rig()
    set_elevator(rig.queue, ADIOS)
    with pytest.raises(AttributeRefused, match="EACCES"):
        write(rig.queue, "queue/iosched/lat_model_read", "1 2")


def test_adios_has_a_longer_window_on_disks_that_turn() -> None:
    rig = Rig()
    rig.queue.rotational = True
    set_elevator(rig.queue, ADIOS)
    assert read(rig.queue, "queue/iosched/global_latency_window") == 22_000_000


@pytest.mark.compiled_only
def test_the_comparison_of_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (ROOT / "docs" / "schedulers-of-your-own.md").read_text()
    before, _, table = page.partition("| scheduler | reads, mean")
    code = textwrap.dedent(before[before.rindex("    from blklab import simulate") :])
    job = tmp_path / "mixed.fio"
    job.write_text((EXAMPLES / "mixed.fio").read_text().replace("runtime=5", "runtime=300ms"))
    monkeypatch.chdir(ROOT)
    assert "{HERE}/mixed.fio" in code
    exec(code.replace("{HERE}/mixed.fio", str(job)), {})
    printed = [line.split("|")[1:-1] for line in capsys.readouterr().out.splitlines()]
    shown = [line.split("|")[1:-1] for line in table.split("\n\n")[0].splitlines()[2:]]
    assert [row[0] for row in printed] == [row[0] for row in shown]
    mean_us = {row[0].strip(): int(row[1]) for row in printed}
    assert mean_us["none"] < mean_us["adios.py, window 1 ms"] < mean_us["adios.py"] < mean_us["fifo.py"]


def test_the_story_of_the_page(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    page = (ROOT / "docs" / "schedulers-of-your-own.md").read_text()
    begin = page.index("    from blklab.block.switch import set_elevator")
    code = textwrap.dedent(page[begin : page.index("\n\n`tests/elevator", begin)])
    monkeypatch.chdir(ROOT)
    exec(code, {})
    assert capsys.readouterr().out.strip() == code.rstrip().rpartition("# ")[2]
