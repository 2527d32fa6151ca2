"""Names of the stages of a bio's submission (submit.py); compiled modules take submit_stages.pxd."""

STAGE_ENTER = 0
STAGE_SPLIT = 1
STAGE_MERGE = 2
STAGE_QOS = 3
STAGE_TAG = 4
STAGE_TAG_AGAIN = 5  # the hardware queue has been run
STAGE_TAG_WOKEN = 6  # woken from a wait queue
STAGE_REQUEST = 7
STAGE_PLUG = 8
STAGE_PLUG_FLUSHED = 9
STAGE_ISSUE = 10
STAGE_LEGACY = 11  # on a single queue: legacy.py has its stages
