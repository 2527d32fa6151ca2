"""kyber: see policy.py for what it does with requests, latency.py for how many it lets into the device."""

from blklab.block.elevator import register
from blklab.elevator.kyber.policy import Kyber

register("kyber")(Kyber)
