"""Outputs by key: which item of a station with a key is the current output of each key.

A versioned value per key names the item. It only ever changes to a newer version, whatever the order of processing:
so a backfill replaces the output of earlier code for the same input, and never the output of a later input or a later
backfill. The value changes before the item leaves the station. A death in between leaves a value that the same item
writes again.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from hashlib import sha256
from typing import Any, Final, NamedTuple

from stanchion.core.checks import shown
from stanchion.core.names.fitted_names import fitted
from stanchion.errors import InvalidInput
from stanchion.pipelines.versions import Version
from stanchion.stores.protocol import Store

KIND: Final = "output"

KeyOf = str | Callable[[Any], Any]
"""The key of an item: the name of a field, or a function of the item. None: the item has no key."""


class Output(NamedTuple):
    """The current output of a key: its version, and the item that made it."""

    version: Version
    item: str

    @property
    def text(self) -> str:
        """The text of the value."""
        return json.dumps(self)


def checked_key(key: Any) -> KeyOf | None:
    """Return the option of a station as given. Raises InvalidInput."""
    if key is None or callable(key) or (isinstance(key, str) and key):
        return key  # type: ignore[no-any-return]
    raise InvalidInput(f"key must be the name of a field, or a function of the item, not {shown(key)}")


def key_in(item: Any, key: KeyOf) -> str | None:
    """Return the key of an item, None: it has none. Raises InvalidInput for a key that is no text or whole number."""
    try:
        found = key(item) if callable(key) else item.get(key) if isinstance(item, dict) else None
    except Exception as error:
        raise InvalidInput(f"the function key= of the station raised {type(error).__name__}: {error}") from error
    if found is None or isinstance(found, str):
        return found
    if isinstance(found, int) and not isinstance(found, bool):
        return str(found)
    raise InvalidInput(f"the key of an item must be a text or a whole number, not {shown(found)}")


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
