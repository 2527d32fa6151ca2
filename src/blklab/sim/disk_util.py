"""Which devices fio reports under "Disk stats", and their counters: diskutil.c of fio 3.33.

Theory of operation
-------------------
fio looks up the device of each file of each job. For a partition that is its disk. A device that has slaves in sysfs is
followed by them, and they by theirs; each device appears once. The line of a stacked device also has the means of its
slaves (`aggr_`), but only of those that were not in the list before it, so a device shared by two is counted with the
first. Slaves come in the order of the machine file; in sysfs their order is that of a directory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from blklab.metrics.result import DiskUtil

if TYPE_CHECKING:
    from collections.abc import Iterable

    from blklab.block.queue import RequestQueue


def disk_utils(queues: Iterable[RequestQueue], now_ns: int) -> list[DiskUtil]:
    """The disks that fio would report of jobs on these devices, in its order, with what they counted up to now."""
    found: dict[str, DiskUtil] = {}
    for queue in queues:
        _add(queue, found, now_ns)
    return list(found.values())


def slaves(queue: RequestQueue) -> list[RequestQueue]:
    """What a device is made of, as sysfs shows it: not of a partition."""
    if queue.whole is not None:
        return []
    made_of: list[RequestQueue] = getattr(queue.driver, "slaves", [])
    return made_of


def _add(queue: RequestQueue, found: dict[str, DiskUtil], now_ns: int) -> DiskUtil | None:
    disk = queue.whole or queue
    if disk.name in found:
        return None
    util = _counters(disk, now_ns)
    found[disk.name] = util
    added = [_add(slave, found, now_ns) for slave in slaves(disk)]
    util.members = tuple(slave for slave in added if slave is not None)
    return util


def _counters(queue: RequestQueue, now_ns: int) -> DiskUtil:
    line = queue.stat.stat_line()
    elapsed_ms = max(1, now_ns // 1_000_000)
    return DiskUtil(
        name=queue.name,
        read_ios=line[0],
        read_merges=line[1],
        read_sectors=line[2],
        read_ticks_ms=line[3],
        write_ios=line[4],
        write_merges=line[5],
        write_sectors=line[6],
        write_ticks_ms=line[7],
        in_queue_ms=line[10],
        util_pct=min(100.0, 100.0 * line[9] / elapsed_ms),
    )
