"""Declared rates: versioned values of the kind `rate`, named as in the limits of jobs.

They apply whatever the jobs with that name say. So no job slows others down, or lets too many start, by naming another
rate.

    code declares 20/s      "20.0"
    an operator sets 5/s    "5.0 20.0"     code that declares 20/s again changes nothing; with another rate it does
    ... without any code    "5.0 -"
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final, NamedTuple

from stanchion.stores.records.values import VersionedValue
from stanchion.stores.rules.capacity.limits import FASTEST, SLOWEST

KIND: Final = "rate"

CACHED_SECONDS: Final = 1.0
"""Seconds after which another process's change of a declared rate applies here."""

_NAMES_CACHED: Final = 10_000

Read = Callable[[str, Iterable[str]], list[VersionedValue]]
"""Reads the values of a kind with these names."""

CompareAndSet = Callable[[str, str, str | None, int], bool]


class StoredRate(NamedTuple):
    """A declared rate as it is stored. `name`: "key:" and a `rate_key`, "task:" and a task, or "queue:" and a queue."""

    name: str
    per_second: float | None
    """Starts per second in force; None if the stored text is unreadable: then jobs decide."""
    declared: float | None
    """Starts per second that code declared last; None if no code has."""


def rate_in(name: str, text: str) -> StoredRate:
    """Return the rate in a stored text."""
    in_force, operated, declared = text.partition(" ")
    per_second = _per_second_in(in_force)
    return StoredRate(name, per_second, _per_second_in(declared) if operated else per_second)


def rate_text(per_second: float, declared: float | None) -> str:
    """Return the text of a rate that an operator sets."""
    return f"{per_second!r} {'-' if declared is None else repr(declared)}"


def declared_rates(names: Iterable[str], read: Read) -> dict[str, float]:
    """Return the starts per second that are declared for any of these rates."""
    if not (wanted := [name for name in names if _may_be_declared(name)]):
        return {}
    found = (rate_in(value.name, value.text) for value in read(KIND, wanted))
    return {rate.name: rate.per_second for rate in found if rate.per_second is not None}


class CachedRates:
    """The declared rates of a store, read again once they are CACHED_SECONDS old."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[float, float | None]] = {}
        """When a name was read, and its starts per second if it is declared."""

    def of(self, names: Iterable[str], read: Read) -> dict[str, float]:
        """Return the starts per second that are declared for any of these rates."""
        if len(self._known) > _NAMES_CACHED:
            self._known = {}
        # What this call reads goes to the dictionary that it began with, which `forget` replaces meanwhile.
        known, now = self._known, time.monotonic()
        wanted = set(filter(_may_be_declared, names))
        current = {name: known[name] for name in wanted & known.keys() if now - known[name][0] < CACHED_SECONDS}
        if unknown := wanted - current.keys():
            found = declared_rates(unknown, read)
            current |= {name: (now, found.get(name)) for name in unknown}
            known |= current
        return {name: per_second for name, (_, per_second) in current.items() if per_second is not None}

    def forget(self) -> None:
        """Read all declared rates again at their next use."""
        self._known = {}

    def noticing(self, compare_and_set: CompareAndSet) -> CompareAndSet:
        """Return a `compare_and_set` that makes a changed declared rate apply immediately."""
        return partial(self._noticing, compare_and_set)

    def _noticing(self, compare_and_set: CompareAndSet, kind: str, name: str, text: str | None, version: int) -> bool:
        try:
            return compare_and_set(kind, name, text, version)
        finally:
            if kind == KIND:
                self.forget()


def _may_be_declared(name: str) -> bool:
    """Return False for the rate of one tenant, which only jobs name: there may be very many."""
    return not name[:1].isdecimal()


def _per_second_in(text: str) -> float | None:
    """Return the starts per second in a text; None if it has another form."""
    try:
        per_second = float(text)
    except ValueError:
        return None
    return per_second if SLOWEST <= per_second <= FASTEST else None
