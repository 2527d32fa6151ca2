"""Kernel versions as features: the table, the file, the versions, and what is refused."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import sources
from blklab.block import features as features_module
from blklab.block.features import (
    FEATURE_TABLE,
    FEATURES,
    SCHEDULER_FEATURES,
    Features,
    default_scheduler,
    scheduler_available,
)
from blklab.core.errors import BlklabError
from blklab.sim import kernels
from blklab.sim.kernels import feature_history, kernel_release, load_features, parse_version

SOURCE = sources.PACKAGE_FOLDER / "block"


def test_the_table_the_class_and_the_pxd_have_the_same_fields() -> None:
    names = [feature.name for feature in FEATURES]
    declared = re.findall(r"^    cdef public int (\w+)$", (SOURCE / "features.pxd").read_text(), re.MULTILINE)
    annotated = re.findall(r"^    (\w+): int$", (SOURCE / "features.py").read_text(), re.MULTILINE)
    assert sorted(declared) == sorted(names)
    assert sorted(annotated) == sorted(names)
    assert len(set(names)) == len(names)


def test_a_features_object_is_linux_6_1() -> None:
    features = Features()
    assert features.as_dict() == load_features("6.1").as_dict()
    assert features.as_dict() == {feature.name: feature.default for feature in FEATURES}
    assert features.kernel == load_features("6.1").kernel == "6.1.187"


def test_fields_are_plain_integers_in_both_forms() -> None:
    features = Features()
    features.plug_max = 7
    assert features.plug_max == 7
    assert all(type(value) is int for value in features.as_dict().values())


def test_the_file_gives_every_feature_a_first_value_and_names_no_other() -> None:
    base = kernels._base()
    assert sorted(base) == sorted([*FEATURE_TABLE, "version"])
    assert {change.feature for change in kernels.changes()} <= set(FEATURE_TABLE)


def test_changes_are_in_order_change_something_and_have_a_source() -> None:
    versions = [kernels._numbers(change.version) for change in kernels.changes()]
    assert versions == sorted(versions)
    for name in FEATURE_TABLE:
        values = [value for _, value in feature_history(name)]
        assert all(a != b for a, b in itertools.pairwise(values)), name
        assert all(FEATURE_TABLE[name].least <= value <= FEATURE_TABLE[name].most for value in values), name
    assert all(len(change.source) > 10 for change in kernels.changes())


def test_a_bool_is_0_or_1_everywhere() -> None:
    for feature in FEATURES:
        if feature.kind == "bool":
            assert {value for _, value in feature_history(feature.name)} <= {0, 1}
        else:
            assert feature.kind == "int"


@pytest.mark.parametrize("feature", [feature.name for feature in FEATURES if feature.built])
def test_a_built_feature_is_asked_for_somewhere(feature: str) -> None:
    if feature in SCHEDULER_FEATURES.values():
        return  # asked for by way of SCHEDULER_FEATURES
    files = [path for path in sources.PACKAGE_FOLDER.rglob("*.py") if path.name != "kernels.py"]
    assert any(re.search(rf"\bfeatures\.{feature}\b", path.read_text()) for path in files)


@pytest.mark.parametrize(
    ("kernel", "values"),
    [
        # What each seed's patch is, and the captures' kernel
        (
            "4.17",
            {
                "kyber_ctx_queue": 0,
                "dispatch_busy": 0,
                "list_splice_insert": 0,
                "dequeue_one_by_one_with_budget": 1,
            },
        ),
        ("4.18", {"kyber_ctx_queue": 1, "dispatch_busy": 0, "merge_only_if_queued": 0}),
        ("4.19", {"dispatch_busy": 1, "list_splice_insert": 1, "dequeue_one_by_one_with_budget": 0}),
        ("4.14.7", {"dequeue_one_by_one_with_budget": 0}),
        ("4.2", {"late_bio_split": 0}),
        (
            "2.6.38",
            {"queue_plug": 1, "legacy_request_fn": 1, "default_max_sectors": 1024, "aio_plug_threshold": 1},
        ),
        ("2.6.39", {"queue_plug": 0, "plug_max": 16, "late_bio_split": 0, "large_dio_bios": 0}),
        ("3.12", {"sched_none_mq": 0, "scsi_mq": 0, "nvme_mq": 0}),
        ("4.18", {"scsi_mq": 1, "scsi_mq_default": 0, "legacy_request_fn": 1}),
        ("4.20", {"scsi_mq_default": 1, "legacy_request_fn": 1, "sched_cfq": 1}),
        ("5.0", {"legacy_request_fn": 0, "sched_cfq": 0, "sched_noop": 0}),
        ("4.3", {"late_bio_split": 1, "fast_bio_split": 0, "default_max_sectors": 2560}),
        ("4.4", {"fast_bio_split": 1, "large_dio_bios": 0}),
        ("4.10", {"large_dio_bios": 1}),
        (
            "5.15",
            {"plug_max": 16, "plug_max_several_queues": 64, "plug_lifo": 0, "mq_deadline_prio_aging": 0},
        ),
        ("5.16", {"plug_max": 32, "plug_lifo": 1, "plug_unplug_traced_without_elevator": 0}),
        ("6.12", {"plug_lifo": 0, "plug_unplug_traced_without_elevator": 1}),
        ("2.6.34", {"cfq_group_isolation": 1, "cfq_group_idle": 0, "sched_none_mq": 0}),
        ("2.6.38", {"cfq_group_isolation": 1, "cfq_group_idle": 1}),
    ],
)
def test_a_version_has_its_values(kernel: str, values: dict[str, int]) -> None:
    found = load_features(kernel).as_dict()
    assert {name: found[name] for name in values} == values


def test_a_version_between_two_sets_is_the_older_one() -> None:
    assert load_features("5.13").as_dict() == load_features("5.10").as_dict()
    assert load_features("5.14").as_dict() != load_features("5.13").as_dict()


def test_6_12_means_the_release_that_was_read_and_others_themselves() -> None:
    assert kernel_release("6.12") == "6.12.117"
    assert kernel_release("6.11") == "6.11"
    assert kernel_release("6.1.0-53-amd64") == "6.1.0"


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        ("", "not a kernel version"),
        ("six", "not a kernel version"),
        ("6", "not a kernel version"),
        ("6.1.2.3.4", "not a kernel version"),
        ("4.21", "the series ended with 4.20"),
        ("2.6.40", "the series ended with 2.6.39"),
        ("3.20.1", "the series ended with 3.19"),
        ("2.6.32", "the oldest is 2.6.33"),
        ("2.4.37", "the oldest is 2.6.33"),
        ("12.0", "known are 2.6.33 to 7.x"),
    ],
)
def test_what_is_no_version_is_refused(kernel: str, message: str) -> None:
    with pytest.raises(BlklabError, match=re.escape(message)) as caught:
        load_features(kernel)
    assert caught.value.where == "--kernel"


@given(st.text(max_size=12))
def test_any_text_is_a_version_or_one_clear_error(text: str) -> None:
    try:
        version = parse_version(text)
    except BlklabError as error:
        assert error.where == "--kernel" and len(str(error)) < 200
    else:
        assert (2, 6, 33) <= version < (8,)


def test_flipping_a_feature() -> None:
    features = load_features("4.17", {"dispatch_busy": "on", "plug_max": "5"})
    assert (features.dispatch_busy, features.plug_max) == (1, 5)
    assert load_features("4.17").dispatch_busy == 0


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("plug_lif", "1", "did you mean 'plug_lifo'"),
        ("kyber_histogram", "0", "not built yet"),
        ("plug_lifo", "2", "accepted are 0 and 1"),
        ("plug_lifo", "", "accepted are 0 and 1"),
        ("plug_max", "0", "from 1 to"),
        ("plug_max", "many", "from 1 to"),
        ("plug_max", "99999999999", "from 1 to"),
        ("async_dispatch_from_worker", "3", "from 0 to 2"),
    ],
)
def test_a_wrong_flip_is_refused_by_name(name: str, value: str, message: str) -> None:
    if message == "not built yet" and FEATURE_TABLE[name].built:
        name = next(feature.name for feature in FEATURES if not feature.built)
    with pytest.raises(BlklabError, match=re.escape(message)) as caught:
        load_features("6.1", {name: value})
    assert caught.value.where == f"--set feature/{name}"


def test_an_unbuilt_feature_comes_with_its_version_and_is_named() -> None:
    unbuilt = [feature for feature in FEATURES if not feature.built]
    assert kernels.unbuilt_differences(load_features("6.1")) == []
    old = load_features("2.6.34")
    expected = [feature.name for feature in unbuilt if getattr(old, feature.name) != feature.default]
    assert kernels.unbuilt_differences(old) == expected


def test_schedulers_by_version() -> None:
    def has(kernel: str) -> list[str]:
        return [name for name in SCHEDULER_FEATURES if scheduler_available(load_features(kernel), name)]

    assert has("6.1") == ["none", "mq-deadline", "kyber", "bfq"]
    assert has("4.1") == ["none", "noop", "deadline", "cfq"]
    assert has("4.11") == ["none", "mq-deadline", "noop", "deadline", "cfq"]
    assert has("2.6.33") == ["noop", "deadline", "cfq"]
    assert scheduler_available(load_features("4.1"), "my-own")
    both = load_features("4.11")
    assert [name for name in SCHEDULER_FEATURES if scheduler_available(both, name, True)] == [
        "noop",
        "deadline",
        "cfq",
    ]
    assert [name for name in SCHEDULER_FEATURES if scheduler_available(both, name, False)] == [
        "none",
        "mq-deadline",
    ]


def test_the_default_scheduler_of_a_device() -> None:
    new, old, oldest = load_features("6.1"), load_features("4.19"), load_features("4.1")
    assert default_scheduler(new, 1, False) == "mq-deadline"
    assert default_scheduler(new, 8, False) == "none"
    assert default_scheduler(new, 8, True) == "mq-deadline"
    assert default_scheduler(old, 8, True) == "none"
    assert default_scheduler(oldest, 1, False) == "none"
    assert default_scheduler(oldest, 1, False, single_queue=True) == "cfq"
    assert default_scheduler(load_features("4.20"), 1, False, single_queue=True) == "cfq"


def test_the_module_is_compiled_when_the_package_is(compiled: bool) -> None:
    assert Path(features_module.__file__).suffix == (".so" if compiled else ".py")
