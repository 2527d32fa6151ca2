"""Constants of bios and requests under their kernel names; compiled modules take these from consts.pxd instead.

The values of operations are the kernel's (include/linux/blk_types.h); of flags only the meaning is.
"""

from __future__ import annotations

SECTOR_SHIFT = 9

# Operations: the kernel's values (include/linux/blk_types.h)
OP_READ = 0
OP_WRITE = 1
OP_FLUSH = 2
OP_DISCARD = 3
OP_WRITE_ZEROES = 9

# Flags of a bio and of the request made of it. Only their meaning is the kernel's; the bits are ours.
F_SYNC = 1
F_META = 2
F_FUA = 4
F_PREFLUSH = 8
F_RAHEAD = 16
F_NOMERGE = 32
F_NOWAIT = 64
F_IDLE = 128
F_TRACED = 256  # Q has been traced: the rest of a cut bio is not traced again
F_POLLED = 512
F_RELEASED = 1024  # blk-throttle let it go: this device does not ask again
F_BPS_THROTTLED = 2048  # its bytes have been charged here
F_CGROUP_ACCT = 4096  # its bytes are in its group's statistics
# What a clone of a bio does not take over
F_NOT_CLONED = F_TRACED | F_RELEASED | F_BPS_THROTTLED | F_CGROUP_ACCT

# Status of an ended bio or request (BLK_STS_*)
STS_OK = 0
STS_NOTSUPP = 1
STS_TIMEOUT = 2
STS_MEDIUM = 7
STS_RESOURCE = 9
STS_IOERR = 10
STS_AGAIN = 12
STS_DEV_RESOURCE = 13

STATUS_NAMES = {
    STS_OK: "ok",
    STS_NOTSUPP: "operation not supported",
    STS_TIMEOUT: "timeout",
    STS_MEDIUM: "critical medium",
    STS_RESOURCE: "kernel resource",
    STS_IOERR: "I/O",
    STS_AGAIN: "nonblocking retry",
    STS_DEV_RESOURCE: "device resource",
}
# What errno the submitter sees (the kernel's blk_errors table)
STATUS_ERRNO = {STS_OK: 0, STS_NOTSUPP: 95, STS_TIMEOUT: 110, STS_MEDIUM: 61, STS_IOERR: 5, STS_AGAIN: 11}

PAGE_BYTES = 4096
MOST_BIO_SECTORS = 8388607  # a bio's size is 32 bits of bytes
UNLIMITED = 0x7FFFFFFF  # sectors, where a device says nothing

# What a step of the submission or of a queue run returns
DONE = 0
WAIT = 1  # the task sleeps; its waker resumes it
YIELD = 2  # more to do, but somebody else is due first

# Request states: request.py has the table of legal transitions
RQ_FREE = 0
RQ_GOT = 1
RQ_PLUGGED = 2
RQ_QUEUED = 3
RQ_DISPATCH = 4
RQ_STARTED = 5
RQ_COMPLETE = 6

# Request flags (RQF_*)
RQF_ELV = 1
RQF_ELVPRIV = 2
RQF_IO_STAT = 4
RQF_MQ_INFLIGHT = 8
RQF_TIMED_OUT = 16
RQF_RESERVED = 32
RQF_HW_TAG = 64  # with an elevator, but holding a driver tag from the start (feature sched_use_hw_tag)
RQF_HASHED = 128
RQF_FLUSH_SEQ = 256
RQF_NOMERGE = 512
RQF_REMOTE = 1024  # its completion has been sent to the CPU that submitted it
RQF_LOST = 2048  # the device will never answer: only the timeout ends it
# On a single queue (block/legacy.py)
RQF_SORTED = 4096  # it was given to the scheduler
RQF_DELIVERED = 8192  # the driver has seen it (REQ_STARTED): nothing passes it on the dispatch list
RQF_SOFTBARRIER = 16384  # nothing is sorted before it on the dispatch list

# Hooks of a scheduler that are called only where a subclass has them: elevator.HOOKS names them
HOOK_LIMIT_DEPTH = 1
HOOK_BIO_MERGE = 2
HOOK_ALLOW_MERGE = 4
HOOK_PREPARE = 8
HOOK_FINISH = 16
HOOK_COMPLETED = 32
HOOK_REQUEUE = 64

# What a scheduler of the single queue says before a request is allocated (ELV_MQUEUE_*)
MAY_QUEUE = 0
MUST_QUEUE = 1
NO_QUEUE = 2

BUSY_WEIGHT = 8  # BLK_MQ_DISPATCH_BUSY_EWMA_WEIGHT
BUSY_FACTOR = 16  # 1 << BLK_MQ_DISPATCH_BUSY_EWMA_FACTOR
WORK_BATCH = 8  # BLK_MQ_CPU_WORK_BATCH
NR_WAIT_QUEUES = 8  # SBQ_WAIT_QUEUES
MAX_WAKE_BATCH = 8  # SBQ_WAKE_BATCH
RESOURCE_DELAY_NS = 3000000  # BLK_MQ_RESOURCE_DELAY
BUDGET_DELAY_NS = 3000000  # BLK_MQ_BUDGET_DELAY
ROUND_NS = 1000000000  # a scheduler's round ends after HZ jiffies and goes on in a worker
MAX_BIO_VECS = 256  # BIO_MAX_VECS
MAX_BIO_BYTES = 1048576  # so many pages of 4 KiB

# What merging a bio found
MERGE_NONE = 0
MERGE_OK = 1
MERGE_FAILED = 2
MERGE_BACK = 1
MERGE_FRONT = 2
MERGE_DISCARD = 3

# Tracepoints: bits of a mask, and their number in a record; trace.py has their letters
TR_Q = 1
TR_G = 2
TR_M = 4
TR_F = 8
TR_X = 16
TR_P = 32
TR_U = 64
TR_UT = 128
TR_I = 256
TR_D = 512
TR_R = 1024
TR_C = 2048
TR_A = 4096
TR_MSG = 8192
TR_S = 16384
TR_ALL = 32767
