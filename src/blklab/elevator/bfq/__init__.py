"""bfq: Budget Fair Queueing. `policy.py` reads from top to bottom; `wf2q.py` is the engine under it."""

from blklab.block.elevator import register
from blklab.elevator.bfq.policy import Bfq

register("bfq")(Bfq)
