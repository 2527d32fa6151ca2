"""What a target of device mapper, or md's common part, answers about a bio; compiled modules take it from
answers.pxd."""

from __future__ import annotations

MAP_REMAPPED = 0  # DM_MAPIO_REMAPPED: the clone says where to; send it on
MAP_SUBMITTED = 1  # DM_MAPIO_SUBMITTED: the target keeps the clone and will send it on or end it
MAP_KILL = 2  # DM_MAPIO_KILL: the bio fails
MAP_ENDED = 3  # the target ended the clone at once, with the status that it has
GO_ON = 4  # of md_flush_request: it has been flushed, what it carries is to be done
