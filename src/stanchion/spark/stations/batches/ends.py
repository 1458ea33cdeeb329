"""What becomes of items at a Spark station. A chunk ends by the rows that the function returned for its items.

job, place   the item
to           the target of its row, "" for an end; null of an item that the function did not get
payload      the row as JSON
error        why the item has failed
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, TypedDict

import pyarrow as pa
import pyarrow.compute as pc

from stanchion.core.chunks.arrow import distinct
from stanchion.core.chunks.chunk import Chunk
from stanchion.core.chunks.stored import opened
from stanchion.core.values.codec import too_large
from stanchion.core.values.framing import as_text
from stanchion.errors import InvalidInput
from stanchion.jobs.failures import failure_of
from stanchion.pipelines.chunks.division import Division
from stanchion.pipelines.chunks.ends import Ends, Failed, ForTable, Way
from stanchion.pipelines.chunks.folder_items import refused
from stanchion.pipelines.chunks.in_order import tried_by
from stanchion.pipelines.chunks.tables import ItemFailed
from stanchion.pipelines.send import Send
from stanchion.pipelines.station import Station
from stanchion.spark.unmet import UnmetItems
from stanchion.stores.records.jobs import JobRow
from stanchion.stores.records.outcomes import Abandon, Bury, Commit, Continue, Ending, Move, Outcome, Rollback
from stanchion.tasks.execution import Execution, outcome_of_error

_SHOWN: Final = 200


def content_of(row: JobRow) -> bytes:
    """Return the content of a job with many items."""
    assert isinstance(row.payload, bytes)  # noqa: S101 - of such a job
    return row.payload


def by_job(found: Iterable[pa.RecordBatch]) -> Iterator[tuple[str, pa.Table]]:
    """Yield the rows of each job. Rows of the same job follow each other."""
    waiting: list[pa.RecordBatch] = []
    last: str | None = None
    for batch in found:
        ends = pc.run_end_encode(batch.column("job")).run_ends.to_pylist() if batch.num_rows else []
        for start, end in zip([0, *ends], ends, strict=False):
            some = batch.slice(start, end - start)
            job = some.column("job")[0].as_py()
            if waiting and job != last:
                assert last is not None  # noqa: S101 - of the rows that wait
                yield last, pa.Table.from_batches(waiting)
                waiting = []
            waiting.append(some)
            last = job
    if waiting and last is not None:
        yield last, pa.Table.from_batches(waiting)


class ItemRow(TypedDict):
    """The row of an item; see above."""

    job_id: str
    to: str | None
    payload: str | None
    error: str | None


class ItemEnds:
    """Makes the outcomes of a station's items, in a task."""

    def __init__(self, station: Station) -> None:
        self._station, self._context = station, station.context
        assert station.frame is not None  # noqa: S101 - a Spark station has one
        self._told = f"the item does not fit the schema of station {station.station!r} ({station.frame.schema})"
        self._unmet = UnmetItems(station.queue)

    def close(self) -> None:
        """Count the items that did not meet an expectation, and end the use of the store."""
        self._unmet.merge(self._context.store)
        self._context.close()

    def refused(self, row: JobRow, item: object, text: str) -> Rollback | Bury | Abandon:
        """Return the outcome of an item that fails an expectation, or the schema. `text`: its JSON."""
        expected = self._station.expectations
        unmet = None if expected is None else expected.unmet(item)
        if unmet is None:
            return Bury(row.lease, self._told if self._context.codec.has_keys else f"{self._told}: {text[:_SHOWN]}")
        ended = unmet.ending(self._context.store, row)
        assert isinstance(ended, Rollback | Bury | Abandon)  # noqa: S101 - none goes on
        self._unmet.add(unmet.expectation.condition.text, row.id, dead=isinstance(ended, Bury))
        return ended

    def failed(self, row: JobRow, error: str) -> Rollback | Bury | Abandon:
        """Return the outcome of a single item whose row has an error."""
        ended = outcome_of_error(Execution(self._context, row), ItemFailed(error))
        assert isinstance(ended, Rollback | Bury | Abandon)  # noqa: S101 - it is settled nowhere else
        return ended

    def single(self, row: JobRow, given: ItemRow) -> Outcome:
        """Return the outcome of a single item by its row; it is buried if its new value can't be stored.

        The stored payload is Spark's own text, as a value parsed from it may have fewer digits.
        """
        if given["error"] is not None:
            return self.failed(row, given["error"])
        codec, to, payload = self._context.codec, given["to"], given["payload"]
        if to is None or payload is None:
            return self.refused(row, codec.decode(row.payload), as_text(row.payload))
        value = codec.decode(payload)
        try:
            outcome = self._station.outcome(row, None, Send(to, value) if to else value)
            text = codec.encode_json(payload)
        except InvalidInput as error:
            return Bury(row.lease, f"InvalidInput: {error}")
        if isinstance(outcome, Move):
            return outcome._replace(payload=text)
        if isinstance(outcome, Continue):
            return outcome._replace(job=outcome.job._replace(payload=text))
        return outcome._replace(result=text) if isinstance(outcome, Commit) and not to else outcome

    # -- chunks

    def outcome(self, row: JobRow, rows: pa.Table) -> Ending:
        """Return the outcome of a chunk whose items have these rows; the items without a row are dropped."""
        items = opened(self._context.codec, content_of(row))
        return Division(self._station, row, items).outcome(self.ends(row, items, rows))

    def outcome_without(self, row: JobRow, places: Sequence[int]) -> Ending:
        """Return the outcome of a chunk of which the function got all items but those at these places."""
        nothing = pa.nulls(len(places), pa.string())
        columns = {"place": pa.array(places, pa.int32()), "to": nothing, "payload": nothing, "error": nothing}
        return self.outcome(row, pa.table(columns))

    def ends(self, row: JobRow, items: Chunk, rows: pa.Table) -> Ends:
        """Return the ends of the items of a chunk by their rows. `place`: of an item in the chunk."""
        rows = rows.combine_chunks()
        places = rows.column("place").combine_chunks()
        self._check(row, items, places)
        ends = Ends()
        ends.dropped = len(items) - rows.num_rows
        wrong = pc.is_valid(rows.column("error"))
        refused = pc.and_(pc.is_null(rows.column("to")), pc.invert(wrong))
        largest = self._context.codec.max_payload
        large = pc.and_(pc.invert(wrong), pc.greater(pc.binary_length(rows.column("payload")), largest))
        large = pc.fill_null(large, False)
        for place, error in _pairs(rows.filter(wrong), "error"):
            ends.failed.append(Failed(place, self.failed(self._alone(row, items, place), error)))
        for place, _ in _pairs(rows.filter(refused), "to"):
            ends.failed.append(Failed(place, self.refused(row, items[place], items.text(place))))
        for place, text in _pairs(rows.filter(large), "payload"):
            failure = failure_of(too_large(len(text.encode()), largest, "payload"), None)
            ends.failed.append(Failed(place, Bury(row.lease, *failure)))
        good = rows.filter(pc.invert(pc.or_(pc.or_(wrong, refused), large)))
        for to in pc.unique(good.column("to")).to_pylist():
            self._pass_on(ends, row, items, to, good.filter(pc.equal(good.column("to"), to)))
        return ends

    def _check(self, row: JobRow, items: Chunk, places: pa.Array) -> None:
        found = pc.min_max(places).as_py()
        if places.null_count or not 0 <= found["min"] <= found["max"] < len(items):
            raise InvalidInput(f"job {row.id} carries {len(items):,} items: keep the values of job_id as they are")
        if distinct(places, len(items)) < len(places):
            raise InvalidInput(f"an item of job {row.id} has two ends; return one row for each")

    def _pass_on(self, ends: Ends, row: JobRow, items: Chunk, to: str, rows: pa.Table) -> None:
        """Add the rows for one target. Items whose rows do not fit a table in a folder are buried here."""
        if (folder := self._station.folders.get(to)) is not None:
            misfits = folder.misfits(Chunk.of_documents(rows.column("payload").combine_chunks()))
            at = rows.column("place").to_pylist()
            ends.failed += refused(folder, row, [(at[n], misfit) for n, misfit in misfits])
            bad = {n for n, _ in misfits}
            rows = rows.take(pa.array([n for n in range(len(at)) if n not in bad], pa.int64()))
            if not rows.num_rows:
                return
        places = rows.column("place").combine_chunks()
        positions = items.content().positions_at(places)
        made = Chunk.of_documents(rows.column("payload").combine_chunks()).named(items.root, positions)
        if not to:
            ends.result_tables.append(made)
            ends.result_places.append(places)
        elif to in self._station.tables:
            ends.for_tables.append(ForTable(to, made, places.to_pylist(), named=True))
        else:
            ends.tables[Way(self._station.checked_target(to))].append(made)

    def _alone(self, row: JobRow, items: Chunk, place: int) -> JobRow:
        """Return a job as if it had this item alone."""
        return tried_by(row, place)._replace(payload=self._context.codec.encode_json(items.text(place)), items=None)


def _pairs(rows: pa.Table, column: str) -> Iterator[tuple[int, str]]:
    return zip(rows.column("place").to_pylist(), rows.column(column).to_pylist(), strict=True)
