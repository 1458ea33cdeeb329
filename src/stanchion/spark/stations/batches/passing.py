"""What becomes of items that have passed several Spark stations in one micro-batch.

row   job   place   level   to         payload   error
      17    0       0       "priced"   {…}                 it passed the first station
      17    0       1       ""         {…}                 and ended at the second one
      17    1       0       "priced"   {…}
      17    1       1       null       {…}       "late"    failed at the second one

A job is settled once: it passes the stations that its items passed. The items of a chunk that did not pass a station
are left behind there, as jobs of their own in the same step. An item without a row at a station was dropped there.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from stanchion.core.chunks.chunk import Chunk
from stanchion.core.chunks.stored import opened, stored
from stanchion.jobs.held_job import Passing
from stanchion.pipelines.chunks.division import NOBODY, Division, LeftBehind
from stanchion.pipelines.chunks.ends import Ends, Way
from stanchion.pipelines.station import Station
from stanchion.spark.stations.batches.ends import ItemEnds, ItemRow, content_of
from stanchion.spark.stations.batches.item_rows import ID
from stanchion.stores.records.jobs import JobRow
from stanchion.stores.records.outcomes import Extend, Move, Outcome, Progress, Tally
from stanchion.stores.rules.lifecycle.outcomes import commit_of, has_to_be_stored, passed_on


def grouped(found: Iterable[pa.RecordBatch]) -> Iterator[dict[str, list[ItemRow]]]:
    """Yield the rows of each batch by their items. The rows of an item follow each other, also in the next batch."""
    groups: dict[str, list[ItemRow]] = {}
    for batch in found:
        for row in batch.to_pylist():
            groups.setdefault(row[ID], []).append(row)
        if len(groups) > 1:
            last, rows = groups.popitem()
            yield groups
            groups = {last: rows}
    if groups:
        yield groups


class _Here(NamedTuple):
    """A job at a station. `passing`: its way there; None at the first one."""

    row: JobRow
    passing: Passing | None = None

    def moved(self, move: Move, now: int) -> _Here:
        """Return the job at its next station."""
        passing = self.passing or Passing(self.row, (), (), time.monotonic())
        return _Here(passed_on(self.row, move, now), passing.after(self.row, move))

    def ended(self, outcome: Outcome) -> Outcome:
        """Return the outcome of the job for one at this station."""
        if self.passing is None:
            return outcome
        assert not isinstance(outcome, Extend | Progress)  # noqa: S101 - the item is settled
        return self.passing.stored(self.row, outcome)


class PassedItems:
    """Makes the outcomes of items, in a task. `stations`: that they pass, in order."""

    def __init__(self, stations: Sequence[Station]) -> None:
        self._stations = stations
        self._ends = [ItemEnds(station) for station in stations]
        self._context = stations[0].context
        self._now = self._context.store.now()

    def close(self) -> None:
        """Count the items that did not meet an expectation, and end the use of the store."""
        for one in self._ends:
            one.close()

    def single(self, row: JobRow, rows: Sequence[ItemRow]) -> Outcome:
        """Return the outcome of a single item by its rows, by level."""
        here = _Here(row)
        for ends, given, following in zip(self._ends, rows, [*self._stations[1:], None], strict=False):
            outcome = ends.single(here.row, given)
            if following is None or given["to"] != following.station or not isinstance(outcome, Move):
                return here.ended(outcome)
            if has_to_be_stored(row, outcome):
                return here.ended(outcome)
            here = here.moved(outcome, self._now)
        return here.ended(commit_of(here.row))

    def chunk(self, row: JobRow, rows: pa.Table) -> Outcome:
        """Return the outcome of a chunk by the rows of its items."""
        codec, here, behind = self._context.codec, _Here(row), NOBODY
        first = items = opened(codec, content_of(row))
        passed: list[tuple[str, int]] = []
        for level, (station, ends) in enumerate(zip(self._stations, self._ends, strict=True)):
            some = rows.filter(pc.equal(rows.column("level"), level))
            found = ends.ends(here.row, items, some if items is first else _placed(some, first, items))
            going_on = self._going_on(level, here.row, found)
            if going_on is None:
                behind = _counted(behind, passed, len(items))
                return here.ended(Division(station, here.row, items, behind).outcome(found))
            behind = Division(station, here.row, items, behind).left_behind(found)
            if level:
                passed.append((here.row.queue, len(items)))
            move, items = going_on
            here = here.moved(move, self._now)
        raise AssertionError("no items go on from the last station")

    def _going_on(self, level: int, row: JobRow, found: Ends) -> tuple[Move, Chunk] | None:
        """Take the items that pass on to the next station out of the ends at this one; None if they have to be stored.

        A single item of many is stored, as it gets an id of its own.
        """
        if level + 1 == len(self._stations):
            return None
        way, codec = Way(self._stations[level + 1].station), self._context.codec
        (items,) = found.tables.get(way, (None,))
        if items is None or len(items) == 1 or len(items.encoded()) > codec.max_payload:
            return None
        move = self._stations[level].moved(row, way, stored(codec, items.rooted(row.id)))
        if not isinstance(move, Move) or has_to_be_stored(row, move):
            return None
        del found.tables[way]
        return move, items


def _counted(behind: LeftBehind, passed: Iterable[tuple[str, int]], last: int) -> LeftBehind:
    """Return the items left behind, with what a store lacks to count those that were at the stations in between.

    It counts as many items there as came to the last one. `passed`: the queues, and how many came there.
    """
    lacking = [
        Tally(queue, event, items - last)
        for queue, items in passed
        for event in ("reserved", "moved")
        if behind.tallies and items > last
    ]
    return behind._replace(tallies=(*behind.tallies, *lacking))


def _placed(rows: pa.Table, first: Chunk, items: Chunk) -> pa.Table:
    """Return rows by the places of their items in a chunk that some items of the first one are in."""
    names, left = first.content().all_positions(), items.content().all_positions()
    places = pc.index_in(left, value_set=names)
    at = pc.index_in(rows.column("place"), value_set=places).cast(pa.int32())
    return rows.set_column(rows.schema.get_field_index("place"), "place", at)
