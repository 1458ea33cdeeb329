"""The events of a feed, and positions in it."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, Literal, NamedTuple

from stanchion.core.checks import brief
from stanchion.errors import InvalidInput
from stanchion.stores.records.jobs import JobState

Kind = Literal["pushed", "started", "finished", "gap"]

KINDS: tuple[Kind, ...] = ("pushed", "started", "finished")
"""Kinds of job events, in the order of a job's life; a `gap` concerns a queue."""

_POSITION = re.compile(r"1\.(\d{1,18})\.(\d{1,18})(?:\.(\d)\.([0-9a-f-]{1,36}))?")


class Position(NamedTuple):
    """A place among the events, which are in the order of time, rank and id; times by the store's clock.

    All events up to the time `after` were delivered, and at the next microsecond all up to `rank` and `id`.
    Events before `origin` were not wanted.
    """

    after: int
    origin: int
    rank: int = 0
    id: str = ""

    def __str__(self) -> str:
        within = f".{self.rank}.{self.id}" if self.id else ""
        return f"1.{self.after}.{self.origin}{within}"

    def covers(self, at: int, rank: int, job_id: str) -> bool:
        """Return whether an event of this time was delivered."""
        return at <= self.after or (at == self.after + 1 and (rank, job_id) <= (self.rank, self.id))


def position_in(text: str) -> Position:
    """Return the position in its text."""
    found = _POSITION.fullmatch(text)
    if found is None:
        raise InvalidInput(f"since={brief(text)} is no position of a feed; it is text, such as event.position")
    after, origin, rank, job_id = found.groups()
    return Position(int(after), int(origin), int(rank or 0), job_id or "")


def is_position(text: str) -> bool:
    """Return whether a text is a position of a feed."""
    return _POSITION.fullmatch(text) is not None


@dataclass(frozen=True, slots=True)
class FeedEvent:
    """An event of a job: it was pushed, it started, it finished. Or a `gap` in the feed.

    `id`, `queue`, `task`, `tenant`: of the job; `state`: after the event; `at`: when it happened, by the store's clock;
    `attempt`: number of the attempt, 0 before the first. `position`: continues the feed after this event, as `since=`.

    A `gap`, without job and state, says that events of this queue before `at` may be missing: its history does not
    reach back to the position of the feed.
    """

    kind: Kind
    queue: str
    at: datetime
    position: str
    id: str | None = None
    state: JobState | None = None
    attempt: int = 0
    task: str | None = None
    tenant: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the fields, ready for JSON; times in ISO 8601."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {**values, "at": self.at.isoformat(), "state": None if self.state is None else str(self.state)}
