"""Pausing queues, with who did it, when, and why: the note for the next person who meets the queue."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Final, NamedTuple

from stanchion.errors import InvalidInput
from stanchion.stores.protocol import Store
from stanchion.stores.records.queues import QueueSettings

KIND: Final = "pause"
"""Kind of the versioned values; their names are those of queues."""

NOTE_MAX: Final = 300


class Pause(NamedTuple):
    """Who paused a queue, when (microseconds by the store's clock), and why; the texts may be empty."""

    who: str
    at: int
    note: str


def checked_note(note: str) -> str:
    """Return a note without spaces around it. Raises InvalidInput if it is too long."""
    text = note.strip()
    if len(text) > NOTE_MAX:
        raise InvalidInput(f"a note has at most {NOTE_MAX} characters")
    return text


def pause(store: Store, queue: str, note: str = "", who: str = "") -> QueueSettings:
    """Pause a queue; return its settings."""
    text = json.dumps(Pause(who, store.now(), checked_note(note)))
    stored = store.configure(queue, {"paused": True})
    version = next((value.version for value in store.values(KIND, [queue])), 0)
    store.compare_and_set(KIND, queue, text, version)
    return stored


def resume(store: Store, queue: str) -> QueueSettings:
    """Resume a queue; return its settings."""
    stored = store.configure(queue, {"paused": False})
    forget(store, queue)
    return stored


def forget(store: Store, queue: str) -> None:
    """Forget who paused a queue that is paused no more."""
    for value in store.values(KIND, [queue]):
        store.compare_and_set(KIND, queue, None, value.version)


def pauses_of(store: Store, queues: Iterable[str]) -> dict[str, Pause]:
    """Return who paused these queues; one that was paused by its settings alone is missing."""
    return {value.name: Pause(*json.loads(value.text)) for value in store.values(KIND, queues)}
