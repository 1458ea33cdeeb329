"""Who looks after an alert: it hides nothing, and ends after some hours."""

from __future__ import annotations

import json
from typing import Final, NamedTuple

from stanchion.errors import InvalidInput
from stanchion.stores.protocol import Store
from stanchion.stores.records.jobs import SECOND

KIND: Final = "on-it"
"""Kind of the versioned values; their names are the keys of alerts."""

LASTS: Final = 4 * 3600 * SECOND
"""Microseconds."""

KEY_MAX: Final = 300


class OnIt(NamedTuple):
    """Who looks after an alert, and since when, in microseconds by the store's clock."""

    who: str
    at: int


def be_on_it(store: Store, key: str, who: str, now: int) -> None:
    """Write down who looks after the alert of this key, and forget who did so long ago. Raises InvalidInput."""
    if not 0 < len(key) <= KEY_MAX or not key.isprintable():
        raise InvalidInput("which alert?")
    known = {value.name: value for value in store.values(KIND)}
    for name, value in known.items():
        if name != key and now - _read(value.text).at >= LASTS:
            store.compare_and_set(KIND, name, None, value.version)
    text = json.dumps(OnIt(who, now))
    store.compare_and_set(KIND, key, text, known[key].version if key in known else 0)


def who_is_on_it(store: Store, now: int) -> dict[str, OnIt]:
    """Return who looks after alerts, by their keys."""
    found = {value.name: _read(value.text) for value in store.values(KIND)}
    return {key: one for key, one in found.items() if now - one.at < LASTS}


def _read(text: str) -> OnIt:
    who, at = json.loads(text)
    return OnIt(str(who), int(at))
