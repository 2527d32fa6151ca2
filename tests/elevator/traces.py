"""What a scheduler makes of many random loads, as one digest: `python traces.py SCHEDULER...` prints one a line."""

from __future__ import annotations

import hashlib
import random
import sys

from blklab.core.steps import STEPS
from blklab.lab.contract import Load, make_machine, random_load, send

COSTS = [50 + 7 * i for i in range(len(STEPS))]


def load_of(number: int) -> Load:
    return random_load(random.Random(number))


def digest(choice: str, loads: int = 30) -> str:
    """Of all tracepoints with their times, with costs off and on."""
    found = hashlib.sha256()
    for number in range(loads):
        rig = make_machine(choice, load_of(number))
        if number % 2:
            rig.host.set_costs(COSTS)
        send(rig, load_of(number))
        rig.run()
        for record in rig.tracer:
            found.update(repr(tuple(record)).encode())
        # A copy has another name, which is what the message of the switch gives
        texts = [text for text in rig.tracer.messages if not text.startswith("elv switch: ")]
        found.update("\n".join(texts).encode())
    return found.hexdigest()


if __name__ == "__main__":
    for choice in sys.argv[1:]:
        print(digest(choice))
