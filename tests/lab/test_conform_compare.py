"""What counts as the same: each check, and the verdict."""

from __future__ import annotations

from typing import Any

import pytest

from blklab.core.errors import BlklabError
from blklab.lab.conform_capture import Capture, SentBio, TracedEvent
from blklab.lab.conform_compare import (
    DIFFERS,
    EXACT,
    WITHIN,
    Tolerance,
    Verdict,
    case_rate,
    compare,
    first_difference,
    load_tolerances,
    mean_runs,
    tolerance_of,
)
from blklab.lab.conform_model import ModelRun

SETUP = {
    "compare": {"level": "counts", "checks": [{"what": "counts", "actions": ["Q"]}]},
    "memory": "separate",
}


def events(text: str) -> list[TracedEvent]:
    # "Q0 D0 W8": an action and a sector, reads of 8 sectors; a w behind it makes it a write
    found = []
    for word in text.split():
        write = word.endswith("w")
        digits = word.rstrip("w").lstrip("QGMFXPUTIDRC")
        found.append(
            TracedEvent(word.rstrip("w").removesuffix(digits), "W" if write else "R", int(digits), 8)
        )
    return found


def case(captured: str, iops: dict[str, float] | None = None) -> Capture:
    rates = {job: (rate, 0.0) for job, rate in (iops or {}).items()}
    bios = [SentBio(0, "a/x.0", "nullb0", "R", 0, 8, 1)] * 8
    return Capture("busy/x", SETUP, {}, rates, {}, bios, {"nullb0": events(captured)})


def model(modelled: str, iops: dict[str, float] | None = None, **more: Any) -> ModelRun:
    rates = {job: (rate, 0.0) for job, rate in (iops or {}).items()}
    return ModelRun({"nullb0": events(modelled)}, rates, {}, more.pop("attributes", []), **more)


def verdict(captured: Capture, modelled: ModelRun, *checks: dict[str, Any]) -> Verdict:
    return compare(captured, modelled, Tolerance(("*",), "why", ("D",), checks))


def test_the_same_is_exact() -> None:
    found = verdict(case("Q0 Q8 D8 D0 C8 C0"), model("Q0 Q8 D8 D0 C0 C8"))

    assert (found.status, found.difference) == (EXACT, None)
    assert found.counts == {"nullb0": {"Q": (2, 2), "D": (2, 2), "C": (2, 2)}}


def test_another_order_is_within_tolerance_if_it_may_be() -> None:
    captured, modelled = (
        case("Q0 Q8 Q16 Q24 Q32 D0 D8 D16 D24 D32"),
        model("Q0 Q8 Q16 Q24 Q32 D0 D8 D16 D32 D24"),
    )

    found = verdict(captured, modelled)

    assert found.status == WITHIN
    assert found.difference is not None
    assert (found.difference.index, found.difference.first) == (3, 0)
    assert found.difference.captured == ("D R 0 + 8", "D R 8 + 8", "D R 16 + 8", "D R 24 + 8", "D R 32 + 8")
    assert found.difference.modelled[3] == "D R 32 + 8"
    assert verdict(captured, modelled, {"what": "sequence", "actions": ["D"]}).status == DIFFERS


def test_one_completion_less_is_not_exact() -> None:
    assert verdict(case("Q0 D0 C0"), model("Q0 D0")).status == WITHIN


def test_what_one_side_has_more_is_a_difference() -> None:
    found = first_difference("nullb0", events("D0 D8"), events("D0"), ["D"])

    assert found is not None
    assert (found.index, found.captured, found.modelled) == (1, ("D R 0 + 8", "D R 8 + 8"), ("D R 0 + 8",))


@pytest.mark.parametrize(
    ("allowed", "status"),
    [({}, DIFFERS), ({"absolute": 1}, WITHIN), ({"relative": 0.2}, DIFFERS), ({"relative": 0.25}, WITHIN)],
)
def test_counts_have_an_absolute_and_a_relative_tolerance(allowed: dict[str, float], status: str) -> None:
    captured, modelled = case("Q0 D0 D8 D16 D24"), model("Q0 D0 D8 D16")

    assert verdict(captured, modelled, {"what": "counts", "actions": ["D"], **allowed}).status == status


