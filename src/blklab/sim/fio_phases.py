"""Phases of a fio thread (fio_thread.py); compiled modules take fio_phases.pxd."""

PH_GET = 0  # user: make the next I/O
PH_SUBMIT = 1  # kernel: io_submit, io_uring_enter: the next queued I/O
PH_SUBMITTING = 2  # kernel: the block layer has not finished with its bios
PH_OWN_PLUG = 3  # kernel: the I/O's own plug is being flushed
PH_BATCH_PLUG = 4  # kernel: the call's plug is being flushed
PH_SYNC_WAIT = 5  # kernel: read or write waits for its bios
PH_REAP = 6  # user: fetch completions
PH_REAP_WAIT = 7  # kernel: wait for completions
PH_DRAIN = 9  # user: no more I/Os to make
PH_END = 10
PH_PAUSE = 11  # user: sleeping on purpose (rate, thinktime)

# Where a submission, or a wait for completions, goes on
AFTER_QUEUE = 0
AFTER_REAP = 1

ENGINE_SYNC = 0
ENGINE_LIBAIO = 1
ENGINE_IO_URING = 2
ENGINE_NULL = 3

START_SECTIONS = 16  # pieces of what a thread does before its first I/O
