"""argparse with the manners of this command line: errors are BlklabError, no abbreviations."""

from __future__ import annotations

import argparse
from typing import NoReturn

from blklab.core.errors import BlklabError


class Arguments(argparse.ArgumentParser):
    """An ArgumentParser whose errors are printed like all others, as one line."""

    def __init__(self, command: str, usage: str, description: str, epilog: str = "") -> None:
        super().__init__(
            prog=f"blklab {command}",
            usage=usage,
            description=description,
            epilog=epilog,
            allow_abbrev=False,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )

    def error(self, message: str) -> NoReturn:
        """What argparse calls for wrong arguments."""
        raise BlklabError(message, self.prog)
