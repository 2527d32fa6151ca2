"""`charge(host, step)`: `host.charge(step)` as a function, which compiled modules take inline from charging.pxd; so are
`take_lock` and `give_lock`.

A bio's trip charges some twenty steps. With costs off each is then one test of a flag instead of a call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from blklab.core.host import Host, Lock


def charge(host: Host, step: int) -> None:
    """The running CPU has done `step` (a STEP_ constant) once."""
    host.charge(step)


def take_lock(host: Host, lock: Lock, step: int) -> None:
    """`host.lock`, without a call where locks cost nothing."""
    if host.costs_on:
        host.lock(lock, step)


def give_lock(host: Host, lock: Lock) -> None:
    """`host.unlock` likewise."""
    if host.costs_on:
        host.unlock(lock)
