"""Kernel versions as features: each behaviour that changed between kernels has a name here and a typed field.

What: `FEATURES` is the literal table; `Features` holds one value of each for one run. Why: "what does this
patch do?" is one flag, and the hot code asks `features.plug_lifo` instead of comparing versions. Which
version has which value stands in `sim/kernels.toml`, with its sources; the defaults here are those of Linux
6.1.

Theory of operation
-------------------
Every field is a plain C integer when compiled: a bool is 0 or 1. `Features()` is Linux 6.1;
`sim.kernels.load_features` makes those of another version and applies what the user flipped. A feature that
no code asks for yet is not `built`: it may come with a version, but `--set feature/NAME=...` refuses it,
since flipping it would silently do nothing. Adding one: a line in `FEATURES`, a field in the class and in
features.pxd (a test holds the three together), its value before it existed in the `[base]` of kernels.toml,
and a `[[change]]` for the version that brought it.
"""

from __future__ import annotations

from typing import NamedTuple

# Values of `default_elevator`: the rule by which a blk-mq device gets its first scheduler
DEFAULT_NONE = 0
DEFAULT_MQ_DEADLINE_ONE_QUEUE = 1
DEFAULT_MQ_DEADLINE_ONE_QUEUE_OR_SHARED_TAGS = 2

# Values of `plug_limited_multiqueue`
LIMITED_NEVER = 0
LIMITED_WITHOUT_COMMIT = 1
LIMITED_ALWAYS = 2

# Values of `async_dispatch_from_worker`
WORKER_NEVER = 0
WORKER_ALWAYS = 1
WORKER_UNLESS_SYNC_MULTIQUEUE = 2


class Feature(NamedTuple):
    """One line of FEATURES."""

    name: str
    kind: str  # "bool" or "int"
    default: int  # in Linux 6.1
    built: bool  # whether flipping it does anything yet
    help: str
    least: int = 0
    most: int = 2**31 - 1


