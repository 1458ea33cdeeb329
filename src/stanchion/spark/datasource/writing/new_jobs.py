"""Turning rows into new jobs."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import lru_cache
from itertools import repeat
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from stanchion.context.context import Context
from stanchion.core.checks import checked_name
from stanchion.core.chunks.plain_columns import plain_values
from stanchion.core.ids import new_ids
from stanchion.core.values.codec import Codec, decoder
from stanchion.errors import InvalidInput
from stanchion.jobs.call import arguments, called_with
from stanchion.jobs.insert import make_ready
from stanchion.jobs.options import checked, sharing
from stanchion.spark.datasource.json_texts import are_objects, may_be_compact
from stanchion.spark.datasource.json_values import jsonable
from stanchion.stores.fields.jobs import KINDS, OPTIONS, Kind
from stanchion.stores.records.jobs import NewJob

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

_TEXT = ("string",)
_WHOLE = ("tinyint", "smallint", "int", "bigint")
_NUMBER = (*_WHOLE, "float", "double")

_BY_KIND = dict.fromkeys(Kind, _TEXT) | {
    Kind.SMALL: (*_WHOLE, *_TEXT),  # priorities: numbers, or names of bands
    Kind.MICROS: ("timestamp",),
    Kind.REAL: _NUMBER,
    Kind.JSON: ("array<string>",),
    Kind.INT: _WHOLE,
}
_RATES = {"rate": (*_TEXT, *_NUMBER), "rate_by": _TEXT, "rate_key": _TEXT}
_OPTIONS = tuple(one.name for one in OPTIONS if one.name not in ("headers", "key_ttl"))
_TYPES: dict[str, tuple[str, ...]] = {name: _BY_KIND[KINDS[name]] for name in ("queue", "task", *_OPTIONS)} | _RATES
"""The columns with options of an enqueue, and their Spark types."""

CALLS = ("task", "args", "kwargs")
"""The columns of calls."""

_CONTENT = ("payload", "args", "kwargs", "headers")
"""The columns of any type that JSON can represent; text in them is JSON."""

COLUMNS = frozenset({*_TYPES, *_CONTENT})
"""The columns of new jobs."""

_TIMES = ("run_at", "delay")
_OF_LIMITS = ("limits", *_RATES)
_MANY = 100_000


def check_columns(schema: StructType, ignored: Iterable[str] = ()) -> list[str]:
    """Return the names of the columns for new jobs. Raises InvalidInput for wrong columns."""
    names = [one.name for one in schema.fields if one.name not in ignored]
    for one in schema.fields:
        if one.name not in ignored:
            check_column(one.name, one.dataType)
    if not {"payload", "args", "kwargs"} & set(names) and "task" not in names:
        raise InvalidInput(
            "there is no payload column; add one, such as struct('*').alias('payload'), or, for calls of a task, "
            "columns args and kwargs"
        )
    if "payload" in names and {"args", "kwargs"} & set(names):
        raise InvalidInput("give a column payload, or args and kwargs for calls of a task, not both")
    return names


def check_target(queue: str | None, names: Collection[str]) -> None:
    """Raise InvalidInput if neither the option nor a column says to which queue rows go."""
    if queue is None and "queue" not in names:
        raise InvalidInput("the target queue is missing: give it by the option queue, or by a column queue")


def check_column(name: str, kind: DataType) -> None:
    """Raise InvalidInput for a column that new jobs don't have, or of a wrong type."""
    if name in _CONTENT:
        jsonable(kind, name)
        return
    types = _TYPES.get(name)
    if types is None:
        known = sorted([*_TYPES, *_CONTENT])
        near = get_close_matches(name, known, 1)
        guess = f"did you mean {near[0]}? " if near else "put parts of the payload into a struct; "
        raise InvalidInput(f"the column {name!r} is unknown for jobs; {guess}known: {', '.join(known)}")
    if kind.simpleString() not in types:
        raise InvalidInput(
            f"the column {name} must be of type {' or '.join(types)}, not {kind.simpleString()}; cast it"
        )


def known_columns(batch: pa.RecordBatch) -> list[str]:
    """Return the names of the columns that jobs are made from."""
    return [name for name in batch.schema.names if name in COLUMNS]


