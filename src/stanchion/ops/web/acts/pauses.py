"""Pausing and resuming queues, with a note of who did it and why."""

from __future__ import annotations

from stanchion.context.queues import pauses
from stanchion.context.queues.pauses import Pause
from stanchion.ops.web.visit import Visit
from stanchion.stores.records.queues import QueueSettings


def set_paused(visit: Visit, queue: str, *, paused: bool, note: str) -> QueueSettings:
    """Pause or resume a queue; return its settings."""
    visit.audit("pause" if paused else "resume", queue, 0, note)
    if not paused:
        return pauses.resume(visit.store, queue)
    return pauses.pause(visit.store, queue, note, visit.session.caller.name)


def pause_of(visit: Visit, queue: str) -> Pause | None:
    """Return who paused a queue; None if that is not known."""
    return pauses.pauses_of(visit.store, [queue]).get(queue)
