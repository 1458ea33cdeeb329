"""Enqueuing copies of archived jobs.

A chunk of which all items match is copied as it was stored; otherwise its copy has the matching items alone. Their
types, their forms and their names are those that they had.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from stanchion.context import context_of
from stanchion.core.checks import checked_name
from stanchion.core.chunks.chunk import Chunk
from stanchion.core.ids import new_id
from stanchion.core.values.framing import Content
from stanchion.errors import InvalidInput, MissingExtra
from stanchion.jobs.insert import BATCH, BATCH_CHARACTERS, make_ready
from stanchion.stores.fields.jobs import CHOSEN, LONG
from stanchion.stores.records.jobs import NewJob
from stanchion.stores.records.staging import Publication

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from stanchion.app import Stanchion
    from stanchion.spark.archiving.rows import Values

_SET = tuple(name for name in CHOSEN if name != "lane")
_END = ("id", "finished_at")
_MATCHED, _PLACES = "matched", "places"
"""The number of items of a job that match; and their places in its chunk, null for all of its items."""


@dataclass(frozen=True)
class Replay:
    """The result of a replay: the number of items that matched, and of the jobs that carry their copies.

    `enqueued`: False for a dry run, or if this write was done before.
    """

    matched: int
    enqueued: bool
    jobs: int


def replay(
    app: Stanchion,
    folder: str | Path,
    where: str,
    *,
    queue: str | None = None,
    to: str | None = None,
    dry_run: bool = False,
    write_id: str | None = None,
    spark: SparkSession | None = None,
    watch: Callable[[int], None] = lambda _staged: None,
) -> Replay:
    """Enqueue copies of the archived items that match a Spark SQL condition, such as `state = 'dead'`.

    Each copy is due now and names its origin. The matching items of a chunk are copied together, as one chunk. A job
    with several matching finishes is copied once. Copies are in the order of the first enqueue. `queue`: only jobs of
    this queue. `to`: the queue of the copies, by default their own. `dry_run`: only count them. `write_id`: a name for
    this replay; for 30 days, repeating it does nothing. `watch`: called with the number of items so far. Either all
    copies are enqueued or none; a store without transactions enqueues them one by one, and a repetition completes an
    interrupted write. Raises InvalidInput for an invalid condition.
    """
    from stanchion.spark.session import session

    for name in (queue, to):
        if name is not None:
            checked_name(name, "a queue")
    write = f"replay:{secrets.token_hex(8)}" if write_id is None else checked_name(write_id, "the write id")
    try:
        from stanchion.spark.archiving.table import existing_archive
    except ModuleNotFoundError:
        raise MissingExtra("spark", "the archive") from None
    existing_archive(Path(folder).absolute())
    found = matching(spark or session(**{"spark.log.level": "ERROR"}), Path(folder).absolute(), where, queue)
    if dry_run:
        return _counted(found)
    attempt, items, jobs = secrets.token_hex(8), 0, 0
    for portion in batches_of(found, to):
        new = [copy for _, copy in portion]
        make_ready(context_of(app), new)
        app.store.stage(write, attempt, new)
        items, jobs = items + sum(matched for matched, _ in portion), jobs + len(new)
        watch(items)
    attempts = ((attempt, jobs),) if jobs else ()
    return Replay(items, app.store.publish(Publication(write, attempts)) and jobs > 0, jobs)


def _counted(found: DataFrame) -> Replay:
    from pyspark.sql import functions as F  # noqa: N812 - as everybody names it

    (row,) = found.agg(F.coalesce(F.sum(_MATCHED), F.lit(0)).alias("items"), F.count("*").alias("jobs")).collect()
    return Replay(row["items"], False, row["jobs"])


def matching(spark: SparkSession, folder: Path, where: str, queue: str | None = None) -> DataFrame:
    """Return the archived jobs with items that match a condition, each id once, in the order of enqueuing.

    Divided chunks are left out: their items are in their parts.
    """
    from pyspark.errors import PySparkException
    from pyspark.sql import Window
    from pyspark.sql import functions as F  # noqa: N812 - as everybody names it

    from stanchion.spark.archiving.rows import CHUNK, FIRST
    from stanchion.spark.archiving.table import archived_jobs

    rows = archived_jobs(spark, folder).where("items is null or items > 0")
    try:
        found = rows.where(F.expr(where))
        _ = found.schema  # Spark analyses the condition only now
    except PySparkException as error:
        said = str(error).strip().splitlines()[0].partition(" SQLSTATE")[0]  # its plan follows
        raise InvalidInput(f"Spark can't parse the condition {where!r}: {said}") from None
    if queue is not None:
        found = found.where(F.col("queue") == queue)
    items = F.coalesce(F.max("items"), F.lit(1))  # of a job that has one row
    ends = found.groupBy(*_END).agg(
        F.when(F.count("item") == 0, items).otherwise(F.count("item")).alias(_MATCHED),
        F.when(F.count("item") < items, F.array_sort(F.collect_list("item"))).alias("some"),
    )
    newest = F.row_number().over(Window.partitionBy("id").orderBy(F.desc("finished_at")))
    ends = ends.withColumn("nth", newest).where("nth = 1")
    ends = ends.withColumn(_PLACES, F.when(F.size("some") > 0, F.col("some"))).select(*_END, _MATCHED, _PLACES)
    jobs = rows.where(FIRST).join(ends, [*_END])
    return jobs.orderBy("enqueued_at", "id").select("id", *LONG, CHUNK, *_SET, _MATCHED, _PLACES)


def batches_of(found: DataFrame, to: str | None) -> Iterator[list[tuple[int, NewJob]]]:
    """Yield the jobs to store, each with its number of items, in portions that fit into a call of the store."""
    portion, size = list[tuple[int, NewJob]](), 0
    for row in found.toLocalIterator():
        values = row.asDict(recursive=True)
        copy = copy_of(values, new_id(), to)
        if portion and (len(portion) == BATCH or size + len(copy.payload) > BATCH_CHARACTERS):
            yield portion
            portion, size = [], 0
        portion.append((values[_MATCHED], copy))
        size += len(copy.payload)
    if portion:
        yield portion


def copy_of(row: Values, job_id: str, to: str | None = None) -> NewJob:
    """Return a copy of an archived job as it came to its queue, or of some of its items, under a new id."""
    from stanchion.spark.archiving.rows import contents_in

    contents = contents_in(row)
    came_with = contents["arrival_payload"] or contents["payload"]
    if row[_PLACES] is not None:
        came_with = _part(row["id"], contents["payload"], came_with, row[_PLACES])
    fields = {name: row[name] for name in _SET} | {"queue": to or row["queue"]}
    return NewJob(id=job_id, payload=came_with, origin=row["id"], **fields)


def _part(job: str, payload: Content, came_with: Content, places: Sequence[int]) -> Content:
    """Return the items at these places of the payload of a job, as they came to its queue.

    Returns all that came if it was one item, or if these items were made in the queue.
    """
    if not isinstance(payload, bytes) or not isinstance(came_with, bytes):
        return came_with
    positions = Chunk.decoded(payload).positions
    whole = Chunk.decoded(came_with).rooted(job)
    at = {position: place for place, position in enumerate(whole.positions)}
    if any(positions[place] not in at for place in places):
        return came_with
    part = whole.take([at[positions[place]] for place in places])
    return part.text(0) if len(part) == 1 else part.encoded()