@dataclass(frozen=True)
class JobMaker:
    """Creates jobs from rows.

    `queue`, `task`: for rows that do not name any; `defaults`: further options of an enqueue for rows without their
    own value.
    """

    queue: str | None = None
    task: str | None = None
    defaults: Mapping[str, object] = field(default_factory=dict)

    def jobs(self, context: Context, batch: pa.RecordBatch, *, checks_payloads: bool = True) -> list[NewJob]:
        """Return the jobs of a batch, with their lanes. InvalidInput names the wrong column, or the field and the row.

        `checks_payloads`: see `make_ready`.
        """
        made = self.made(context, batch, shares_rates=checks_payloads)
        make_ready(context, made, checks_payloads=checks_payloads)
        return made

    def made(self, context: Context, batch: pa.RecordBatch, *, shares_rates: bool = True) -> list[NewJob]:
        """Return the jobs of a batch, not yet checked against their queues. `shares_rates`: by the rates of tasks."""
        columns = {name: _values(name, batch.column(name)) for name in known_columns(batch)}
        rows = batch.num_rows
        queues = list(map(self.queue_of, columns["queue"])) if "queue" in columns else [self.queue_of(None)] * rows
        tasks = list(map(self._task, columns["task"])) if "task" in columns else [self._task(None)] * rows
        fields: dict[str, Iterable[object]] = {
            "id": new_ids(rows),
            "queue": queues,
            "task": tasks,
            "payload": _payloads(columns, tasks, context.codec, _texts(batch)),
            **self._times(columns),
        }
        for name in _ONE_BY_ONE:
            if name in columns:
                fields[name] = _checked_values(name, columns[name], self.fixed(name), context.codec)
            elif name in self.defaults:
                fields[name] = repeat(self.fixed(name))
        shared = _rates_of(context, tasks) if shares_rates else {}
        if shared or not {*columns, *self.defaults}.isdisjoint(_OF_LIMITS):
            fields["limits"] = self._limits(context, columns, queues, tasks, shared)
        whole = (fields[name] if name in fields else repeat(default) for name, default in _DEFAULTS.items())
        return list(map(NewJob._make, zip(*whole, strict=False)))  # as many as there are ids

    def queue_of(self, given: str | None) -> str:
        """Return the queue of a row that names this one, or none."""
        queue = given or self.queue
        if queue is None:
            raise InvalidInput("the column queue is null in a row; fill it, or give the option queue for such rows")
        return _name(queue, "the column queue")

    def _task(self, given: str | None) -> str | None:
        task = given or self.task
        return None if task is None else _name(task, "the column task")

    def fixed(self, name: str) -> object:
        """Return the field for jobs whose rows have no value."""
        return checked_option(name, self.defaults[name]) if name in self.defaults else NewJob._field_defaults[name]

    def _times(self, columns: Mapping[str, Sequence[object]]) -> dict[str, Iterable[object]]:
        """Return when the jobs are due; values of a row override the defaults."""
        fixed = {name: checked_option(name, self.defaults[name]) for name in _TIMES if name in self.defaults}
        present = [name for name in _TIMES if name in columns]
        if not present:
            return {name: repeat(value) for name, value in fixed.items()}
        delays = [None if one is None else checked_option("delay", one) for one in columns.get("delay", ())]
        moments = columns.get("run_at", ())
        if delays and moments and any(a is not None and b is not None for a, b in zip(moments, delays, strict=True)):
            raise InvalidInput("a row has values in both columns run_at and delay; one of them must be null")
        silent = [all(columns[name][n] is None for name in present) for n in range(len(columns[present[0]]))]
        own = {"run_at": moments or repeat(None), "delay": delays or repeat(None)}
        return {
            name: [fixed.get(name) if quiet else value for value, quiet in zip(own[name], silent, strict=False)]
            for name in _TIMES
        }

    def _limits(
        self,
        context: Context,
        columns: Mapping[str, Sequence[object]],
        queues: Sequence[str],
        tasks: Sequence[str | None],
        shared: Mapping[str, Mapping[str, object]],
    ) -> list[str | None]:
        """Return the limits of the rows. `shared`: the options about the rates of tasks, for rows that name none."""
        fixed = {name: self.defaults[name] for name in _OF_LIMITS if name in self.defaults}
        names = [name for name in (*_OF_LIMITS, "tenant") if name in columns]
        rows: Iterable[tuple[object, ...]] = (
            zip(*(columns[name] for name in names), strict=True) if names else repeat(())
        )
        tenant = {"tenant": self.defaults["tenant"]} if "tenant" in self.defaults else {}
        found = []
        for row, queue, task in zip(rows, queues, tasks, strict=False):
            own = {name: value for name, value in zip(names, row, strict=True) if value is not None}
            options = sharing({**tenant, **fixed, **own}, shared.get(task or "", {}))
            given = checked(options, _PLAIN, queue=queue, task=task, declared=context.declared_rate)
            limits: str | None = given.get("limits")
            found.append(limits)
        return found


def _rates_of(context: Context, tasks: Sequence[str | None]) -> Mapping[str, Mapping[str, object]]:
    """Return the options about the rates of tasks, as their code declares them in this process or in another one."""
    named = {task for task in tasks if task is not None}
    own = {task: options for task, options in context.rates.of_tasks.items() if task in named}
    return own | context.rates.of_other_tasks(named - context.registry.tasks.keys(), context.store)


