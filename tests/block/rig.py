"""The test machine is part of the package, since people test schedulers of their own with it: `blklab.lab.rig`."""

from blklab.lab.rig import MS, NEVER, Rig, ScriptedDriver, Sender

__all__ = ["MS", "NEVER", "Rig", "ScriptedDriver", "Sender"]
