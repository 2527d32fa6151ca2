"""rq-qos: policies that watch a queue's requests and may hold bios back (wbt, iolatency, iocost); here the chain.

Theory of operation
-------------------
Policies form a chain; every hook is called for each in order. `throttle` may return WAIT: then the policy keeps the
submitter and wakes it, and the chain goes on with that policy (the submitter remembers which in `qos_next`). No policy
is built in yet: the chain is their seam.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import cython

if TYPE_CHECKING:
    from blklab.block.bio import Bio
    from blklab.block.queue import RequestQueue
    from blklab.block.request import Request
    from blklab.block.submit import Submitter

if not cython.compiled:
    from blklab.block.consts import DONE, WAIT


class Qos:
    """One policy on one queue. Subclasses override what they need and need not call the others."""

    def __init__(self, queue: RequestQueue) -> None:
        self.queue = queue

    def throttle(self, bio: Bio, submitter: Submitter) -> int:
        """Before a tag is taken: DONE, or WAIT after having kept `submitter` to wake it."""
        return DONE

    def track(self, rq: Request, bio: Bio) -> None:
        """The bio got a request."""

    def merge(self, rq: Request, bio: Bio) -> None:
        """The bio was merged into a request."""

    def issue(self, rq: Request) -> None:
        """The request goes to the driver."""

    def requeue(self, rq: Request) -> None:
        """The driver gave it back."""

    def done(self, rq: Request) -> None:
        """The request is freed."""


class Throttle:
    """blk-throttle on one queue (`queue.throttle`), asked for each bio that enters it. Subclasses define `hold`."""

    def __init__(self, queue: RequestQueue) -> None:
        self.queue = queue

    def hold(self, bio: Bio, submitter: Submitter) -> bool:
        """Before Q is traced: True if the bio was kept. Its submission ends for the task then; when it may go, somebody
        else submits it, with F_RELEASED set."""
        raise NotImplementedError


class QosChain:
    """The policies of one queue, in order."""

    def __init__(self, policies: list[Qos]) -> None:
        self.policies = policies

    def throttle(self, bio: Bio, submitter: Submitter) -> int:
        """Ask each policy, beginning with the one that the submitter waited for. DONE or WAIT."""
        start = submitter.qos_next
        for i in range(start, len(self.policies)):
            policy: Qos = self.policies[i]
            if policy.throttle(bio, submitter) == WAIT:
                submitter.qos_next = i
                return WAIT
        submitter.qos_next = 0
        return DONE

    def track(self, rq: Request, bio: Bio) -> None:
        """The bio got a request."""
        for policy in self.policies:
            policy.track(rq, bio)

    def merge(self, rq: Request, bio: Bio) -> None:
        """The bio was merged into a request."""
        for policy in self.policies:
            policy.merge(rq, bio)

    def issue(self, rq: Request) -> None:
        """The request goes to the driver."""
        for policy in self.policies:
            policy.issue(rq)

    def requeue(self, rq: Request) -> None:
        """The driver gave it back."""
        for policy in self.policies:
            policy.requeue(rq)

    def done(self, rq: Request) -> None:
        """The request is freed."""
        for policy in self.policies:
            policy.done(rq)
