"""The columns of jobs and of history, for Spark and for Arrow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from difflib import get_close_matches
from operator import itemgetter
from typing import Any, Literal, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from stanchion.core.codec import Codec
from stanchion.errors import InvalidInput
from stanchion.stores.records.jobs import JobRow
from stanchion.stores.rules.jobs import own_priority, state_of

Of = Literal["jobs", "history"]

TIMESTAMP = pa.timestamp("us", tz="UTC")
_ARROW = {
    "string": pa.string(),
    "int": pa.int32(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "timestamp": TIMESTAMP,
}

_COMMON = {
    **dict.fromkeys(("id", "queue", "state", "task", "payload", "headers"), "string"),
    "priority": "int",
    "tenant": "string",
    "lane": "int",
    **dict.fromkeys(("key", "order_key", "limits", "flow", "origin"), "string"),
    **dict.fromkeys(("run_at", "enqueued_at", "started_at"), "timestamp"),
    **dict.fromkeys(("attempts", "failures", "max_attempts"), "int"),
    "timeout": "double",
    "errors": "string",
    "worker": "string",
}
COLUMNS: dict[Of, dict[str, str]] = {
    "jobs": {
        **_COMMON,
        "progress": "double",
        "lease_until": "timestamp",
        "cancel_requested": "boolean",
        "waits_for": "string",
        "waits_since": "timestamp",
    },
    "history": {**_COMMON, "progress": "double", "finished_at": "timestamp", "result": "string"},
}
"""The columns, each with its type in Spark. They are those of a JobRow as the outside sees them."""

_SEALED = ("payload", "result")


def ddl(of: Of) -> str:
    """Return the schema as Spark writes it."""
    return ", ".join(f"{name} {kind}" for name, kind in COLUMNS[of].items())


class Field(NamedTuple):
    """A column that somebody asks for."""

    name: str
    kind: str


def checked_columns(of: Of, wanted: Sequence[Field]) -> list[str]:
    """Return the names of the columns wanted; InvalidInput for one that there isn't, or of another type."""
    known = COLUMNS[of]
    for name, kind in wanted:
        if name not in known:
            near = get_close_matches(name, known, 1)
            guess = f"did you mean {near[0]}? " if near else ""
            raise InvalidInput(f"{of} have no column {name!r}; {guess}there are {', '.join(known)}")
        if kind != known[name]:
            raise InvalidInput(f"the column {name} of {of} is of type {known[name]}, not {kind}; cast it after reading")
    return [name for name, _ in wanted]


def arrow_schema(of: Of, names: Sequence[str]) -> pa.Schema:
    """Return the Arrow schema that Spark expects for these columns."""
    return pa.schema([(name, _ARROW[COLUMNS[of][name]]) for name in names])


def batch_of_rows(rows: Sequence[JobRow], of: Of, names: Sequence[str], now: int, codec: Codec) -> pa.RecordBatch:
    """Return jobs as a batch; `now`: the store's clock, which tells scheduled jobs from ready ones."""
    shown: dict[str, Callable[[JobRow], Any]] = {
        "state": lambda row: state_of(row, now).value,
        "priority": lambda row: own_priority(row.priority),
    }
    raw = [pa.array([shown.get(name, itemgetter(JobRow._fields.index(name)))(row) for row in rows]) for name in names]
    return batch_of_arrow(pa.RecordBatch.from_arrays(raw, list(names)), of, codec)


def batch_of_arrow(stored: pa.RecordBatch, of: Of, codec: Codec) -> pa.RecordBatch:
    """Return a batch of fields as they are stored, but for state and priority, as Spark expects it."""
    schema = arrow_schema(of, stored.schema.names)
    columns = [_column(field, stored.column(n), codec) for n, field in enumerate(schema)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _column(field: pa.Field, stored: pa.Array, codec: Codec) -> pa.Array:
    if field.type == TIMESTAMP:
        return stored.cast(pa.int64()).cast(TIMESTAMP)
    if field.name == "lane":  # lane n is stored as n + 1, and none as 0
        lanes = pc.subtract(stored.cast(pa.int32()), 1)
        return pc.if_else(pc.less(lanes, 0), pa.scalar(None, pa.int32()), lanes)
    values = stored.cast(field.type)
    if field.name == "flow":  # of the place in it, only the id of the flow
        return pc.utf8_slice_codeunits(values, 0, 36)
    return opened(values, codec) if field.name in _SEALED else values


def opened(texts: pa.Array, codec: Codec) -> pa.Array:
    """Return payloads as JSON: those that are encrypted are opened, unless there are no keys at all."""
    if not codec.has_keys or not pc.any(pc.starts_with(texts, "enc:")).as_py():
        return texts
    return pa.array([None if one is None else codec.opened(one) for one in texts.to_pylist()], pa.string())
