"""Values whose changes are signals, for processes that coordinate by values and can't wait for their next poll."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

SIGNALS = "manager.signals"
"""A change of a value of this kind wakes who listens to a queue of this name; there is none."""

CompareAndSet = Callable[[str, str, str | None, int], bool]
Announce = Callable[[set[str]], None]


def with_signs(compare_and_set: CompareAndSet, announce: Announce) -> CompareAndSet:
    """Return a `compare_and_set` that announces such changes, once they are stored; it can be pickled if these can."""
    return partial(_signalling, compare_and_set, announce)


def _signalling(
    compare_and_set: CompareAndSet, announce: Announce, kind: str, name: str, text: str | None, version: int
) -> bool:
    done = compare_and_set(kind, name, text, version)
    if done and kind == SIGNALS:
        announce({SIGNALS})
    return done
