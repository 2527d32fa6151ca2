"""Before 2.6.39: the task that has submitted bios to a single queue opens its plug when it comes to wait for them.

What: `UnplugAtFinish` hangs on the task's own plug, which has no requests in those kernels: where later kernels finish
that plug or sleep with it, the earlier ones called blk_run_address_space for each file (from 2.6.33 on once for a whole
io_submit). Why a file of its own: not compiled, as its base must be known whole when legacy.pxd is read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from blklab.block.plug import PlugCallback

if TYPE_CHECKING:
    from blklab.block.legacy import LegacyPath
    from blklab.block.submit import Submitter


class UnplugAtFinish(PlugCallback):
    """A task's wish to open the plug of one queue."""

    def __init__(self, path: LegacyPath, submitter: Submitter) -> None:
        super().__init__(path)
        self.path = path
        self.submitter = submitter

    def unplug(self, from_schedule: bool) -> int:
        """It waits for its I/O. While it sleeps with a bio in hand, for a request, it has not come to that yet."""
        submitter = self.submitter
        if from_schedule and submitter.bio is not None:
            submitter.plug.add_callback(self)
            return 0
        return self.path.queue_plug.waited_for(submitter, from_schedule)
