"""`blklab list`: every list prints, from the tables it says it is made of."""

from __future__ import annotations

import pytest

from blklab.block.cgroup_files import all_files
from blklab.block.features import FEATURES, SCHEDULER_FEATURES
from blklab.cli.listing import LISTS, _spans, render
from blklab.cli.main import main
from blklab.core.steps import STEPS
from blklab.sim.costs import cost_table_names, load_costs
from blklab.sim.kernels import feature_history
from blklab.sim.machinefile import machine_names


def listed(capsys: pytest.CaptureFixture[str], *words: str) -> list[str]:
    assert main(["list", *words]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    return captured.out.splitlines()


def firsts(lines: list[str]) -> list[str]:
    """The first column: lines that continue another begin with a blank."""
    return [line.split()[0] for line in lines[1:] if line and not line[0].isspace()]


@pytest.mark.parametrize("what", sorted(LISTS))
def test_every_list_prints_a_head_and_rows(what: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert len(listed(capsys, what)) > 1


def test_machines(capsys: pytest.CaptureFixture[str]) -> None:
    assert firsts(listed(capsys, "machines")) == machine_names()


def test_features(capsys: pytest.CaptureFixture[str]) -> None:
    lines = listed(capsys, "features")
    assert firsts(lines) == [feature.name for feature in FEATURES]
    assert any("plug_lifo" in line and "5.16:1 6.12:0" in line for line in lines)


def test_kernels(capsys: pytest.CaptureFixture[str]) -> None:
    lines = listed(capsys, "kernels", "dispatch_busy=")
    assert [line.split()[:2] for line in lines[1:]] == [["4.19", "dispatch_busy=1"]]


def test_schedulers(capsys: pytest.CaptureFixture[str]) -> None:
    lines = listed(capsys, "schedulers")
    assert set(SCHEDULER_FEATURES) <= set(firsts(lines))
    assert any(line.startswith("kyber") and "4.12 on" in line for line in lines)
    assert any(line.startswith("cfq") and "before 5.0" in line for line in lines)


def test_options_filtered_by_a_word(capsys: pytest.CaptureFixture[str]) -> None:
    assert "iodepth" in firsts(listed(capsys, "options", "IODEPTH"))


def test_costs_and_one_cost_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert firsts(listed(capsys, "costs")) == cost_table_names()
    lines = listed(capsys, "costs", "icpe24")
    assert firsts(lines) == [step for step, _ in STEPS]
    syscall = next(cost.ns for cost in load_costs("icpe24").costs if cost.step == "syscall")
    assert any(line.split()[:2] == ["syscall", str(syscall)] for line in lines)


def test_spans_of_a_flag() -> None:
    assert _spans(feature_history("sched_kyber")) == "4.12 on"
    assert _spans(feature_history("sched_cfq")) == "before 5.0"
    assert _spans(feature_history("cfq_group_idle")) == "2.6.36 before 5.0"
    assert _spans(feature_history("sched_use_hw_tag")) == "never"
    assert _spans([("2.6.33", 1)]) == "always on"


def test_the_last_column_is_wrapped_and_lines_up() -> None:
    text = render((["a", "b"], [["x", "one two three four five six seven eight"]]), 40)
    assert text == "a  b\nx  one two three four five six seven\n   eight\n"


def test_cgroup_files(capsys: pytest.CaptureFixture[str]) -> None:
    lines = listed(capsys, "cgroup-files")
    assert sorted(firsts(lines)) == sorted(file.name for file in all_files())
    assert any(line.split()[:3] == ["io.weight", "v2", "rw"] and "not root" in line for line in lines)
