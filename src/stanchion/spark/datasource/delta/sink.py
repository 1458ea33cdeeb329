"""Writing a stream to a Delta table, each batch once.

tasks      write Parquet files, which no version of the table has
driver     commits all of them in one step, with the stream as application and the number of the batch as version,
           and then acknowledges the batch

So a batch repeated after its driver's death is found in the table, and its new files are deleted. If two drivers commit
one batch concurrently, Delta refuses the second. A stateful query may need its jobs again until Spark's log has the
batch: then the reader acknowledges it, in its next step.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from stanchion.core.spark_errors import TableRefused
from stanchion.errors import InvalidInput, StanchionError
from stanchion.lake.delta import DeltaTarget, Once, checked_partitions
from stanchion.lake.files import DeltaFiles, NewFile, drop
from stanchion.spark.datasource.errors import without_traceback
from stanchion.spark.datasource.options import Place, place_of
from stanchion.spark.datasource.runs import has_state, this_batch, this_run
from stanchion.stores.protocol import Store
from stanchion.streams import SinkBatch
from stanchion.streams.sink import QUERY_FAILED

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


def delta_sink(options: Mapping[str, Any], schema: StructType, checkpoint: str | None) -> DeltaSink:
    """Return the writer for checked options and columns. Raises InvalidInput."""
    from pyspark.sql.pandas.types import to_arrow_schema

    stream = options["ackStream"] or options["stream"]
    if options["path"] is None:
        raise InvalidInput("mode=delta needs the option path: the folder of the table")
    columns = to_arrow_schema(schema, timezone="UTC")
    nullable = pa.schema([field.with_nullable(True) for field in columns])
    by = checked_partitions(nullable, options["partitionBy"])
    target = DeltaTarget(options["path"], nullable, by, options["mergeSchema"])
    return DeltaSink(place_of(options), stream, target, checkpoint)


@dataclass
class WrittenFiles(WriterCommitMessage):
    """The files of a task, and its run. `refused`: why it could not write its rows."""

    run: str
    batch: str
    files: tuple[NewFile, ...] = ()
    refused: str | None = None


class DeltaSink(DataSourceStreamArrowWriter):
    """Writes the rows of micro-batches. Spark creates one for the tasks of a batch and another for its end."""

    def __init__(self, place: Place, stream: str | None, target: DeltaTarget, checkpoint: str | None) -> None:
        self.place, self.stream, self.target, self.checkpoint = place, stream, target, checkpoint

    # -- in tasks

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WrittenFiles:
        """Write the rows of a task to new files."""
        files = DeltaFiles(self.target.folder, self.target.schema, self.target.by)
        done = WrittenFiles(this_run() or "", this_batch())
        try:
            for rows in iterator:
                files.add(rows)
            done.files = tuple(files.close())
        except (OSError, pa.ArrowInvalid) as error:  # no job is to blame for it
            files.drop()
            done.refused = f"{type(error).__name__}: {error}"
        except BaseException:
            files.drop()
            raise
        return done

    # -- on the driver

    @without_traceback
    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """End the batch: the table has its rows once, and then its jobs are done."""
        done = [message for message in messages if isinstance(message, WrittenFiles)]
        if not done:
            return  # no job was read, so the reader acknowledges
        with self.place.app() as app:
            try:
                batch = self._stored(app.store, done)
            except TableRefused as error:
                if self.stream is not None:
                    SinkBatch.record_failure(app.store, self.stream, f":{batchId}", f"TableRefused: {error}")
                raise
            if batch is not None and has_state(self.checkpoint) is False:
                batch.drop_rest()

    def _stored(self, store: Store, done: Sequence[WrittenFiles]) -> SinkBatch | None:
        """Add the files to the table, unless it has the batch; return the batch that this run has read, if any."""
        files, folder = [file for one in done for file in one.files], self.target.folder
        for one in done:
            if one.refused is not None:
                raise TableRefused(str(folder), one.refused)
        # The table is opened before the stream is read: so Delta refuses this batch if a later driver has added it.
        table = self.target.open() if files else None
        batch = None if self.stream is None else SinkBatch.read_by(store, self.stream, done[0].run)
        if table is None:
            return batch
        once = _once(self.stream, batch, done[0])
        ended = batch is not None and batch.acknowledged
        if batch is not None and not ended:
            batch = batch.hold()
        if ended or not table.append(files, once):
            drop(folder, files)
        return batch

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803, ARG002
        """Record that the query failed on its batch. The files stay, as the table may have them."""
        if self.stream is None:
            return
        with self.place.app() as app, suppress(StanchionError):
            SinkBatch.record_failure(app.store, self.stream, f":{batchId}", QUERY_FAILED)


def _once(stream: str | None, batch: SinkBatch | None, done: WrittenFiles) -> Once:
    """Return the identity of a batch: of the stream, or of the query if no rows are from the stream."""
    if batch is not None:
        return Once(f"stanchion:{stream}:{batch.state.id}", batch.seq)
    query, _, number = done.batch.rpartition(":")
    return Once(f"spark:{query}", int(number))
