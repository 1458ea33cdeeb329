"""The events of a feed, and positions in it."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, Literal, NamedTuple

from stanchion.core.checks import shown
from stanchion.errors import InvalidInput
from stanchion.stores.records.jobs import JobState

Kind = Literal["pushed", "started", "finished", "gap"]

KINDS: tuple[Kind, ...] = ("pushed", "started", "finished")
"""The kinds of events of jobs, in the order in which they happen to one; a `gap` is of a queue."""

_POSITION = re.compile(r"1\.(\d{1,18})\.(\d{1,18})")


class Position(NamedTuple):
    """A moment by the store's clock: all events up to it were delivered, none of those before `origin` was wanted."""

    after: int
    origin: int

    def __str__(self) -> str:
        return f"1.{self.after}.{self.origin}"


def position_in(text: str) -> Position:
    """Return the position in its text."""
    found = _POSITION.fullmatch(text)
    if found is None:
        raise InvalidInput(f"since={shown(text)} is no position of a feed; it is text, such as event.position")
    return Position(*map(int, found.groups()))


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
