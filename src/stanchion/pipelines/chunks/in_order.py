"""Chunks with an order key: items move on in order, and none overtakes an item that is retried.

Up to that item, a chunk is divided like any other. The item and those behind it stay one chunk at the head of line: a
part counts as enqueued with its chunk, and its id sorts by the place of its first item. So parts are in order at all
stations, before the chunks that were pushed after theirs.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Final

from stanchion.core.chunks.chunk import Chunk
from stanchion.core.ids import id_within
from stanchion.errors import InvalidInput
from stanchion.jobs.outcome import Outcome
from stanchion.pipelines.chunks.ends import Ends, ForTable, Values, Way
from stanchion.stores.records.jobs import JobRow, NewJob
from stanchion.stores.records.outcomes import Rollback

if TYPE_CHECKING:
    import pyarrow as pa

RUNS_MOST: Final = 16
"""Parts of one chunk for one station that differ in delay or priority."""

_BECOMES_ONE: Final = (
    "an item of a chunk with an order key must become one item; push chunks without order_key, or single items"
)


def tried_by(row: JobRow, place: int) -> JobRow:
    """Return a chunk with the attempts of the item at this place: earlier ones belong to the first item."""
    if row.order_key is None or not place:
        return row
    return row._replace(attempts=min(row.attempts, 1), failures=0, errors=None)


def placed(row: JobRow, job: NewJob, part: Chunk) -> NewJob:
    """Return the job of a part of a chunk, in its place among the jobs of the order key."""
    return job._replace(id=id_within(row.id, part.positions[0]), enqueued_at=row.enqueued_at)


def refuse_several(row: JobRow) -> None:
    """Raise InvalidInput for a chunk with an order key of which an item became several."""
    if row.order_key is not None:
        raise InvalidInput(_BECOMES_ONE)


def raising(call: Callable[[object], object]) -> Callable[[object], object]:
    """Return a function that raises the outcomes that `call` returns, so that no later item begins."""

    def checked(value: object) -> object:
        if isinstance(value, Outcome):
            raise value
        return value

    async def awaited(value: Awaitable[object]) -> object:
        return checked(await value)

    def raises(item: object) -> object:
        value = call(item)
        return awaited(value) if isinstance(value, Awaitable) else checked(value)

    return raises


def cut_behind(items: Chunk, ends: Ends) -> None:
    """Take back the ends of the items behind the first one that is retried or put off."""
    again = [one for one in ends.failed if isinstance(one.outcome, Rollback)]
    if not again:
        return
    first = min(again)
    place = first.place
    ends.failed = [*(one for one in ends.failed if one.place < place), first]
    ends.left = place + 1 if place + 1 < len(items) else None
    ends.several.clear()
    ends.results = _before(ends.results, place)
    for way, values in list(ends.values.items()):
        ends.values[way] = _before(values, place)
    ended = {one.place for one in ends.failed}
    ended.update(*(values.indices for values in (*ends.values.values(), ends.results)))
    place_of = {position: n for n, position in enumerate(items.positions)}
    for way, chunks in ends.tables.items():
        places = [[place_of[position] for position in chunk.positions] for chunk in chunks]
        ended.update(n for some in places for n in some if n < place)
        ends.tables[way] = [
            chunk.take(kept)
            for chunk, some in zip(chunks, places, strict=True)
            if (kept := [n for n, at in enumerate(some) if at < place])
        ]
    found = [_results_before(*one, place) for one in zip(ends.result_tables, ends.result_places, strict=True)]
    ends.result_tables = [chunk for chunk, _ in found if chunk is not None]
    ends.result_places = [places for chunk, places in found if chunk is not None]
    ended.update(*(places.to_pylist() for places in ends.result_places))
    ends.for_tables = [_rows_before(one, place) for one in ends.for_tables]
    ended.update(*(one.places for one in ends.for_tables))
    ends.dropped = place - len([one for one in ended if one < place])


def in_line(found: dict[Way, list[Chunk]]) -> dict[Way, list[Chunk]]:
    """Return the parts that move on, cut so that the items for each station stay in order."""
    ways: dict[str, list[Way]] = {}
    for way in found:
        ways.setdefault(way.to, []).append(way)
    if len(found) == 1 and all(_ascends(part.positions) for parts in found.values() for part in parts):
        return found
    lined: dict[Way, list[Chunk]] = {}
    seen: set[int] = set()
    for to, its in ways.items():
        wholes = [Chunk.joined(found[way]) for way in its]
        owners = sorted(
            (position, number, index)
            for number, whole in enumerate(wholes)
            for index, position in enumerate(whole.positions)
        )
        positions = [position for position, _, _ in owners]
        if len(set(positions)) < len(positions) or not seen.isdisjoint(positions):
            raise InvalidInput(_BECOMES_ONE)
        seen.update(positions)
        runs = [(number, [index for *_, index in run]) for number, run in groupby(owners, key=lambda one: one[1])]
        if len(runs) > RUNS_MOST:
            raise InvalidInput(
                f"the items of one chunk with an order key go to {to!r} in {len(runs)} parts, as each change of delay "
                f"or priority begins one: {RUNS_MOST} are the most; send them with one delay, or push single items"
            )
        for number, indices in runs:
            lined.setdefault(its[number], []).append(wholes[number].take(indices))
    return lined


def _before(values: Values, place: int) -> Values:
    kept = [(index, value) for index, value in zip(values.indices, values.values, strict=True) if index < place]
    return Values([index for index, _ in kept], [value for _, value in kept])


def _results_before(chunk: Chunk, places: pa.Array, before: int) -> tuple[Chunk | None, pa.Array]:
    kept = [n for n, place in enumerate(places.to_pylist()) if place < before]
    return (chunk.take(kept) if kept else None), places.take(kept)


def _rows_before(rows: ForTable, before: int) -> ForTable:
    kept = [n for n, place in enumerate(rows.places) if place < before]
    return rows._replace(items=rows.items.take(kept), places=[rows.places[n] for n in kept])


def _ascends(positions: Sequence[int]) -> bool:
    return isinstance(positions, range) or all(one < other for one, other in pairwise(positions))
