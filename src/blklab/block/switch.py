"""Changing a queue while it is in use: freeze and drain, another scheduler, another nr_requests.

Theory of operation
-------------------
`freeze` keeps new bios out (their tasks sleep, with Q traced) and calls back when the last request has ended; what is
already in the queue goes on to the driver meanwhile. Then nothing is in flight, and the change is made in one step
with the queue quiesced; `unfreeze` lets the sleepers go on and runs all hardware queues. So the stall is seen between
Q and G, as in the captures of `switch/`.

A change asked for while another is under way waits for it: changes are made in the order they were asked for, as
`sysfs_lock` orders them in the kernel.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from blklab.block.elevator import Elevator, find_elevator
from blklab.block.elv_merge import ElvMerge
from blklab.block.features import SCHEDULER_FEATURES, scheduler_available
from blklab.block.tags import DEFAULT_RQ, MAX_SCHED_RQ, Tags
from blklab.core.errors import AttributeRefused

if TYPE_CHECKING:
    from collections.abc import Callable

    from blklab.block.queue import RequestQueue


def freeze(queue: RequestQueue, drained: Callable[[], object]) -> None:
    """Keep new bios out; call `drained` once no request is left, perhaps at once. May be nested."""
    queue.freeze_depth += 1
    if queue.usage == 0:
        drained()
    else:
        queue.when_drained.append(drained)


def unfreeze(queue: RequestQueue) -> None:
    """Let bios in again."""
    queue.freeze_depth -= 1
    if queue.freeze_depth:
        return
    sleepers = []
    while queue.frozen_waiters.head is not None:
        waiter = queue.frozen_waiters.head
        queue.frozen_waiters.remove(waiter)
        sleepers.append(waiter)
    for waiter in sleepers:
        waiter.wake()
    queue.run_all()


def change(queue: RequestQueue, make: Callable[[], object]) -> None:
    """Freeze, `make` the change when drained, unfreeze."""

    def now() -> None:
        queue.set_quiesced(True)
        try:
            make()
        finally:
            queue.set_quiesced(False)
            unfreeze(queue)

    freeze(queue, now)


def default_nr_requests(queue: RequestQueue, with_scheduler: bool) -> int:
    """2 * min(driver tags, 128) with a scheduler, the driver's tags without (blk_mq_init_sched)."""
    depth = queue.tag_set.queue_depth
    return 2 * min(depth, DEFAULT_RQ) if with_scheduler else depth


def set_elevator(queue: RequestQueue, choice: str | type[Elevator]) -> None:
    """Switch the scheduler: at once if nothing is in flight, else when the queue has drained.

    Raises BlklabError if there is no such scheduler, AttributeRefused (EINVAL) if it was to use driver tags and cannot;
    the present one stays then.
    """
    factory = find_elevator(choice)
    if queue.bio_based:
        return  # elv_iosched_store: taken and ignored where there are no requests
    name = choice if isinstance(choice, str) else choice.__name__
    _check_path(queue, factory, name)
    if queue.legacy is not None:
        _switch_single(queue, factory, name)
        return
    if factory is not None and queue.features.sched_use_hw_tag:
        why = why_no_hw_tag(queue)
        if why:
            raise AttributeRefused(
                f"{name} cannot use driver tags (feature sched_use_hw_tag): {why} (EINVAL)",
                f"{queue.name}: queue/scheduler",
            )

    def switch() -> None:
        _install(queue, factory, name)

    change(queue, switch)


def _check_path(queue: RequestQueue, factory: Callable[[RequestQueue], Elevator] | None, name: str) -> None:
    # A scheduler is of one of the two paths, and so is a queue
    single = queue.legacy is not None
    if factory is None:
        if single:
            raise AttributeRefused(
                "there is no 'none' on a single queue; noop is the scheduler that does least (EINVAL)",
                f"{queue.name}: queue/scheduler",
            )
        return
    if getattr(factory, "single_queue", False) == single:
        return
    has = [known for known in SCHEDULER_FEATURES if scheduler_available(queue.features, known, single)]
    what = "a single queue (legacy_request_fn)" if single else "a blk-mq queue"
    raise AttributeRefused(
        f"{name} is no scheduler of {what}; it has {', '.join(has)} (EINVAL)",
        f"{queue.name}: queue/scheduler",
    )


def _switch_single(
    queue: RequestQueue, factory: Callable[[RequestQueue], Elevator] | None, name: str
) -> None:
    assert factory is not None and queue.legacy is not None
    make = factory

    def install() -> None:
        if queue.elevator is not None:
            queue.elevator.exit()
        queue.last_merge = None
        queue.elv_merge = ElvMerge(queue)
        elevator = make(queue)
        queue.elevator = elevator
        queue.elevator_hooks = elevator.hooks
        queue.elevator_name = name
        elevator.init_hctx(queue.hctxs[0])

    queue.legacy.switch_elevator(install, f"elv switch: {name}")


