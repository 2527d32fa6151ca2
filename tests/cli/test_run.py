"""`blklab run`: what it makes of its options. The simulation itself is replaced; tests/sim runs the real one."""

from __future__ import annotations

import os
import signal
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from blklab.cli.main import main
from blklab.cli.run import OWN_OPTIONS, formats, parser
from blklab.metrics.result import JobResult, RunResult
from blklab.sim.machine import Machine
from blklab.workload.jobspec import JobFile

JOB = ["--name=a", "--rw=randread", "--size=1m", "--filename=nvme0n1"]


class Simulation:
    """Stands in for `sim.api.simulate`, and remembers what it got."""

    def __init__(self) -> None:
        self.called: dict[str, Any] = {}
        self.notes: list[str] = []
        self.interrupt = False

    def simulate(self, job_file: JobFile, **arguments: Any) -> RunResult:
        self.called = {"job_file": job_file, **arguments}
        if self.interrupt:
            os.kill(os.getpid(), signal.SIGINT)
            assert arguments["stop"].stopped
        return RunResult(jobs=[JobResult(name="a")], notes=self.notes)

    @property
    def machine(self) -> Machine:
        machine = self.called["machine"]
        assert isinstance(machine, Machine)
        return machine

    @property
    def jobs(self) -> list[tuple[str, str]]:
        return [(spec.name, spec.rw) for spec in self.called["job_file"].jobs]


@pytest.fixture
def simulation(monkeypatch: pytest.MonkeyPatch) -> Simulation:
    fake = Simulation()
    api: Any = types.ModuleType("blklab.sim.api")
    api.simulate = fake.simulate
    monkeypatch.setitem(sys.modules, "blklab.sim.api", api)
    return fake


def test_our_options_and_fios_may_stand_mixed(simulation: Simulation, tmp_path: Path) -> None:
    path = tmp_path / "j.fio"
    path.write_text("[first]\nrw=write\nsize=1m\nfilename=nvme0n1\n")
    argv = [str(path), "--set", "queue/nomerges=2", *JOB, "--seed=7", "--direct", "1"]
    assert main(["run", *argv]) == 0
    assert simulation.jobs == [("a", "randread"), ("first", "write")]
    assert simulation.called["seed"] == 7
    assert simulation.machine.devices[0].attributes[0][:2] == ("queue/nomerges", "2")


def test_our_options_are_the_parsers() -> None:
    help_text = parser().format_help()
    assert all(f"--{name}" in help_text for name in OWN_OPTIONS)
    for name, has_value in OWN_OPTIONS.items():
        word = {"seed": "--seed=1"}.get(name, f"--{name}=x" if has_value else f"--{name}")
        assert parser().parse_known_args([word])[1] == []


def test_the_machine_is_what_the_options_say(simulation: Simulation) -> None:
    argv = [
        "--machine=nvme-server",
        "--kernel=6.12",
        "--set=cpu/count=4",
        "--set",
        "queue/scheduler=none",
        "--zero-costs",
    ]
    assert main(["run", *JOB, *argv]) == 0
    machine = simulation.machine
    assert (machine.name, machine.features.kernel, machine.cpus.count) == ("nvme-server", "6.12.117", 4)
    assert machine.cpus.costs.free
    assert [device.attributes[0].value for device in machine.devices] == ["none", "none"]


