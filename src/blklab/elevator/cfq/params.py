"""The numbers of CFQ, each with its reason; compiled modules take them from params.pxd instead.

Times that CFQ counts are in ticks: jiffies before 4.8, nanoseconds since (`CfqData.tick_ns`).
"""

from __future__ import annotations

MSEC_NS = 1_000_000
SEC_NS = 1_000_000_000

# -- classes of I/O priority, and what is served together -----------------------

CLASS_RT = 1
CLASS_BE = 2
CLASS_IDLE = 3  # served only when nobody else wants to be, one request at a time
CLASS_SHIFT = 13  # an ioprio is a class and a level: IOPRIO_CLASS_SHIFT
NR_LEVELS = 8  # IOPRIO_BE_NR
NORMAL_LEVEL = 4

# Workload classes (wl_class), the kernel's numbers
BE_WORKLOAD = 0
RT_WORKLOAD = 1
IDLE_WORKLOAD = 2

# Workload types (wl_type), the kernel's numbers
ASYNC_WORKLOAD = 0
SYNC_NOIDLE_WORKLOAD = 1  # queues that are not waited for: they seek, or think too long
SYNC_WORKLOAD = 2
NR_TYPES = 3

# -- tunables' defaults ------------------------------------------------------------

QUANTUM = 8  # most requests of a queue in the device while others wait
QUANTUM_BEFORE_2_6_34 = 4
FIFO_EXPIRE_ASYNC_MS = 250  # a request older than this goes before the order by sector, once a slice
FIFO_EXPIRE_SYNC_MS = 125
BACK_SEEK_MAX_KB = 16 * 1024  # how far behind the head a request may lie and still count as near
BACK_SEEK_PENALTY = 2  # a step back costs this many forward
SLICE_SYNC_MS = 100
SLICE_ASYNC_MS = 40
SLICE_ASYNC_RQ = 2  # requests of an asynchronous slice, times 2 and by priority
SLICE_IDLE_MS = 8  # how long the device waits for the next request of the queue in service
GROUP_IDLE_MS = 8
TARGET_LATENCY_MS = 300  # within which every queue should have had its turn

# -- fixed numbers -------------------------------------------------------------------

SLICE_SCALE = 5  # a level of priority is a fifth of a slice
HIST_DIVISOR = 4  # of the average of busy queues
SERVICE_SHIFT = 12  # virtual disk time has 12 binary digits behind the point
IDLE_DELAY_MS = 200  # the idle class, and a group that comes back, go so far behind the last
IOPS_GROUP_DELAY = 50  # the same for a group in IOPS mode, which counts requests: HZ / 5 at 250 Hz
MIN_TT_JIFFIES = 2  # the shortest workload slice
HW_QUEUE_MIN = 5  # a device that had so many requests at once queues them itself
HW_TAG_SAMPLES = 50
HW_TAG_UNKNOWN = -1
TTIME_VALID_SAMPLES = 80  # of 256
SEEK_THR_SECTORS = 8 * 100  # farther than this is a seek
SEEK_MEAN_THR_SECTORS = 8 * 1024  # by mean distance (before 2.6.34)
CLOSE_THR_SECTORS = 8 * 1024  # queues that are nearer may do one job between them
SECT_THR_NONROT = 2 * 32  # on flash a request of 32 KiB or more never counts as a seek
SEEKY_BITS = 32 // 8
DEEP_QUEUE = 4  # a queue that had so many requests is waited for although it seeks
PAGE_SECTORS = 8

# -- weights ---------------------------------------------------------------------------

WEIGHT_DEFAULT = 500  # blkio.weight; the root has twice as much
WEIGHT_MIN = 10
WEIGHT_MIN_BEFORE_2_6_39 = 100
WEIGHT_MAX = 1000
WEIGHT_V2_DEFAULT = 100  # io.weight of cgroup v2
WEIGHT_V2_MIN = 1
WEIGHT_V2_MAX = 10000
