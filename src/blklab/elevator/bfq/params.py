"""The numbers of BFQ, each with its reason; compiled modules take them from params.pxd instead.

They are those of Linux 6.1. Times that the kernel counts in jiffies are rounded up to jiffies where they are used.
"""

from __future__ import annotations

MSEC_NS = 1_000_000

CLASS_RT = 1
CLASS_BE = 2
CLASS_IDLE = 3  # served only when nobody else wants to be
NR_LEVELS = 8
CLASS_SHIFT = 13  # an ioprio is a class and a level: IOPRIO_CLASS_SHIFT

SHARED_PID = -1  # of a queue that several processes share

# -- tunables' defaults --------------------------------------------------------

FIFO_EXPIRE_ASYNC_MS = 250  # a request older than this goes before the order by sector, once a turn
FIFO_EXPIRE_SYNC_MS = 125
BACK_SEEK_MAX_KB = 16 * 1024  # how far behind the head a request may lie and still count as near
BACK_SEEK_PENALTY = 2  # a step back costs this many forward
SLICE_IDLE_MS = 8  # how long the device waits for the next request of a queue in service
TIMEOUT_MS = 125  # a turn lasts at most this long (HZ / 8 jiffies: 124 ms at 250 Hz)

# -- budgets and peak rate -------------------------------------------------------

DEFAULT_MAX_BUDGET = 16 * 1024  # sectors, until the peak rate is known
STATS_MIN_BUDGETS = 194  # how much must have been assigned (at most 256) before measured budgets are used
ASYNC_CHARGE_FACTOR = 3  # asynchronous requests cost more, as nobody waits for them
MIN_TT_NS = 2 * MSEC_NS  # the shortest time that idling or a slow turn is taken for
RATE_SHIFT = 16  # peak_rate is sectors/us, times 2**16
RATE_MIN_SAMPLES = 32
RATE_MIN_INTERVAL_NS = 300 * MSEC_NS
RATE_REF_INTERVAL_NS = 1000 * MSEC_NS
# Reference devices, rotational and not: their peak rate, and how long loading an application takes there
REF_RATE_ROT = 14000
REF_RATE_NONROT = 33000
REF_WR_DURATION_ROT_MS = 7000
REF_WR_DURATION_NONROT_MS = 2500

# -- what a device and a queue are like --------------------------------------------

HW_QUEUE_THRESHOLD = 3  # a device that had more requests at once queues them itself
HW_QUEUE_SAMPLES = 32
SEEK_THR_SECTORS = 8 * 100  # farther than this is a seek
SECT_THR_NONROT = 2 * 32  # on flash a request of 32 KiB or more never counts as one
CLOSE_THR_SECTORS = 8 * 1024  # queues that are nearer may do one job between them
MERGE_TIME_LIMIT_MS = 100  # HZ / 10: after so much service a queue is on its own
SEEKY_BITS = 19
TTIME_VALID_SAMPLES = 80  # of 256

# -- weight raising ------------------------------------------------------------------

WR_COEFF = 30
SOFTRT_WEIGHT_FACTOR = 100  # soft real-time: as good as always first
WR_RT_MAX_MS = 300
WR_MIN_IDLE_MS = 2000  # so long idle: what begins now is a user's doing
WR_MIN_INTER_ARR_ASYNC_MS = 500
WR_MAX_SOFTRT_RATE = 7000  # sectors/s: a video player's need
MIN_WR_MS = 3000
MAX_WR_MS = 25000
MAX_SERVICE_FROM_WR = 120000  # sectors: what loads this much is no application
WR_DEFAULT_WEIGHT = 40  # raising is for queues of default priority and weight
FORGET_BURST_MS = 10000
LARGE_BURST_THRESH = 8  # as many queues at once are a build or a boot, whose latency nobody feels
BURST_INTERVAL_MS = 180

# -- merging, waking, injection --------------------------------------------------------

ACTIVATION_STABLE_MERGING_MS = 600  # two queues born so near in time may be of one application
LATE_STABLE_MERGING_MS = 600
WAKER_WINDOW_NS = 4 * MSEC_NS  # who completed something this short ago may have woken the one that begins
WAKER_DETECTIONS = 3
WAKER_PERIODS = 128  # idle slices within which these must be seen

# -- why a turn ends ---------------------------------------------------------------------

TOO_IDLE = 0
BUDGET_TIMEOUT = 1
BUDGET_EXHAUSTED = 2
NO_MORE_REQUESTS = 3
PREEMPTED = 4

IN_DRIVER = -1  # instead of a request's time of expiry, once it has been dispatched
