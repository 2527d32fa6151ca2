"""The single queue of kernels before 5.0 (legacy_request_fn): under construction."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from blklab.block.bio import Bio
    from blklab.block.queue import RequestQueue
    from blklab.block.submit import Submitter


class LegacyPath:
    """The single queue of one device."""

    def __init__(self, queue: RequestQueue) -> None:
        self.queue = queue

    def submit(self, submitter: Submitter, bio: Bio) -> int:
        """__make_request: DONE (it was taken or has ended), WAIT or YIELD (call again with the same bio)."""
        raise NotImplementedError
