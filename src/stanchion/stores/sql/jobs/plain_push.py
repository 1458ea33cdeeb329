"""Push by plain SQL: what triggers, migrations and programs in other languages call.

Each database has its text in `push.sql`, as one or several statements between lines of `;;`.
"""

from __future__ import annotations

import json
from importlib.resources import files

from stanchion.stores.fields.jobs import CHOSEN, SPANS
from stanchion.stores.fields.sql import LIVE_COLUMNS
from stanchion.stores.records.jobs import QUEUED, JobRow
from stanchion.stores.records.slots import SEMAPHORE
from stanchion.stores.rules.plain_push import filled
from stanchion.stores.sql.engine.schema import queues
from stanchion.stores.sql.rows.queue_row import new_queue


def statements(package: str, quote: str, **values: object) -> list[str]:
    """Return the statements of a database's package that make the routine; `values`: specific to the database."""
    text = (files(package) / "push.sql").read_text(encoding="utf-8")
    columns = ", ".join(f"{quote}{name}{quote}" for name in _STORED)
    return [part.strip() for part in filled(text, columns=columns, **_VALUES, **values).split("\n;;\n")]


def _needed() -> dict[str, str]:
    """Return the values of a new queue in its columns without a default, as SQL."""
    values = new_queue("")
    needed = (column for column in queues.columns if not column.nullable and column.server_default is None)
    return {column.name: _literal(values[column.name]) for column in needed if not column.primary_key}


def _literal(value: object) -> str:
    return json.dumps(value)  # numbers and truth values, spelled as in SQL


_STORED = sorted(
    (name for name in LIVE_COLUMNS if name in CHOSEN or name not in JobRow._field_defaults), key=SPANS.__contains__
)
"""The columns of a job that the routine stores, in their order, but spans last; the others keep their defaults."""

_QUEUE = _needed()
_VALUES: dict[str, object] = {
    "queue_columns": ", ".join(_QUEUE),
    "queue_values": ", ".join(_QUEUE.values()),
    "queued": QUEUED,
    "semaphore": SEMAPHORE,
}
