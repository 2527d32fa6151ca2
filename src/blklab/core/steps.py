"""The steps of a bio's trip that cost CPU time, under one name each; compiled modules take the numbers from
steps.pxd.

A cost table (`sim/costs/*.toml`) gives each step its nanoseconds. The block layer, the schedulers, the
drivers and the simulated tasks charge a step by its number: `host.charge(STEP_TAG_GET)`.

Theory of operation
-------------------
A step is one thing that is done or not done: a change to the kernel that saves work must show as a step not
taken, never as another price. So a step is named for the work and not for the caller, and what a caller
does n times it charges n times. Names of locks are what taking *and* giving back that lock costs while
nobody else wants it; waiting for one is not a step: it takes as long as it takes, and `lock_handover` comes
on top of it.

`STEPS` is the literal table, in the order of the numbers. A new step goes at the end: here, in steps.pxd,
and in every table of sim/costs (a table without it is refused, so none is forgotten).
"""

from __future__ import annotations

# name, what one charge stands for
STEPS: list[tuple[str, str]] = [
    ("user_io", "the program's own work to make one I/O (fio: choose an offset, fill the io_u)"),
    ("syscall", "entering and leaving the kernel once: io_submit, io_uring_enter, pread, pwrite"),
    ("submit_io", "one I/O in the kernel's aio, io_uring or read/write path, down to its first bio"),
    ("bio_alloc", "allocating a bio and freeing it again"),
    ("bio_page", "adding one page of the caller's memory to a bio"),
    ("submit_bio", "submit_bio up to the queue of the device: checks, accounting, entering the queue"),
    ("split", "cutting a bio in two at a limit"),
    ("merge_try", "comparing a bio with one request that it might join"),
    ("merge", "joining a bio to a request, or two requests"),
    ("throttle_qos", "asking one rq-qos policy whether the bio may pass, and telling it that it is done"),
    ("tag_get", "getting a driver tag"),
    ("sched_tag_get", "getting a scheduler tag"),
    ("rq_init", "setting up a request for a bio and accounting its start"),
    ("plug_add", "putting a request into the plug of the task"),
    ("insert", "putting a request into a software queue or onto the dispatch list, without the lock"),
    ("sched_insert", "handing a request to the scheduler, without the scheduler's own work"),
    ("run_queue", "deciding to run a hardware queue and beginning it"),
    ("dispatch_one", "taking one request to the driver: budget, start of the request, timer"),
    ("sched_dispatch", "asking the scheduler for a request, without the scheduler's own work"),
    ("queue_rq", "the driver's queue_rq: making the command and telling the device"),
    ("requeue", "taking back a request that the driver refused"),
    ("irq", "entering and leaving one interrupt, or one completion queue poll"),
    ("complete", "completing one request in the driver and the block layer"),
    ("remote_complete", "sending a completion to another CPU, and the interrupt there"),
    ("softirq", "raising and running the block softirq once"),
    (
        "end_bio",
        "ending one bio towards who submitted it: aio event, completion queue entry, waking a reader",
    ),
    ("tag_put", "giving back one tag, driver's or scheduler's"),
    ("wake_task", "waking a sleeping task"),
    ("switch", "switching a CPU from one task to another, or from idle to a task"),
    ("wake_worker", "queueing work for a kblockd worker and waking it"),
    ("getevents", "the system call that waits for or fetches completions: io_getevents, io_uring_enter"),
    ("reap", "the program's own work on one completed I/O (fio: statistics, freeing the io_u)"),
    ("lock", "any lock that has no step of its own"),
    ("lock_ctx", "the lock of a software queue"),
    ("lock_hctx", "the lock of a hardware queue's dispatch list"),
    ("lock_sched", "the lock of a scheduler"),
    (
        "lock_handover",
        "taking over a lock from the CPU that held it: the cache lines travel (charged after the wait)",
    ),
    ("kyber", "kyber's own work on one request: domain, token, histogram"),
    ("mq_deadline", "mq-deadline's own work on one request: sort tree, FIFO, choosing"),
    ("bfq", "bfq's own work on one request: queues, budgets, weights, slices"),
    ("thread_start", "a sixteenth of the program's work before a thread's first I/O (fio: files, clocks)"),
    ("io_unit", "making one of the iodepth I/O units of a thread, before its first I/O (fio: an io_u)"),
    ("first_touch", "the first use of a page that is read into: page fault, and zeroing the page"),
    ("scsi_queue", "the SCSI layer's and its driver's own work to queue a command, above a plain driver's"),
    ("scsi_done", "the SCSI layer's own work on a command that has completed"),
    (
        "dm_map",
        "device mapper's own work on one bio: taking it, cloning it for a target, and ending the clone",
    ),
    ("md_map", "md's own work on one bio: taking it, cutting it, mapping it to a member, and ending it"),
    ("flush", "one step of a flush sequence: insert it, or end one and begin the next"),
    ("split_copy", "copying one memory segment of a bio that is cut, where that copies them (4.3)"),
    ("merge_bvec", "asking one device how much may be added to a bio, page by page (before 4.3)"),
    ("dio_io", "fs/direct-io.c's own work on one I/O, above a plain direct I/O path (before large_dio_bios)"),
    ("dio_page", "fs/direct-io.c's own work on one page, above adding it to a bio (before large_dio_bios)"),
    ("parity_page", "computing the parity of one page, or copying it into the stripe cache (raid5)"),
    ("file_map", "finding the extent of a file for one bio, and the file system's share of a direct I/O"),
    ("null_page", "null_blk's own memory: storing, fetching or flushing one page (memory_backed)"),
]