FEATURES: list[Feature] = [
    # The plug
    Feature("plug_max", "int", 32, True, "requests that a plug holds before it is flushed", least=1),
    Feature(
        "plug_max_several_queues",
        "int",
        64,
        True,
        "the same once it holds requests of several devices",
        least=1,
    ),
    Feature(
        "plug_flush_bytes",
        "int",
        131072,
        True,
        "a last request this large flushes the plug when another joins",
    ),
    Feature("plug_lifo", "bool", 1, True, "without a scheduler a plug is issued last request first"),
    Feature(
        "plug_issue_direct",
        "bool",
        1,
        True,
        "without a scheduler a plug is issued directly, even to a busy driver",
    ),
    Feature(
        "plug_sorted",
        "int",
        0,
        False,
        "a plug is sorted by sector before its flush: 0 never, 1 if of several devices, 2 always",
        most=2,
    ),
    Feature(
        "plug_unplug_traced_without_elevator",
        "bool",
        0,
        True,
        "the flush of a plug without a scheduler is traced (U)",
    ),
    Feature(
        "plug_limited_multiqueue",
        "int",
        0,
        True,
        "a plug keeps one request of a multi-queue device: 0 never, 1 if the driver has no commit_rqs, "
        "2 always",
        most=2,
    ),
    Feature(
        "aio_plug_threshold",
        "int",
        3,
        True,
        "io_submit and io_uring plug a batch of this many or more",
        least=1,
    ),
    Feature("io_uring_batched_tags", "bool", 1, True, "io_uring takes the tags of a whole batch at once"),
    # From the plug to the driver
    Feature(
        "direct_issue_if_idle",
        "bool",
        1,
        True,
        "without a scheduler requests go straight to an idle driver, also with one hardware queue",
    ),
    Feature(
        "dispatch_busy",
        "bool",
        1,
        True,
        "a moving average of BUSY answers decides about dequeueing one by one",
    ),
    Feature(
        "dispatch_busy_with_elevator",
        "bool",
        1,
        True,
        "it also bounds how many a scheduler hands over at once",
    ),
    Feature(
        "dequeue_one_by_one_with_budget",
        "bool",
        0,
        True,
        "software queues are emptied one by one whenever the driver has a budget",
    ),
    Feature(
        "list_splice_insert", "bool", 1, True, "the requests of a plug join the software queue in one splice"
    ),
    Feature(
        "merge_only_if_queued",
        "bool",
        1,
        True,
        "a software queue is locked for merging only if it holds requests",
    ),
    Feature(
        "async_dispatch_from_worker",
        "int",
        1,
        True,
        "unplugged requests of a scheduler are dispatched by a worker: 0 never, 1 always, "
        "2 unless synchronous on a multi-queue device",
        most=2,
    ),
    Feature(
        "sched_use_hw_tag",
        "bool",
        0,
        True,
        "a scheduler uses driver tags directly (posted in 2017, never merged)",
    ),
    Feature(
        "shared_sched_tags",
        "bool",
        1,
        True,
        "with host-wide tags the scheduler tags are one set per device too",
    ),
    # Bios and limits
    Feature(
        "late_bio_split",
        "bool",
        1,
        True,
        "bios may have any size and are cut at the queue; before: merge_bvec asked",
    ),
    Feature(
        "fast_bio_split",
        "bool",
        1,
        True,
        "a part cut off a bio shares its memory segments; before, each cut copied all that were left",
    ),
    Feature(
        "large_dio_bios",
        "bool",
        1,
        True,
        "direct I/O maps its pages straight into large bios; before: fs/direct-io.c, page by page",
    ),
    Feature(
        "dm_stripe_merge",
        "bool",
        1,
        True,
        "dm-stripe has a merge function; before, over other stacked devices it took bios of one page",
    ),
    Feature(
        "md_direct_writes",
        "bool",
        1,
        True,
        "raid1 and raid10 send writes on at once, without a bitmap; before, by way of the plug or their thread",
    ),
    Feature(
        "default_max_sectors",
        "int",
        2560,
        True,
        "cap of max_sectors where neither device nor user says more",
        least=8,
    ),
    Feature(
        "flush_data_scheduled",
        "bool",
        0,
        True,
        "the data of a flush sequence passes plug and scheduler; before, it went to the dispatch list",
    ),
    # Control groups
    Feature("cgroup_v2", "bool", 1, True, "the unified hierarchy: io.stat, io.max and its like"),
    Feature(
        "blkcg_iocost", "bool", 1, True, "io.weight is there (iocost's file; iocost itself is not built)"
    ),
    Feature(
        "io_prio_class",
        "int",
        2,
        True,
        "io.prio.class: 0 none, 1 a bio without a priority has none, 2 every bio has one (none-to-rt does nothing), "
        "3 also promote-to-rt",
        most=3,
    ),
    # blk-throttle
    Feature(
        "blk_throttle", "bool", 1, True, "blk-throttle is there: blkio.throttle.*, and io.max with cgroup v2"
    ),
    Feature(
        "throttle_split_iops",
        "int",
        2,
        True,
        "IOPS for the parts of a cut bio: 0 none, 1 counted and paid by the next bios, 2 the rest waits itself, "
        "3 and not for the bytes of others",
        most=3,
    ),
    Feature(
        "throttle_recharge",
        "bool",
        0,
        True,
        "the rest of a cut bio is charged anew, bytes and all (see also above)",
    ),
    Feature(
        "throttle_carryover",
        "int",
        1,
        True,
        "what bios had waited for when a limit is changed: 0 is lost, 1 carried over without a sign, 2 with one",
        most=2,
    ),
    Feature(
        "throttle_next_slice_wait", "bool", 1, True, "a bio above the IOPS waits for the next slice only"
    ),
    Feature("throttle_longest_wait", "bool", 0, True, "a bio above both limits waits for the longer"),
    Feature(
        "throttle_stats",
        "int",
        1,
        True,
        "blkio.throttle.io_serviced counts: 0 each bio, 1 those that a limit applies to, 2 each part of a bio",
        most=2,
    ),
    Feature("throttle_log_names", "bool", 0, True, "its messages in the trace name the group"),
    # Which paths and schedulers there are
    Feature("legacy_request_fn", "bool", 0, True, "drivers may use the single-queue path of before blk-mq"),
    Feature(
        "queue_plug", "bool", 0, True, "a single queue is plugged itself, for all tasks; since then tasks are"
    ),
    Feature("single_plug_sorted", "bool", 1, True, "a task's plug is flushed to a single queue by sector"),
    Feature("scsi_mq", "bool", 1, True, "SCSI disks can be on blk-mq (scsi_mod.use_blk_mq)"),
    Feature("scsi_mq_default", "bool", 1, True, "and are unless told otherwise"),
    Feature("nvme_mq", "bool", 1, True, "NVMe is on blk-mq"),
    Feature("sched_none_mq", "bool", 1, True, "blk-mq, and with it 'none'"),
    Feature("sched_mq_deadline", "bool", 1, True, "scheduler mq-deadline"),
    Feature("sched_kyber", "bool", 1, True, "scheduler kyber"),
    Feature("sched_bfq", "bool", 1, True, "scheduler bfq"),
    Feature("sched_noop", "bool", 0, True, "legacy scheduler noop"),
    Feature("sched_deadline", "bool", 0, True, "legacy scheduler deadline"),
    Feature("sched_cfq", "bool", 0, True, "legacy scheduler cfq"),
    Feature(
        "default_elevator",
        "int",
        2,
        True,
        "first scheduler of a blk-mq device: 0 none, 1 mq-deadline with one hardware queue, "
        "2 also with host-wide tags",
        most=2,
    ),
    # Inside the schedulers
    Feature("cfq_group_isolation", "bool", 0, True, "cfq has the tunable group_isolation"),
    Feature(
        "cfq_group_idle", "bool", 0, True, "cfq idles on a group (group_idle, 8 ms), and has an IOPS mode"
    ),
    Feature(
        "cfq_group_idle_flag",
        "bool",
        0,
        True,
        "cfq's group_idle is a flag, and the time is slice_idle (posted in 2009, not merged as such)",
    ),
    Feature(
        "cfq_return_to_front",
        "bool",
        0,
        True,
        "a group that comes back goes to the front of cfq's tree by weight, not to its end (2009, not merged)",
    ),
    Feature(
        "cfq_slice_scaled", "bool", 1, True, "with low_latency cfq's slices shrink with the number of queues"
    ),
    Feature(
        "cfq_seek_history",
        "bool",
        1,
        True,
        "cfq knows seeky queues by their last 32 requests, not by the mean distance",
    ),
    Feature(
        "cfq_quantum_soft", "bool", 1, True, "cfq's quantum is 8 and half of it a soft limit, not 4 and hard"
    ),
    Feature(
        "cfq_deep_queue",
        "bool",
        1,
        True,
        "cfq idles for a seeking queue that had four requests at once (76280aff)",
    ),
    Feature(
        "cfq_idle_rules",
        "bool",
        1,
        True,
        "cfq does not idle after writes that say that nobody follows, nor for deep seeky queues on a fast device",
    ),
    Feature(
        "cfq_preempt_rules",
        "bool",
        1,
        True,
        "cfq: no depth limit for the only synchronous queue, an empty queue not worth idling for is preempted",
    ),
    Feature(
        "cfq_ttime_trees",
        "bool",
        1,
        True,
        "cfq knows think times of service trees and groups, not of processes only",
    ),
    Feature("cfq_target_latency", "bool", 1, True, "cfq has the tunable target_latency"),
    Feature(
        "cfq_hierarchical_weights",
        "bool",
        1,
        True,
        "cfq's weights compound along the tree of groups, leaf_weight for a group's own tasks",
    ),
    Feature(
        "cfq_async_per_group",
        "bool",
        1,
        True,
        "each group has its own asynchronous queues in cfq, not only the root",
    ),
    Feature("cfq_ssd_no_idle", "bool", 1, True, "slice_idle of cfq is 0 at first on a device without seeks"),
    Feature(
        "cfq_preempt_child",
        "bool",
        1,
        True,
        "in cfq a request of a parent's group may preempt one of a child's",
    ),
    Feature(
        "cfq_ns_timers",
        "bool",
        1,
        True,
        "cfq counts nanoseconds instead of jiffies, and has tunables in microseconds",
    ),
    Feature(
        "cfq_fifo_first",
        "bool",
        1,
        True,
        "a request of cfq that has expired goes beyond the depth limit of its queue",
    ),
    Feature(
        "cfq_ssd_group_idle",
        "bool",
        1,
        True,
        "cfq idles on groups also on a device without seeks that queues requests",
    ),
    Feature("mq_deadline_prio", "bool", 1, True, "mq-deadline keeps RT, BE and IDLE requests apart"),
    Feature("mq_deadline_prio_aging", "bool", 1, True, "low classes get their turn after prio_aging_expire"),
    Feature(
        "mq_deadline_less_locking",
        "bool",
        0,
        True,
        "mq-deadline inserts through a list of its own and dispatches without waiting for its lock "
        "(posted in 2024, not merged)",
    ),
    Feature(
        "mq_deadline_latest_pos",
        "bool",
        0,
        True,
        "mq-deadline goes on behind the sector dispatched last, not with a remembered next request",
    ),
    Feature(
        "sched_async_depth_whole",
        "bool",
        0,
        True,
        "kyber and mq-deadline give their async limit as requests of nr_requests, not as bits of a word",
    ),
    Feature(
        "kyber_ctx_queue", "bool", 1, True, "kyber keeps requests per CPU and domain, where they can merge"
    ),
    Feature("kyber_histogram", "bool", 1, True, "kyber steers by latency percentiles instead of means"),
    Feature(
        "kyber_limit_all_but_sync_reads",
        "bool",
        0,
        True,
        "kyber limits the depth of synchronous writes as well",
    ),
]

