"""The rates that the code declares, and their storage: one versioned value for each name.

A process stores what its code declares before it pushes or reserves; the process that began last is right.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from stanchion.context.declared_texts import keep
from stanchion.errors import InvalidInput, NotPermitted
from stanchion.stores.protocol import Store
from stanchion.stores.rules.declared_rates import KIND, CachedRates
from stanchion.stores.rules.limits import Rate


class DeclaredRates:
    """The rates that the code of one process declares."""

    def __init__(self) -> None:
        self.declared: dict[str, float] = {}
        """Starts per second, by name."""
        self._begin(None)

    def _begin(self, store: Store | None) -> None:
        self._store, self._stored, self._known = store, False, CachedRates()

    def __getstate__(self) -> dict[str, Any]:
        return {"declared": self.declared}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.declared = state["declared"]
        self._begin(None)

    def declare(self, rate: Rate) -> None:
        """Remember a rate to store. Raises InvalidInput if this process declares another one of that name."""
        name, per_second = rate
        known = self.declared.setdefault(name, per_second)
        if known != per_second:
            raise InvalidInput(
                f"the rate {name!r} is declared twice: as {known:g} and as {per_second:g} starts per second; all jobs "
                f"that share a rate need the same one"
            )
        self._stored = False

    def store(self, store: Store) -> None:
        """Store what is declared, where it is new, once for each store."""
        if store is not self._store:  # another one, as in a test
            self._begin(store)
        if self._stored:
            return
        with suppress(NotPermitted):  # behind a manager, which lets only admins declare: then jobs decide
            keep(store, KIND, {name: repr(per_second) for name, per_second in self.declared.items()})
        self._stored = True

    def of(self, name: str, store: Callable[[], Store]) -> float | None:
        """Return the starts per second that this process or another one declares; None if none does."""
        if (per_second := self.declared.get(name)) is not None:
            return per_second
        if (now := store()) is not self._store:
            self._begin(now)
        if (found := self._known.of([name], now.values).get(name)) is None:
            self._known.forget()  # another process may declare it at any moment
        return found