_ONE_BY_ONE = ("headers", *(name for name in _OPTIONS if name not in (*_TIMES, "limits")))
_DEFAULTS = {name: NewJob._field_defaults.get(name) for name in NewJob._fields}
_PLAIN = Codec()


@lru_cache(maxsize=_MANY)
def _name(value: str, what: str) -> str:
    return checked_name(value, what)


@lru_cache(maxsize=_MANY)
def checked_option(name: str, value: object) -> object:
    """Return the field of a job for the value of an option."""
    return checked({name: value}, _PLAIN)[name]


def _checked_values(name: str, values: Sequence[object], default: object, codec: Codec) -> list[object]:
    if name == "headers":
        return [default if one is None else checked({name: one}, codec).get(name) for one in values]
    try:
        return [default if one is None else checked_option(name, one) for one in values]
    except InvalidInput as error:
        raise InvalidInput(f"a row can't be a job: {error}") from None


def _values(name: str, column: pa.Array) -> list[Any]:
    if name == "run_at":
        return list(column.cast(pa.int64()).to_pylist())
    if name in _CONTENT and (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        return [None if text is None else _parsed(name, text) for text in column.to_pylist()]
    return plain_values(column)


def _parsed(name: str, text: str) -> object:
    try:
        return _decode(text)
    except ValueError as error:
        raise InvalidInput(
            f"the column {name} contains text that is not JSON ({error}); convert it with to_json(), or pass a struct"
        ) from None


def _not_json(constant: str) -> object:
    raise ValueError(f"{constant} is not a JSON number")


_decode = decoder(parse_constant=_not_json)


_compact = re.compile(r'(?:[^\s"\\]++|"(?:[^"\\]++|\\["\\bfnrt])*+")*+').fullmatch
"""Matches compact JSON, without escapes that an encoder would write in another way."""


_inexact = re.compile(r"\d[\d.]{16}").search
"""Finds possible numbers with more digits than a float has."""

_parts = re.compile(r'"(?:[^"\\]|\\.)*+"|\s+')


def _packed(text: str) -> str:
    """Return JSON without spaces between its parts, keeping numbers as written."""
    return _parts.sub(lambda part: "" if part[0].isspace() else part[0], text)


def _texts(batch: pa.RecordBatch) -> list[str | None] | None:
    """Return the payloads unchanged, if they are JSON text already."""
    if "payload" not in batch.schema.names or not pa.types.is_string(batch.column("payload").type):
        return None
    texts: list[str | None] = batch.column("payload").to_pylist()
    return texts


def _payloads(
    columns: Mapping[str, list[object]], tasks: Sequence[str | None], codec: Codec, texts: Sequence[str | None] | None
) -> list[str]:
    if "payload" in columns:
        values = columns["payload"]
        for value, task in zip(values, tasks, strict=True):
            if task is not None:
                _check_call(value)
        return [
            codec.encode(value, "column payload")
            if text is None or not (_compact(text) or _inexact(text))
            else codec.encode_json(_packed(text) if _inexact(text) else text, "column payload")
            for value, text in zip(values, texts or repeat(None), strict=False)
        ]
    if None in tasks:
        raise InvalidInput("a row with args or kwargs names no task; fill the column task, or give the option task")
    calls = zip(_or_nones(columns, "args", len(tasks)), _or_nones(columns, "kwargs", len(tasks)), strict=True)
    return [codec.encode(_call(args, kwargs), "columns args and kwargs") for args, kwargs in calls]


def json_texts(column: pa.Array, max_payload: int) -> pa.Array:
    """Return texts as compact JSON. Raises InvalidInput for other texts, or larger ones."""
    if may_be_compact(column, max_payload) and are_objects(column):
        return column
    codec, texts = Codec(max_payload=max_payload), column.to_pylist()
    found = _payloads({"payload": _values("payload", column)}, [None] * len(texts), codec, texts)
    return pa.array(found, pa.string())


def _check_call(value: object) -> None:
    try:
        called_with(value)
    except ValueError:
        raise InvalidInput(
            "the column payload is not the payload of a call, which a task needs; pass the arguments in columns args "
            "(an array) and kwargs (a struct or a map)"
        ) from None


def _call(args: Any, kwargs: Any) -> dict[str, object]:
    if not isinstance(args or [], list):
        raise InvalidInput("the column args must be an array, or the JSON of one")
    if not isinstance(kwargs or {}, dict):
        raise InvalidInput("the column kwargs must be a struct or a map, or the JSON of an object")
    return arguments(tuple(args or ()), kwargs or {})


def _or_nones(columns: Mapping[str, list[object]], name: str, rows: int) -> list[object]:
    return columns.get(name) or [None] * rows
