"""The results of a station as a table: those in history, one row an item, or the table that it writes to."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from typing import Final, Protocol, runtime_checkable

from stanchion.context.context import Context
from stanchion.core.checks import brief
from stanchion.core.chunks.arrow import pa
from stanchion.core.chunks.chunk import Chunk
from stanchion.errors import InvalidInput
from stanchion.pipelines.tables.columns import column_of
from stanchion.pipelines.tables.folder import FolderTarget
from stanchion.pipelines.tables.returned import result_schema
from stanchion.pipelines.tables.rows import TableTarget, no_tables
from stanchion.pipelines.tables.table import Form
from stanchion.schemas.kinds import Field, Kind, Plain, Schema
from stanchion.stores.ports import ResultTables
from stanchion.stores.protocol import pages
from stanchion.stores.records.jobs import JobState
from stanchion.stores.records.outcomes import TableColumn
from stanchion.stores.records.query import Condition, Query

PAGE: Final = 200
"""Jobs read at a time: a chunk may have a megabyte."""
RESULT: Final = "result"
"""The column of results that are no objects."""

_OTHERS: Final = {"job_id": "job_id string", "item": "item bigint", RESULT: f"{RESULT} string"}
"""Columns besides the fields of a class, in DDL."""

Found = tuple[str, int, object]
"""The job that carried an item, the place of the item in it, and its result."""


class HasResults(Protocol):
    """A station, as `pipelines.station.Station` is."""

    context: Context
    station: str
    queue: str
    to: tuple[str, ...]
    targets: tuple[str, ...]
    tables: dict[str, TableTarget]
    folders: dict[str, FolderTarget]
    function: Callable[..., object]


def results_of(station: HasResults, limit: int | None) -> pa.Table:
    """Return the results of a station. Raises InvalidInput for one that has none."""
    if len(station.tables) == 1 and not station.to:
        (target,) = station.tables.values()
        return _of_table(station.context, target, limit)
    if len(station.folders) == 1 and station.targets in ((), tuple(station.folders)):
        (folder,) = station.folders.values()
        return folder.read(limit)
    if station.targets:
        raise InvalidInput(
            f"station {station.station!r} sends its items on, to {', '.join(station.targets)}: ask for the results of "
            f"a station where they end, or that only writes to one table"
        )
    return _of_history(station, limit)


def results_as(station: HasResults, form: Form, limit: int | None, spark: object) -> object:
    """Return the results of a station as a table of a library, or with a session as a DataFrame of Spark."""
    if spark is None:
        return as_form(results_of(station, limit), form)
    if not isinstance(spark, _Session):
        raise InvalidInput(f"spark must be a session of Spark, such as stanchion.spark.session(), not {brief(spark)}")
    table, fields = results_of(station, limit), {one.name: one.as_ddl(" ") for one in _fields_of(station)}
    if table.num_rows and not fields:
        return spark.createDataFrame(table)
    # Spark reads times without a zone as times of its session unless it is told.
    ddl = ", ".join(fields.get(name) or _OTHERS[name] for name in table.schema.names)
    return spark.createDataFrame(table if table.num_rows else [], ddl)


@runtime_checkable
class _Session(Protocol):
    """A session of Spark, of this process or of Connect."""

    def createDataFrame(self, data: object, schema: str = ..., /) -> object:  # noqa: N802 - Spark's name
        """Return a DataFrame."""


def _fields_of(station: HasResults) -> Sequence[Field]:
    """Return the fields of the results of a station; none: Arrow infers them."""
    for target in (*station.tables.values(), *station.folders.values()):
        return target.schema.fields
    schema = result_schema(station.function)
    return () if schema is None else schema.fields


def as_form(table: pa.Table, form: Form) -> object:
    """Return a table of this library. Raises InvalidInput for another one, or if it is not installed."""
    if form == "arrow":
        return table
    if form not in ("pandas", "polars"):
        raise InvalidInput(f"as_ must be pandas, arrow or polars, not {form!r}")
    try:
        library = import_module(form)
    except ImportError:
        raise InvalidInput(
            f"{form} is not installed: pip install {form}, or ask for results with as_='arrow'"
        ) from None
    return library.from_arrow(table) if form == "polars" else table.to_pandas(types_mapper=library.ArrowDtype)


# -- history


def _of_history(station: HasResults, limit: int | None) -> pa.Table:
    jobs: list[str] = []
    items: list[int] = []
    values: list[object] = []
    for job, item, value in _finished(station.context, station.queue):
        if limit is not None and len(values) == limit:
            break
        jobs.append(job)
        items.append(item)
        values.append(value)
    named = {"job_id": pa.array(jobs, pa.string()), "item": pa.array(items, pa.int64())}
    schema = result_schema(station.function)
    if schema is None:
        return pa.table({**named, **_inferred(values)})
    objects = [value if isinstance(value, dict) else {} for value in values]
    typed = {one.name: column_of(one.kind, [value.get(one.name) for value in objects]) for one in schema.fields}
    return pa.table({**{name: column for name, column in named.items() if name not in typed}, **typed})


def _finished(context: Context, queue: str) -> Iterator[Found]:
    """Yield the results of the items that have ended in a queue, oldest job first."""
    done = Condition("queue", "=", queue), Condition("state", "=", JobState.DONE.value)
    for rows in pages(context.store, Query("history", done, order="id", limit=PAGE)):
        for row in rows:
            value = context.value_of(row.result)
            if isinstance(value, Chunk):
                root = value.root or row.id
                named = zip(value.positions, value, strict=True)
                yield from ((root, place, one) for place, one in named if one is not None)
            elif value is not None and row.items != 0:
                yield row.id, 0, value


def _inferred(values: Sequence[object]) -> dict[str, pa.Array]:
    """Return values as columns: one for each field of objects; their JSON where a column has no common type."""
    objects = [value for value in values if isinstance(value, dict)]
    if len(objects) < len(values) or not objects:
        return {RESULT: _guessed(values)}
    names = dict.fromkeys(name for one in objects for name in one)
    return {name: _guessed([one.get(name) for one in objects]) for name in names}


def _guessed(values: Sequence[object]) -> pa.Array:
    try:
        return pa.array(values)
    except (pa.ArrowException, OverflowError, TypeError, ValueError):
        return pa.array([None if one is None else json.dumps(one, ensure_ascii=False) for one in values], pa.string())


# -- a table


def _of_table(context: Context, target: TableTarget, limit: int | None) -> pa.Table:
    tables = context.store.extension(ResultTables)
    if tables is None:
        raise InvalidInput(no_tables(context.store, target.table.address))
    target.prepare(context.store)
    rows: list[tuple[object, ...]] = []
    for some in tables.table_rows(target.result):
        rows += some
        if limit is not None and len(rows) >= limit:
            rows = rows[:limit]
            break
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(target.result.columns)
    return pa.table(
        {
            one.name: column_of(_kind_of(one, target.schema), values)
            for one, values in zip(target.result.columns, columns, strict=True)
        }
    )


def _kind_of(column: TableColumn, schema: Schema) -> Kind:
    kinds = {field.name: field.kind for field in schema.fields}
    return kinds.get(column.name) or Plain("string" if column.kind == "id" else column.kind)
