"""The row of a queue, as it is read and made; without SQLAlchemy."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from stanchion.stores.fields.jobs import Kind
from stanchion.stores.fields.queues import MERGED, SETTINGS
from stanchion.stores.records.jobs import UNLANED
from stanchion.stores.records.queues import STORED_SETTINGS, QueueSettings


class QueueRow(NamedTuple):
    """A row of stanchion_queues."""

    settings: QueueSettings
    last_lane: int = UNLANED
    """The lane that was served last."""
    has_dead_letters: bool = False
    """Its jobs may include dead letters."""
    rate_tokens: float = 0
    rate_at: int = 0
    active_events: int = 0
    """The number of events counted when the last use was recorded, and that time; see `rules.upkeep`."""
    active_at: int = 0
    head: str | None = None
    """Of an ordered queue: the job that no other may overtake while it is live there."""


_STATE: Final = QueueRow._fields[1:]
COLUMNS: Final = (*STORED_SETTINGS, *_STATE)
"""The columns of the table, in its order."""
_SETTINGS_MAX: Final = len(STORED_SETTINGS)
_FLAGS: Final = [n for n, setting in enumerate(SETTINGS) if setting.kind is Kind.FLAG]
_MERGED: Final = [STORED_SETTINGS.index(name) for name in MERGED]


def queue_row(columns: Sequence[Any]) -> QueueRow:
    """Return the row of a queue from its columns, in the table's order."""
    given = list(columns[:_SETTINGS_MAX])
    for place in _FLAGS:
        given[place] = bool(given[place])
    for place in _MERGED:
        given[place] = json.loads(given[place]) if given[place] else {}
    return QueueRow(QueueSettings(*given), *columns[_SETTINGS_MAX:])


def new_queue(queue: str) -> dict[str, object]:
    """Return the columns of a new queue: default settings, an empty rate bucket."""
    settings, *state = QueueRow(QueueSettings(queue))
    given = (None if one.kind is Kind.JSON else getattr(settings, one.name) for one in SETTINGS)
    return dict(zip(COLUMNS, (*given, *state), strict=True))
