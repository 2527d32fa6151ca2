"""raid5's cache of stripes, and the lists of those that something is to be done with.

Theory of operation
-------------------
A stripe that nobody uses (`count` 0) is in one list:

    inactive      it may be used for another place; until then it may be found again, with the pages that it has
    handle        the thread is to look after it
    delayed       it must read before it can be written, and waits until no stripe is at that
    hold          it may read now, when there is no other to look after

A bio that finds none free waits until a quarter of them are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from blklab.block.sbitmap import WaitQueue
from blklab.stack.stripe_head import StripeHead, StripeList

if TYPE_CHECKING:
    from blklab.block.daemon import Daemon
    from blklab.stack.raid5 import Raid5

STRIPE_SECTORS = 8
IO_THRESHOLD = 1


class StripeCache:
    """The stripes of `device`; `daemon` is its thread."""

    def __init__(self, device: Raid5, daemon: Daemon, max_stripes: int, bypass_threshold: int) -> None:
        self.daemon = daemon
        self.max_stripes = max_stripes
        self.bypass_threshold = min(bypass_threshold, max_stripes)
        self.stripes: dict[int, StripeHead] = {}
        self.inactive = StripeList()
        self.handle_list = StripeList()
        self.hold_list = StripeList()
        self.delayed_list = StripeList()
        for _ in range(max_stripes):
            self.inactive.append(StripeHead(device))
        self.active_stripes = 0
        self.blocked = False
        self.preread_active_stripes = 0
        self.pending_full_writes = 0
        self.bypass_count = 0
        self.last_hold: StripeHead | None = None
        self.stripe_waiters = WaitQueue()
        self.overlap_waiters = WaitQueue()

    def get_active(self, sector: int) -> StripeHead | None:
        """raid5_get_active_stripe: the stripe with a sector of the members, used once more; None: none is free."""
        sector -= sector % STRIPE_SECTORS
        stripe: StripeHead | None = self.stripes.get(sector)
        if stripe is not None:
            if stripe.count == 0:
                if not stripe.needs_handling:
                    self.active_stripes += 1
                stripe.list.remove(stripe)  # nobody uses it: it is in one
            stripe.count += 1
            return stripe
        if self.blocked and not self._enough_free():
            return None
        stripe = self.inactive.popleft()
        self.blocked = stripe is None
        if stripe is None:
            return None
        if stripe.sector >= 0:
            del self.stripes[stripe.sector]
        stripe.use_for(sector)
        self.stripes[sector] = stripe
        self.active_stripes += 1
        stripe.count = 1
        return stripe

    def _enough_free(self) -> bool:
        return self.inactive.count > 0 and self.active_stripes < self.max_stripes * 3 // 4

    def release(self, stripe: StripeHead) -> int:
        """do_release_stripe: one user less; after the last one it waits to be looked after, or to be used again."""
        stripe.count -= 1
        if stripe.count:
            return 0
        if stripe.needs_handling:
            if stripe.delayed and not stripe.preread_active:
                self.delayed_list.append(stripe)
            else:
                stripe.delayed = False
                self.handle_list.append(stripe)
            return self.daemon.wake_up()
        if stripe.preread_active:
            stripe.preread_active = False
            self.preread_done()
        self.active_stripes -= 1
        self.inactive.append(stripe)
        if self.stripe_waiters.head is not None and (not self.blocked or self._enough_free()):
            self._wake(self.stripe_waiters)
        return 0

    def wake_overlap(self) -> int:
        """What another bio's overlapped has been served."""
        return self._wake(self.overlap_waiters)

    def _wake(self, queue: WaitQueue) -> int:
        # Each looks again, in order; who must wait on comes back behind them
        for _ in range(queue.count):
            waiter = queue.head
            queue.remove(waiter)  # there are that many
            waiter.wake()
        return 0

    def preread_begins(self, stripe: StripeHead) -> int:
        """It may read before it is written."""
        if not stripe.preread_active:
            stripe.preread_active = True
            self.preread_active_stripes += 1
        return 0

    def preread_done(self) -> int:
        """A stripe that read before it was written has done so."""
        self.preread_active_stripes -= 1
        if self.preread_active_stripes < IO_THRESHOLD:
            return self.daemon.wake_up()
        return 0

    def full_write_begins(self) -> int:
        """A stripe is written as a whole."""
        self.pending_full_writes += 1
        return 0

    def full_write_done(self) -> int:
        """A stripe that was written as a whole is written."""
        self.pending_full_writes -= 1
        if self.pending_full_writes == 0:
            return self.daemon.wake_up()
        return 0

    def activate_delayed(self) -> int:
        """raid5_activate_delayed: if no stripe is reading to be written, all that waited for it may."""
        if self.preread_active_stripes >= IO_THRESHOLD:
            return 0
        stripe = self.delayed_list.popleft()
        while stripe is not None:
            stripe.delayed = False
            self.preread_begins(stripe)
            self.hold_list.append(stripe)
            stripe = self.delayed_list.popleft()
        return 0

    def next_stripe(self) -> StripeHead | None:
        """__get_priority_stripe: those that must read only if there is no other, and no whole one is being written, or
        they have let enough pass."""
        stripe = self.handle_list.head
        if stripe is not None:
            if self.hold_list.head is None:
                self.bypass_count = 0
            elif not stripe.io_started:
                if self.hold_list.head is self.last_hold:
                    self.bypass_count += 1
                else:
                    self.last_hold = self.hold_list.head
                    self._less_bypassed()
        elif self.hold_list.head is not None and (
            (self.bypass_threshold and self.bypass_count > self.bypass_threshold)
            or self.pending_full_writes == 0
        ):
            stripe = self.hold_list.head
            self._less_bypassed()
        if stripe is not None:
            stripe.list.remove(stripe)  # it is the head of one
            stripe.count += 1
        return stripe

    def _less_bypassed(self) -> int:
        self.bypass_count -= self.bypass_threshold
        if self.bypass_count < 0:
            self.bypass_count = 0
        return 0
