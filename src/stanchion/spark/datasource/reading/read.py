"""Reading jobs and history as a batch."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Any, cast
from uuid import UUID

from pyspark.sql.datasource import (
    DataSourceReader,
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    LessThan,
    LessThanOrEqual,
)

from stanchion.app import Stanchion
from stanchion.core.times import micros
from stanchion.errors import InvalidInput, StanchionError
from stanchion.spark.datasource.errors import hide_traceback, without_traceback
from stanchion.spark.datasource.options import Place, checked_options, given_options, place_of, reachable_url
from stanchion.spark.datasource.reading.items import ItemRows
from stanchion.spark.datasource.reading.schema import Field, Of, checked_columns, ddl
from stanchion.spark.datasource.reading.typed import (
    PAYLOAD,
    TypedPayloads,
    ddl_of,
    schema_in_force,
    wanted_fields,
)
from stanchion.stores.fields.jobs import COMPARED
from stanchion.stores.paging import pages_by_size
from stanchion.stores.ports import ArrowReads
from stanchion.stores.records.jobs import UNLANED
from stanchion.stores.records.query import Condition, Query
from stanchion.stores.rules.query import PAGE

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

_OPERATORS: dict[type[Filter], Any] = {
    EqualTo: "=",
    EqualNullSafe: "=",
    GreaterThan: ">",
    GreaterThanOrEqual: ">=",
    LessThan: "<",
    LessThanOrEqual: "<=",
    In: "in",
}
FIRST_PAGE = 100
"""Jobs of the first page; its payloads show how many fit into the next ones."""

_PUSHING = "pyspark.sql.worker.data_source_pushdown_filters"
_PUSHED = COMPARED - {"lane"}  # a job in no lane has a null there, which no comparison meets


@without_traceback
def schema_of(given: Mapping[str, str]) -> str:
    """Return the columns, in DDL, that these options read, as a batch or as a stream."""
    options = given_options(given, "read", "readStream")
    of: Of = options.get("of", "jobs")
    if not options.get("typed"):
        return ddl(of)
    place = {"queue": None, "keys": (), "payloadSchema": None, **options, "url": reachable_url(options.get("url"))}
    return ddl(of, ddl_of(schema_in_force(place).struct))


@without_traceback
def reader_of(given: Mapping[str, str], schema: StructType) -> JobsReader:
    """Return the reader for these options and columns. Raises InvalidInput."""
    options = checked_options(given, "read")
    of: Of = options["of"]
    if options["misfits"] == "bury":
        raise InvalidInput("a batch read changes nothing, so it buries no jobs; give misfits=stop or misfits=null")
    names, typed = columns_of(options, of, schema)
    query = query_of(of, *queue_of(options))
    kind = FilteringReader if _pushes_filters() else JobsReader
    return kind(place_of(options), query, names, options["partitions"], options["by"] == "lane", typed)


def queue_of(options: Mapping[str, object]) -> tuple[Condition, ...]:
    """Return the condition for the queue in checked options, if there is one."""
    return () if options["queue"] is None else (Condition("queue", "=", options["queue"]),)


def columns_of(options: Mapping[str, Any], of: Of, schema: StructType) -> tuple[list[str], TypedPayloads | None]:
    """Return the names of the requested columns, and what makes the payloads typed. Raises InvalidInput."""
    typed = None
    asked = {field.name: field.dataType for field in schema.fields}
    plain = [Field(name, kind.simpleString()) for name, kind in asked.items()]
    if options["typed"] and PAYLOAD in asked:
        known = schema_in_force(options)
        fields = wanted_fields(known, asked[PAYLOAD])
        typed = TypedPayloads(options["queue"], known, fields, options["misfits"])
        plain = [field for field in plain if field.name != PAYLOAD]
    checked_columns(of, plain)
    return list(asked), typed


def _pushes_filters() -> bool:
    """Return whether this is the process where Spark pushes filters down.

    Without push-down another process plans the read, and refuses a reader that accepts filters.
    """
    main = getattr(sys.modules["__main__"], "__spec__", None)
    return _PUSHING in sys.modules or getattr(main, "name", "") == _PUSHING


@dataclass
class Part(InputPartition):
    """The jobs that one task reads."""

    query: Query

    def __post_init__(self) -> None:
        super().__init__(self.query)


class JobsReader(DataSourceReader):
    """Reads the jobs of a query in several tasks, each with its own connection."""

    def __init__(
        self,
        place: Place,
        query: Query,
        names: Sequence[str],
        parts: int,
        by_lane: bool,
        typed: TypedPayloads | None = None,
    ) -> None:
        self.place, self.query, self.names, self.parts, self.by_lane = place, query, names, parts, by_lane
        self.typed = typed

    @without_traceback
    def partitions(self) -> Sequence[InputPartition]:
        """Divide the query by ids or by lanes."""
        with self.place.app() as app:
            return [Part(query) for query in divided(app, self.query, self.parts, by_lane=self.by_lane)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the jobs of a part."""
        try:
            with self.place.app() as app:
                query: Query = partition.value
                yield from batches_of(app, query, ItemRows(_of(query), self.names, self.typed))
        except StanchionError:
            hide_traceback()
            raise


