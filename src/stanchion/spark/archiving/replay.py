"""Enqueuing copies of archived jobs."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stanchion.context import context_of
from stanchion.core.checks import checked_name
from stanchion.core.ids import new_ids
from stanchion.errors import InvalidInput, MissingExtra
from stanchion.jobs.insert import batches, make_ready
from stanchion.stores.fields.jobs import CHOSEN
from stanchion.stores.records.jobs import NewJob
from stanchion.stores.records.staging import Publication

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from stanchion.app import Stanchion

_COPIED = ("id", "payload", "arrival_payload", *(name for name in CHOSEN if name != "lane"))


@dataclass(frozen=True)
class Replay:
    """The result of a replay. `enqueued`: False for a dry run, or if this write was done before."""

    matched: int
    enqueued: bool


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
    """Enqueue copies of the archived jobs that match a Spark SQL condition, such as `state = 'dead'`.

    Each copy is due now and names its origin. A job with several matching finishes is copied once. Copies are in the
    order of the first enqueue. `queue`: only jobs of this queue. `to`: the queue of the copies, by default their own.
    `dry_run`: only count them. `write_id`: a name for this replay; for 30 days, repeating it does nothing. Either all
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
        return Replay(found.count(), False)
    attempt, staged = secrets.token_hex(8), 0
    for new in batches(copies(found, to)):
        make_ready(context_of(app), new)
        app.store.stage(write, attempt, new)
        watch(staged := staged + len(new))
    attempts = ((attempt, staged),) if staged else ()
    return Replay(staged, app.store.publish(Publication(write, attempts)) and staged > 0)


def matching(spark: SparkSession, folder: Path, where: str, queue: str | None = None) -> DataFrame:
    """Return the archived jobs that match a condition, each id once, in the order of enqueuing."""
    from pyspark.errors import PySparkException
    from pyspark.sql import Window
    from pyspark.sql import functions as F  # noqa: N812 - as everybody names it

    from stanchion.spark.archiving.table import archived_jobs

    jobs = archived_jobs(spark, folder)
    try:
        found = jobs.where(F.expr(where))
        _ = found.schema  # Spark analyses the condition only now
    except PySparkException as error:
        said = str(error).strip().splitlines()[0].partition(" SQLSTATE")[0]  # its plan follows
        raise InvalidInput(f"Spark can't parse the condition {where!r}: {said}") from None
    if queue is not None:
        found = found.where(F.col("queue") == queue)
    newest = F.row_number().over(Window.partitionBy("id").orderBy(F.desc("finished_at")))
    each = found.withColumn("nth", newest).where("nth = 1")
    return each.orderBy("enqueued_at", "id").select(*_COPIED)


def copies(found: DataFrame, to: str | None) -> Iterator[NewJob]:
    """Yield the jobs to store."""
    for rows in batches(found.toLocalIterator()):
        for job_id, row in zip(new_ids(len(rows)), rows, strict=True):
            yield copy_of(row.asDict(), job_id, to)


def copy_of(row: dict[str, Any], job_id: str, to: str | None = None) -> NewJob:
    """Return a copy of an archived job as it came to its queue, under a new id."""
    fields = {**row, "queue": to or row["queue"], "origin": row["id"], "id": job_id}
    fields["payload"] = fields.pop("arrival_payload") or row["payload"]
    return NewJob(**fields)
