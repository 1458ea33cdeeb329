"""A stream of Spark as the station at which the chunks of its queue are divided."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from stanchion.context.context import Context
from stanchion.core.chunks.chunk import Chunk
from stanchion.core.chunks.stored import opened
from stanchion.core.values.framing import Content, items_in
from stanchion.errors import InvalidInput
from stanchion.pipelines.chunks.division import Division
from stanchion.pipelines.chunks.ends import Ends, Failed, Way
from stanchion.pipelines.chunks.parts import part_of
from stanchion.pipelines.tables.folder import FolderTarget
from stanchion.pipelines.tables.rows import TableTarget
from stanchion.stores.records.jobs import UNLANED, JobRow, Lease, NewJob
from stanchion.stores.records.outcomes import Bury, Ending, Move, Rollback


class FailedItem(NamedTuple):
    """An item that a query could not process. `place`: among the items of its job; None: it is the whole job."""

    job: str
    place: int | None
    error: str
    delay: float | None
    """Seconds until it is retried; None: it becomes a dead letter."""


@dataclass
class StreamStation:
    """A stream. `station`: its name. It is a `DividingStation`; its ways are queues, and headers stay as they are."""

    context: Context
    station: str
    tables: dict[str, TableTarget] = field(default_factory=dict)
    folders: dict[str, FolderTarget] = field(default_factory=dict)
    loops: bool = False
    keeps_order: bool = False

    def cut(self, row: JobRow) -> Ending:
        """Return the outcome that cuts a chunk into parts, none of which was begun."""
        ends, items = Ends(), self._items(row)
        ends.left = 0
        return Division(self, row, items).outcome(ends)

    def failed(self, row: JobRow, failed: Iterable[FailedItem]) -> Ending:
        """Return the outcome of a job with failed items, whose other items are done. Raises InvalidInput."""
        by_place = {one.place or 0: one for one in failed}
        count = items_in(row.payload) or 1
        if wrong := [place for place in by_place if not 0 <= place < count]:
            raise InvalidInput(f"job {row.id} has no item {wrong[0]}, as it carries {count:,}; see the column item")
        if count == 1:
            return outcome_of(row.lease, by_place[0])
        ends, items = Ends(), self._items(row)
        ends.failed = [Failed(place, _outcome(row, one)) for place, one in sorted(by_place.items())]
        ends.dropped = len(items) - len(ends.failed)
        return Division(self, row, items).outcome(ends)

    def _items(self, row: JobRow) -> Chunk:
        assert isinstance(row.payload, bytes)  # noqa: S101 - of a job with many items
        return opened(self.context.codec, row.payload)

    # -- as a DividingStation

    def moved(self, row: JobRow, way: Way, payload: Content) -> Ending:
        """Return the outcome that passes a whole job on: it keeps its id."""
        return Move(row.lease, way.to, None if payload == row.payload else payload, way.delay, UNLANED)

    def part_for(self, row: JobRow, way: Way, payload: Content, headers: str) -> NewJob:  # noqa: ARG002 - a station's
        """Return a job, without an id, that goes on to another queue."""
        return part_of(row, way.to, payload)._replace(delay=way.delay)

    def part_of(self, row: JobRow, queue: str, payload: Content) -> NewJob:
        """Return a job, without an id, that keeps its place."""
        return part_of(row, queue, payload)


def outcome_of(lease: Lease, failed: FailedItem) -> Rollback | Bury:
    """Return the outcome of a job that has failed as a whole."""
    return Bury(lease, failed.error) if failed.delay is None else Rollback(lease, failed.delay, failed.error)


def _outcome(row: JobRow, failed: FailedItem) -> Rollback | Bury:
    """Return the outcome of an item; it becomes a dead letter after the last attempt, as a job does."""
    used_up = row.attempts >= row.max_attempts or row.cancel_requested
    return outcome_of(row.lease, failed._replace(delay=None) if used_up else failed)
