"""Pausing and resuming queues, with a note of who did it and why."""

from __future__ import annotations

import json
from typing import NamedTuple

from stanchion.ops.web.reads.queues import PAUSES
from stanchion.ops.web.visit import Visit
from stanchion.stores.records.queues import QueueSettings


class Pause(NamedTuple):
    """Who paused or resumed a queue last on the page, when, and why."""

    who: str
    at: int
    note: str


def set_paused(visit: Visit, queue: str, *, paused: bool, note: str) -> QueueSettings:
    """Pause or resume a queue; return its settings."""
    store = visit.store
    visit.audit("pause" if paused else "resume", queue, 0, note)
    stored = store.configure(queue, {"paused": paused})
    text = json.dumps(Pause(visit.session.caller.name, visit.now, note)) if paused else None
    version = next((value.version for value in store.values(PAUSES, [queue])), 0)
    if version or text is not None:
        store.compare_and_set(PAUSES, queue, text, version)
    return stored


def pause_of(visit: Visit, queue: str) -> Pause | None:
    """Return who paused a queue; None if it was not done here."""
    return next((Pause(*json.loads(value.text)) for value in visit.store.values(PAUSES, [queue])), None)
