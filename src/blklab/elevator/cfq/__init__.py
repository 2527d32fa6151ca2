"""cfq: Completely Fair Queueing. `policy.py` reads from top to bottom; `files.py` has the files of control
groups."""

from blklab.block.elevator import register
from blklab.elevator.cfq.policy import Cfq

register("cfq")(Cfq)
