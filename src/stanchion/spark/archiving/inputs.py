"""Archived items that arrived at a station, for a backfill.

Read by Arrow in this process, day by day, so that a day of the archive must fit into memory. A position is a day and
an id: it stays the same when files are compacted, or days are added.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime, time
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from stanchion.pipelines.backfilling.sources import Found
from stanchion.spark.archiving.files import DAY
from stanchion.spark.archiving.rows import CHUNK, FIELDS, IN_FILES, IS_FIRST, NAMES, Values, contents_in
from stanchion.spark.archiving.table import existing_archive
from stanchion.stores.records.jobs import UNLANED, JobRow
from stanchion.stores.rules.lifecycle.trail import entry_in_trail

_TIMES = frozenset(field.name for field in IN_FILES if pa.types.is_timestamp(field.type))


class ArchivedItems:
    """Archived items that arrived at a queue and finished since then, each with its last finish.

    Raises InvalidInput if there is no archive.
    """

    def __init__(self, folder: Path, queue: str, since: int | None) -> None:
        self._queue, self._since = queue, since
        self._places: dict[date, list[str]] = {}
        for part in existing_archive(folder).parts():
            if since is None or part.last >= since:
                self._places.setdefault(_day_of(part.place), []).append(part.place)

    def rows(self, after: str | None) -> Iterator[Found]:
        """Yield the items after a position, by finish day and id."""
        last_ends = self._last_ends()
        begin, _, behind = (after or "").partition(" ")
        for day in sorted(self._places):
            if f"{day}" >= begin:
                first = behind if f"{day}" == begin else ""
                for row in self._of_day(day):
                    if row.id > first and last_ends.get(row.id, row.finished_at) == row.finished_at:
                        yield Found(f"{day} {row.id}", row)

    def reached(self, place: str) -> int:
        """Return the end of the day of a position."""
        day = date.fromisoformat(place.partition(" ")[0])
        return int(datetime.combine(day, time.max, UTC).timestamp() * 1_000_000)

    def _last_ends(self) -> Mapping[str, int]:
        """Return the last ends of the items that have finished several times, as after a retry."""
        found = self._dataset([place for places in self._places.values() for place in places])
        ends = found.to_table(columns=["id", "finished_at"], filter=self._here())
        several = ends.group_by("id").aggregate([("finished_at", "max"), ("finished_at", "count")])
        several = several.filter(pc.greater(several.column("finished_at_count"), 1))
        last = several.column("finished_at_max").cast(pa.int64()).to_pylist()
        return dict(zip(several.column("id").to_pylist(), last, strict=True))

    def _of_day(self, day: date) -> Iterator[JobRow]:
        columns = [*NAMES, CHUNK]
        found = self._dataset(self._places[day]).to_table(columns=columns, filter=self._here()).sort_by("id")
        for batch in found.to_batches(max_chunksize=1000):
            for values in batch.to_pylist():
                yield JobRow(**_stored(values))

    def _here(self) -> ds.Expression:
        """Return the condition for the first rows of jobs that are in the queue, or have passed it."""
        passed = pc.match_substring(ds.field("trail"), entry_in_trail(self._queue))
        return IS_FIRST & ((ds.field("queue") == self._queue) | passed)

    def _dataset(self, places: list[str]) -> ds.Dataset:
        return ds.dataset(places, schema=IN_FILES, format="parquet")


def _stored(values: Values) -> Values:
    """Return the fields of a JobRow with the content of an archived one."""
    fields = {
        field: _micros(values[name]) if name in _TIMES else values[name]
        for field, name in zip(FIELDS, NAMES, strict=True)
    }
    lane = UNLANED if fields["lane"] is None else fields["lane"]
    return {**fields, **contents_in(values), "lane": lane, "rank": fields["priority"]}


def _micros(moment: datetime | None) -> int | None:
    return None if moment is None else int(pa.scalar(moment, pa.timestamp("us", "UTC")).value)


def _day_of(place: str) -> date:
    return date.fromisoformat(Path(place).parent.name.removeprefix(f"{DAY}="))
