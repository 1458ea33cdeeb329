"""Decides which of several starting processes searches for leases from before the clock was set back.

A process can't know whether the clock was set back before its start, and a lease does not show it either. The search
reads up to LEASES_SEARCHED_MAX jobs. So the time of the last one is stored: while it is recent, and not from the
future, another process has searched since, or the clock was set back by less than RECENT.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Protocol

from stanchion.stores.records.jobs import SECOND
from stanchion.stores.records.values import VersionedValue
from stanchion.stores.rules.set_back import is_overdue

KIND: Final = "clock"
NAME: Final = "leases"

RECENT: Final = 30 * SECOND
"""Microseconds that another process's search is enough; an earlier lease lasts longer by that at most."""


class Values(Protocol):
    """The verbs of a store for small texts."""

    def values(self, kind: str, names: Iterable[str] | None = None) -> list[VersionedValue]: ...

    def compare_and_set(self, kind: str, name: str, text: str | None, version: int) -> bool: ...


class LooksForLeases:
    """Decides for one process."""

    def __init__(self, values: Values) -> None:
        self._values = values

    def mine(self, now: int) -> bool:
        """Return True if this process should look: none has done so lately, and none begins to at this moment."""
        found = next(iter(self._values.values(KIND, [NAME])), None)
        if found is not None and found.text.isdecimal() and not is_overdue(int(found.text), now, RECENT):
            return False
        return self._values.compare_and_set(KIND, NAME, str(now), 0 if found is None else found.version)
