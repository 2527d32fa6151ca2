"""`charge(host, step)`: `host.charge(step)` as a function, which compiled modules take inline from charging.pxd.

A bio's trip charges some twenty steps. With costs off each is then one test of a flag instead of a call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from blklab.core.host import Host


def charge(host: Host, step: int) -> None:
    """The running CPU has done `step` (a STEP_ constant) once."""
    host.charge(step)
