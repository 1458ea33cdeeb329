"""Turning rows into plain jobs without a look at each: by Arrow, a batch at a time.

It takes rows with a payload that is the text of a JSON object, as `to_json` makes it, and options that any number of
jobs can share. All other rows are turned into jobs one by one, see `new_jobs`; so are those with an error, which it
names.
"""

from __future__ import annotations

from functools import cache

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from stanchion.context.context import Context
from stanchion.core.ids import id_spans
from stanchion.errors import InvalidInput
from stanchion.spark.datasource.json_values import plain_values
from stanchion.spark.datasource.new_jobs import JobMaker, checked_option, known_columns
from stanchion.stores.records.prepared import PLAIN_FIELDS, PlainColumns

_MANY = 1000
"""Different values of a column in a batch from which on each row is looked at."""

_COMPACT = r'^\{(?:[{}\[\]:,0-9+\-.eEtrufalsn]|"(?:[^\x00-\x1f"\\\x{d800}-\x{dfff}]|\\["\\bfnrt])*")*\}$'
"""Matches what may be an object in compact JSON that an encoder would not write in another way.

Without the letters of NaN and Infinity, which Arrow's parser takes, and surrogates, which RE2 takes for characters.
"""

_NESTED, _NESTED_MOST = 1000, 400
"""Characters from which on the depth of JSON is checked, and its limit: Python refuses more than about a thousand."""

_LONG, _DIGITS = 4000, r"[0-9]{1000}"
"""Characters from which on numbers are checked: Python refuses those with more than 4,300 digits."""


_LOW_DIGITS = 3
"""Hexadecimal digits of an id that are taken from a table."""


def plain_columns(maker: JobMaker, context: Context, batch: pa.RecordBatch) -> PlainColumns | None:
    """Return the jobs of a batch, or None if each row has to be looked at."""
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
    if not is_compact_json(payloads, context.codec.max_payload):
        return None
    try:
        queue = _queue(maker, batch.column("queue") if "queue" in names else None)
        varying = {name: _values(maker, name, batch.column(name)) for name in names & {*PLAIN_FIELDS}}
        fixed = {name: maker.fixed(name) for name in maker.defaults}
    except (InvalidInput, _OneByOne):
        return None
    if context.settings.of(context.store, {queue}):  # settings of new jobs, such as lanes
        return None
    return PlainColumns(queue, new_ids(batch.num_rows), payloads, fixed, varying)


class _OneByOne(Exception):
    """Each row has to be looked at."""


def _is_plain(context: Context) -> bool:
    """Return whether new jobs are stored as they are given."""
    return not (context.codec.has_keys or context.traces or context.registry.stations or context.declared.settings)


def is_compact_json(texts: pa.Array, most: int) -> bool:
    """Return whether all texts are objects in compact JSON, of at most so many bytes each.

    Two checks: by their characters, so that none spans lines or is left unfinished; and by a parser, as lines.
    """
    if not pa.types.is_string(texts.type) or texts.null_count:
        return False
    longest = pc.max(pc.binary_length(texts)).as_py()
    if longest > most or not pc.all(pc.match_substring_regex(texts, _COMPACT)).as_py():
        return False
    if longest > _NESTED:
        opened = pc.add(pc.count_substring(texts, "{"), pc.count_substring(texts, "["))
        if pc.max(opened).as_py() > _NESTED_MOST:
            return False
    if longest > _LONG and pc.any(pc.match_substring_regex(texts, _DIGITS)).as_py():
        return False
    return _objects(texts, longest) == len(texts)


def _objects(texts: pa.Array, longest: int) -> int:
    """Return the number of JSON objects in these lines; 0 if they are no JSON."""
    lines = pc.binary_join_element_wise(texts, "", "\n")
    reading = pa.json.ReadOptions(use_threads=False, block_size=max(1 << 20, 2 * longest))
    # Fields that no schema names are parsed, and not kept.
    parsing = pa.json.ParseOptions(explicit_schema=pa.schema([]), unexpected_field_behavior="ignore")
    try:
        return int(pa.json.read_json(pa.BufferReader(lines.buffers()[2]), reading, parsing).num_rows)
    except pa.ArrowInvalid:
        return 0


def _queue(maker: JobMaker, column: pa.Array | None) -> str:
    """Return the queue of all jobs."""
    named = [None] if column is None else pc.unique(column).slice(0, 2).to_pylist()
    queues = {maker.queue_of(given) for given in named}
    if len(queues) > 1:
        raise _OneByOne
    return queues.pop()


def _values(maker: JobMaker, name: str, column: pa.Array) -> pa.Array:
    """Return a field of the jobs, by a look at each of its different values."""
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
