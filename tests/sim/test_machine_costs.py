"""Cost tables and the steps they price."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import pytest

import sources
from blklab.core import steps
from blklab.core.errors import BlklabError
from blklab.core.steps import STEPS
from blklab.sim.costs import CostTable, cost_table_names, load_costs

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


SUBMISSION = (
    "syscall",
    "submit_io",
    "bio_alloc",
    "bio_page",
    "submit_bio",
    "tag_get",
    "rq_init",
    "dispatch_one",
    "queue_rq",
)
REST = ("user_io", "reap", "irq", "complete", "end_bio", "tag_put")
SCHEDULER = {
    "sched_tag_get": 1,
    "tag_put": 1,
    "sched_insert": 1,
    "sched_dispatch": 1,
    "lock_sched": 3,
    "run_queue": 1,
}


def test_icpe24_adds_up_to_the_rows_it_was_calibrated_on() -> None:
    """fig-2 at QD 128: IOPS of one CPU, and slat without a scheduler; the file has the figures too."""
    ns = prices(load_costs("icpe24"))
    slat = sum(ns[step] for step in SUBMISSION)
    none = slat + sum(ns[step] for step in REST)
    extra = sum(ns[step] * times for step, times in SCHEDULER.items())
    assert slat == 1885
    assert none == pytest.approx(1e9 / 354059.9, abs=1)
    for scheduler, iops in (("mq_deadline", 293693.8), ("kyber", 286635.1), ("bfq", 236063.8)):
        assert none + extra + ns[scheduler] == pytest.approx(1e9 / iops, abs=2)


def test_xeon_2018_is_icpe24_scaled_by_one_row() -> None:
    new, old = prices(load_costs("icpe24")), prices(load_costs("xeon-2018"))
    factor = (1e9 / 188940) / (1e9 / 286635.1)
    assert all(abs(old[step] - new[step] * factor) <= 1 for step in new)


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
