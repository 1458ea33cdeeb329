"""Who looks after an alert: it hides nothing, and ends after some hours."""

from __future__ import annotations

import json
from typing import Final, NamedTuple

from stanchion.core.checks import checked_name
from stanchion.stores.protocol import Store
from stanchion.stores.records.jobs import SECOND

KIND: Final = "on-it"
"""Kind of the versioned values; their names are the keys of alerts."""

LASTS: Final = 4 * 3600 * SECOND
"""Microseconds."""


class Owner(NamedTuple):
    """Who looks after an alert, and since when, in microseconds by the store's clock."""

    who: str
    at: int


def checked_key(key: str) -> str:
    """Return the key of an alert as given. Raises InvalidInput."""
    return checked_name(key, "the key of an alert")


def set_owner(store: Store, key: str, who: str, now: int) -> None:
    """Write down who looks after the alert of this key, and forget who did so long ago. Raises InvalidInput."""
    checked_key(key)
    known = {value.name: value for value in store.values(KIND)}
    for name, value in known.items():
        if name != key and now - _read(value.text).at >= LASTS:
            store.compare_and_set(KIND, name, None, value.version)
    text = json.dumps(Owner(who, now))
    store.compare_and_set(KIND, key, text, known[key].version if key in known else 0)


def owners_of_alerts(store: Store, now: int) -> dict[str, Owner]:
    """Return who looks after alerts, by their keys."""
    found = {value.name: _read(value.text) for value in store.values(KIND)}
    return {key: one for key, one in found.items() if now - one.at < LASTS}


def _read(text: str) -> Owner:
    who, at = json.loads(text)
    return Owner(str(who), int(at))
