"""What a chunk at a station needs of the station: to run, and to be divided."""

from __future__ import annotations

from collections.abc import Callable
from inspect import Signature
from typing import Protocol

from stanchion.context.context import Context
from stanchion.context.work import Checks
from stanchion.core.retry import Retry
from stanchion.core.values.framing import Content
from stanchion.pipelines.chunks.ends import Takes, Way
from stanchion.pipelines.send import Send
from stanchion.pipelines.tables.folder import FolderTarget
from stanchion.pipelines.tables.rows import TableTarget
from stanchion.stores.records.jobs import JobRow, NewJob
from stanchion.stores.records.outcomes import Ending


class DividingStation(Protocol):
    """A station whose chunks are divided, as `pipelines.station.Station` is; or another consumer of a queue."""

    context: Context
    station: str
    tables: dict[str, TableTarget]
    folders: dict[str, FolderTarget]

    keeps_order: bool
    """Whether chunks with an order key go on to stations that keep the order."""

    @property
    def loops(self) -> bool: ...

    def moved(self, row: JobRow, way: Way, payload: Content) -> Ending:
        """Return the outcome that passes a whole job on: it keeps its id."""

    def part_for(self, row: JobRow, way: Way, payload: Content, headers: str) -> NewJob:
        """Return a job, without an id, that goes on to another station."""

    def part_of(self, row: JobRow, queue: str, payload: Content) -> NewJob:
        """Return a job, without an id, in a queue, with what an item keeps at all stations and its place here."""


class ItemStation(DividingStation, Protocol):
    """A station that runs items, as `pipelines.station.Station` is."""

    name: str
    queue: str
    targets: tuple[str, ...]
    retry: Retry
    timeout: float | None
    attempts_max: int | None
    is_async: bool
    function: Callable[..., object]
    signature: Signature
    job_parameter: str | None
    takes: Takes | None
    batch_function: Callable[..., object]

    @property
    def expectations(self) -> Checks | None: ...
    @property
    def merges(self) -> bool: ...

    def refused(self, row: JobRow) -> str | None:
        """Return why a job must not run, or None."""

    def sends_of(self, value: object) -> list[Send] | None:
        """Return where a value goes; None if it is the result. Raises InvalidInput."""

    def checked_target(self, to: str) -> str:
        """Return a station or table that items may go to. Raises InvalidInput."""

    def merged(self, item: object, value: object) -> object:
        """Return the value that goes on for an item. Raises InvalidInput if it can't be merged into the item."""