def test_the_defaults(simulation: Simulation, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", *JOB]) == 0
    assert simulation.machine.name == "default"
    assert simulation.called["scheduler"] is None
    assert simulation.called["seed"] is None
    assert simulation.called["progress"] is None  # standard error is no terminal here
    captured = capsys.readouterr()
    assert "Run status group 0" in captured.out
    assert captured.err == ""


def test_a_scheduler_is_passed_on(simulation: Simulation) -> None:
    assert main(["run", *JOB, "--scheduler", "my/fifo.py:Fifo"]) == 0
    assert simulation.called["scheduler"] == "my/fifo.py:Fifo"


def test_formats_come_in_fios_order_and_each_once(
    simulation: Simulation, capsys: pytest.CaptureFixture[str]
) -> None:
    assert formats("normal,json") == ["json", "normal"]
    assert formats("json,json+") == ["json+"]
    assert formats("normal") == ["normal"]
    assert main(["run", *JOB, "--output-format=normal,json"]) == 0
    out = capsys.readouterr().out
    assert out.index('"fio version"') < out.index("Run status group 0")
    assert out.count("Run status group 0") == 1
    assert out.startswith("a: (g=0)")


def test_json_alone_is_json(simulation: Simulation, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", *JOB, "--output-format=json"]) == 0
    assert capsys.readouterr().out.startswith("{")


def test_results_go_to_a_file(
    simulation: Simulation, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "out.txt"
    simulation.notes = ["verify does nothing here"]
    assert main(["run", *JOB, f"--output={path}"]) == 0
    assert "Run status group 0" in path.read_text()
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == "blklab: note: verify does nothing here\n"


def test_ctrl_c_gives_the_results_so_far(simulation: Simulation, capsys: pytest.CaptureFixture[str]) -> None:
    simulation.interrupt = True
    assert main(["run", *JOB]) == 130
    captured = capsys.readouterr()
    assert "Run status group 0" in captured.out
    assert captured.err.endswith("blklab: interrupted: these are the results so far\n")
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_the_progress_line_can_be_had_and_be_kept_away(simulation: Simulation) -> None:
    assert main(["run", *JOB, "--eta=always"]) == 0
    assert simulation.called["progress"] is not None
    assert main(["run", *JOB, "--eta=never"]) == 0
    assert simulation.called["progress"] is None


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--trace=/nonexistent/x"], "--trace: there is no folder /nonexistent"),
        (
            ["--output-format=jsn"],
            "--output-format: no format 'jsn'; did you mean 'json'?; accepted are json, json+, normal",
        ),
        (["--output-format=terse"], "--output-format: terse is not built yet"),
        (["--output-format="], "--output-format: no format ''"),
        (["--output=/nonexistent/x"], "--output: there is no folder /nonexistent"),
        (["--seed=-1"], "--seed: a whole number from 0 to 2^63-1, not '-1'"),
        (["--seed=x"], "--seed: a whole number"),
        (["--eta=maybe"], "blklab run: argument --eta: invalid choice: 'maybe'"),
        (["--machine"], "command line: --machine needs a value"),
        (["--machine=nvme-serve"], "--machine: no machine 'nvme-serve'; did you mean 'nvme-server'?"),
        (["--kernel=4.21"], "--kernel: there is no Linux 4.21"),
        (["--kernel=4.1", "--scheduler=kyber"], "--scheduler: Linux 4.1 has no scheduler 'kyber'"),
        (["--costs=x"], "--costs: no cost table 'x'"),
        (["--costs=icpe24", "--zero-costs"], "--zero-costs: contradicts --costs icpe24"),
        (["--set=queue"], "--set: 'queue' is not PATH=VALUE"),
        (
            ["--set=feature/plug_sorted=2"],
            "--set feature/plug_sorted: feature plug_sorted is not built yet",
        ),
    ],
)
def test_a_wrong_option_gives_one_line(
    simulation: Simulation, argv: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", *JOB, *argv]) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith(f"blklab: error: {message}")
    assert captured.err.count("\n") == 1
    assert captured.out == ""
    assert simulation.called == {}


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ([], "command line: no job: give a job file"),
        (["--seed=1"], "command line: no job: give a job file"),
        (["missing.fio"], "missing.fio: "),
        ([*JOB, "--minimal"], "command line: fio's --minimal is not built"),
        ([*JOB, "--bogus=1"], "command line: unknown option 'bogus'"),
        ([*JOB, "--machin"], "command line: --machin needs a value"),
        (["--name=a", "--rw=raed"], "--rw"),
    ],
)
def test_a_wrong_job_gives_one_line(
    simulation: Simulation, argv: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", *argv]) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith(f"blklab: error: {message}")
    assert captured.err.count("\n") == 1
    assert simulation.called == {}
