"""The paths of a dm-multipath device: which one is next (round-robin), which have failed.

Theory of operation (dm-mpath.c, dm-round-robin.c of 6.1)
---------------------------------------------------------
The paths that work are used in turn. A path on which an I/O failed, for a reason that may be the path's, is failed, and
no I/O is sent there until somebody reinstates it (multipathd, which tests paths; here `dm/reinstate_path`). When none
works an I/O fails, or with `queue_if_no_path` waits for one.

Deliberate differences: one priority group, and no path initialisation. rr_min_io, I/Os on a path before the next
one's turn, is built, though since 4.6 the kernel takes 1 whatever is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import cython

from blklab.block.attributes import Attribute, number
from blklab.core.errors import BlklabError

if TYPE_CHECKING:
    from collections.abc import Callable

    from blklab.block.models import Settings
    from blklab.block.queue import RequestQueue

if not cython.compiled:
    from blklab.block.consts import STS_AGAIN, STS_MEDIUM, STS_NOTSUPP


class Paths:
    """`queues` are the paths; `used`: how many I/Os each has been given. `wake` is called when a path has come back, or
    nothing shall wait any more."""

    def __init__(self, settings: Settings, wake: Callable[[], object]) -> None:
        self.queues: list[RequestQueue] = settings["members"]
        if len({path.size_sectors for path in self.queues}) != 1:
            sizes = ", ".join(f"{path.name} {path.size_sectors}" for path in self.queues)
            raise BlklabError(f"multipath: paths lead to one disk, so all have its size, not {sizes} sectors")
        single = [path.name for path in self.queues if path.legacy is not None]
        if single:
            raise BlklabError(
                f"multipath: {', '.join(single)} has a single queue (legacy_request_fn), "
                f"over which multipath is not built; use disks on blk-mq"
            )
        self.nr_paths = len(self.queues)
        self.rr_min_io = settings["rr_min_io"]
        self.queue_if_no_path = settings["queue_if_no_path"]
        self.failed = [False] * self.nr_paths
        self.used = [0] * self.nr_paths
        self.nr_valid = self.nr_paths
        self.present = 0
        self.left = self.rr_min_io
        self.wake = wake

    def choose(self) -> int:
        """choose_pgpath and rr_select_path: the path of the next I/O; -1: none works."""
        if self.nr_valid == 0:
            return -1
        if self.left == 0 or self.failed[self.present]:
            path = self.present
            while True:
                path = path + 1 if path + 1 < self.nr_paths else 0
                if not self.failed[path]:
                    break
            self.present = path
            self.left = self.rr_min_io
        self.left -= 1
        self.used[self.present] += 1
        return self.present

    def may_be_the_paths(self, status: int) -> bool:
        """blk_path_error: another path might do better."""
        return status not in (STS_NOTSUPP, STS_MEDIUM, STS_AGAIN)

    def fail(self, path: int) -> int:
        """fail_path."""
        if not self.failed[path]:
            self.failed[path] = True
            self.nr_valid -= 1
        return 0

    def reinstate(self, path: int) -> int:
        """reinstate_path."""
        if self.failed[path]:
            self.failed[path] = False
            self.nr_valid += 1
            self.wake()
        return 0

    # -- messages of dmsetup -------------------------------------------------------------

    def attributes(self) -> list[Attribute]:
        """What `dmsetup message` is to the kernel, as attributes of the device."""
        return [
            Attribute(
                "dm/fail_path",
                "paths that have failed; written: one that fails",
                lambda device: " ".join(self._names(True)),
                lambda device, text: self.fail(self._path(text)),
            ),
            Attribute(
                "dm/reinstate_path",
                "paths that work; written: one that works again",
                lambda device: " ".join(self._names(False)),
                lambda device, text: self.reinstate(self._path(text)),
            ),
            Attribute(
                "dm/queue_if_no_path",
                "whether I/O waits while no path works",
                lambda device: int(self.queue_if_no_path),
                lambda device, text: self._set_queueing(text),
            ),
        ]

    def _names(self, failed: bool) -> list[str]:
        return [path.name for path, out in zip(self.queues, self.failed, strict=True) if out == failed]

    def _path(self, text: str) -> int:
        names = [path.name for path in self.queues]
        name = text.strip().removeprefix("/dev/")
        if name not in names:
            raise BlklabError(f"{name!r} is no path of it; there are {', '.join(names)}")
        return names.index(name)

    def _set_queueing(self, text: str) -> None:
        self.queue_if_no_path = bool(number(text, 0, 1))
        if not self.queue_if_no_path:
            self.wake()
