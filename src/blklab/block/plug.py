"""A task's plug: requests held back for a moment, so that more bios can merge with them and a batch goes out at once.

What: the requests that one task has allocated between starting a plug and finishing it (one `io_submit` of several
I/Os, say). Why: merging here needs no lock, and a whole batch is inserted or issued under one.

Theory of operation
-------------------
A plug is flushed when its owner finishes it, when it is full (32 requests, 64 once it holds requests of several
devices), when another request is added after one of 128 KiB or more, and when its task goes to sleep. Flushing is done
request by request by `submit.flush_step`, which may stop between two of them; what is left stays here.

A driver may have itself called when the plug is flushed (`PlugCallback`): md's personalities hold back there what more
bios may complete, as raid5 does with stripes.

The kernels' differences are features: 6.1 keeps the list last in, first out when it issues without a scheduler
(`plug_lifo`), later ones first in, first out.

io_uring tells beforehand how many requests it will want (`nr_ios`), and gets that many tags at once into `cached`.
"""

from __future__ import annotations

from blklab.block.request import RequestList


class PlugCallback:
    """A driver's wish to be called when a plug is finished, or its task goes to sleep (struct blk_plug_cb). `owner`:
    whose it is."""

    def __init__(self, owner: object) -> None:
        self.owner = owner
        self.following: PlugCallback | None = None

    def unplug(self, from_schedule: bool) -> int:
        """It is time; before the plug's requests go. `from_schedule`: the task goes to sleep. Submits no bio itself."""
        raise NotImplementedError


class Plug:
    """One per task. `active` between start and finish; `count` is what the kernel's rq_count is."""

    def __init__(self) -> None:
        self.active = False
        self.requests = RequestList()
        self.cached = RequestList()
        self.single = RequestList()  # those of single queues, which are flushed differently
        self.count = 0
        self.nr_ios = 1
        self.multiple_queues = False
        self.has_elevator = False
        self.callbacks: PlugCallback | None = None
        # of a flush under way
        self.flushing = False
        self.from_schedule = False
        self.direct = False
        self.queued = 0

    def start(self, nr_ios: int) -> None:
        """blk_start_plug_nr_ios: `nr_ios` requests will be wanted (1: not known)."""
        self.active = True
        self.nr_ios = nr_ios if nr_ios < 32 else 32  # BLK_MAX_REQUEST_COUNT
        self.multiple_queues = False
        self.has_elevator = False
        self.count = 0

    def callback_of(self, owner: object) -> PlugCallback | None:
        """The callback that `owner` has added since the plug was last flushed (blk_check_plugged)."""
        callback = self.callbacks
        while callback is not None and callback.owner is not owner:
            callback = callback.following
        return callback

    def add_callback(self, callback: PlugCallback) -> None:
        """Have it called once, at the next flush."""
        callback.following = self.callbacks
        self.callbacks = callback

    def run_callbacks(self, from_schedule: bool) -> int:
        """flush_plug_callbacks, the latest first."""
        callback = self.callbacks
        self.callbacks = None
        while callback is not None:
            following = callback.following
            callback.unplug(from_schedule)
            callback = following
        return 0