def why_no_hw_tag(queue: RequestQueue) -> str:
    """Why a scheduler here could not work with driver tags alone; empty: it can.

    The series of 2017 that proposed it names no threshold. Ours: as many driver tags a hardware queue as the scheduler
    would have of its own, and nobody else who takes some of them away.
    """
    tag_set = queue.tag_set
    if tag_set.queue_shared:
        return f"its driver tags are shared by {len(tag_set.queues)} devices"
    if tag_set.hctx_shared:
        return "its driver tags are shared by its hardware queues"
    wanted = default_nr_requests(queue, True)
    if tag_set.queue_depth < wanted:
        return f"it has {tag_set.queue_depth} driver tags a hardware queue, a scheduler wants {wanted}"
    return ""


def _install(queue: RequestQueue, factory: Callable[[RequestQueue], Elevator] | None, name: str) -> None:
    if queue.elevator is not None:
        queue.elevator.exit()
    queue.elevator = None
    queue.elevator_hooks = 0
    queue.last_merge = None
    queue.elv_merge = ElvMerge(queue)
    queue.hw_tag = False
    queue.sq_sched = False
    queue.elevator_name = "none"
    queue.nr_requests = default_nr_requests(queue, factory is not None)
    for hctx in queue.hctxs:
        hctx.sched_data = None
        hctx.sched_tags = None
        hctx.sched_rqs = []
        hctx.restart = False
    if factory is None:
        return
    # A device that joined the tag set meanwhile: back to tags of its own, rather than more than its share
    queue.hw_tag = bool(queue.features.sched_use_hw_tag) and not why_no_hw_tag(queue)
    if not queue.hw_tag:
        _make_sched_tags(queue)
    elevator = factory(queue)
    queue.elevator = elevator
    queue.elevator_hooks = elevator.hooks
    queue.sq_sched = elevator.sq_sched
    queue.elevator_name = name
    for hctx in queue.hctxs:
        elevator.init_hctx(hctx)


def _make_sched_tags(queue: RequestQueue) -> None:
    shared = None
    if queue.features.shared_sched_tags and queue.tag_set.hctx_shared:
        shared = Tags(MAX_SCHED_RQ, 0, queue.host.nr_cpus)
        shared.resize(queue.nr_requests)
    for hctx in queue.hctxs:
        hctx.sched_tags = shared or Tags(queue.nr_requests, 0, queue.host.nr_cpus)
        hctx.sched_rqs = [None] * (MAX_SCHED_RQ if shared else queue.nr_requests)


def set_nr_requests(queue: RequestQueue, nr: int) -> None:
    """Write nr_requests: below 4 (BLKDEV_MIN_RQ) it becomes 4; refused above the driver's tags without a scheduler,
    above 2048 with one (blk_mq_update_nr_requests). On a single queue any number goes, at once."""
    if queue.bio_based:
        raise AttributeRefused(
            "a stacked device has no requests (EINVAL)", f"{queue.name}: queue/nr_requests"
        )
    nr = max(nr, 4)
    if queue.legacy is not None:
        queue.legacy.set_nr_requests(nr)
        return
    if nr == queue.nr_requests and not queue.freeze_depth:
        return
    _check_nr_requests(queue, nr)

    def resize() -> None:
        # A switch that was asked for before may have changed what is allowed: the write fails then, too late to say so
        try:
            _check_nr_requests(queue, nr)
        except AttributeRefused:
            return
        for hctx in queue.hctxs:
            if queue.elevator is None or queue.hw_tag:
                hctx.tags.resize(nr)
            else:
                hctx.sched_tags.resize(nr)  # type: ignore[union-attr]
                if len(hctx.sched_rqs) < nr:
                    hctx.sched_rqs.extend([None] * (nr - len(hctx.sched_rqs)))
            # kernel: the hook runs before the new value is stored, so what it computes lags one write behind
            if queue.elevator is not None:
                queue.elevator.depth_updated(hctx)
        queue.nr_requests = nr

    change(queue, resize)


def _check_nr_requests(queue: RequestQueue, nr: int) -> None:
    where = f"{queue.name}: queue/nr_requests"
    if queue.elevator is None or queue.hw_tag:
        if nr > queue.tag_set.queue_depth:
            raise AttributeRefused(
                f"{nr} is above the {queue.tag_set.queue_depth} tags of the driver, "
                f"which are all there is without a scheduler (EINVAL)",
                where,
            )
    elif nr > MAX_SCHED_RQ:
        raise AttributeRefused(f"{nr} is above {MAX_SCHED_RQ}, the most scheduler tags (EINVAL)", where)
