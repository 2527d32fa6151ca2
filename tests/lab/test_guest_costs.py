"""The cost table of the lab's guest: the model takes the time that the guest took from one event to the next."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from blklab.lab.conform_capture import read_capture
from blklab.lab.conform_model import COSTS, run_case
from blklab.sim.costs import load_costs

REFERENCE = Path(__file__).resolve().parent.parent / "reference"

# case, pair of events (or several: their sum), by how much the medians may differ (relative)
GAPS = [
    ("basic/none-randread", "Q G", 0.05),
    ("basic/none-randread", "G Q", 0.01),
    ("basic/none-randread", "D D", 0.01),
    ("basic/none-randread", "C C", 0.05),
    ("basic/none-randread", "D C", 0.02),
    ("basic/none-seqread", "Q M", 0.01),
    ("basic/none-seqread", "M Q", 0.01),
    ("basic/none-seqread", "D Q", 0.02),
    ("basic/none-seqread", "C Q", 0.02),
    ("basic/none-seqwrite", "M Q", 0.06),
    ("busy/null-none-mbps", "G I", 0.01),
    ("busy/null-none-mbps", "I Q", 0.01),
    ("busy/null-none-mbps", "M Q", 0.01),
    ("busy/null-none-mbps", "Q M", 0.01),
    ("busy/null-none-mbps", "D R", 0.01),
    ("busy/scsi-none-qdepth2", "I Q", 0.05),
    ("busy/scsi-none-max_queue4", "G D,D Q", 0.03),
    ("merge/none-read", "Q G", 0.01),
    ("merge/none-read", "G D,D Q", 0.02),
    ("split/max128k-bs1m", "Q X", 0.01),
    ("split/max128k-bs1m", "X G", 0.01),
    ("split/dm-stripe4-bs1m", "Q X", 0.01),
    ("split/dm-stripe4-bs1m", "X X", 0.01),
    ("split/dm-stripe4-odd", "X X", 0.02),
    ("split/md-raid0-4-bs1m", "X X", 0.13),
]


@pytest.mark.parametrize(("case", "pair", "relative"), GAPS)
def test_the_model_takes_the_guests_time(case: str, pair: str, relative: float) -> None:
    capture = read_capture(REFERENCE / f"{case}.json.gz")
    pairs = pair.split(",")

    modelled = run_case(capture).gaps

    assert all(capture.gaps[one][0] > 5 for one in pairs)
    captured_ns = sum(capture.gaps[one][1] for one in pairs)
    assert sum(modelled[one][1] for one in pairs) == pytest.approx(captured_ns, rel=relative)


def test_every_figure_names_the_gap_it_was_read_off() -> None:
    read_off = re.compile(r"[A-Z]+>[A-Z]+|last Q|sum of")
    elsewhere = re.compile(
        r"share of the same|the same[:,]|as lock_ctx|assumed|the rest of it|a batch of|of the guest"
        r"|estimated by reading"
    )
    for cost in load_costs(COSTS).costs:
        assert read_off.search(cost.source) or elsewhere.search(cost.source), cost