FEATURE_TABLE: dict[str, Feature] = {feature.name: feature for feature in FEATURES}

# Scheduler -> the feature that says whether a kernel has it
SCHEDULER_FEATURES: dict[str, str] = {
    "none": "sched_none_mq",
    "mq-deadline": "sched_mq_deadline",
    "kyber": "sched_kyber",
    "bfq": "sched_bfq",
    "noop": "sched_noop",
    "deadline": "sched_deadline",
    "cfq": "sched_cfq",
}

# Those of the single queue (legacy_request_fn); all others that kernels have are of blk-mq
SINGLE_QUEUE_SCHEDULERS = ("noop", "deadline", "cfq")


class Features:
    """One value of each feature. `kernel` names the version they are of, for messages and reports."""

    kernel: str
    plug_max: int
    plug_max_several_queues: int
    plug_flush_bytes: int
    plug_lifo: int
    plug_issue_direct: int
    plug_sorted: int
    plug_unplug_traced_without_elevator: int
    plug_limited_multiqueue: int
    aio_plug_threshold: int
    io_uring_batched_tags: int
    direct_issue_if_idle: int
    dispatch_busy: int
    dispatch_busy_with_elevator: int
    dequeue_one_by_one_with_budget: int
    list_splice_insert: int
    merge_only_if_queued: int
    async_dispatch_from_worker: int
    sched_use_hw_tag: int
    shared_sched_tags: int
    late_bio_split: int
    fast_bio_split: int
    large_dio_bios: int
    dm_stripe_merge: int
    md_direct_writes: int
    default_max_sectors: int
    flush_data_scheduled: int
    cgroup_v2: int
    blkcg_iocost: int
    io_prio_class: int
    blk_throttle: int
    throttle_split_iops: int
    throttle_recharge: int
    throttle_carryover: int
    throttle_next_slice_wait: int
    throttle_longest_wait: int
    throttle_stats: int
    throttle_log_names: int
    legacy_request_fn: int
    queue_plug: int
    single_plug_sorted: int
    scsi_mq: int
    scsi_mq_default: int
    nvme_mq: int
    sched_none_mq: int
    sched_mq_deadline: int
    sched_kyber: int
    sched_bfq: int
    sched_noop: int
    sched_deadline: int
    sched_cfq: int
    default_elevator: int
    cfq_group_isolation: int
    cfq_group_idle: int
    cfq_group_idle_flag: int
    cfq_return_to_front: int
    cfq_slice_scaled: int
    cfq_seek_history: int
    cfq_quantum_soft: int
    cfq_deep_queue: int
    cfq_idle_rules: int
    cfq_preempt_rules: int
    cfq_ttime_trees: int
    cfq_target_latency: int
    cfq_hierarchical_weights: int
    cfq_async_per_group: int
    cfq_ssd_no_idle: int
    cfq_preempt_child: int
    cfq_ns_timers: int
    cfq_fifo_first: int
    cfq_ssd_group_idle: int
    mq_deadline_prio: int
    mq_deadline_prio_aging: int
    mq_deadline_less_locking: int
    mq_deadline_latest_pos: int
    sched_async_depth_whole: int
    kyber_ctx_queue: int
    kyber_histogram: int
    kyber_limit_all_but_sync_reads: int

    def __init__(self) -> None:
        self.kernel = "6.1.187"
        for feature in FEATURES:
            setattr(self, feature.name, feature.default)

    def as_dict(self) -> dict[str, int]:
        """Name -> value, in the order of FEATURES."""
        return {feature.name: int(getattr(self, feature.name)) for feature in FEATURES}


def scheduler_available(features: Features, name: str, single_queue: bool | None = None) -> bool:
    """Whether this kernel has the scheduler `name`, for devices with or without a single queue (None: any). One that no
    kernel has (a user's own) is available."""
    feature = SCHEDULER_FEATURES.get(name)
    if feature is None:
        return True
    if single_queue is not None and single_queue != (name in SINGLE_QUEUE_SCHEDULERS):
        return False
    return bool(getattr(features, feature))


def default_scheduler(
    features: Features, nr_hw_queues: int, shared_tags: bool, single_queue: bool = False
) -> str:
    """What a new device gets: elevator_get_default; on a single queue CONFIG_DEFAULT_IOSCHED, which was cfq.

    `shared_tags`: one tag set for all its hardware queues.
    """
    if single_queue:
        return "cfq" if features.sched_cfq else "deadline"
    rule = features.default_elevator
    one_queue = nr_hw_queues == 1
    if rule == DEFAULT_MQ_DEADLINE_ONE_QUEUE_OR_SHARED_TAGS:
        one_queue = one_queue or shared_tags
    if rule != DEFAULT_NONE and one_queue and features.sched_mq_deadline:
        return "mq-deadline"
    return "none"
