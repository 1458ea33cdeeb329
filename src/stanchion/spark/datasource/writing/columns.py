"""Convert rows into plain jobs without processing them singly: by Arrow, a batch per call.

It takes rows whose payload is the text of a JSON object, as `to_json` makes it, and options that any number of jobs can
share. All other rows are converted one by one, see `new_jobs`, as are batches with an error, to name the row.
"""

from __future__ import annotations

from functools import cache

import pyarrow as pa
import pyarrow.compute as pc

from stanchion.context.context import Context
from stanchion.context.queues.settings import concern_new_jobs
from stanchion.core.chunks.plain_columns import plain_values
from stanchion.core.ids import id_spans
from stanchion.errors import InvalidInput
from stanchion.spark.datasource.json_texts import are_objects, may_be_compact
from stanchion.spark.datasource.reading.typed_arrow import parsed_compact
from stanchion.spark.datasource.writing.new_jobs import JobMaker, checked_option, known_columns
from stanchion.stores.records.prepared import PLAIN_FIELDS, PlainColumns

_MANY = 1000
"""Number of different values of a column in a batch from which rows are processed singly."""

_LOW_DIGITS = 3
"""Hexadecimal digits of an id that are taken from a table."""


def plain_columns(
    maker: JobMaker, context: Context, batch: pa.RecordBatch, headers: str | None = None
) -> PlainColumns | None:
    """Return the jobs of a batch, all with these headers, or None if each row has to be looked at."""
    names = {*known_columns(batch)}
    if (
        not batch.num_rows
        or not {"payload"} <= names <= {"payload", "queue", *PLAIN_FIELDS}
        or not maker.defaults.keys() <= {*PLAIN_FIELDS}
        or maker.task is not None
        or not _is_plain(context)
    ):
        return None
    payloads = batch.column("payload")
    if not may_be_compact(payloads, context.codec.max_payload):
        return None
    try:
        queue = _queue(maker, batch.column("queue") if "queue" in names else None)
        varying = {name: _values(maker, name, batch.column(name)) for name in names & {*PLAIN_FIELDS}}
        fixed = {"headers": headers, **{name: maker.fixed(name) for name in maker.defaults}}
    except (InvalidInput, _OneByOne):
        return None
    if not _fit(context, queue, payloads):
        return None
    return PlainColumns(queue, new_ids(batch.num_rows), payloads, fixed, varying)


class _OneByOne(Exception):
    """Each row has to be looked at."""


def _fit(context: Context, queue: str, payloads: pa.Array) -> bool:
    """Return whether the payloads are JSON that fits the schema of the queue, and nothing else is to be done to jobs.

    Checking row by row then names the payload that does not fit.
    """
    settings = context.settings.of(context.store, {queue}).get(queue)
    if settings is None:
        return are_objects(payloads)
    if concern_new_jobs(settings):  # such as lanes
        return False
    known = context.schemas.in_force(context.store, queue)
    return are_objects(payloads) if known is None else parsed_compact(known.schema.struct, payloads) is not None


def _is_plain(context: Context) -> bool:
    """Return whether new jobs are stored as they are given."""
    return not (context.codec.has_keys or context.traces or context.registry.stations or context.declared.settings)


def _queue(maker: JobMaker, column: pa.Array | None) -> str:
    """Return the queue of all jobs."""
    named = [None] if column is None else pc.unique(column).slice(0, 2).to_pylist()
    queues = {maker.queue_of(given) for given in named}
    if len(queues) > 1:
        raise _OneByOne
    return queues.pop()


def _values(maker: JobMaker, name: str, column: pa.Array) -> pa.Array:
    """Return a field of the jobs, by checking each of its different values."""
    encoded = column.dictionary_encode()
    given = plain_values(encoded.dictionary)
    if len(given) > _MANY:
        raise _OneByOne
    default = maker.fixed(name)
    fields = [checked_option(name, value) for value in given]
    found = pa.array(fields or [default], _kind(name)).take(encoded.indices)
    return found if default is None else found.fill_null(default)


def _kind(name: str) -> pa.DataType:
    return {"tenant": pa.string(), "timeout": pa.float64()}.get(name, pa.int64())


def new_ids(count: int) -> pa.Array:
    """Return as many new ids as `core.ids.new_ids` does, as Arrow text."""
    pieces = []
    for head, first, number in id_spans(count):
        end = first + number
        while first < end:
            high, low = divmod(first, 16**_LOW_DIGITS)
            some = min(end - first, 16**_LOW_DIGITS - low)
            shared = f"{head}{high:0{12 - _LOW_DIGITS}x}"
            pieces.append(pc.binary_join_element_wise(shared, _low_digits().slice(low, some), ""))
            first += some
    return pa.concat_arrays(pieces)


@cache
def _low_digits() -> pa.Array:
    """Return the last digits of all ids, in order."""
    return pa.array([f"{number:0{_LOW_DIGITS}x}" for number in range(16**_LOW_DIGITS)])
