"""Cost tables and the steps they price."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import pytest

import scale_costs
import sources
from blklab.core import steps
from blklab.core.errors import BlklabError
from blklab.core.steps import STEPS
from blklab.metrics.groups import summarize
from blklab.sim.api import simulate
from blklab.sim.costs import CostTable, cost_table_names, load_costs
from blklab.sim.machine import Machine, load_machine
from blklab.workload.jobfile import parse_job_text

NS = dict[str, int]


def prices(table: CostTable) -> NS:
    return {cost.step: cost.ns for cost in table.costs}


def test_the_constants_of_the_steps_agree_in_both_forms() -> None:
    text = (sources.PACKAGE_FOLDER / "core" / "steps.pxd").read_text()
    compiled = {name: int(value) for name, value in re.findall(r"^    (\w+) = (\d+)$", text, re.MULTILINE)}
    plain = {
        name: value for name, value in vars(steps).items() if name.startswith("STEP_") or name == "NR_STEPS"
    }
    assert compiled == plain
    assert plain.pop("NR_STEPS") == len(STEPS)
    assert plain == {f"STEP_{name.upper()}": number for number, (name, _) in enumerate(STEPS)}


def test_steps_have_a_name_and_an_explanation() -> None:
    assert len({name for name, _ in STEPS}) == len(STEPS)
    assert all(re.fullmatch(r"[a-z_]+", name) and len(text) > 10 for name, text in STEPS)


@pytest.mark.parametrize("name", cost_table_names())
def test_a_table_prices_every_step_in_order_and_says_where_from(name: str) -> None:
    table = load_costs(name)
    assert [cost.step for cost in table.costs] == [step for step, _ in STEPS]
    assert table.ns == tuple(cost.ns for cost in table.costs)
    assert all(cost.source for cost in table.costs)
    assert table.about


def test_zero_is_free_and_the_others_are_not() -> None:
    assert load_costs("zero").free
    assert not load_costs("icpe24").free
    assert not load_costs("xeon-2018").free


# -- held against real runs ---------------------------------------------------------------


ICPE24_JOB = """\
[job]
ioengine=io_uring
registerfiles=1
fixedbufs=1
direct=1
rw=randread
bs=4k
norandommap
iodepth=128
numjobs={numjobs}
group_reporting
ramp_time=20ms
runtime=60ms
time_based
"""
KYBER_JOB = """\
[job]
ioengine=libaio
direct=1
rw={rw}
bs=4k
size=16m
iodepth=64
numjobs=8
group_reporting
"""


def reads(job: str, machine: Machine, scheduler: str | None) -> tuple[float, float, float]:
    """IOPS, mean slat and mean clat (ns) of a job's reads."""
    entry = summarize(simulate(parse_job_text(job, "costs"), machine=machine, scheduler=scheduler))[0][0]
    stats = entry.stats.read
    return stats.done_ios * 1e9 / stats.runtime_ns, stats.slat.mean, stats.clat.mean


@pytest.mark.compiled_only
def test_icpe24_gives_the_row_it_was_calibrated_on_in_a_real_run() -> None:
    iops, slat, clat = reads(ICPE24_JOB.format(numjobs=1), load_machine("icpe24"), None)
    assert iops == pytest.approx(383_286.8, rel=0.004)
    assert slat == pytest.approx(1908, rel=0.03)
    assert clat == pytest.approx(331_603, rel=0.005)


@pytest.mark.compiled_only
@pytest.mark.parametrize(
    ("scheduler", "iops"),
    [("none", 354_059.9), ("mq-deadline", 293_693.8), ("kyber", 286_635.1), ("bfq", 236_063.8)],
)
def test_icpe24_log_gives_the_rows_of_each_scheduler_in_a_real_run(scheduler: str, iops: float) -> None:
    """The runs of fig-2, which logged every I/O; 0.9% is bfq's."""
    found, _, _ = reads(ICPE24_JOB.format(numjobs=1), load_machine("icpe24", costs="icpe24-log"), scheduler)
    assert found == pytest.approx(iops, rel=0.011)


@pytest.mark.compiled_only
@pytest.mark.parametrize(
    ("scheduler", "row_iops", "row_slat", "row_clat"),
    [("mq-deadline", 470_106, 20_809, 2_701_647), ("bfq", 274_411, 35_896, 4_628_174)],
)
def test_icpe24_gives_the_rows_of_ten_processes_on_one_lock_in_a_real_run(
    scheduler: str, row_iops: float, row_slat: float, row_clat: float
) -> None:
    # Long enough for the 1,280 I/Os in flight at the end, which are counted too, not to matter
    job = ICPE24_JOB.format(numjobs=10).replace("runtime=60ms", "runtime=400ms")
    iops, slat, clat = reads(job, load_machine("icpe24"), scheduler)
    assert iops == pytest.approx(row_iops, rel=0.03)
    assert slat == pytest.approx(row_slat, rel=0.05)
    assert clat == pytest.approx(row_clat, rel=0.04)


