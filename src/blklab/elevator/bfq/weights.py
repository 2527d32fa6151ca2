"""The numbers of weights and virtual time; compiled modules take them from weights.pxd instead."""

from __future__ import annotations

NR_CLASSES = 3  # of I/O priority: real-time, best-effort, idle

# io.bfq.weight of a group, and the weight of a queue before it is raised
MIN_WEIGHT = 1
MAX_WEIGHT = 1000
WEIGHT_PER_LEVEL = 10  # I/O priorities 0..7 are weights 80..10

SERVICE_SHIFT = (
    22  # virtual time has 22 binary digits behind the point: service of one sector shows at any weight
)
