"""States of a task and results of its sections (cpu.py); compiled modules take task_states.pxd."""

TASK_SLEEPING = 0
TASK_RUNNABLE = 1
TASK_RUNNING = 2
TASK_EXITED = 3

STEP_CONTINUE = 0
STEP_SLEEP = 1
STEP_EXIT = 2

# CFS's sysctls of 6.1 on one CPU
LATENCY_NS = 6000000  # sysctl_sched_latency
MIN_GRANULARITY_NS = 750000  # sysctl_sched_min_granularity
WAKEUP_GRANULARITY_NS = 1000000  # sysctl_sched_wakeup_granularity
MOST_SECTIONS = 64  # of a task in a row before its CPU looks around, even if nobody else is to run
STILL_SECTIONS = 5000000  # sections at one time after which a run counts as standing still
KWORKER_PID = 1000  # pids of workers in traces: this + CPU
