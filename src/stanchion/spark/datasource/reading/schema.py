"""The columns of jobs and of history, for Spark and for Arrow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from difflib import get_close_matches
from operator import itemgetter
from typing import Literal, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from stanchion.core.names.partition_names import logical_name
from stanchion.core.values.codec import Codec
from stanchion.core.values.framing import as_text
from stanchion.errors import InvalidInput
from stanchion.stores.fields.jobs import FINISHED, LIVE, PUBLIC, Kind, names
from stanchion.stores.records.jobs import UNLANED, JobRow
from stanchion.stores.rules.lifecycle.jobs import state_of

Of = Literal["jobs", "history"]

TIMESTAMP = pa.timestamp("us", tz="UTC")
_ARROW = {
    "string": pa.string(),
    "int": pa.int32(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "timestamp": TIMESTAMP,
}

_TYPES = dict.fromkeys(Kind, "string") | {
    Kind.MICROS: "timestamp",
    Kind.SMALL: "int",
    Kind.INT: "int",
    Kind.REAL: "double",
    Kind.FLAG: "boolean",
}
COLUMNS: dict[Of, dict[str, str]] = {
    "jobs": {field.shown_as: _TYPES[field.kind] for field in PUBLIC if field in LIVE},
    "history": {field.shown_as: _TYPES[field.kind] for field in PUBLIC if field in FINISHED},
}
"""The columns with their Spark types: the fields of a JobRow in their public form."""

ITEM, ITEMS = "item", "items"
"""The place of an item in its job, a column of rows alone; and the number of items of a job."""

CONTENTS = frozenset(names(Kind.CONTENT))
"""The columns with JSON that may be encrypted, and may be a chunk."""
_STORED = {field.shown_as: field.name for field in PUBLIC}
"""The fields of a JobRow by the names of their columns."""


def ddl(of: Of, payload: str = "string") -> str:
    """Return the schema of rows in DDL, with payloads of this type."""
    return ", ".join(f"{name} {kind}" for name, kind in {**_of_rows(of), "payload": payload}.items())


def _of_rows(of: Of) -> dict[str, str]:
    """Return the columns of rows with their Spark types."""
    return {**COLUMNS[of], ITEM: "int"}


class Field(NamedTuple):
    """A requested column."""

    name: str
    kind: str


def checked_columns(of: Of, wanted: Sequence[Field]) -> list[str]:
    """Return the names of the requested columns. Raises InvalidInput for an unknown one, or a different type."""
    known = _of_rows(of)
    for name, kind in wanted:
        if name not in known:
            near = get_close_matches(name, known, 1)
            guess = f"did you mean {near[0]}? " if near else ""
            raise InvalidInput(f"{of} have no column {name!r}; {guess}known: {', '.join(known)}")
        if kind != known[name]:
            raise InvalidInput(f"the column {name} of {of} is of type {known[name]}, not {kind}; cast it after reading")
    return [name for name, _ in wanted]


def arrow_schema(of: Of, names: Sequence[str]) -> pa.Schema:
    """Return the Arrow schema that Spark expects for these columns."""
    return pa.schema([(name, _ARROW[COLUMNS[of][name]]) for name in names])


def stored_fields(names: Sequence[str]) -> tuple[str, ...]:
    """Return the fields of a JobRow with the content of these columns."""
    return tuple(_STORED[name] for name in names)


def batch_of_rows(rows: Sequence[JobRow], of: Of, names: Sequence[str], now: int, codec: Codec) -> pa.RecordBatch:
    """Return jobs as a batch. `now`: the store's clock, which separates scheduled jobs from ready ones."""
    shown: dict[str, Callable[[JobRow], object]] = {
        "state": lambda row: state_of(row, now).value,
        "queue": lambda row: logical_name(row.queue),
    }
    fields = stored_fields(names)
    raw = []
    for name in fields:
        values = list(map(shown.get(name, itemgetter(JobRow._fields.index(name))), rows))
        if name in CONTENTS:
            values = [as_text(value) if isinstance(value, bytes) else value for value in values]
        raw.append(pa.array(values))
    return batch_of_arrow(pa.RecordBatch.from_arrays(raw, list(fields)), of, names, codec)


def batch_of_arrow(stored: pa.RecordBatch, of: Of, names: Sequence[str], codec: Codec) -> pa.RecordBatch:
    """Convert a batch of the `stored_fields` of columns (the state is converted already) to the form for Spark."""
    schema = arrow_schema(of, names)
    columns = [_column(field, stored.column(n), codec) for n, field in enumerate(schema)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _column(field: pa.Field, stored: pa.Array, codec: Codec) -> pa.Array:
    if field.type == TIMESTAMP:
        return stored.cast(pa.int64()).cast(TIMESTAMP)
    if field.name == "lane":
        lanes = stored.cast(pa.int32())
        return pc.if_else(pc.equal(lanes, UNLANED), pa.scalar(None, pa.int32()), lanes)
    values = stored.cast(field.type)
    return opened(values, codec) if field.name in CONTENTS else values


def opened(texts: pa.Array, codec: Codec) -> pa.Array:
    """Return payloads as JSON; without any keys, encrypted ones are left as they are."""
    if not codec.has_keys or not pc.any(pc.starts_with(texts, "enc:")).as_py():
        return texts
    return pa.array([None if one is None else codec.opened(one) for one in texts.to_pylist()], pa.string())