def test_a_sum_of_two_actions_is_one_count() -> None:
    captured, modelled = case("Q0 M0 F8"), model("Q0 M0 M8")

    assert verdict(captured, modelled, {"what": "counts", "actions": ["M+F"]}).status == WITHIN
    found = verdict(captured, modelled, {"what": "counts", "actions": ["M", "F"]})
    assert found.reason == "nullb0: 2 M for 1; nullb0: 0 F for 1"


def test_sectors_add_up() -> None:
    captured, modelled = case("D0 D8"), model("D0")

    found = verdict(captured, modelled, {"what": "sectors", "actions": ["D"]})
    assert (found.status, found.reason) == (DIFFERS, "nullb0: sectors of D 8 for 16")


@pytest.mark.parametrize(("captured", "status"), [("D0", DIFFERS), ("D0 D8", WITHIN), ("D0 D8 D16", WITHIN)])
def test_unknown_memory_lies_between_two_runs(captured: str, status: str) -> None:
    modelled = model("D0 D8 D16 D24", contiguous={"nullb0": events("D0 D8")})

    assert verdict(case(captured), modelled, {"what": "between", "actions": ["D"]}).status == status


def test_runs_of_one_direction() -> None:
    assert mean_runs(events("D0 Q8 D8 D16w D24 D32 D40w D48w"), "D") == {"R": 2.0, "W": 1.5}
    captured, modelled = case("D0 D8 D16w"), model("D0 D16w D8")
    found = verdict(captured, modelled, {"what": "runs", "action": "D", "relative": 0.2})
    assert found.reason == "nullb0: runs of R 1.00 long for 2.00"


def test_rates_by_job_and_by_case() -> None:
    captured = case("Q0", {"a/x.0": 100, "a/x.1": 100})
    modelled = model("Q0", {"a/x.0": 50, "a/x.1": 200})

    by_job = verdict(captured, modelled, {"what": "iops", "per": "job", "relative": 0.15})
    assert by_job.reason == "a/x.0: 50 IOPS for 100; a/x.1: 200 IOPS for 100"
    # 4 I/Os of each job: the slower needs 80 ms instead of 40
    assert (case_rate(captured, captured.iops), case_rate(captured, modelled.iops)) == (200, 100)
    by_case = verdict(captured, modelled, {"what": "iops", "per": "case", "relative": 0.15})
    assert by_case.reason == "100 IOPS in all for 200"


def test_a_queue_attribute_that_differs_is_a_difference() -> None:
    found = verdict(case("Q0"), model("Q0", attributes=["nullb0/queue/nr_requests: 64, the kernel had 128"]))

    assert found.status == DIFFERS
    assert "nr_requests: 64, the kernel had 128" in found.reason


def test_the_labs_own_checks_can_be_asked_for() -> None:
    assert verdict(case("Q0 Q8"), model("Q0"), {"what": "setup"}).reason == "nullb0: 1 Q for 2"


def test_an_unknown_check_is_an_error() -> None:
    with pytest.raises(BlklabError, match="unknown check 'sequins'"):
        verdict(case("Q0"), model("Q0"), {"what": "sequins"})


def test_the_first_entry_that_fits_counts() -> None:
    entries = (
        Tolerance(("plug/*",), "", (), ()),
        Tolerance(("busy/*",), "", (), (), level="exact"),
        Tolerance(("busy/?",), "", (), (), memory="separate"),
        Tolerance(("*",), "", (), ()),
    )

    assert tolerance_of(case("Q0"), entries) is entries[2]
    with pytest.raises(BlklabError, match="no entry fits the case busy/x"):
        tolerance_of(case("Q0"), entries[:2])


def test_the_file_of_tolerances_is_readable() -> None:
    known = {"setup", "sequence", "counts", "sectors", "between", "runs", "iops"}

    for entry in load_tolerances():
        assert entry.cases
        assert {check["what"] for check in entry.checks} <= known