class FilteringReader(JobsReader):
    """A reader that pushes filters down to the store."""

    def pushFilters(self, filters: list[Filter]) -> Iterator[Filter]:  # noqa: N802 - Spark's name
        """Accept the filters that the store can evaluate; return the rest."""
        for one in filters:
            condition = condition_of(one)
            if condition is None:
                yield one
            else:
                self.query = self.query.also(condition)


def batches_of(app: Stanchion, query: Query, rows: ItemRows) -> Iterator[pa.RecordBatch]:
    """Yield the rows of all jobs of a query: made from Arrow if the store can, else from whole jobs."""
    store = app.store
    if (reads := store.extension(ArrowReads)) is not None:
        for batch in reads.select_arrow(replace(query, columns=rows.fields)):
            yield from rows.of_arrow(app, batch)
        return
    for page in pages_by_size(store, replace(query, limit=FIRST_PAGE), PAGE):
        yield from rows.of_rows(app, page)


def query_of(of: Of, *where: Condition) -> Query:
    """Return the query for jobs or for history, in pages for a scan."""
    return Query("live" if of == "jobs" else "history", where, order="id", limit=PAGE)


def _of(query: Query) -> Of:
    return "jobs" if query.of == "live" else "history"


def condition_of(pushed: Filter) -> Condition | None:
    """Return the condition for a Spark filter; None if stores can't evaluate it."""
    op = _OPERATORS.get(type(pushed))
    if op is None:
        return None
    path, value = cast("tuple[tuple[str, ...], Any]", (pushed.attribute, pushed.value))  # type: ignore[attr-defined] # all of them have both
    values = tuple(value) if op == "in" else (value,)
    if len(path) != 1 or path[0] not in _PUSHED or any(not _comparable(path[0], one) for one in values):
        return None
    stored = tuple(micros(one) if isinstance(one, datetime) else one for one in values)
    return Condition(path[0], op, stored if op == "in" else stored[0])


def _comparable(name: str, value: object) -> bool:
    """Return whether a store can compare this column with such a value; nulls are left to Spark."""
    if name.endswith("_at"):
        return isinstance(value, datetime) and value.tzinfo is not None
    if name == "priority":
        return isinstance(value, int)
    return isinstance(value, str) and (name != "id" or _is_id(value))


def _is_id(text: str) -> bool:
    try:
        return str(UUID(text)) == text
    except ValueError:
        return False


def divided(app: Stanchion, query: Query, parts: int, *, by_lane: bool) -> list[Query]:
    """Divide a query by ids, into parts of equal size, or by lanes."""
    return _by_lanes(app, query, parts) if by_lane else app.store.partition(query, parts)


def _by_lanes(app: Stanchion, query: Query, parts: int) -> list[Query]:
    """Divide a query into ranges of lanes; the first range includes jobs in no lane."""
    lanes = max((settings.lanes for settings in app.store.queues()), default=1)
    parts = min(parts, lanes)
    firsts = [UNLANED, *(n * lanes // parts for n in range(1, parts))]
    ranges = [*pairwise(firsts), (firsts[-1], None)]
    return [query.also(*_range(first, end)) for first, end in ranges]


def _range(first: int, end: int | None) -> list[Condition]:
    above = [Condition("lane", ">=", first)]
    return above if end is None else [*above, Condition("lane", "<", end)]
