"""Follows a connection of Django by its own `on_commit`, which knows savepoints and the transactions of `TestCase`."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from stanchion.stores.memory.joining.journal import Entry, Journal, Target

if TYPE_CHECKING:
    from stanchion.stores.sql.engine.callers import DjangoConnection


class DjangoFollower:
    """Applies each call when Django runs what waits for the commit."""

    def __init__(self, wrapper: DjangoConnection, target: Target) -> None:
        self._wrapper, self._target = wrapper, target
        self._journal = Journal(target)
        self._waiting: dict[object, Entry] = {}
        """The calls by the functions that wait for the commit."""

    @property
    def journal(self) -> Journal:
        """The calls whose functions still wait: Django has dropped those of savepoints that were rolled back."""
        waiting = {function for _, function, *_ in self._wrapper.run_on_commit}
        self._waiting = {function: entry for function, entry in self._waiting.items() if function in waiting}
        self._journal.entries = list(self._waiting.values())
        return self._journal

    def add(self, entry: Entry) -> None:
        """Apply the call on commit."""
        function = partial(self._target.commit, [entry])
        self._waiting[function] = entry
        self._wrapper.on_commit(function)

    def close(self) -> None:
        """Do nothing: functions of transactions that end later change a store that nobody uses any more."""
