"""The rows that items of a chunk become in tables."""

from __future__ import annotations

from collections.abc import Sequence

from stanchion.core.chunks.chunk import Chunk
from stanchion.core.values.codec import Codec
from stanchion.core.values.plain import plain_model
from stanchion.errors import InvalidInput
from stanchion.jobs.failures import failure_of
from stanchion.jobs.outcome import UNCHANGED
from stanchion.pipelines.chunks.ends import Ends, Failed, ForTable, Values, Way
from stanchion.pipelines.chunks.station import DividingStation
from stanchion.pipelines.tables.rows import Row, Rows, TableTarget
from stanchion.stores.records.jobs import JobRow
from stanchion.stores.records.outcomes import Bury, TableRows

Made = tuple[int | None, Row]
"""A row, and the place of the item that it was made of; None: of no single one."""


class RowsOfChunk:
    """Makes rows of what a station has returned for the items of a chunk."""

    def __init__(self, station: DividingStation, row: JobRow, items: Chunk) -> None:
        self._station, self._row, self._items = station, row, items
        self._codec, self._job = station.context.codec, items.root or row.id

    def taken(self, ends: Ends) -> tuple[tuple[TableRows, ...], Sequence[int]]:
        """Take what goes to tables out of the ends; return the rows, and the places of their items.

        An item whose row does not fit its table becomes a dead letter, and goes nowhere else.
        """
        found = {name: self._made(target, ends) for name, target in self._station.tables.items()}
        failed = {one.place for one in ends.failed}
        self._drop(ends, failed)
        kept = {name: [one for one in rows if one[0] not in failed] for name, rows in found.items()}
        written = {place for rows in kept.values() for place, _ in rows if place is not None}
        written.update(place for table in ends.for_tables if not table.named for place in table.places)
        tables = self._station.tables
        rows = tuple(tables[name].of([row for _, row in some]) for name, some in kept.items() if some)
        return rows, sorted(written - failed)

    def _made(self, target: TableTarget, ends: Ends) -> list[Made]:
        made = self._of_values(target, ends.values.pop(Way(target.name), Values()), ends)
        for table in ends.for_tables:
            if table.to == target.name:
                made += self._of_table(target, table, ends)
        return made

    def _of_values(self, target: TableTarget, values: Values, ends: Ends) -> list[Made]:
        if not values.indices:
            return []
        new = [
            self._items.values[index] if value is UNCHANGED else value
            for index, value in zip(values.indices, values.values, strict=True)
        ]
        try:
            made = Chunk.of(new, to_plain=self._codec.to_plain(plain_model))
        except InvalidInput:
            return self._of_values(target, storable(self._codec, self._row, values, new, ends), ends)
        found = target.rows_of(made, self._job, self._positions(values.indices))
        return self._fitting(target, found, values.indices, ends)

    def _of_table(self, target: TableTarget, table: ForTable, ends: Ends) -> list[Made]:
        if table.named:
            found = target.rows_of(table.items, self._job, self._positions(table.places))
            return self._fitting(target, found, table.places, ends)
        found = target.rows_of(table.items, self._job, [None] * len(table.items))
        for _, misfit in found.misfits:  # it is no item of the chunk, so nobody else is at fault
            raise InvalidInput(target.told(misfit))
        return [(None, row) for _, row in found.rows]

    def _fitting(self, target: TableTarget, found: Rows, indices: Sequence[int], ends: Ends) -> list[Made]:
        for place, misfit in found.misfits:
            error = InvalidInput(target.told(misfit))
            ends.failed.append(Failed(indices[place], Bury(self._row.lease, *failure_of(error, None))))
        return [(indices[place], row) for place, row in found.rows]

    def _positions(self, indices: Sequence[int]) -> Sequence[int]:
        positions = self._items.positions
        return [positions[index] for index in indices]

    def _drop(self, ends: Ends, failed: set[int]) -> None:
        """Keep items that have failed from going on in the tables of a batch function."""
        if not failed or not ends.for_tables:
            return
        gone = {self._items.positions[place] for place in failed}
        for way, chunks in ends.tables.items():
            kept = [[n for n, position in enumerate(one.positions) if position not in gone] for one in chunks]
            ends.tables[way] = [one.take(places) for one, places in zip(chunks, kept, strict=True) if places]


def storable(codec: Codec, row: JobRow, values: Values, new: Sequence[object], ends: Ends) -> Values:
    """Return the values that JSON can hold; the other items have failed for good."""
    kept = Values()
    for index, value, stored_value in zip(values.indices, values.values, new, strict=True):
        try:
            codec.plain(stored_value, "payload")
        except InvalidInput as error:
            ends.failed.append(Failed(index, Bury(row.lease, *failure_of(error, None))))
        else:
            kept.add(index, value)
    return kept
