"""What a listener was woken for."""

from __future__ import annotations

from typing import NamedTuple


class Signs(NamedTuple):
    """Queues that may have work, and ids of jobs that are finished; None: it may be any."""

    queues: frozenset[str] | None = frozenset()
    finished: frozenset[str] | None = frozenset()

    def and_also(self, other: Signs) -> Signs:
        """Return both."""
        return Signs(_union(self.queues, other.queues), _union(self.finished, other.finished))


def _union(one: frozenset[str] | None, other: frozenset[str] | None) -> frozenset[str] | None:
    return None if one is None or other is None else one | other


NO_SIGNS = Signs()
"""The wait was over, or ended by `wake`."""

ANY = Signs(None, None)
"""Something has changed, nobody knows what."""
