"""Push by plain SQL: what triggers, migrations and programs in other languages call.

Each database has its text in `push.sql`, as one or several statements between lines of `;;`. A word in angle brackets
there stands for a value of this module.
"""

from __future__ import annotations

import json
import re
from importlib.resources import files
from typing import Any

from stanchion.core.checks import LONGEST_DELAY, MAX_HEADERS, MAX_LIMITS, MAX_NAME, MAX_PRIORITY, MIN_PRIORITY
from stanchion.core.codec import MAX_PAYLOAD
from stanchion.core.retry import MOST_ATTEMPTS
from stanchion.stores.records.jobs import QUEUED, UNLANED, NewJob
from stanchion.stores.records.slots import SEMAPHORE
from stanchion.stores.sql.engine.schema import queues
from stanchion.stores.sql.rows.queues import new_queue

NAME = "stanchion_push"

UNPRINTABLE = (
    *((0x1, 0x1F), (0x7F, 0xA0), (0xAD, 0xAD), (0x600, 0x605), (0x61C, 0x61C), (0x6DD, 0x6DD), (0x70F, 0x70F)),
    *((0x890, 0x891), (0x8E2, 0x8E2), (0x1680, 0x1680), (0x180E, 0x180E), (0x2000, 0x200F), (0x2028, 0x202F)),
    *((0x205F, 0x206F), (0x3000, 0x3000), (0xE000, 0xF8FF), (0xFEFF, 0xFEFF), (0xFFF9, 0xFFFB)),
)
"""Characters, from first to last, that no name may hold: controls, separators other than the space, format characters
and those of private use."""


def statements(package: str, **values: object) -> list[str]:
    """Return the statements of a database's package that make the routine; `values`: those of its own."""
    return [part.strip() for part in _filled(package, values).split("\n;;\n")]


def _filled(package: str, values: dict[str, object]) -> str:
    text = (files(package) / "push.sql").read_text(encoding="utf-8")
    known = {**_VALUES, **values}
    return re.sub(r"<(\w+)>", lambda word: str(known[word[1]]), text)


def _needed() -> dict[str, str]:
    """Return what a new queue must have in its columns without a default, as SQL."""
    values = new_queue("")
    needed = (column for column in queues.columns if not column.nullable and column.server_default is None)
    return {column.name: _literal(values[column.name]) for column in needed if not column.primary_key}


def _literal(value: Any) -> str:
    return json.dumps(value)  # numbers and truth values, spelled as in SQL


_QUEUE = _needed()
_VALUES: dict[str, object] = {
    "name": NAME,
    "queue_columns": ", ".join(_QUEUE),
    "queue_values": ", ".join(_QUEUE.values()),
    "max_name": MAX_NAME,
    "max_payload": MAX_PAYLOAD,
    "max_headers": MAX_HEADERS,
    "max_limits": MAX_LIMITS,
    "max_attempts": NewJob._field_defaults["max_attempts"],
    "most_attempts": MOST_ATTEMPTS,
    "min_priority": MIN_PRIORITY,
    "max_priority": MAX_PRIORITY,
    "longest_delay": int(LONGEST_DELAY),
    "queued": QUEUED,
    "unlaned": UNLANED,
    "semaphore": SEMAPHORE,
}
