"""dm-error as a model of its own name; see flakey.py."""

from blklab.stack.flakey import ERROR_MODEL as MODEL

__all__ = ["MODEL"]
