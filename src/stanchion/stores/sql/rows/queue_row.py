"""The row of a queue, as it is read and made; without SQLAlchemy."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any, NamedTuple

from stanchion.stores.records.jobs import UNLANED
from stanchion.stores.records.queues import STORED_SETTINGS, QueueSettings


class QueueRow(NamedTuple):
    """A row of stanchion_queues, with all columns in order."""

    name: str
    paused: bool
    max_rate: float | None
    max_running: int | None
    lanes: int
    lanes_per_tenant: int
    history_ttl: float
    dead_letter: str | None
    lease: float
    uses_lanes: bool
    uses_slots: bool
    expires: float | None
    expires_with_jobs: bool
    timeout: float | None
    ordered: bool
    ordered_by: str | None
    declared: str | None
    last_lane: int
    """The lane that was served last."""
    has_dead_letters: bool
    """Its jobs may include dead letters."""
    rate_tokens: float
    rate_at: int
    active_events: int
    """The number of events counted when the last use was recorded, and that time; see `rules.upkeep`."""
    active_at: int
    head: str | None
    """Of an ordered queue: the job that no other may overtake while it is live there."""

    @property
    def settings(self) -> QueueSettings:
        """The settings."""
        given: dict[str, Any] = dict(zip(_SETTINGS, self, strict=False))
        declared = json.loads(self.declared) if self.declared else {}
        return QueueSettings(**{**given, **{name: bool(given[name]) for name in _FLAGS}, "declared": declared})


_SETTINGS = STORED_SETTINGS
"""The first columns of a queue, which hold its settings."""
_FLAGS = tuple(one.name for one in fields(QueueSettings) if isinstance(one.default, bool))


def new_queue(queue: str) -> dict[str, object]:
    """Return the parameters of a new queue: default settings, an empty rate bucket."""
    settings = QueueSettings(queue)
    at_first = {
        **dict.fromkeys(QueueRow._fields, 0),
        "last_lane": UNLANED,
        "has_dead_letters": False,
        "head": None,
    }
    return {**{name: getattr(settings, name, value) for name, value in at_first.items()}, "declared": None}
