"""Reasons for waking a listener."""

from __future__ import annotations

from typing import NamedTuple


class Signs(NamedTuple):
    """Queues that may have work, and ids of finished jobs; None: any."""

    queues: frozenset[str] | None = frozenset()
    finished: frozenset[str] | None = frozenset()

    def and_also(self, other: Signs) -> Signs:
        """Return the union of both."""
        return Signs(_union(self.queues, other.queues), _union(self.finished, other.finished))

    def covers(self, other: Signs) -> bool:
        """Return whether all queues and ids of the other, where it names them, are here."""
        return (other.queues or frozenset()) <= (self.queues or frozenset()) and (other.finished or frozenset()) <= (
            self.finished or frozenset()
        )


def _union(one: frozenset[str] | None, other: frozenset[str] | None) -> frozenset[str] | None:
    return None if one is None or other is None else one | other


NO_SIGNS = Signs()
"""The wait timed out, or was ended by `wake`."""

ANY = Signs(None, None)
"""Any queue may have work, and any job may have finished."""
