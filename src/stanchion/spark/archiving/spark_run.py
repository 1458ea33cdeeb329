"""Writing the parts of history to files by the executors of Spark."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stanchion.app import Stanchion
from stanchion.spark.archiving.files import Part, Written
from stanchion.spark.archiving.parts import Archived, Purger, fresh, texts, write_part
from stanchion.spark.archiving.typed import TypedColumns
from stanchion.spark.datasource.options import checked_options, place_of
from stanchion.spark.session import session
from stanchion.stores.protocol import pages
from stanchion.stores.records.query import Condition, Query

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PARTS_PER_CORE = 2
_PARTS_ELSEWHERE = 32
"""The number of parts if Spark Connect does not report its cores."""


def write_all(
    app: Stanchion,
    folder: Path,
    query: Query,
    parts: Sequence[Part],
    typed: TypedColumns,
    *,
    keep: bool,
    spark: SparkSession | None,
) -> tuple[list[Written], int]:
    """Write jobs that are not archived yet to files; return these, and the number of archived jobs purged."""
    import pyarrow as pa

    place = place_of(checked_options({"url": app.url}, "read"))
    running = spark or session()
    queries = app.store.partition(query, _parts(running))
    texts_of = [(json.dumps(one.where),) for one in queries]
    clock_offset = app.store.clock_offset

    def work(batches: Iterator[Any]) -> Iterator[object]:
        for batch in batches:
            for text in batch.column(0).to_pylist():
                with place.app() as there:
                    there.store.clock_offset = clock_offset
                    purger = Purger(there.store, keep=keep)
                    where = tuple(Condition(*texts(one)) for one in json.loads(text))
                    found = pages(there.store, replace(query, where=where))
                    written = write_part(folder, fresh(found, Archived(parts), purger), typed)
                told = json.dumps([written, purger.purged])
                yield pa.RecordBatch.from_pydict({"told": [told]})

    asked = running.createDataFrame(texts_of, "query string").repartition(len(queries))
    answers = [json.loads(row.told) for row in asked.mapInArrow(work, "told string").collect()]
    return [Written(*one) for written, _ in answers for one in written], sum(purged for _, purged in answers)


def _parts(spark: SparkSession) -> int:
    try:
        return _PARTS_PER_CORE * spark.sparkContext.defaultParallelism
    except AttributeError:
        return _PARTS_ELSEWHERE
