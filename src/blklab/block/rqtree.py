"""Requests sorted by sector: the tree in which mq-deadline and BFQ find what lies next on the disk.

What: what the kernel's elevator offers its schedulers as elv_rb_add, elv_rb_del, elv_rb_find, elv_rb_former_request and
elv_rb_latter_request. A request is in at most one tree.

Theory of operation
-------------------
A treap: ordered by sector from left to right, and by a random rank from the root downwards, so it is balanced whatever
order the requests come in: finding, adding and removing take O(log n) on average. The links are fields of the request.
Ranks come from a xorshift generator with a fixed seed, so that the same requests make the same tree.

Of requests that begin at one sector the one added later lies behind, as in the kernel.

Deliberate differences: the kernel's tree is red-black. Only `find` among several requests at one sector could show it:
here it is the first of them, there the one nearest to the root.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from blklab.block.request import Request

SEED = 2463534242  # Marsaglia's, for the 32-bit xorshift
MASK_32 = 0xFFFFFFFF


class RequestTree:
    """Requests in order of their sector; `count` of them."""

    def __init__(self) -> None:
        self.root: Request | None = None
        self.count = 0
        self.state = SEED

    def add(self, rq: Request) -> None:
        """Put a request at its place, behind those of the same sector."""
        state = self.state
        state ^= (state << 13) & MASK_32
        state ^= state >> 17
        state ^= (state << 5) & MASK_32
        self.state = state
        rq.tree_rank = state
        rq.tree_left = None
        rq.tree_right = None
        self.count += 1
        above = None
        below = self.root
        sector = rq.sector
        while below is not None:
            above = below
            below = below.tree_left if sector < below.sector else below.tree_right
        rq.tree_above = above
        if above is None:
            self.root = rq
            return
        if sector < above.sector:
            above.tree_left = rq
        else:
            above.tree_right = rq
        while rq.tree_above is not None and rq.tree_above.tree_rank < state:
            self._lift(rq)

    def _lift(self, rq: Request) -> None:
        # Rotate `rq` one up, over what is above it
        above = rq.tree_above
        top = above.tree_above
        if above.tree_left is rq:
            middle = rq.tree_right
            above.tree_left = middle
            rq.tree_right = above
        else:
            middle = rq.tree_left
            above.tree_right = middle
            rq.tree_left = above
        if middle is not None:
            middle.tree_above = above
        above.tree_above = rq
        self._hang(top, above, rq)

    def _hang(self, top: Request | None, before: Request, now: Request | None) -> None:
        # Below `top` (None: at the root), `now` takes the place of `before`
        if now is not None:
            now.tree_above = top
        if top is None:
            self.root = now
        elif top.tree_left is before:
            top.tree_left = now
        else:
            top.tree_right = now

    def remove(self, rq: Request) -> None:
        """Take a request out; it must be in this tree, and its sector what it was when added."""
        left = rq.tree_left
        right = rq.tree_right
        while left is not None and right is not None:
            self._lift(left if left.tree_rank > right.tree_rank else right)
            left = rq.tree_left
            right = rq.tree_right
        self._hang(rq.tree_above, rq, right if left is None else left)
        rq.tree_above = None
        rq.tree_left = None
        rq.tree_right = None
        self.count -= 1

    def at_or_after(self, sector: int) -> Request | None:
        """The first request that begins at `sector` or behind it, or None."""
        found = None
        rq = self.root
        while rq is not None:
            if rq.sector >= sector:
                found = rq
                rq = rq.tree_left
            else:
                rq = rq.tree_right
        return found

    def find(self, sector: int) -> Request | None:
        """A request that begins at `sector`, or None."""
        rq = self.at_or_after(sector)
        return rq if rq is not None and rq.sector == sector else None

    def first(self) -> Request | None:
        """The request with the lowest sector, or None."""
        rq = self.root
        if rq is not None:
            while rq.tree_left is not None:
                rq = rq.tree_left
        return rq

    def after(self, rq: Request) -> Request | None:
        """The request behind `rq`, or None."""
        below = rq.tree_right
        if below is not None:
            while below.tree_left is not None:
                below = below.tree_left
            return below
        above = rq.tree_above
        while above is not None and above.tree_right is rq:
            rq = above
            above = rq.tree_above
        return above

    def before(self, rq: Request) -> Request | None:
        """The request before `rq`, or None."""
        below = rq.tree_left
        if below is not None:
            while below.tree_right is not None:
                below = below.tree_right
            return below
        above = rq.tree_above
        while above is not None and above.tree_left is rq:
            rq = above
            above = rq.tree_above
        return above

    def __len__(self) -> int:
        return self.count
