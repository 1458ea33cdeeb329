"""The items of a chunk that go to tables in folders: those that can't be rows become dead letters at their station."""

from __future__ import annotations

from collections.abc import Sequence

from stanchion.core.chunks.chunk import Chunk
from stanchion.core.values.plain import plain_model
from stanchion.errors import InvalidInput
from stanchion.jobs.failures import failure_of
from stanchion.jobs.outcome import UNCHANGED
from stanchion.pipelines.chunks.ends import Ends, Failed, Values
from stanchion.pipelines.chunks.station import DividingStation
from stanchion.pipelines.chunks.table_rows import storable
from stanchion.pipelines.tables.folder import FolderTarget
from stanchion.schemas.misfits import Misfit
from stanchion.stores.records.jobs import JobRow
from stanchion.stores.records.outcomes import Bury


def check_items(station: DividingStation, row: JobRow, items: Chunk, ends: Ends) -> None:
    """Take the items that do not fit their tables out of the ends; the others go on as chunks."""
    for way in [way for way in ends.values if way.to in station.folders]:
        found = _fitting(station, station.folders[way.to], row, items, ends.values.pop(way), ends)
        if found is not None:
            ends.tables[way].append(found)


def refused(target: FolderTarget, row: JobRow, misfits: Sequence[tuple[int, Misfit]]) -> list[Failed]:
    """Return the ends of items that can't be rows, by their places."""
    return [Failed(place, Bury(row.lease, *failure_of(InvalidInput(target.told(one)), None))) for place, one in misfits]


def _fitting(
    station: DividingStation, target: FolderTarget, row: JobRow, items: Chunk, values: Values, ends: Ends
) -> Chunk | None:
    if not values.indices:
        return None
    codec = station.context.codec
    new = [
        items.values[index] if value is UNCHANGED else value
        for index, value in zip(values.indices, values.values, strict=True)
    ]
    try:
        made = Chunk.of(new, to_plain=codec.to_plain(plain_model))
    except InvalidInput:
        return _fitting(station, target, row, items, storable(codec, row, values, new, ends), ends)
    indices = values.indices
    if misfits := target.misfits(made):
        ends.failed += refused(target, row, [(indices[place], misfit) for place, misfit in misfits])
        bad = {place for place, _ in misfits}
        kept = [place for place in range(len(made)) if place not in bad]
        if not kept:
            return None
        made, indices = made.take(kept), [indices[place] for place in kept]
    named = items if len(indices) == len(items) else items.take(indices)
    return made.named(named.root, None if named.content().positions is None else named.positions)
