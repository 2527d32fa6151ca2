"""Phases and results of a run of a hardware queue (dispatch.py); compiled modules take dispatch_phases.pxd."""

PHASE_TRY = 0
PHASE_LIST = 1
PHASE_CTX = 2
PHASE_SCHED = 3
PHASE_SINGLE = 4

# Where a list came from
AFTER_FLUSH = 0
AFTER_RESIDUAL = 1
AFTER_CTX = 2
AFTER_SCHED = 3

# blk_mq_prep_dispatch_rq
PREP_OK = 0
PREP_NO_TAG = 1
PREP_NO_BUDGET = 2

RESULT_NOTHING = 0
RESULT_SOME = 1
RESULT_AGAIN = 2
