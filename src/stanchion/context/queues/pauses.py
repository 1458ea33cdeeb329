"""Pausing queues, with who did it, when, and why: the note for the next person who meets the queue."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Final, NamedTuple

from stanchion.errors import InvalidInput
from stanchion.stores.protocol import Store
from stanchion.stores.records.queues import QueueSettings

KIND: Final = "pause"
"""Kind of the versioned values, which are named by queue."""

KIND_OF_PAST: Final = "pauses"
"""Kind of the values that list the pauses of a queue that are over."""

NOTE_MAX: Final = 300

CODE: Final = "The code"
"""Who has paused a queue that is paused because the code declares it."""

PAUSES_MAX: Final = 10
"""Past pauses kept of a queue: the newest."""


class Pause(NamedTuple):
    """Who paused a queue, when (microseconds by the store's clock), and why; the texts may be empty."""

    who: str
    at: int
    note: str


class PastPause(NamedTuple):
    """A pause that is over; times are microseconds by the store's clock."""

    who: str
    since: int
    note: str
    until: int


def checked_note(note: str) -> str:
    """Return a note without spaces around it. Raises InvalidInput if it is too long."""
    text = note.strip()
    if len(text) > NOTE_MAX:
        raise InvalidInput(f"a note has at most {NOTE_MAX} characters")
    return text


def pause(store: Store, queue: str, note: str = "", who: str = "") -> QueueSettings:
    """Pause a queue; return its settings."""
    new = Pause(who, store.now(), checked_note(note))
    stored = store.configure(queue, {"paused": True})
    version = 0
    for value in store.values(KIND, [queue]):
        version = value.version
        _keep(store, queue, Pause(*json.loads(value.text)), new.at)
    store.compare_and_set(KIND, queue, json.dumps(new), version)
    return stored


def by_settings(store: Store, queue: str, *, paused: bool, who: str = "") -> None:
    """Note that the settings of a queue pause or resume it by now; a pause that is noted stays as it is."""
    if not paused:
        forget(store, queue)
    elif not store.values(KIND, [queue]):
        store.compare_and_set(KIND, queue, json.dumps(Pause(who, store.now(), "")), 0)


def resume(store: Store, queue: str) -> QueueSettings:
    """Resume a queue; return its settings."""
    stored = store.configure(queue, {"paused": False})
    forget(store, queue)
    return stored


def forget(store: Store, queue: str) -> None:
    """Add the pause of a queue that is paused no more to its past ones."""
    for value in store.values(KIND, [queue]):
        _keep(store, queue, Pause(*json.loads(value.text)), store.now())
        store.compare_and_set(KIND, queue, None, value.version)


def pauses_of(store: Store, queues: Iterable[str]) -> dict[str, Pause]:
    """Return who paused these queues; one is missing if that is not known."""
    return {value.name: Pause(*json.loads(value.text)) for value in store.values(KIND, queues)}


def past_pauses_of(store: Store, queues: Iterable[str]) -> dict[str, list[PastPause]]:
    """Return the last pauses of these queues that are over, oldest first."""
    return {value.name: _past(value.text) for value in store.values(KIND_OF_PAST, queues)}


def _keep(store: Store, queue: str, ended: Pause, until: int) -> None:
    """Add a pause to the past ones; after a death before its note was forgotten, this is repeated."""
    kept = False
    while not kept:
        value = next(iter(store.values(KIND_OF_PAST, [queue])), None)
        before = [one for one in ([] if value is None else _past(value.text)) if one.since != ended.at]
        text = json.dumps([*before, PastPause(ended.who, ended.at, ended.note, until)][-PAUSES_MAX:])
        kept = store.compare_and_set(KIND_OF_PAST, queue, text, 0 if value is None else value.version)


def _past(text: str) -> list[PastPause]:
    return [PastPause(*one) for one in json.loads(text)]
