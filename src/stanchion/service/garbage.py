"""The garbage collector of a process that runs jobs, and nothing else."""

from __future__ import annotations

import gc
from typing import Final

THRESHOLD: Final = 20_000
"""Objects, made and not yet freed, after which the youngest are looked at: twice as many as a chunk has items."""

_AT_START: Final = gc.get_threshold()


def collect_less() -> None:
    """Let the collector look at fewer objects: not at what is loaded by now, and less often at new ones.

    The items of a chunk are many objects, which reference counts free. A program that has chosen its own threshold
    keeps it.
    """
    if gc.get_threshold() != _AT_START or not gc.isenabled():
        return
    gc.collect()
    gc.freeze()
    gc.set_threshold(THRESHOLD, *_AT_START[1:])
