"""What the work of a chunk needs of its station."""

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
from stanchion.stores.records.jobs import JobRow, NewJob
from stanchion.stores.records.outcomes import Outcome


class ItemStation(Protocol):
    """A station, as `pipelines.station.Station` is."""

    context: Context
    station: str
    name: str
    queue: str
    to: tuple[str, ...]
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
    @property
    def loops(self) -> bool: ...

    def refused(self, row: JobRow) -> str | None:
        """Return why a job must not run, or None."""

    def sends_of(self, value: object) -> list[Send] | None:
        """Return where a value goes; None if it is the result. Raises InvalidInput."""

    def checked_target(self, to: str) -> str:
        """Return a station that items may go to. Raises InvalidInput."""

    def merged(self, item: object, value: object) -> object:
        """Return the value that goes on for an item. Raises InvalidInput if it can't be merged into the item."""

    def moved(self, row: JobRow, way: Way, payload: Content) -> Outcome:
        """Return the outcome that passes a whole job on: it keeps its id."""

    def part_for(self, row: JobRow, way: Way, payload: Content, headers: str) -> NewJob:
        """Return a job, without an id, that goes on to another station."""

    def part_of(self, row: JobRow, queue: str, payload: Content) -> NewJob:
        """Return a job, without an id, in a queue, with what an item keeps at all stations and its place here."""