def test_xeon_2018_is_icpe24_scaled_by_one_row() -> None:
    new, old = prices(load_costs("icpe24")), prices(load_costs("xeon-2018"))
    log = prices(load_costs("icpe24-log"))["reap"] - new["reap"]
    assert log == pytest.approx(1e9 / 354_059.9 - 1e9 / 383_286.8, abs=1)
    factor = (1e9 / 188_940) / (1e9 / 286_635.1 - log)
    assert all(abs(old[step] - new[step] * factor) <= 1 for step in new)


@pytest.mark.compiled_only
@pytest.mark.parametrize(("rw", "slat"), [("read", 6890), ("randread", 7030)])
def test_kyber_thread_gives_the_slat_of_its_row_in_a_real_run(rw: str, slat: float) -> None:
    machine = load_machine("kyber-thread")
    assert machine.cpus.costs.name == "kyber-thread"
    _, found, _ = reads(KYBER_JOB.format(rw=rw), machine, None)
    assert found == pytest.approx(slat, rel=0.05)


def test_scaled_tables_are_what_their_tool_writes() -> None:
    for name, factor in scale_costs.SCALED.items():
        text = (sources.PACKAGE_FOLDER / "sim" / "costs" / f"{name}.toml").read_text()
        assert text[text.index("[steps]") :] == scale_costs.steps_of(factor)


def write(folder: Path, text: str, name: str = "mine.toml") -> str:
    path = folder / name
    path.write_text(text)
    return str(path)


def test_a_users_table_extends_another(tmp_path: Path) -> None:
    path = write(tmp_path, 'extends = "icpe24"\nsteps.tag_get = { ns = 50, source = "perf on my box" }\n')
    mine, base = load_costs(path), load_costs("icpe24")
    assert mine.name == "mine"
    assert mine.about == base.about
    assert {**prices(base), "tag_get": 50} == prices(mine)


def test_a_table_extends_a_file_beside_it(tmp_path: Path) -> None:
    write(tmp_path, 'extends = "zero"\nsteps.irq = { ns = 5, source = "x" }\n', "base.toml")
    path = write(tmp_path, 'extends = "base.toml"\nsteps.reap = { ns = 6, source = "x" }\n')
    assert sum(load_costs(path).ns) == 11


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ('about = "x"\n', None, "no figure for user_io, syscall"),
        ('extends = "zero"\n[steps]\ntag_gett = { ns = 1, source = "x" }\n', 3, "did you mean 'tag_get'"),
        ('extends = "zero"\n[steps]\nirq = 5\n', 3, "wants { ns = 114"),
        ('extends = "zero"\n[steps]\nirq = { ns = 5 }\n', 3, "wants { ns = 114"),
        ('extends = "zero"\n[steps]\nirq = { ns = 5, source = " " }\n', 3, "source of the figure is missing"),
        ('extends = "zero"\n[steps]\nirq = { ns = -5, source = "x" }\n', 3, "from 0 to"),
        ('extends = "zero"\n[steps]\nirq = { ns = 1.5, source = "x" }\n', 3, "from 0 to"),
        ('extends = "zero"\n[steps]\nirq = { ns = true, source = "x" }\n', 3, "from 0 to"),
        ('extends = "zero"\n[steps]\nirq = { ns = 99000000, source = "x" }\n', 3, "from 0 to"),
        ('extends = "zeero"\n', 1, "did you mean 'zero'"),
        ("extends = 3\n", 1, "extends names a cost table"),
        ('extends = "mine.toml"\n', 1, "extends itself"),
        ('extend = "zero"\n', 1, "did you mean 'extends'"),
        ('extends = "zero"\nsteps = 3\n', 2, "must be a table"),
    ],
)
def test_a_wrong_table_gives_one_clear_error(
    tmp_path: Path, text: str, line: int | None, message: str
) -> None:
    path = write(tmp_path, text)
    with pytest.raises(BlklabError, match=re.escape(message)) as caught:
        load_costs(path)
    assert caught.value.where == (path if line is None else f"{path}:{line}")


def test_a_table_without_about_is_refused(tmp_path: Path) -> None:
    text = "[steps]\n" + "".join(f'{step} = {{ ns = 0, source = "x" }}\n' for step, _ in STEPS)
    with pytest.raises(BlklabError, match="about"):
        load_costs(write(tmp_path, text))


def test_an_unknown_name_says_which_there_are() -> None:
    with pytest.raises(BlklabError, match=r"did you mean 'icpe24'.*zero"):
        load_costs("icpe")


def test_the_table_of_contributing_works_as_written(tmp_path: Path) -> None:
    text = (sources.ROOT / "CONTRIBUTING.md").read_text()
    section = text.partition("## Adding a cost table\n")[2].partition("\n## ")[0]
    block = re.search(
        r"(?:^       .*\n|^\n)*^       extends = .*\n(?:^       .*\n|^\n)*", section, re.MULTILINE
    )
    assert block is not None, "CONTRIBUTING.md has no example of a cost table"
    table = load_costs(write(tmp_path, textwrap.dedent(block[0])))
    assert prices(table)["syscall"] == 95
    assert prices(table)["split"] == prices(load_costs("icpe24"))["split"]
