"""Spark stations that follow each other, as one plan of Spark: what one returns is what the next one gets.

items ──► raw() ──rows with a job_id──► priced() ──► rows
           └─ rows of other targets       └─ items that don't fit, or don't meet an expectation

A run of the whole plan is an attempt: where it fails, the batch runs through its own station alone, and its items are
stored at the next one. So a failure is found at the station where it belongs.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Set
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING, Final, NamedTuple

from stanchion.errors import InvalidInput
from stanchion.pipelines.chunks.tables import ERROR
from stanchion.pipelines.station import Station
from stanchion.spark.datasource.reading.typed import ddl_of
from stanchion.spark.stations.batches.item_rows import ID, ItemReader
from stanchion.spark.stations.batches.made import Made

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

log = logging.getLogger("stanchion.spark")

LONGEST: Final = 8
"""Stations of one plan: Spark takes longer to compile larger ones, and runs them as Java code that it interprets."""


class Chain(NamedTuple):
    """The stations that the items of a batch pass, and their rows at each; see `made`. All rows are computed."""

    stations: tuple[Station, ...]
    rows: DataFrame


@contextmanager
def kept(frame: DataFrame) -> Iterator[DataFrame]:
    """Cache rows within the block: read again, they would lack the items that went on."""
    frame.persist()
    try:
        yield frame
    finally:
        frame.unpersist()


@contextmanager
def chained(first: Made, behind: Set[str]) -> Iterator[Chain]:
    """Yield the rows of items at a station, and at those `behind` it that items may pass to in memory.

    Raises InvalidInput if an item has two ends at a station.
    """
    with ExitStack() as stack:
        chain = _composed(first, behind, stack) if behind else None
        yield chain or _checked(Chain((first.station,), stack.enter_context(kept(first.rows(0)))))


def _composed(first: Made, behind: Set[str], stack: ExitStack) -> Chain | None:
    """Return the rows at several stations; None if no station follows in memory, or if they fail together."""
    with ExitStack() as mine:
        try:
            made, misfits = _followed(first, behind, mine)
            if len(made) == 1:
                return None
            rows = [*(one.rows(level) for level, one in enumerate(made)), *misfits]
            union = reduce(lambda one, other: one.unionByName(other), rows)
            chain = _checked(Chain(tuple(one.station for one in made), mine.enter_context(kept(union))))
        except Exception as error:  # Spark's errors have no common class
            log.warning(
                "station %s runs alone in this batch, as it failed with those behind it: %s", first.station.name, error
            )
            return None
        stack.push(mine.pop_all())
        return chain


def _followed(first: Made, behind: Set[str], stack: ExitStack) -> tuple[list[Made], list[DataFrame]]:
    """Return what a station and those behind it returned, and the rows of items that do not fit one of these."""
    made = [first]
    misfits: list[DataFrame] = []
    while len(made) < LONGEST and (there := _next(made[-1], behind)) is not None:
        came = stack.enter_context(kept(made[-1].moved[there.station]))  # the next function reads them, and the end
        here = replace(made[-1], moved={**made[-1].moved, there.station: came})
        items, refused = _items(here, came, there)
        following = Made.of(there, items)
        if following.new or not following.moved:  # new items are published with the batch of their station
            break
        made[-1:] = [here, following]
        misfits.append(misfit_rows(refused, len(made) - 1))
    return made, misfits


def _next(made: Made, behind: Set[str]) -> Station | None:
    """Return the station to which items pass in memory now."""
    context, topology = made.station.context, made.station.topology
    for queue in map(topology.queue, made.moved.keys() & behind):
        if made.station.passes_to(queue) and context.settings.let_pass(context.store, made.station.queue, queue):
            found = context.registry.stations.get(queue)
            return found if isinstance(found, Station) else None
    return None


def _items(made: Made, came: DataFrame, there: Station) -> tuple[DataFrame, DataFrame]:
    """Return rows as the items of the next station, and the items that fail its schema or an expectation."""
    from pyspark.sql import functions as f

    assert there.frame is not None  # noqa: S101 - only Spark stations follow one in memory
    reader = ItemReader.of(there, there.frame.schema)
    good = came.where(f.col(ERROR).isNull()) if made.has_errors(came) else came
    fields = reader.fields_of(good)
    payload = made.json(good) if fields is None else f.lit(None).cast("string").alias("payload")
    typed = [] if reader.typed is None else [f.lit(None).cast(ddl_of(reader.typed)) if fields is None else fields]
    read = good.select(f.col(ID).alias("id"), payload, *(one.alias("typed") for one in typed))
    return reader.parsed(reader.judged(read), there.frame.schema)


def misfit_rows(refused: DataFrame, level: int) -> DataFrame:
    """Return the rows of items that the function of a station did not get; `refused`: by `id`."""
    from pyspark.sql import functions as f

    nothing = f.lit(None).cast("string")
    return refused.select(
        f.col("id").alias(ID), f.lit(level).alias("level"), *(nothing.alias(name) for name in ("to", "payload", ERROR))
    )


def _checked(chain: Chain) -> Chain:
    """Raise InvalidInput for rows with which an item has two ends at a station."""
    twice = chain.rows.groupBy("level", ID).count().where(f"count > 1 or {ID} is null").limit(1).collect()
    if twice:
        station = chain.stations[twice[0]["level"]].station
        raise InvalidInput(
            f"station {station!r} returned {twice[0]['count']} rows with the {ID} {twice[0][ID]}; "
            f"an item moves on once: return one row for each, or drop the column {ID} to make new items of them"
        )
    return chain
