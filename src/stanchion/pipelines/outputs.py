"""Outputs by key: which item of a station with a key is the current output of each key; and the versions of items.

A versioned value per key names the item. It only ever changes to a newer version, whatever the order of processing:
so a backfill replaces the output of earlier code for the same input, and never the output of a later input or a later
backfill. The value changes before the item leaves the station. A death in between leaves a value that the same item
writes again.

Copies that replays and backfills enqueue have a header:

x-input    [1790000000000000, 1790086400000000]: when the input of the pipeline came, and when it was last run again, by
           the store's clock in microseconds
"""

from __future__ import annotations

import json
from collections.abc import Callable
from hashlib import sha256
from typing import Any, Final, NamedTuple

from stanchion.core.checks import brief
from stanchion.core.names.fitted_names import fitted
from stanchion.errors import InvalidInput
from stanchion.stores.protocol import Store
from stanchion.stores.records.jobs import JobRow
from stanchion.stores.rules.lifecycle.trail import stops_of

INPUT: Final = "x-input"


class Version(NamedTuple):
    """The version of an item, compared in order: of a later input, or of the same one run again later, is newer.

    `came_at`: when the input came; `again_at`: when the replay or backfill began that runs it again, 0 if none does.
    """

    came_at: int
    again_at: int = 0


def version_of(row: JobRow) -> Version:
    """Return the version of an item; all that were split from one input have the version of that input."""
    told = (json.loads(row.headers) if row.headers else {}).get(INPUT)
    if isinstance(told, list) and len(told) == len(Version._fields) and all(type(one) is int for one in told):
        return Version(*told)
    return Version(stops_of(row)[0].entered_at)


def with_version(headers: str | None, version: Version) -> str:
    """Return the headers of a copy, with its version."""
    kept = json.loads(headers) if headers else {}
    return json.dumps({**kept, INPUT: version}, separators=(",", ":"))


KIND: Final = "output"

KeyOf = str | Callable[[Any], object]
"""The key of an item: the name of a field, or a function of the item. None: the item has no key."""


class Output(NamedTuple):
    """The current output of a key: its version, and the item that made it."""

    version: Version
    item: str

    @property
    def text(self) -> str:
        """The text of the value."""
        return json.dumps(self)


def checked_key(key: object) -> KeyOf | None:
    """Return the option of a station as given. Raises InvalidInput."""
    if key is None or callable(key) or (isinstance(key, str) and key):
        return key
    raise InvalidInput(f"key must be the name of a field, or a function of the item, not {brief(key)}")


def key_in(item: object, key: KeyOf) -> str | None:
    """Return the key of an item, None: it has none. Raises InvalidInput for a key that is no text or whole number."""
    try:
        found = key(item) if callable(key) else item.get(key) if isinstance(item, dict) else None
    except Exception as error:
        raise InvalidInput(f"the function key= of the station raised {type(error).__name__}: {error}") from error
    if found is None or isinstance(found, str):
        return found
    if isinstance(found, int) and not isinstance(found, bool):
        return str(found)
    raise InvalidInput(f"the key of an item must be a text or a whole number, not {brief(found)}")


def value_name(queue: str, key: str) -> str:
    """Return the name of the value of a key, which may be longer than a name."""
    return fitted(queue, f" {sha256(key.encode()).hexdigest()[:32]}")


def current(store: Store, queue: str, key: str) -> tuple[Output | None, int]:
    """Return the current output of a key, None if it has none, and the version of the value."""
    for value in store.values(KIND, [value_name(queue, key)]):
        version, item = json.loads(value.text)
        return Output(Version(*version), item), value.version
    return None, 0


def newer(store: Store, queue: str, key: str, output: Output) -> Output | None:
    """Return the current output of a key if it is newer than this one."""
    found, _ = current(store, queue, key)
    return found if found is not None and found.version > output.version else None


def replace_older(store: Store, queue: str, key: str, output: Output) -> Output | None:
    """Make this the current output of a key, unless that is newer: then return it, and change nothing."""
    while True:
        found, version = current(store, queue, key)
        if found == output:
            return None
        if found is not None and found.version > output.version:
            return found
        if store.compare_and_set(KIND, value_name(queue, key), output.text, version):
            return None
