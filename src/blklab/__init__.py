"""blklab: the Linux multi-queue block layer in virtual time."""

from __future__ import annotations

from typing import Any

__version__ = "0.1.0"

# name -> module: imported when first asked for, so that `blklab --help` and scripts start at once
_LAZY = {
    "Attribute": "blklab.block.attributes",
    "AttributeRefused": "blklab.core.errors",
    "BlklabError": "blklab.core.errors",
    "Bio": "blklab.block.bio",
    "Driver": "blklab.block.driver",
    "Elevator": "blklab.block.elevator",
    "Event": "blklab.core.clock",
    "HardwareQueue": "blklab.block.hwqueue",
    "Lock": "blklab.core.host",
    "Request": "blklab.block.request",
    "RequestList": "blklab.block.request",
    "RequestQueue": "blklab.block.queue",
    "RequestTree": "blklab.block.rqtree",
    "RunResult": "blklab.metrics.result",
    "load_machine": "blklab.sim.machine",
    "parse_command_line": "blklab.workload.cmdline",
    "parse_job_file": "blklab.workload.jobfile",
    "register": "blklab.block.elevator",
    "simulate": "blklab.sim.api",
    "tunable": "blklab.block.attributes",
}
__all__ = sorted(_LAZY)


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'blklab' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_LAZY[name]), name)
