"""States of a task and results of its sections (cpu.py); compiled modules take task_states.pxd."""

TASK_SLEEPING = 0
TASK_RUNNABLE = 1
TASK_RUNNING = 2
TASK_EXITED = 3

STEP_CONTINUE = 0
STEP_SLEEP = 1
STEP_EXIT = 2

SLICE_NS = 3000000  # sysctl_sched_min_granularity of a machine with several CPUs, 6.1
STILL_SECTIONS = 20000000  # sections at one time after which a run counts as standing still
KWORKER_PID = 1000  # pids of workers in traces: this + CPU
