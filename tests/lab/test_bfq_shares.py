"""With few scheduler tags groups do not get the shares of their weights: how many tags each may hold decides too.

Captured in Linux 6.1.187 (cgroup/bfq-weights-500-1000-*): random reads at iodepth 16 in groups of weights 500 and
1000 are 1 : 2.02 with nr_requests 128; with 8 they are 1 : 1.79, and 1 : 1.61 with low_latency.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from blklab.lab.conform import judge
from blklab.lab.conform_capture import find_cases, read_capture
from blklab.lab.conform_compare import load_tolerances

CASES = find_cases(Path(__file__).resolve().parent.parent / "reference")


def ratio(case: str) -> tuple[float, float]:
    """IOPS of b for one of a: in the capture, in the model."""
    verdict = judge(read_capture(CASES[f"cgroup/bfq-weights-500-1000-randread-{case}"]), load_tolerances())
    assert verdict.iops is not None
    a, b = (verdict.iops[f"{job}/job.0"] for job in "ab")
    return b[0] / a[0], b[1] / a[1]


def test_tags_for_all_give_the_shares_of_the_weights() -> None:
    captured, model = ratio("nr128")

    assert captured == pytest.approx(2.02, abs=0.01)
    assert model == pytest.approx(captured, rel=0.03)


@pytest.mark.parametrize("case", ["low0", "low1"])
def test_eight_tags_for_thirty_two_ios_distort_them(case: str) -> None:
    captured, model = ratio(case)

    assert captured < 1.9
    assert 1.0 < model < 1.9


def test_with_low_latency_the_distortion_is_the_captured_one() -> None:
    captured, model = ratio("low1")

    assert model == pytest.approx(captured, rel=0.1)