STEP_USER_IO = 0
STEP_SYSCALL = 1
STEP_SUBMIT_IO = 2
STEP_BIO_ALLOC = 3
STEP_BIO_PAGE = 4
STEP_SUBMIT_BIO = 5
STEP_SPLIT = 6
STEP_MERGE_TRY = 7
STEP_MERGE = 8
STEP_THROTTLE_QOS = 9
STEP_TAG_GET = 10
STEP_SCHED_TAG_GET = 11
STEP_RQ_INIT = 12
STEP_PLUG_ADD = 13
STEP_INSERT = 14
STEP_SCHED_INSERT = 15
STEP_RUN_QUEUE = 16
STEP_DISPATCH_ONE = 17
STEP_SCHED_DISPATCH = 18
STEP_QUEUE_RQ = 19
STEP_REQUEUE = 20
STEP_IRQ = 21
STEP_COMPLETE = 22
STEP_REMOTE_COMPLETE = 23
STEP_SOFTIRQ = 24
STEP_END_BIO = 25
STEP_TAG_PUT = 26
STEP_WAKE_TASK = 27
STEP_SWITCH = 28
STEP_WAKE_WORKER = 29
STEP_GETEVENTS = 30
STEP_REAP = 31
STEP_LOCK = 32
STEP_LOCK_CTX = 33
STEP_LOCK_HCTX = 34
STEP_LOCK_SCHED = 35
STEP_LOCK_HANDOVER = 36
STEP_KYBER = 37
STEP_MQ_DEADLINE = 38
STEP_BFQ = 39
STEP_THREAD_START = 40
STEP_IO_UNIT = 41
STEP_FIRST_TOUCH = 42
STEP_SCSI_QUEUE = 43
STEP_SCSI_DONE = 44
STEP_DM_MAP = 45
STEP_MD_MAP = 46
STEP_FLUSH = 47
STEP_SPLIT_COPY = 48
STEP_MERGE_BVEC = 49
STEP_DIO_IO = 50
STEP_DIO_PAGE = 51
STEP_PARITY_PAGE = 52
STEP_FILE_MAP = 53
STEP_NULL_PAGE = 54
NR_STEPS = 55
